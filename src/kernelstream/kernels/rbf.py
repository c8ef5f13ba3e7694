"""The Gaussian kernel."""

from kernelstream.kernels.base import MappedKernel, check_gamma
from kernelstream.kernels.maps import Exponential
from kernelstream.kernels.quantities import SQUARED_DISTANCE
from kernelstream.parts import part

__all__ = ["RBF"]


@part("kernel", "rbf")
class RBF(MappedKernel):
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
    has_unit_diagonal = True
    interpolates = True

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
