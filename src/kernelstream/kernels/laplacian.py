"""The Laplacian kernel."""

from kernelstream.kernels.base import MappedKernel, check_gamma
from kernelstream.kernels.maps import Exponential
from kernelstream.kernels.quantities import L1_DISTANCE
from kernelstream.parts import part

__all__ = ["Laplacian"]


@part("kernel", "laplacian")
class Laplacian(MappedKernel):
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
    has_unit_diagonal = True

    def __init__(self, gamma: float | str = "auto"):
        self.gamma = gamma
        self.check()

    def check(self) -> None:
        check_gamma(self.gamma)

    def steepness(self) -> float:
        return float(self.gamma)

    def to_map(self, number_type):
        return Exponential(number_type(self.gamma))

    def diagonal(self, x):
        return 1.0

    def magnitude(self, x):
        return self.gamma * x
