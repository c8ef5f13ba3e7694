"""Sudden changes of the level or the scale of targets, and outliers that are none.

A target farther than five standard deviations from the mean may be wrong, or the first of a new
level. As long as that is open, the statistics of the targets do not move far, and the target is
learned with little effect. If 32 more targets are far than near, the statistics begin again from
these. The model then goes on in the new units, with all that it knows. For 1,000 rows it is
remembered what the targets were like before: if they return, eight rows show it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import LARGEST_SQUARE, Field, rule

__all__ = [
    "CHANGED",
    "COUNTS",
    "LEFT_OUT",
    "Breaks",
    "NoBreaks",
    "breaks_of",
    "deviation",
    "faint",
    "new_breaks",
]

# What becomes of a target: it counts in the statistics, or not, or these are now others.
COUNTS, LEFT_OUT, CHANGED = 0, 1, 2

# A feature whose standard deviation is less than this part of its mean is constant: rounding leaves
# about 1e-16 of the mean where all values are the same.
_CONSTANT = 1e-12
_TRUSTED_ROWS = 20
_FAR = 5.0  # standard deviations
_OPEN = 8.0  # more targets far than near: statistics wait for what follows
_DECIDED = 32.0
_RETURNED = 8.0  # to what is known
_REMEMBERED = 1000  # rows after a change
_LEAST_UNIT = 1e-3  # of the unit before, where all new targets are alike


@helper
def deviation(square, n, mean):
    """Return the standard deviation, or zero where it is that of rounding."""
    sd = math.sqrt(square / n)
    return sd if sd > _CONSTANT * abs(mean) else 0.0


@helper
def faint(away, most):
    """Return a distance as it is learned: the farther beyond the limit, the less it says."""
    if abs(away) <= most:
        return away
    return math.copysign(most * math.sqrt(most / abs(away)), away)


@helper
def _likelihood(away, sd):
    """Return the logarithm of a normal density, constant beyond five deviations."""
    z = min(abs(away) / sd, _FAR)
    return -0.5 * z * z - math.log(sd)


@rule
class NoBreaks(NamedTuple):
    """Of features: nothing is looked for."""

    def n_before(self):
        """Return how many rows had come before those that the statistics are of."""
        return 0

    def judge(self, mean, square, n_rows, y):
        """Return the target after clipping, before it is counted."""
        return COUNTS


@rule
class Breaks(NamedTuple):
    """Of targets: their statistics before the last change, and those of what may be the next."""

    before: Any  # rows before those that the present statistics are of
    n_old: Any
    mean_old: Any
    square_old: Any  # the sum of squared deviations from the mean
    for_old: Any  # how much speaks for a return to these
    n_new: Any
    mean_new: Any
    square_new: Any
    for_new: Any  # how much speaks for a change

    def n_before(self):
        return self.before[0]

    def judge(self, mean, square, n_rows, y):
        n = n_rows[0] - self.before[0]
        if n < _TRUSTED_ROWS:
            return COUNTS
        sd = deviation(square[0], n, mean[0])
        if sd == 0.0:  # what was constant may become anything
            return COUNTS
        if not self.looks_old(y, y - mean[0], sd) and abs(y - mean[0]) > _FAR * sd:
            self.n_new[0] += 1
            away = y - self.mean_new[0]
            share = away / self.n_new[0]
            self.mean_new[0] += share
            self.square_new[0] += share * away * (self.n_new[0] - 1)
            self.for_new[0] += 1.0
        else:
            self.for_new[0] = max(self.for_new[0] - 1.0, 0.0)
            if self.for_new[0] == 0.0:
                self.forget_new()
        if n > _REMEMBERED:
            self.n_old[0] = 0
            self.for_old[0] = 0.0
        if self.for_new[0] >= _DECIDED:
            least = _LEAST_UNIT * sd
            least_square = least * least * self.n_new[0]
            n_next, mean_next = self.n_new[0], self.mean_new[0]
            square_next = max(self.square_new[0], least_square)
            self.n_old[0], self.mean_old[0], self.square_old[0] = n, mean[0], square[0]
        elif self.for_old[0] >= _RETURNED:
            n_next, mean_next, square_next = self.n_old[0], self.mean_old[0], self.square_old[0]
            self.n_old[0] = 0
        else:
            return LEFT_OUT if self.for_new[0] > _OPEN else COUNTS
        self.before[0] = n_rows[0] - n_next
        mean[0], square[0] = mean_next, square_next
        self.for_old[0] = 0.0
        self.for_new[0] = 0.0
        self.forget_new()
        return CHANGED

    def looks_old(self, y, away, sd):
        """Return whether a target is as those before the last change were."""
        if self.n_old[0] == 0:
            return False
        sd_old = deviation(self.square_old[0], self.n_old[0], self.mean_old[0])
        if sd_old == 0.0:
            return False
        away_old = y - self.mean_old[0]
        gain = _likelihood(away_old, sd_old) - _likelihood(away, sd)
        self.for_old[0] = max(self.for_old[0] + min(max(gain, -1.0), 1.0), 0.0)
        return abs(away_old) <= _FAR * sd_old

    def forget_new(self):
        """Begin anew to look for a change."""
        self.n_new[0] = 0
        self.mean_new[0] = 0.0
        self.square_new[0] = 0.0


def new_breaks() -> Breaks:
    """Return a record of its own, of no targets yet."""
    counts, evidence, moments = np.zeros((3, 1), np.int64), np.zeros((2, 1)), np.zeros((4, 1))
    return Breaks(
        counts[0], counts[1], moments[0], moments[1], evidence[0], counts[2], moments[2],
        moments[3], evidence[1],
    )  # fmt: skip


def breaks_of(axis: str) -> Breaks | NoBreaks:
    """Return the fields of the record: targets have one, features do not."""
    if axis != "one":
        return NoBreaks()
    count, square = Field((), 0, int), Field((), 0.0, least=0.0, largest=LARGEST_SQUARE)
    evidence, mean = Field((), 0.0, least=0.0), Field((), 0.0)
    return Breaks(count, count, mean, square, evidence, count, mean, square, evidence)
