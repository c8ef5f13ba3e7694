"""The Laplacian kernel."""

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
