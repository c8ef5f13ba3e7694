"""Points whose rows are sparse."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.compile import compiled
from kernelstream.kernels import Kernel
from kernelstream.parts import rule
from kernelstream.stores.base import NOTHING_PENDING, CheckedCache, Slots, Values

__all__ = ["NO_SLOTS", "NoSlots", "SparseStore"]


@rule
class NoSlots(NamedTuple):
    """What the loop is given where it cannot write rows itself."""

    def write_points(self, expansion, tile, trail, done):
        """Do nothing: `SparseStore.write` writes the rows."""
        return


NO_SLOTS = NoSlots()


class SparseStore(Slots):
    """Slots whose rows are sparse. A change makes a new matrix, so that undoing is easy."""

    is_sparse = True
    writes_in_loop = False

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        rows = sparse.csr_array((0, n_features), dtype=dtype)
        super().__init__(kernel, n_slots, rows, np.zeros(0, dtype))

    @staticmethod
    def n_bytes(kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """Return how much memory points of this size take: a place for every feature (`blocks`)."""
        return 4 * n_features

    def stored(self, n_points: int) -> sparse.csr_array:
        """Return a copy of the rows of the first n points."""
        return self.rows[:n_points].copy()

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return the stored arrays of the first n points, by name."""
        rows = self.stored(n_points)
        return {
            "row_cache": self.row_cache[:n_points],
            "points.data": rows.data,
            "points.indices": rows.indices.astype(np.int64),
            "points.indptr": rows.indptr.astype(np.int64),
        }

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: CheckedCache) -> None:
        """Take over what `to_arrays` gave."""
        pieces = [arrays[f"points.{name}"].copy() for name in ("data", "indices", "indptr")]
        rows = sparse.csr_array(tuple(pieces), shape=(len(pieces[2]) - 1, self.n_features))
        rows.check_format(full_check=True)
        self.restore(rows, checked_cache(rows))

    def restore(self, rows: sparse.csr_array, row_cache: np.ndarray) -> None:
        """Take rows as the first points."""
        self.rows, self.row_cache = rows, row_cache

    def copy(self, n_points: int) -> "SparseStore":
        """Return a copy with the first n points and nothing else."""
        copy = SparseStore(self.kernel, self.n_slots, self.n_features, self.dtype)
        copy.restore(self.stored(n_points), self.row_cache[:n_points].copy())
        copy.memory = self.memory
        return copy

    def grow(self, n_slots: int) -> None:
        """Make room for more points."""
        self.n_slots = n_slots

    def widen(self, n_features: int) -> None:
        """Give every row more features, which are zero, or take such features away."""
        rows = self.rows
        pieces = rows.data, rows.indices, rows.indptr
        self.rows = sparse.csr_array(pieces, shape=(rows.shape[0], n_features))

    def writer(self, X: sparse.csr_array, x: np.ndarray, values: Values) -> NoSlots:
        """Return the writer of the loop, which replaces dense slots."""
        return NO_SLOTS

    def write(self, trail: Any, done: int, X: sparse.csr_array, x: np.ndarray) -> None:
        """Put the rows that became points into their slots, in order."""
        self.replace(trail.slot[:done], X, x)

    def replace(self, slots: np.ndarray, X: sparse.csr_array, x: np.ndarray) -> None:
        """Put rows into slots, in order; below zero there is nothing to do."""
        if self.journal is not None and not self.journal:  # undoing goes back to the first ones
            self.journal.append((self.rows, self.row_cache))
        came = np.flatnonzero(slots >= 0)
        if not came.size:
            return
        n = self.rows.shape[0]
        source = np.arange(max(n, slots.max() + 1))
        source[slots[came]] = n + came  # of several rows for one place the last
        self.rows = _rows_from(self.rows, X, source)
        self.row_cache = np.concatenate([self.row_cache, x])[source]

    def undo(self) -> None:
        """Take back what was written since the journal began."""
        if self.journal:
            self.rows, self.row_cache = self.journal[0]

    def block(self, n_points: int, X: sparse.csr_array, x: np.ndarray, out: Any) -> None:
        """Write k(points, X) into `out`."""
        rows, own = self.rows, self.row_cache
        if rows.shape[0] > n_points:  # points have gone
            rows, own = rows[:n_points], own[:n_points]
        self.write_block(rows, X, own, x, out)

    def tile_rows(self, n_points: int) -> int:
        """Return the best number of rows for a walk through the points: 256 to 384 are equal."""
        return 320

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return k(points, X) above k(X, X)."""
        shape = n_points + X.shape[0], X.shape[0]
        block = self.memory.lend("block", shape, self.dtype)
        self.block(n_points, X, x, block[:n_points])
        self.write_block(X, X, x, x, block[n_points:])
        diagonal = self.kernel.diagonal(x)
        if diagonal is not None:  # exactly, whatever rounding made of it
            block[n_points:].reshape(-1)[:: X.shape[0] + 1] = diagonal
        return Values(block, n_points, block[:n_points], NOTHING_PENDING)


def _rows_from(P: sparse.csr_array, X: sparse.csr_array, source: np.ndarray) -> sparse.csr_array:
    """Return the rows of P and X, counted through, that `source` names, in its order."""
    lengths = np.concatenate([np.diff(P.indptr), np.diff(X.indptr)])
    indptr = np.zeros(len(source) + 1, np.int64)
    np.cumsum(lengths[source], out=indptr[1:])
    indices, data = np.empty(indptr[-1], X.indices.dtype), np.empty(indptr[-1], X.dtype)
    _copy_rows(P.indptr, P.indices, P.data, X.indptr, X.indices, X.data, source, indices, data)
    return sparse.csr_array((data, indices, indptr), shape=(len(source), X.shape[1]))


@compiled
def _copy_rows(p_ptr, p_index, p_data, x_ptr, x_index, x_data, source, indices, data):
    at, n = 0, p_ptr.shape[0] - 1
    for row in source:
        if row < n:
            for e in range(p_ptr[row], p_ptr[row + 1]):
                indices[at], data[at] = p_index[e], p_data[e]
                at += 1
        else:
            for e in range(x_ptr[row - n], x_ptr[row - n + 1]):
                indices[at], data[at] = x_index[e], x_data[e]
                at += 1
