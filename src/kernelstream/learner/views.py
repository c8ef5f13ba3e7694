"""Views of arrays for compiled code: moved along in memory, and without an owner."""

import ctypes

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = ["moved", "unowned"]


def moved(views, m, float_bytes, integer_bytes):
    """Views, alone or in tuples, each moved by m records. The result keeps nothing alive."""
    if isinstance(views, tuple):
        inner = [moved(view, m, float_bytes, integer_bytes) for view in views]
        return type(views)(*inner) if hasattr(views, "_fields") else tuple(inner)
    if not isinstance(views, np.ndarray):
        return views  # of an option that is a type and no more
    distance = int(m) * (float_bytes if views.dtype.kind == "f" else integer_bytes)
    memory = (ctypes.c_char * views.nbytes).from_address(views.ctypes.data + distance)
    return np.ndarray(views.shape, views.dtype, buffer=memory, strides=views.strides)


@overload(moved)
def _overload_moved(views, m, float_bytes, integer_bytes):
    return lambda views, m, float_bytes, integer_bytes: _compiled_moved(
        views, m, float_bytes, integer_bytes
    )


@intrinsic
def _compiled_moved(typing_context, views, m, float_bytes, integer_bytes):
    def generate(context, builder, signature, arguments):
        value, index, *lengths = arguments
        for_floats, for_integers = (builder.mul(index, length) for length in lengths)

        def moved(kind, value):
            if isinstance(kind, types.BaseTuple):
                inner = [
                    moved(part, builder.extract_value(value, i)) for i, part in enumerate(kind)
                ]
                return context.make_tuple(builder, kind, inner)
            if not isinstance(kind, types.Array):
                return value  # of an option that is a type and no more
            array = context.make_array(kind)(context, builder, value)
            distance = for_floats if isinstance(kind.dtype, types.Float) else for_integers
            array.data = cgutils.pointer_add(builder, array.data, distance, array.data.type)
            # without an owner, so that no thread waits for another to count references
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()

        return moved(signature.args[0], value)

    return views(views, types.intp, types.intp, types.intp), generate


def unowned(views):
    """The same views, for a while in which somebody else keeps them alive.

    In compiled code nobody counts references to them then, which takes time.
    """
    return views


@overload(unowned)
def _overload_unowned(views):
    return lambda views: _compiled_moved(views, 0, 0, 0)
