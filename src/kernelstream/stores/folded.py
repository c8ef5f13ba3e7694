"""No points: the explicit features of rows, of which a model has one weight each.

The expansion's coefficients belong to features in place of points, so that scores, files and
undoing are the same. The kernel values among the rows of a tile are ``phi phi^T``; what the rows
bring to the weights is collected while the loop runs, and added after it.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.compile import helper
from kernelstream.expansion import Pending
from kernelstream.kernels import Kernel, inner_products
from kernelstream.parts import rule
from kernelstream.stores.base import CheckedCache, Memory, OnHost, Values

__all__ = ["FoldedStore", "SparseFoldedStore"]

_TILE = 64  # rows: kernel values among them cost as much as the scores of so many outputs


@rule
class DenseFeatures(NamedTuple):
    """phi of the rows of a tile."""

    values: Any  # (rows, features)

    def write_points(self, expansion, tile, trail, done):
        """Add what the rows of a tile have brought to the weights."""
        _add_pending(self, expansion.coef, tile.pending, done)
        expansion.average.add_pending(self, tile.pending, done)
        if done > 0:
            tile.changes.mark_all()

    def add_combination(self, weights, amounts, done):
        """Add a combination of the rows to the weights of an output."""
        for i in range(done):
            amount = amounts[i]
            if amount != 0.0:
                for j in range(self.values.shape[1]):
                    weights[j] += amount * self.values[i, j]


@rule
class SparseFeatures(NamedTuple):
    """The same, sparse."""

    indptr: Any
    indices: Any
    data: Any

    def write_points(self, expansion, tile, trail, done):
        _add_pending(self, expansion.coef, tile.pending, done)
        expansion.average.add_pending(self, tile.pending, done)
        for e in range(self.indptr[done]):
            tile.changes.mark(self.indices[e])

    def add_combination(self, weights, amounts, done):
        for i in range(done):
            amount = amounts[i]
            if amount != 0.0:
                for e in range(self.indptr[i], self.indptr[i + 1]):
                    weights[self.indices[e]] += amount * self.data[e]


@helper(apart=True)
def _add_pending(features, coef, pending, done):
    for k in range(coef.shape[0]):  # line by line, so that the weights stay in the cache
        for s in range(coef.shape[1]):
            features.add_combination(coef[k, s], pending.coef[:, s, k], done)


class FoldedStore(OnHost):
    """Explicit features, and no points."""

    is_sparse = False
    writes_in_loop = True

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        self.kernel = kernel
        self.n_slots = n_slots
        self.n_features = n_features
        self.dtype = dtype
        self.memory = Memory()

    @staticmethod
    def n_bytes(kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """Return how much memory it takes: there are no points."""
        return 0

    @property
    def n_first(self) -> int:
        """Return how many features there are before any row has been learned."""
        return self.n_slots

    def basis(self, n_points: int, X: Any, x: np.ndarray) -> Any:
        """Return the features of rows, a line each: what weights are multiplied with."""
        return self.kernel.features(X, x).T

    def tile_rows(self, n_points: int) -> int:
        """Return how many rows best share a matrix product."""
        return _TILE

    def features(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> Any:
        """Return the features of rows that are to be learned, of shape (rows, features)."""
        return self.kernel.features(X, x)

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return kernel values among the rows, and their features."""
        phi = self.features(n_points, X, x, y, weight)
        return self.values_of(phi, self.kernel.diagonal(x), coef)

    def values_of(self, phi: Any, diagonal: Any, coef: np.ndarray) -> Values:
        """Return the values of a tile from its features; `diagonal` is k(x, x), where known."""
        n_rows, n_outputs, n_functions = phi.shape[0], coef.shape[0], coef.shape[1]
        k = self.memory.lend("k", (n_rows, n_rows), self.dtype)
        if n_rows > 1 or diagonal is None:
            self.write_products(phi, k)
        if diagonal is not None:  # exactly, whatever rounding made of it
            k.reshape(-1)[:: n_rows + 1] = diagonal
        pending = Pending(
            self.memory.lend("pending", (n_rows, n_functions, n_outputs)),
            self.memory.lend("past", (n_rows, n_outputs)),
        )
        for array in pending:
            array[...] = 0.0
        return Values(k, 0, phi.T, pending)

    def write_products(self, phi: Any, k: np.ndarray) -> None:
        """Write the inner products of every two rows' features."""
        inner_products(phi, phi, k)

    def writer(self, X: Any, x: np.ndarray, values: Values) -> Any:
        """Return the writer with which the loop adds rows to the weights."""
        basis = values.basis
        if sparse.issparse(basis):  # its columns are the rows: the same arrays
            return SparseFeatures(basis.indptr, basis.indices, basis.data)
        return DenseFeatures(basis.T)

    def write(self, trail: Any, done: int, X: Any, x: np.ndarray) -> None:
        """Do nothing: the loop has added the rows to the weights."""

    def begin(self) -> None:
        """Do nothing: the weights are part of the machine's state."""

    def end(self) -> None:
        """Do nothing."""

    def undo(self) -> None:
        """Do nothing."""

    def widen(self, n_features: int) -> None:
        """Give rows more features, or take such features away."""
        self.n_slots = int(self.kernel.n_explicit(n_features))
        self.n_features = n_features

    def stored(self, n_points: int) -> np.ndarray:
        """Raise: there are no points."""
        return np.empty((0, self.n_features), self.dtype)

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return nothing: there is nothing to store."""
        return {}

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: CheckedCache) -> None:
        """Return nothing: there is nothing to store."""

    def copy(self, n_points: int) -> "FoldedStore":
        """Return a copy."""
        copy = type(self)(self.kernel, self.n_slots, self.n_features, self.dtype)
        copy.memory = self.memory
        return copy


class SparseFoldedStore(FoldedStore):
    """Explicit features of sparse rows."""

    is_sparse = True
