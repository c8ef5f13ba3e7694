"""The polynomial kernel."""

import numpy as np

from kernelstream.kernels.base import MappedKernel, check_gamma
from kernelstream.kernels.maps import Power
from kernelstream.kernels.quantities import INNER_PRODUCT
from kernelstream.parts import integer_at_least, number, parameters, part

__all__ = ["Polynomial"]


@part("kernel", "poly", "polynomial")
@parameters
class Polynomial(MappedKernel):
    """``k(x, z) = (gamma <x, z> + coef0)^degree``.

    Parameters
    ----------
    degree : int, default=3
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Not negative: the kernel would not be positive definite.

    Examples
    --------
    >>> from kernelstream.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)([[1.0, 1.0]], [[1.0, 2.0]])
    array([[9.]])
    """

    degree: int = 3
    gamma: float | str = "auto"
    coef0: float = 0.0

    quantity = INNER_PRODUCT

    def check(self) -> None:
        integer_at_least("degree", self.degree, 1)
        check_gamma(self.gamma)
        number("coef0", self.coef0, at_least=0)

    def to_map(self, number_type):
        return Power(number_type(self.gamma), number_type(self.coef0), int(self.degree))

    def values(self, P, X, p, x, summed):
        # a device takes longer to be asked for each product of repeated squaring than for a power
        return (self.gamma * (P @ X.T) + self.coef0) ** self.degree

    def magnitude(self, x):
        with np.errstate(over="ignore"):
            return np.maximum(self.gamma * x, 1.0) * (self.gamma * x + self.coef0) ** self.degree
