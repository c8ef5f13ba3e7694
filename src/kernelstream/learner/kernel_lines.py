"""Kernel values of points with each other, a line at a time, for learners that revisit points."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import rule

__all__ = ["ComputedLines", "StoredLines", "TableRule", "new_lines"]

_FEWEST_LINES = 64


@rule
class TableRule(NamedTuple):
    """Kernel values that are known already; a row is its own number."""

    table: Any

    def write_column(self, features, n, x, out):
        """Look the values up."""
        line = self.table[int(x[0])]
        for i in range(n):
            out[i] = line[int(features[0, i])]


@rule(allocates=True)
class ComputedLines(NamedTuple):
    """Kernel values by the kernel's compiled rule, and a cache of lines of them.

    A value is the same whenever it is computed, in a block of any size, from a cache of any size.
    """

    kernel: Any
    rows: Any  # that are being learned
    features: Any  # of the points, a line for every feature
    own: Any  # (slots,): of each point with itself, NaN where nobody has asked
    lines: Any  # the cache: lines of kernel values with all points
    line_of: Any  # of a slot, or -1
    owner: Any  # of a line: its slot, or -1
    used: Any  # when a line was last used
    clock: Any

    def keep_cache(self, scratch, numbers):
        """Leave the cache for the next call, with the points' numbers. Not compiled."""
        scratch["lines"] = self._replace(rows=self.rows[:0]), numbers.copy()

    def row_column(self, i, n, out):
        """Write the kernel values of row i with the points; return the one with itself."""
        x = self.rows[i]
        self.kernel.write_column(self.features, n, x, out)
        own = np.empty(1)
        self.kernel.write_column(x.reshape((-1, 1)), 1, x, own)
        return own[0]

    def admit_row(self, i, slot, column, k_xx):
        """Make row i the point in the next slot; its kernel values are known."""
        for j in range(self.rows.shape[1]):
            self.features[j, slot] = self.rows[i, j]
        self.own[slot] = k_xx
        line = _claim_line(self, slot)
        for j in range(slot):
            self.lines[line, j] = column[j]
        self.lines[line, slot] = k_xx
        for m in range(self.owner.shape[0]):  # the lines that are there get one more value
            if self.owner[m] >= 0 and m != line:
                self.lines[m, slot] = column[self.owner[m]]

    def own_value(self, slot):
        """Return the kernel value of the point in a slot with itself."""
        if math.isnan(self.own[slot]):
            x = self.features[:, slot].copy()
            self.kernel.write_column(x.reshape((-1, 1)), 1, x, self.own[slot : slot + 1])
        return self.own[slot]

    def line_of_slot(self, slot, n):
        """Return the kernel values of the point in a slot with all points, through the cache."""
        line = self.line_of[slot]
        if line < 0:
            line = _claim_line(self, slot)
            x = self.features[:, slot].copy()
            self.kernel.write_column(self.features, n, x, self.lines[line])
        self.clock[0] += 1
        self.used[line] = self.clock[0]
        return self.lines[line]

    def free_slot(self, slot, last):
        """Forget the point in a slot; the last one moves to its place."""
        line = self.line_of[slot]
        if line >= 0:
            self.owner[line] = -1
            self.used[line] = 0
        if slot != last:
            for j in range(self.features.shape[0]):
                self.features[j, slot] = self.features[j, last]
            self.own[slot] = self.own[last]
            self.line_of[slot] = self.line_of[last]
            if self.line_of[slot] >= 0:
                self.owner[self.line_of[slot]] = slot
            for m in range(self.owner.shape[0]):
                if self.owner[m] >= 0:
                    self.lines[m, slot] = self.lines[m, last]
        self.line_of[last] = -1


@helper
def _claim_line(cache, slot):
    """Give a slot the line of the cache that nobody has asked for longest."""
    line = 0
    for m in range(1, cache.used.shape[0]):
        if cache.used[m] < cache.used[line]:
            line = m
    if cache.owner[line] >= 0:
        cache.line_of[cache.owner[line]] = -1
    cache.owner[line] = slot
    cache.line_of[slot] = line
    cache.clock[0] += 1
    cache.used[line] = cache.clock[0]
    return line


@rule(allocates=True)
class StoredLines(NamedTuple):
    """Kernel values that are all kept, for what compiled code cannot compute."""

    gram: Any  # (slots, slots), part of the state
    k: Any  # (points + rows, rows), as those of a tile
    n_points: int  # how many of k's lines are points
    line: Any  # (slots,): which line of k belongs to a slot

    def keep_cache(self, scratch, numbers):
        """Do nothing: the values are part of the state. Not compiled."""
        return

    def row_column(self, i, n, out):
        """Write the kernel values of row i with the points; return the one with itself."""
        for s in range(n):
            out[s] = self.k[self.line[s], i]
        return self.k[self.n_points + i, i]

    def admit_row(self, i, slot, column, k_xx):
        """Make row i the point in the next slot; its kernel values are known."""
        for s in range(slot):
            self.gram[slot, s] = column[s]
            self.gram[s, slot] = column[s]
        self.gram[slot, slot] = k_xx
        self.line[slot] = self.n_points + i

    def own_value(self, slot):
        """Return the kernel value of the point in a slot with itself."""
        return self.gram[slot, slot]

    def line_of_slot(self, slot, n):
        """Return kernel values of the point in a slot with all points."""
        return self.gram[slot]

    def free_slot(self, slot, last):
        """Forget the point in a slot; the last one moves to its place."""
        if slot != last:
            for s in range(last):
                self.gram[slot, s] = self.gram[last, s]
                self.gram[s, slot] = self.gram[s, last]
            self.gram[slot, slot] = self.gram[last, last]
            self.line[slot] = self.line[last]


def new_lines(kernel: Any, rows: np.ndarray, n_slots: int, cache_mb: float) -> ComputedLines:
    """Return an empty cache for as many points as there are slots."""
    n_lines = int(min(n_slots, max(_FEWEST_LINES, cache_mb * 2**20 / (8 * n_slots))))
    return ComputedLines(
        kernel=kernel,
        rows=rows,
        features=np.zeros((rows.shape[1], n_slots)),
        own=np.zeros(n_slots),
        lines=np.zeros((n_lines, n_slots)),
        line_of=np.full(n_slots, -1),
        owner=np.full(n_lines, -1),
        used=np.zeros(n_lines, np.int64),
        clock=np.zeros(1, np.int64),
    )
