"""What stores share."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from kernelstream.compile import as_argument, helper
from kernelstream.expansion import NothingPending
from kernelstream.kernels import Kernel

__all__ = [
    "NOTHING_PENDING", "STAGED_ROWS", "Memory", "OnHost", "Slots", "Store", "Values",
    "as_sparse_rows", "write_row",
]  # fmt: skip

# Rows that are being learned stand behind the points for a moment, so that one matrix product gives
# the kernel values of both with each of them.
STAGED_ROWS = 512

NOTHING_PENDING = NothingPending()


class Values(NamedTuple):
    """What a store makes of the rows of a tile."""

    k: np.ndarray  # (points + rows, rows), as `Tile.k`
    n_points: int  # how many of its lines are points
    basis: Any  # (points, rows): what coefficients are multiplied with to give scores
    pending: Any  # memory for what rows bring to weights, as `Tile.pending`


CheckedCache = Callable[[Any], np.ndarray]  # the row cache of saved rows, or a ValueError


class Store(Protocol):
    """What is asked of a store. `x` is always the kernel's row cache of the rows X."""

    kernel: Kernel
    is_sparse: bool  # whether rows are
    writes_in_loop: bool  # whether `writer` leaves nothing for `write` to do
    n_slots: int
    n_first: int  # how many of them are taken before any row has been learned
    rows: Any  # (slots, features)
    row_cache: np.ndarray  # of the points
    memory: "Memory"
    n_features: int
    dtype: np.dtype

    def taken(self, X: Any) -> Any:
        """Return rows as this store works with them, which all other methods are given."""
        ...

    def row_cache_of(self, X: Any) -> np.ndarray:
        """Return the kernel's row cache of rows."""
        ...

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return k(points, X) above k(X, X), of the first n points.

        Kernels that the stream makes may look at the targets `y`; rows whose `weight` is zero leave
        nothing behind. `coef` are the coefficients of the expansion, whose shape is needed. `lines`
        are those of the points that the loop reads, where it does not read all: others need not be
        there.
        """
        ...

    def tile_rows(self, n_points: int) -> int:
        """Return how many rows best share a matrix product."""
        ...

    def basis(self, n_points: int, X: Any, x: np.ndarray) -> Any:
        """Return the factor of the coefficients for rows X: k(points, X), or features."""
        ...

    def block(self, n_points: int, X: Any, x: np.ndarray, out: np.ndarray) -> None:
        """Write k(points, X) of the first n points into `out`."""
        ...

    def features(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> Any:
        """Return explicit features of rows to learn; stores of points have none."""
        ...

    def at(self, slots: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the points in some slots and their row cache, as `replace` takes them."""
        ...

    def writer(self, X: Any, x: np.ndarray, values: Values | None) -> Any:
        """Return the loop's writer of rows as points: a rule with `write_points`.

        Stores of points need no values.
        """
        ...

    def write(self, trail: Any, done: int, X: Any, x: np.ndarray) -> None:
        """Write rows that became points, where the loop could not."""
        ...

    def replace(self, slots: np.ndarray, X: Any, x: np.ndarray) -> None:
        """Put rows into slots, each of which is named once."""
        ...

    def begin(self) -> None:
        """Remember from now on which rows are overwritten."""
        ...

    def end(self) -> None:
        """Forget what was kept for undoing."""
        ...

    def undo(self) -> None:
        """Take back what was written since `begin`."""
        ...

    def zeros(self, shape: tuple[int, int], dtype: Any) -> Any:
        """Return a new matrix over pairs of points, where such matrices are best multiplied."""
        ...

    def grow(self, n_slots: int) -> None:
        """Make room for more points."""
        ...

    def widen(self, n_features: int) -> None:
        """Give every row more features, which are zero, or take such features away."""
        ...

    def stored(self, n_points: int) -> Any:
        """Return a copy of the rows of the first n points."""
        ...

    def points_in_memory(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the slots and their row cache, where points are dense rows in memory."""
        ...

    def restore(self, rows: Any, row_cache: np.ndarray) -> None:
        """Take rows as the first points."""
        ...

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return the stored arrays of the first n points, by name."""
        ...

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: "CheckedCache") -> None:
        """Take over what `to_arrays` gave; `checked_cache` refuses rows that make no sense."""
        ...

    def copy(self, n_points: int) -> "Store":
        """Return a copy with the first n points and nothing else."""
        ...


class OnHost:
    """What stores have in common that work with rows in the host's memory."""

    kernel: Kernel
    dtype: Any

    def taken(self, X: Any) -> Any:
        """Return rows as compiled code may be given them."""
        return X if sparse.issparse(X) else as_argument(X, self.dtype)

    def row_cache_of(self, X: Any) -> np.ndarray:
        """Return the kernel's row cache of rows."""
        return self.kernel.row_cache(X)

    def points_in_memory(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the slots and their row cache, where points are dense rows in memory."""
        return None

    @staticmethod
    def zeros(shape: tuple[int, int], dtype: Any) -> np.ndarray:
        """Return a new matrix over pairs of points."""
        return np.zeros(shape, dtype)


class Slots(OnHost):
    """What dense and sparse stores have in common: a kernel, rows in slots, and a journal."""

    n_first = 0

    def __init__(self, kernel: Kernel, n_slots: int, rows: Any, row_cache: np.ndarray):
        self.kernel = kernel
        self.n_slots = n_slots
        self.rows = rows
        self.row_cache = row_cache
        self.journal: list[tuple[Any, ...]] | None = None  # what was overwritten, if asked
        self.memory = Memory()
        self.write_block = kernel.prepared(rows.dtype)

    @property
    def n_features(self) -> int:
        """Return how long a row is."""
        return self.rows.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Return the precision of rows and kernel values."""
        return self.rows.dtype

    def basis(self, n_points: int, X: Any, x: np.ndarray) -> np.ndarray:
        """Return k(points, X) in its own memory: several threads may predict."""
        block = np.empty((n_points, X.shape[0]), self.dtype)
        self.block(n_points, X, x, block)
        return block

    def block(self, n_points: int, X: Any, x: np.ndarray, out: np.ndarray) -> None:
        """Write k(points, X) into `out`."""
        self.write_block(self.rows[:n_points], X, self.row_cache[:n_points], x, out)

    def tile_rows(self, n_points: int) -> int:
        """Return how many rows best share a matrix product.

        The kernel values among a tile's own rows cost tile / points of the rest; small tiles make
        poor matrix products. Measured, the two meet at a fifth; where points are few, a tile has 96
        rows, since what it takes to begin one weighs more (benchmarks/run.py, "tiles"). BLAS is at
        its best with a multiple of 16: 102 rows take a tenth longer than 96, each.
        """
        return min(256, max(96, n_points // 80 * 16))

    def at(self, slots: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the points in some slots and their row cache."""
        return self.rows[slots], self.row_cache[slots]

    def begin(self) -> None:
        """Remember from now on which rows are overwritten."""
        self.journal = []

    def end(self) -> None:
        """Forget what was kept for undoing."""
        self.journal = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "write_block": None, "memory": None, "journal": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, memory=Memory())
        self.write_block = self.kernel.prepared(self.rows.dtype)


class Memory:
    """Arrays that nobody keeps, lent by name: fresh pages for every tile would cost more."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._lent: dict[str, np.ndarray] = {}  # as it was lent last

    def lend(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
        """Return an array for as long as nobody asks for the same name again.

        Tiles of one size get the same object, at which an `entry_point` does not look again.
        """
        lent = self._lent.get(name)
        if lent is not None and lent.shape == shape:
            return lent
        size = math.prod(shape)
        if name not in self._arrays or self._arrays[name].size < size:
            self._arrays[name] = self.new(size, dtype)
        lent = self._lent[name] = self._arrays[name][:size].reshape(shape)
        return lent

    def new(self, size: int, dtype: Any) -> np.ndarray:
        """Allocate memory for at least so many numbers."""
        return np.empty(size, dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {"_arrays": {}, "_lent": {}}


def as_sparse_rows(X: Any, dtype: Any = None) -> sparse.csr_array:
    """Return X as sparse rows with sorted indices and no duplicates; never change X."""
    rows = sparse.csr_array(X, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy() if sparse.issparse(X) else rows
        rows.sum_duplicates()
    narrow, most = np.int32, np.iinfo(np.int32).max
    if rows.indices.dtype != narrow and max(rows.nnz, rows.shape[1]) <= most:
        # as SciPy makes them: compiled code is there for one of the two
        parts = rows.data, rows.indices.astype(narrow), rows.indptr.astype(narrow)
        rows = sparse.csr_array(parts, shape=rows.shape)
    return rows


@helper
def write_row(rows, slot, partner, share, x):
    """Put the row x into a slot of `rows`, and merge points; below zero there is nothing to do."""
    if partner >= 0:  # becomes a point between itself and what goes
        for j in range(x.shape[0]):
            goes = x[j] if slot < 0 else rows[slot, j]
            rows[partner, j] = share * goes + (1.0 - share) * rows[partner, j]
    if slot >= 0:
        for j in range(x.shape[0]):
            rows[slot, j] = x[j]
