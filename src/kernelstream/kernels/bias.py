"""A constant, for sums of kernels."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.kernels.base import Kernel, number_of
from kernelstream.kernels.sums import squared_norms
from kernelstream.parts import number, parameters, part, rule

__all__ = ["Bias"]


@rule
class BiasRule(NamedTuple):
    """The same number for every two rows."""

    constant: Any

    def write_column(self, features, n, x, out):
        for i in range(n):
            out[i] = self.constant

    def value_at(self, features, i, x):
        return self.constant

    def of_products(self, product, p, x):
        return self.constant


@part("kernel")
@parameters
class Bias(Kernel):
    """``k(x, z) = value``: in a sum of kernels, an intercept that is part of f.

    Parameters
    ----------
    value : float, default=1.0
        The larger, the less the intercept is held down.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, Bias, Sum
    >>> Sum(Bias(), RBF(1.0))([[0.0]], [[0.0]])
    array([[2.]])
    """

    value: float = 1.0

    has_constant = True
    from_products = True
    is_smooth = True
    has_features = True  # one, which is the same for every row

    def check(self) -> None:
        number("value", self.value, above=0)

    def row_cache(self, X):
        return squared_norms(X)

    def n_explicit(self, n_features):
        return 1

    def features(self, X, x):
        return np.full((X.shape[0], 1), math.sqrt(self.value), X.dtype)

    def block(self, P, X, p, x, out):
        out[:] = self.value

    def values(self, P, X, p, x, summed):
        return self.value + 0.0 * (p[:, None] + x[None, :])

    def diagonal(self, x):
        return float(self.value)

    def gradients(self, P, X, coef):
        return np.zeros((len(coef), *X.shape))

    def to_rule(self, dtype: Any = np.float64) -> BiasRule:
        return BiasRule(number_of(dtype)(self.value))

    def magnitude(self, x):
        with np.errstate(invalid="ignore"):
            return 0.0 * x + self.value  # not a number where the row is not finite
