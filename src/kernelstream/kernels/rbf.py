"""The Gaussian kernel."""

import numpy as np

from kernelstream.kernels.exponential_kernel import ExponentialKernel
from kernelstream.kernels.quantities import SQUARED_DISTANCE
from kernelstream.parts import part

__all__ = ["RBF"]


@part("kernel", "rbf")
class RBF(ExponentialKernel):
    """``k(x, z) = exp(-gamma ||x - z||^2)``; gamma = 1 / (2 sigma^2) in the papers (60).

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.

    Examples
    --------
    >>> from kernelstream.kernels import RBF
    >>> RBF(gamma=0.5)([[0.0, 0.0]], [[0.0, 2.0]]).round(4)
    array([[0.1353]])
    """

    quantity = SQUARED_DISTANCE
    interpolates = True
    is_smooth = True

    def auto_gamma(self, n_features: int, fineness: float | None) -> float:
        return 1.0 / n_features if fineness is None else fineness

    def slope(self, q):
        return -self.gamma * np.exp(-self.gamma * q)
