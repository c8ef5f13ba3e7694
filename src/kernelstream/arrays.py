"""Arrays of other libraries, as far as they follow the array API standard.

What is written with operators and with `namespace_of` runs on NumPy's arrays and on those that
PyTorch, CuPy or another library keeps on a device.
"""

from typing import Any

import numpy as np

__all__ = ["is_elsewhere", "namespace_of", "on_host"]


def namespace_of(array: Any) -> Any:
    """Return the module with the functions for this array; NumPy for numbers."""
    if not is_elsewhere(array):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(array)


def is_elsewhere(array: Any) -> bool:
    """Return whether this is an array of another library than NumPy, which may be on a device."""
    if isinstance(array, np.ndarray | np.generic | int | float):
        return False
    return hasattr(array, "__dlpack_device__")


def on_host(array: Any) -> Any:
    """Return an array of another library as one of NumPy; whatever else it is, as it is."""
    if not is_elsewhere(array):
        return array
    import array_api_compat

    return np.asarray(array_api_compat.to_device(array, "cpu"))
