"""The inner product itself."""

import numpy as np

from kernelstream.kernels.base import MappedKernel
from kernelstream.kernels.maps import Identity
from kernelstream.kernels.quantities import INNER_PRODUCT
from kernelstream.parts import part

__all__ = ["Linear"]


@part("kernel", "linear")
class Linear(MappedKernel):
    """``k(x, z) = <x, z>``.

    Examples
    --------
    >>> from kernelstream.kernels import Linear
    >>> Linear()([[1.0, 1.0]], [[1.0, 2.0]])
    array([[3.]])
    """

    quantity = INNER_PRODUCT
    maps = False
    is_smooth = True
    has_features = True  # which are those of the row itself

    def n_explicit(self, n_features):
        return n_features

    def features(self, X, x):
        return X

    def slope(self, q):
        return np.ones_like(q)

    def to_map(self, number_type):
        return Identity()
