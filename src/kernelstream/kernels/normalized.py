"""A kernel between rows of unit length."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.arrays import namespace_of
from kernelstream.kernels.base import Kernel
from kernelstream.kernels.wrapped import WrappedKernel
from kernelstream.parts import parameters, part, rule

__all__ = ["Normalized"]


@rule(allocates=True)
class NormalizedRule(NamedTuple):
    """Columns of another kernel between rows of unit length."""

    kernel: Any

    def write_column(self, features, n, x, out):
        length = np.empty(1, out.dtype)
        self.kernel.write_column(x.reshape((-1, 1)), 1, x, length)
        root = math.sqrt(max(length[0], 1e-300))
        for i in range(n):
            self.kernel.write_column(features[:, i : i + 1], 1, features[:, i], length)
            both = math.sqrt(max(length[0], 1e-300)) * root  # the same whichever is x
            self.kernel.write_column(features[:, i : i + 1], 1, x, length)
            out[i] = length[0] / both

    def value_at(self, features, i, x):
        own = self.kernel.value_at(x.reshape((-1, 1)), 0, x)
        root = math.sqrt(max(own, 1e-300))
        own = self.kernel.value_at(features, i, features[:, i])
        both = math.sqrt(max(own, 1e-300)) * root  # the same whichever is x
        return self.kernel.value_at(features, i, x) / both


@part("kernel")
@parameters
class Normalized(WrappedKernel):
    """``k(x, z) / sqrt(k(x, x) k(z, z))``: every row has unit length in the kernel's space.

    A row with k(x, x) = 0 has the value 0 with all others and with itself.

    Parameters
    ----------
    kernel : kernel object
        Whose diagonal is known: any but `Custom`.

    Examples
    --------
    >>> from kernelstream.kernels import Linear, Normalized
    >>> Normalized(Linear())([[2.0, 0.0]], [[3.0, 3.0]]).round(4)
    array([[0.7071]])
    """

    kernel: Any

    has_unit_diagonal = True

    def check(self) -> None:
        if not isinstance(self.kernel, Kernel) or not self.kernel.knows_diagonal:
            raise TypeError(
                f"kernel={self.kernel!r} is not a kernel object whose diagonal is known: give "
                "Polynomial(...), say."
            )

    @property
    def has_features(self) -> bool:  # type: ignore[override]
        return self.kernel.has_features

    def n_explicit(self, n_features):
        return self.kernel.n_explicit(n_features)

    def features(self, X, x):
        phi, lengths = self.kernel.features(X, x), self._lengths(x)
        if sparse.issparse(phi):
            data = phi.data / np.repeat(lengths, np.diff(phi.indptr))
            return sparse.csr_array((data, phi.indices, phi.indptr), shape=phi.shape)
        return phi / lengths[:, None]

    def resolve(self, n_features: int, fineness: float | None = None) -> "Normalized":
        self.check()
        return Normalized(self.kernel.resolve(n_features, fineness))

    def _lengths(self, x):
        xp, diagonal = namespace_of(x), 0.0 * x + self.kernel.diagonal(x)
        return xp.sqrt(xp.maximum(diagonal, 0.0 * x + float(xp.finfo(x.dtype).smallest_normal)))

    def change_block(self, out, p, x):
        out /= self._lengths(p)[:, None]
        out /= self._lengths(x)[None, :]

    def diagonal(self, x):
        return np.where(self.kernel.diagonal(x) > 0, np.ones_like(x), 0.0)

    def magnitude(self, x):
        return self.kernel.magnitude(x)

    def to_rule(self, dtype: Any = np.float64) -> Any:
        return NormalizedRule(self.kernel.to_rule(dtype))
