"""Views of arrays for compiled code, moved along in memory."""

import ctypes

import numpy as np

from kernelstream.compile import declare

__all__ = ["moved"]


def moved(views, m, float_bytes, integer_bytes):
    """Return views, alone or in tuples, moved by m records. The result keeps nothing alive."""
    if isinstance(views, tuple):
        inner = [moved(view, m, float_bytes, integer_bytes) for view in views]
        return type(views)(*inner) if hasattr(views, "_fields") else tuple(inner)
    if not isinstance(views, np.ndarray):
        return views  # of an option that is a type and no more
    distance = int(m) * (float_bytes if views.dtype.kind == "f" else integer_bytes)
    memory = (ctypes.c_char * views.nbytes).from_address(views.ctypes.data + distance)
    return np.ndarray(views.shape, views.dtype, memory, strides=views.strides)  # type: ignore[arg-type]


declare(lambda making: making.add_views(moved))
