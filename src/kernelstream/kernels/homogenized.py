"""A kernel with an intercept in it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.kernels.base import Kernel, number_of
from kernelstream.parts import number, part, rule

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
class Homogenized(Kernel):
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

    has_constant = True

    def __init__(self, kernel: Any, offset: float = 0.1):
        self.kernel = kernel
        self.offset = offset
        self.check()

    def check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r} is not a kernel object: give RBF(...), say.")
        number("offset", self.offset, at_least=0)

    @property
    def is_bounded_by_cache(self) -> bool:  # type: ignore[override]
        return self.kernel.is_bounded_by_cache

    @property
    def knows_diagonal(self) -> bool:  # type: ignore[override]
        return self.kernel.knows_diagonal

    @property
    def may_widen(self) -> bool:  # type: ignore[override]
        return self.kernel.may_widen

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
    def adds_up(self) -> bool:  # type: ignore[override]
        return self.kernel.adds_up

    @property
    def from_products(self) -> bool:  # type: ignore[override]
        return self.kernel.from_products

    def loses_digits(self, x: np.ndarray, dtype: np.dtype) -> bool:
        return self.kernel.loses_digits(x, dtype)

    def resolve(self, n_features: int, fineness: float | None = None) -> "Homogenized":
        self.check()
        return Homogenized(self.kernel.resolve(n_features, fineness), self.offset)

    def row_cache(self, X):
        return self.kernel.row_cache(X)

    def block(self, P, X, p, x, out):
        self.kernel.block(P, X, p, x, out)
        out += self.offset**2

    def prepared(self, dtype: Any) -> Callable[..., None]:
        write, constant = self.kernel.prepared(dtype), self.offset**2

        def block(P, X, p, x, out):
            write(P, X, p, x, out)
            out += constant

        return block

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        return self.kernel.is_smooth

    def gradients(self, P, X, coef):
        return self.kernel.gradients(P, X, coef)

    def diagonal(self, x):
        diagonal = self.kernel.diagonal(x)
        return None if diagonal is None else diagonal + self.offset**2

    def compiles(self) -> bool:
        return self.kernel.compiles()

    def to_rule(self, dtype: Any = np.float64) -> Any:
        return HomogenizedRule(self.kernel.to_rule(dtype), number_of(dtype)(self.offset**2))

    def magnitude(self, x):
        return self.kernel.magnitude(x) + self.offset**2
