"""Views of arrays for compiled code, moved along in memory."""

import ctypes

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = ["moved"]


def moved(views, m, float_bytes, integer_bytes):
    """Views, alone or in tuples, each moved by m records. The result keeps nothing alive."""
    if isinstance(views, tuple):
        inner = [moved(view, m, float_bytes, integer_bytes) for view in views]
        return type(views)(*inner) if hasattr(views, "_fields") else tuple(inner)
    if not isinstance(views, np.ndarray):
        return views  # of an option that is a type and no more
    distance = int(m) * (float_bytes if views.dtype.kind == "f" else integer_bytes)
    memory = (ctypes.c_char * views.nbytes).from_address(views.ctypes.data + distance)
    return np.ndarray(views.shape, views.dtype, memory, strides=views.strides)  # type: ignore[arg-type]


@overload(moved)
def _overload_moved(views, m, float_bytes, integer_bytes):
    return lambda views, m, float_bytes, integer_bytes: _compiled_moved(  # type: ignore[call-arg]
        views, m, float_bytes, integer_bytes
    )


@intrinsic
def _compiled_moved(typing_context, views, m, float_bytes, integer_bytes):
    def generate(context, builder, signature, arguments):
        value, index, *lengths = arguments
        for_floats, for_integers = (builder.mul(index, length) for length in lengths)

        def moved(kind, value):
            if isinstance(kind, types.BaseTuple):
                kinds = list(kind)  # type: ignore[call-overload]
                inner = [
                    moved(part, builder.extract_value(value, i)) for i, part in enumerate(kinds)
                ]
                return context.make_tuple(builder, kind, inner)
            if not isinstance(kind, types.Array):
                return value  # of an option that is a type and no more
            place = context.data_model_manager[kind].get_field_position
            distance = for_floats if isinstance(kind.dtype, types.Float) else for_integers
            data = builder.extract_value(value, place("data"))
            data = cgutils.pointer_add(builder, data, distance, data.type)
            value = builder.insert_value(value, data, place("data"))
            # without an owner, so that no thread waits for another to count references
            for owner in ("meminfo", "parent"):
                nobody = cgutils.get_null_value(builder.extract_value(value, place(owner)).type)
                value = builder.insert_value(value, nobody, place(owner))
            return value

        return moved(signature.args[0], value)

    return views(views, types.intp, types.intp, types.intp), generate
