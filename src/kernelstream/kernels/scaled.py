"""A kernel times a number."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.kernels.base import check_gamma, number_of
from kernelstream.kernels.wrapped import WrappedKernel
from kernelstream.parts import parameters, part, rule

__all__ = ["Scaled"]


@rule
class ScaledRule(NamedTuple):
    """Values of another kernel, times a number."""

    kernel: Any
    factor: Any

    def write_column(self, features, n, x, out):
        self.kernel.write_column(features, n, x, out)
        for i in range(n):
            out[i] *= self.factor

    def value_at(self, features, i, x):
        return self.factor * self.kernel.value_at(features, i, x)

    def of_products(self, product, p, x):
        return self.factor * self.kernel.of_products(product, p, x)


@part("kernel")
@parameters
class Scaled(WrappedKernel):
    """``factor k(x, z)``; ``0.5 * kernel`` is short for ``Scaled(kernel, 0.5)``.

    Parameters
    ----------
    kernel : kernel object
    factor : float or "auto", default="auto"
        "auto" is 1 / n_features, which gives the linear kernel of rows with features of size one
        values of about one; or 1 where rows are scaled to unit length.

    Examples
    --------
    >>> from kernelstream.kernels import Linear, Scaled
    >>> Scaled(Linear(), 0.5)([[1.0, 1.0]], [[1.0, 2.0]])
    array([[1.5]])
    """

    kernel: Any
    factor: float | str = "auto"

    def check(self) -> None:
        super().check()
        check_gamma(self.factor, "factor")

    @property
    def has_constant(self) -> bool:  # type: ignore[override]
        return self.kernel.has_constant

    @property
    def from_products(self) -> bool:  # type: ignore[override]
        return self.kernel.from_products

    def resolve(self, n_features: int, fineness: float | None = None) -> "Scaled":
        self.check()
        auto = 1.0 / n_features if fineness is None else 1.0
        factor = auto if isinstance(self.factor, str) else self.factor
        return Scaled(self.kernel.resolve(n_features, fineness), factor)

    def change_block(self, out, p, x):
        out *= self.factor

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        return self.kernel.is_smooth

    def gradients(self, P, X, coef):
        return self.factor * self.kernel.gradients(P, X, coef)

    def diagonal(self, x):
        diagonal = self.kernel.diagonal(x)
        return None if diagonal is None else diagonal * self.factor

    def to_rule(self, dtype: Any = np.float64) -> ScaledRule:
        return ScaledRule(self.kernel.to_rule(dtype), number_of(dtype)(self.factor))

    def magnitude(self, x):
        return self.kernel.magnitude(x) * max(self.factor, 1.0)  # the kernel itself counts too
