"""The Matern kernel."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.elementary import exp_of_negative, square_root
from kernelstream.kernels.exponential_kernel import ExponentialKernel
from kernelstream.kernels.quantities import SQUARED_DISTANCE
from kernelstream.parts import part, rule

__all__ = ["Matern"]


@rule
class MaternMap(NamedTuple):
    """``(1 + s) exp(-s)`` with ``s = sqrt(gamma q)``."""

    gamma: Any

    def map_value(self, q):
        s = square_root(self.gamma * q)
        value = exp_of_negative(-s)
        return value + s * value


@part("kernel", "matern")
class Matern(ExponentialKernel):
    """``k(x, z) = (1 + s) exp(-s)``, ``s = sqrt(gamma) ||x - z||``: Matern's kernel of order 3/2.

    Its functions have one derivative, those of `RBF` have all: it suits targets with corners.
    Where others write ``s = sqrt(3) ||x - z|| / l`` with a length l, gamma is ``3 / l^2``. Near
    zero it is ``1 - gamma ||x - z||^2 / 2``, half as steep as `RBF` with the same gamma.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.

    Examples
    --------
    >>> from kernelstream.kernels import Matern
    >>> Matern(gamma=1.0)([[0.0, 0.0]], [[0.0, 1.0]]).round(4)
    array([[0.7358]])
    """

    quantity = SQUARED_DISTANCE
    is_smooth = True

    def auto_gamma(self, n_features: int, fineness: float | None) -> float:
        # measured: its tails are longer, and it wants four times the gamma of RBF
        return 1.0 / n_features if fineness is None else 4.0 * fineness

    def slope(self, q):
        return -0.5 * self.gamma * np.exp(-np.sqrt(self.gamma * q))

    def to_map(self, number_type):
        return MaternMap(number_type(self.gamma))
