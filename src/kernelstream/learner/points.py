"""The points of the kernel expansion: rows, dense or sparse, with the numbers of their kernel."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from scipy import sparse

from kernelstream.kernels import Kernel
from kernelstream.parts import rule

__all__ = ["STAGED_ROWS", "Memory", "Points", "SparsePoints", "as_sparse_rows", "write_row"]


@register_jitable
def write_row(rows, slot, partner, share, x):
    """Put the row x into a slot of `rows`, and merge points; below zero there is nothing to do."""
    if partner >= 0:  # becomes a point between itself and what goes
        for j in range(x.shape[0]):
            goes = x[j] if slot < 0 else rows[slot, j]
            rows[partner, j] = share * goes + (1.0 - share) * rows[partner, j]
    if slot >= 0:
        for j in range(x.shape[0]):
            rows[slot, j] = x[j]


@rule
class Slots(NamedTuple):
    """The slots of dense points, as the loop is given them: it writes a tile's new points itself.

    Coefficients and rows thus change in one call of compiled code, which no signal interrupts.
    """

    rows: Any  # (slots, features)
    numbers: Any  # (slots,)
    X: Any  # the tile's rows
    x: Any  # and their numbers
    norm_factor: float  # a merged row's number is this times its squared norm
    old_slots: Any  # what was overwritten, in order; or empty, where nobody asks
    old_rows: Any
    old_numbers: Any

    def write_points(self, trail, done):
        """Put rows into their slots and merge points, in order."""
        n_kept = 0
        for i in range(done):
            slot, partner = trail.slot[i], trail.partner[i]
            if self.old_slots.shape[0] > 0:
                for changed in (partner, slot):
                    if changed >= 0:
                        self.old_slots[n_kept] = changed
                        self.old_rows[n_kept] = self.rows[changed]
                        self.old_numbers[n_kept] = self.numbers[changed]
                        n_kept += 1
            write_row(self.rows, slot, partner, trail.share[i], self.X[i])
            if slot >= 0:
                self.numbers[slot] = self.x[i]
            if partner >= 0:
                total = 0.0
                for j in range(self.rows.shape[1]):
                    total += self.rows[partner, j] * self.rows[partner, j]
                self.numbers[partner] = self.norm_factor * total


@rule
class NoSlots(NamedTuple):
    """In place of `Slots` where the loop cannot write rows: they are sparse."""

    unused: bool = False

    def write_points(self, trail, done):
        """Nothing: `SparsePoints.write` does it."""
        return


# Rows that are being learned stand behind the points for a moment, so that one matrix product gives
# the kernel values of both with each of them.
STAGED_ROWS = 512


def as_sparse_rows(X: Any, dtype: Any = None) -> sparse.csr_array:
    """X as sparse rows with sorted indices and without duplicates; never changes X."""
    rows = sparse.csr_array(X, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy() if sparse.issparse(X) else rows
        rows.sum_duplicates()
    return rows


class Memory:
    """Arrays that nobody keeps, lent by name: fresh pages for every tile would cost more."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def lend(self, name: str, shape: tuple[int, int], dtype: Any = np.float64) -> np.ndarray:
        """An array for as long as nobody asks for the same name again."""
        size = shape[0] * shape[1]
        if name not in self._arrays or self._arrays[name].size < size:
            self._arrays[name] = np.empty(size, dtype)
        return self._arrays[name][:size].reshape(shape)


class _Rows:
    """What dense and sparse points share."""

    rows: Any
    memory: Memory

    @property
    def n_features(self) -> int:
        """How long a row is."""
        return self.rows.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """The precision of rows and kernel values."""
        return self.rows.dtype


class Points(_Rows):
    """Slots that hold rows. Rows are written here and nowhere else."""

    is_sparse = False

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        self.kernel = kernel
        self.n_slots = n_slots
        self.rows = np.zeros((n_slots + STAGED_ROWS, n_features), dtype=dtype)
        self.numbers = np.zeros(n_slots + STAGED_ROWS, dtype=dtype)
        self.journal: list[tuple[np.ndarray, ...]] | None = None  # what was overwritten, if asked
        self.memory = Memory()
        self._norm_factor = float(kernel.norm_factor)
        self._nothing = self._room_for(0)

    @staticmethod
    def n_bytes(n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """How much memory points of this size take, with the rows that are being learned."""
        return (n_slots + STAGED_ROWS) * (n_features + 1) * dtype.itemsize

    def stored(self, n_points: int) -> np.ndarray:
        """A copy of the rows of the first n points."""
        return self.rows[:n_points].copy()

    def restore(self, rows: np.ndarray, numbers: np.ndarray) -> None:
        """Take rows as the first points."""
        self.rows[: len(rows)], self.numbers[: len(rows)] = rows, numbers

    def first(self, n_points: int) -> "Points":
        """A copy with the first n points and nothing else."""
        copy = Points(self.kernel, self.n_slots, self.n_features, self.dtype)
        copy.restore(self.rows[:n_points], self.numbers[:n_points])
        return copy

    def grow(self, n_slots: int) -> None:
        """Make room for more points."""
        rows = np.zeros((n_slots + STAGED_ROWS, self.n_features), self.dtype)
        numbers = np.zeros(n_slots + STAGED_ROWS, self.dtype)
        rows[: len(self.rows)], numbers[: len(self.numbers)] = self.rows, self.numbers
        # only now, so that an interrupt leaves the points whole
        self.rows, self.numbers, self.n_slots = rows, numbers, n_slots

    def resize_rows(self, n_features: int) -> None:
        """Give every row more features, which are zero, or take such features away.

        A kernel's numbers stay as they are.
        """
        rows = np.zeros((len(self.rows), n_features), self.dtype)
        common = min(n_features, self.n_features)
        rows[:, :common] = self.rows[:, :common]
        self.rows = rows
        self._nothing = self._room_for(0)

    def slots(self, X: np.ndarray, numbers: np.ndarray) -> Slots:
        """What the loop needs to write rows of X, whose numbers these are, as points."""
        if self.journal is None:
            old = self._nothing
        else:  # a row may overwrite two points: that of its slot, and the one that is merged
            old = self._room_for(2 * len(X))
            self.journal.append(old)  # before anything is overwritten
        return Slots(self.rows, self.numbers, X, numbers, self._norm_factor, *old)

    def _room_for(self, n: int) -> tuple[np.ndarray, ...]:
        """Arrays for n overwritten points: their slots, rows and numbers."""
        return np.full(n, -1), np.empty((n, self.n_features), self.dtype), np.empty(n, self.dtype)

    def write(self, trail: Any, done: int, X: np.ndarray, numbers: np.ndarray) -> None:
        """Nothing: the loop has written the rows, see `Slots`."""

    def replace(self, slots: np.ndarray, X: np.ndarray, numbers: np.ndarray) -> None:
        """Put rows into slots, each of which is named once."""
        if self.journal is not None:
            self.journal.append((slots, self.rows[slots], self.numbers[slots]))
        self.rows[slots], self.numbers[slots] = X, numbers

    def undo(self) -> None:
        """Take back what was written since the journal began."""
        for slots, rows, numbers in reversed(self.journal or []):
            for i in reversed(np.flatnonzero(slots >= 0)):  # the oldest entry of a slot comes last
                self.rows[slots[i]], self.numbers[slots[i]] = rows[i], numbers[i]

    def block(self, n_points: int, X: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write k(points, X) into `out`."""
        self.kernel.block(self.rows[:n_points], X, self.numbers[:n_points], numbers, out)

    def block_with_rows(self, n_points: int, X: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """k(points, X) and below it k(X, X)."""
        end = n_points + len(X)
        block = self.memory.lend("block", (end, len(X)), self.dtype)
        diagonal = self.kernel.diagonal(numbers)
        if len(X) == 1 and diagonal is not None:
            self.block(n_points, X, numbers, block[:n_points])
            block[n_points] = diagonal
            return block
        self.rows[n_points:end], self.numbers[n_points:end] = X, numbers
        self.block(end, X, numbers, block)
        if diagonal is not None:  # exactly, whatever rounding made of it
            block[n_points:].reshape(-1)[:: len(X) + 1] = diagonal
        return block


_NO_SLOTS = NoSlots()


class SparsePoints(_Rows):
    """`Points` whose rows are sparse. A change makes a new matrix, so that undoing is easy."""

    is_sparse = True

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        self.kernel = kernel
        self.n_slots = n_slots
        self.rows = sparse.csr_array((0, n_features), dtype=dtype)
        self.numbers = np.zeros(0, dtype=dtype)
        self.journal: list[tuple[Any, ...]] | None = None
        self.memory = Memory()

    @staticmethod
    def n_bytes(n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """How much memory points of this size take: a place for every feature (`blocks`)."""
        return 4 * n_features

    def stored(self, n_points: int) -> sparse.csr_array:
        """A copy of the rows of the first n points."""
        return self.rows[:n_points].copy()

    def restore(self, rows: sparse.csr_array, numbers: np.ndarray) -> None:
        """Take rows as the first points."""
        self.rows, self.numbers = rows, numbers

    def first(self, n_points: int) -> "SparsePoints":
        """A copy with the first n points and nothing else."""
        copy = SparsePoints(self.kernel, self.n_slots, self.n_features, self.dtype)
        copy.restore(self.stored(n_points), self.numbers[:n_points].copy())
        return copy

    def grow(self, n_slots: int) -> None:
        """Make room for more points."""
        self.n_slots = n_slots

    def resize_rows(self, n_features: int) -> None:
        """Give every row more features, which are zero, or take such features away."""
        rows = self.rows
        pieces = rows.data, rows.indices, rows.indptr
        self.rows = sparse.csr_array(pieces, shape=(rows.shape[0], n_features))

    def slots(self, X: sparse.csr_array, numbers: np.ndarray) -> NoSlots:
        """What the loop is given in place of dense slots."""
        return _NO_SLOTS

    def write(self, trail: Any, done: int, X: sparse.csr_array, numbers: np.ndarray) -> None:
        """Put the rows that became points into their slots, in order."""
        self.replace(trail.slot[:done], X, numbers)

    def replace(self, slots: np.ndarray, X: sparse.csr_array, numbers: np.ndarray) -> None:
        """Put rows into slots, in order; below zero there is nothing to do."""
        if self.journal is not None:
            self.journal.append((self.rows, self.numbers))
        came = np.flatnonzero(slots >= 0)
        if not came.size:
            return
        n = self.rows.shape[0]
        source = np.arange(max(n, slots.max() + 1))
        for i in came:  # a later row may take the place of an earlier one
            source[slots[i]] = n + i
        self.rows = sparse.vstack([self.rows, X], format="csr")[source]
        self.numbers = np.concatenate([self.numbers, numbers])[source]

    def undo(self) -> None:
        """Take back what was written since the journal began."""
        if self.journal:
            self.rows, self.numbers = self.journal[0]

    def block(self, n_points: int, X: sparse.csr_array, numbers: np.ndarray, out: Any) -> None:
        """Write k(points, X) into `out`."""
        rows, own = self.rows, self.numbers
        if rows.shape[0] > n_points:  # points have gone
            rows, own = rows[:n_points], own[:n_points]
        self.kernel.block(rows, X, own, numbers, out)

    def block_with_rows(self, n_points: int, X: sparse.csr_array, numbers: np.ndarray) -> Any:
        """k(points, X) and below it k(X, X)."""
        shape = n_points + X.shape[0], X.shape[0]
        block = self.memory.lend("block", shape, self.dtype)
        self.block(n_points, X, numbers, block[:n_points])
        self.kernel.block(X, X, numbers, numbers, block[n_points:])
        diagonal = self.kernel.diagonal(numbers)
        if diagonal is not None:  # exactly, whatever rounding made of it
            block[n_points:].reshape(-1)[:: X.shape[0] + 1] = diagonal
        return block
