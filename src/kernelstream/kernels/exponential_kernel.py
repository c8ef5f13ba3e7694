"""What kernels that fall with a distance share."""

from typing import Any

from kernelstream.kernels.base import MappedKernel, check_gamma
from kernelstream.kernels.maps import Exponential
from kernelstream.parts import parameters

__all__ = ["ExponentialKernel"]


@parameters
class ExponentialKernel(MappedKernel):
    """``exp(-gamma distance)``; a subclass names the distance."""

    gamma: Any = "auto"

    has_unit_diagonal = True
    falls_with_distance = True

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
