"""A kernel with an intercept in it."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.kernels.base import number_of
from kernelstream.kernels.wrapped import WrappedKernel
from kernelstream.parts import number, parameters, part, rule

__all__ = ["Homogenized"]


@rule
class HomogenizedRule(NamedTuple):
    """Columns of another kernel, with a constant."""

    kernel: Any
    constant: Any

    def write_column(self, features, n, x, out):
        self.kernel.write_column(features, n, x, out)
        for i in range(n):
            out[i] += self.constant

    def value_at(self, features, i, x):
        return self.kernel.value_at(features, i, x) + self.constant

    def of_products(self, product, p, x):
        return self.kernel.of_products(product, p, x) + self.constant


@part("kernel")
@parameters
class Homogenized(WrappedKernel):
    """``k(x, z) + offset^2``: an intercept that is part of f (SOG-SVR, equation 2.7).

    Parameters
    ----------
    kernel : kernel object
    offset : float, default=0.1
        lambda in the paper. The larger, the less the intercept is held down.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, Homogenized
    >>> Homogenized(RBF(1.0), offset=0.5)([[0.0]], [[0.0]])
    array([[1.25]])
    """

    kernel: Any
    offset: float = 0.1

    has_constant = True

    def check(self) -> None:
        super().check()
        number("offset", self.offset, at_least=0)

    @property
    def has_features(self) -> bool:  # type: ignore[override]
        return self.kernel.has_features

    def n_explicit(self, n_features):
        return self.kernel.n_explicit(n_features) + 1

    def features(self, X, x):
        # the constant comes first, so that rows may get more features later
        phi = self.kernel.features(X, x)
        constant = np.full((X.shape[0], 1), self.offset, phi.dtype)
        if sparse.issparse(phi):
            return sparse.hstack([sparse.csr_array(constant), phi], format="csr")
        return np.hstack([constant, phi])

    @property
    def from_products(self) -> bool:  # type: ignore[override]
        return self.kernel.from_products

    def resolve(self, n_features: int, fineness: float | None = None) -> "Homogenized":
        self.check()
        return Homogenized(self.kernel.resolve(n_features, fineness), self.offset)

    def change_block(self, out, p, x):
        out += self.offset**2

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        return self.kernel.is_smooth

    def gradients(self, P, X, coef):
        return self.kernel.gradients(P, X, coef)

    def diagonal(self, x):
        diagonal = self.kernel.diagonal(x)
        return None if diagonal is None else diagonal + self.offset**2

    def to_rule(self, dtype: Any = np.float64) -> Any:
        return HomogenizedRule(self.kernel.to_rule(dtype), number_of(dtype)(self.offset**2))

    def magnitude(self, x):
        return self.kernel.magnitude(x) + self.offset**2
