"""Points whose rows are dense."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.kernels import Kernel
from kernelstream.parts import rule
from kernelstream.stores.base import (
    NOTHING_PENDING,
    STAGED_ROWS,
    CheckedCache,
    Slots,
    Values,
    write_row,
)

__all__ = ["DenseStore"]


@rule
class SlotWriter(NamedTuple):
    """The slots of dense points, as the loop is given them: it writes a tile's new points itself.

    Coefficients and rows thus change in one call of compiled code, which no signal interrupts.
    """

    rows: Any  # (slots, features)
    row_cache: Any  # (slots,)
    X: Any  # the tile's rows
    x: Any  # and their row cache
    old_slots: Any  # what was overwritten, in order; or empty, where nobody asks
    old_rows: Any
    old_cache: Any
    n_old: Any  # how much of it was, so far

    def write_points(self, expansion, tile, trail, done):
        """Put rows into their slots and merge points, in order."""
        _write_points(self, trail, done)


@helper(apart=True)
def _write_points(slots, trail, done):
    n_kept, n_features = slots.n_old[0], slots.rows.shape[1]
    for i in range(done):
        slot, partner = trail.slot[i], trail.partner[i]
        if slots.old_slots.shape[0] > 0:
            for changed in (partner, slot):
                if changed >= 0:
                    slots.old_slots[n_kept] = changed
                    for j in range(n_features):
                        slots.old_rows[n_kept, j] = slots.rows[changed, j]
                    slots.old_cache[n_kept] = slots.row_cache[changed]
                    n_kept += 1
        write_row(slots.rows, slot, partner, trail.share[i], slots.X[i])
        if slot >= 0:
            slots.row_cache[slot] = slots.x[i]
        if partner >= 0:
            total = 0.0
            for j in range(n_features):
                total += slots.rows[partner, j] * slots.rows[partner, j]
            slots.row_cache[partner] = total  # kernels that can merge need the squared norm
    slots.n_old[0] = n_kept


_JOURNAL = 256  # overwritten points for which there is room at once


class DenseStore(Slots):
    """Slots that hold rows. Rows are written here and nowhere else."""

    is_sparse = False
    writes_in_loop = True

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        super().__init__(
            kernel, n_slots,
            np.zeros((n_slots + STAGED_ROWS, n_features), dtype),
            np.zeros(n_slots + STAGED_ROWS, dtype),
        )  # fmt: skip
        self._nothing = self._room_for(0)

    @staticmethod
    def n_bytes(kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """Return how much memory points of this size take, with the rows that are being learned."""
        return (n_slots + STAGED_ROWS) * (n_features + 1) * dtype.itemsize

    def stored(self, n_points: int) -> np.ndarray:
        """Return a copy of the rows of the first n points."""
        return self.rows[:n_points].copy()

    def points_in_memory(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots and their row cache."""
        return self.rows, self.row_cache

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return the stored arrays of the first n points, by name."""
        return {"row_cache": self.row_cache[:n_points], "points": self.stored(n_points)}

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: CheckedCache) -> None:
        """Take over what `to_arrays` gave."""
        self.restore(arrays["points"], checked_cache(arrays["points"]))

    def restore(self, rows: np.ndarray, row_cache: np.ndarray) -> None:
        """Take rows as the first points."""
        self.rows[: len(rows)], self.row_cache[: len(rows)] = rows, row_cache

    def copy(self, n_points: int) -> "DenseStore":
        """Return a copy with the first n points and nothing else."""
        copy = DenseStore(self.kernel, self.n_slots, self.n_features, self.dtype)
        copy.restore(self.rows[:n_points], self.row_cache[:n_points])
        copy.memory, copy.write_block = self.memory, self.write_block
        return copy

    def grow(self, n_slots: int) -> None:
        """Make room for more points."""
        rows = np.zeros((n_slots + STAGED_ROWS, self.n_features), self.dtype)
        row_cache = np.zeros(n_slots + STAGED_ROWS, self.dtype)
        common = min(len(rows), len(self.rows))  # a block that was undone may have left more room
        rows[:common], row_cache[:common] = self.rows[:common], self.row_cache[:common]
        # only now, so that an interrupt leaves the points whole
        self.rows, self.row_cache, self.n_slots = rows, row_cache, n_slots

    def widen(self, n_features: int) -> None:
        """Give every row more features, which are zero, or take such features away.

        The row cache stays as it is.
        """
        rows = np.zeros((len(self.rows), n_features), self.dtype)
        common = min(n_features, self.n_features)
        rows[:, :common] = self.rows[:, :common]
        self.rows = rows
        self._nothing = self._room_for(0)

    def writer(
        self, X: np.ndarray, x: np.ndarray, values: Values | None, n_times: int = 1
    ) -> SlotWriter:
        """Return the writer with which the loop stores rows of X as points, or replaces some."""
        if self.journal is None:
            old = self._nothing
        else:  # a row may overwrite two points: that of its slot, and the one that is merged
            n = 2 * len(X) * n_times
            old = self.journal[-1] if self.journal else self._nothing
            if len(old[0]) - old[3].item() < n:
                old = self._new_entry(n)
                self.journal.append(old)  # before anything is overwritten
        return SlotWriter(self.rows, self.row_cache, X, x, *old)

    def _new_entry(self, n: int) -> tuple[np.ndarray, ...]:
        """Return room for n overwritten points and more, lent to the first of a block."""
        n = max(4 * n, _JOURNAL)
        if self.journal:
            return self._room_for(n)
        lend = self.memory.lend
        slots, count = lend("old slots", (n,), np.int64), lend("old count", (1,), np.int64)
        slots.fill(-1)
        count[0] = 0
        rows = lend("old rows", (n, self.n_features), self.dtype)
        return slots, rows, lend("old row cache", (n,), self.dtype), count

    def _room_for(self, n: int) -> tuple[np.ndarray, ...]:
        """Return arrays for n overwritten points: slots, rows and row cache, and their number."""
        slots, rows = np.empty(n, np.int64), np.empty((n, self.n_features), self.dtype)
        slots.fill(-1)
        return slots, rows, np.empty(n, self.dtype), np.zeros(1, np.int64)

    def write(self, trail: Any, done: int, X: np.ndarray, x: np.ndarray) -> None:
        """Do nothing: the loop has written the rows, see `Slots`."""

    def replace(self, slots: np.ndarray, X: np.ndarray, x: np.ndarray) -> None:
        """Put rows into slots, each of which is named once."""
        if self.journal is not None:
            old = slots, self.rows[slots], self.row_cache[slots], np.array([len(slots)])
            self.journal.append(old)
        self.rows[slots], self.row_cache[slots] = X, x

    def undo(self) -> None:
        """Take back what was written since the journal began."""
        for slots, rows, row_cache, _ in reversed(self.journal or []):
            for i in reversed(np.flatnonzero(slots >= 0)):  # the oldest entry of a slot comes last
                self.rows[slots[i]], self.row_cache[slots[i]] = rows[i], row_cache[i]

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return k(points, X) above k(X, X)."""
        k = self._kernel_values(n_points, X, x)
        return Values(k, n_points, k[:n_points], NOTHING_PENDING)

    def _kernel_values(self, n_points: int, X: np.ndarray, x: np.ndarray) -> np.ndarray:
        end = n_points + len(X)
        block = self.memory.lend("block", (end, len(X)), self.dtype)
        diagonal = self.kernel.diagonal(x)
        if len(X) == 1 and diagonal is not None:
            self.block(n_points, X, x, block[:n_points])
            block[n_points] = diagonal
            return block
        self.rows[n_points:end], self.row_cache[n_points:end] = X, x
        self.block(end, X, x, block)
        if diagonal is not None:  # exactly, whatever rounding made of it
            block[n_points:].reshape(-1)[:: len(X) + 1] = diagonal
        return block
