"""The Laplacian kernel."""

import math

from kernelstream.kernels.exponential_kernel import ExponentialKernel
from kernelstream.kernels.quantities import L1_DISTANCE
from kernelstream.parts import part

__all__ = ["Laplacian"]


@part("kernel", "laplacian")
class Laplacian(ExponentialKernel):
    """``k(x, z) = exp(-gamma ||x - z||_1)``.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.

    Examples
    --------
    >>> from kernelstream.kernels import Laplacian
    >>> Laplacian(gamma=1.0)([[0.0, 0.0]], [[1.0, 0.0]]).round(4)
    array([[0.3679]])
    """

    quantity = L1_DISTANCE

    def auto_gamma(self, n_features: int, fineness: float | None) -> float:
        # measured: between rows of unit length L1 distances grow with sqrt(n_features)
        return 1.0 / n_features if fineness is None else 1.5 * math.sqrt(fineness / n_features)
