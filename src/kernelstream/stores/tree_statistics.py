"""Statistics of the leaves of growing trees, for classes and for numbers, and gains of splits."""

import math
from typing import NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import rule

__all__ = ["CLASS_COUNTS", "MOMENTS"]

# Sides without spread would gain without limit; rounding would decide how much.
_SMALLEST_SHARE = 1e-12


@helper
def _class_of(y):
    """Return labels are 0, 1, ...; or -1 and +1, where a model has a single output."""
    return int(y) if y > 0.0 else 0


_TABLE = np.array([0.0] + [n * math.log(n) for n in range(1, 1024)])  # most counts are small


@helper
def _x_log_x(x):
    if x < _TABLE.shape[0] and x == int(x):
        return _TABLE[int(x)]
    return x * math.log(x)


@rule
class ClassCounts(NamedTuple):
    """How often each class came: a column for each."""

    def side_type(self):
        """Return float32 for counts: half the memory, exact up to 16 million rows per leaf."""
        return np.float32

    def first_columns(self):
        return 1

    def columns_for(self, y):
        """Return how many columns there are once a target has been seen."""
        return _class_of(y) + 1

    def columns_of(self, y):
        """Return the columns that a target is written into: from, and up to."""
        return _class_of(y), _class_of(y) + 1

    def observe_leaf(self, own, node, y, weight):
        own[node, _class_of(y)] += weight

    def observe_side(self, sides, node, c, side, y, weight):
        sides[_class_of(y), node, c, side] += weight

    def gain_of(self, sides, node, c, n_columns):
        """Return n times the information gain of a split minus its cost, in nats."""
        gain, n_left, n_right = 0.0, 0.0, 0.0
        for k in range(n_columns):
            left, right = np.float64(sides[k, node, c, 0]), np.float64(sides[k, node, c, 1])
            n_left += left
            n_right += right
            gain += _x_log_x(left) + _x_log_x(right) - _x_log_x(left + right)
        gain += _x_log_x(n_left + n_right) - _x_log_x(n_left) - _x_log_x(n_right)
        return gain - 0.5 * (n_columns - 1)

    def hand_down(self, own, sides, node, c, side, child, n_columns):
        """Return the counts of a child: its side, and its parent's frequencies as one row."""
        total = 0.0
        for k in range(n_columns):
            total += own[node, k]
        for k in range(n_columns):
            own[child, k] = sides[k, node, c, side] + own[node, k] / total

    def add_leaf(self, own, node, n_columns, out):
        """Add the frequencies of a leaf."""
        total = 0.0
        for k in range(n_columns):
            total += own[node, k]
        if total > 0.0:
            for k in range(n_columns):
                out[k] += own[node, k] / total


@rule
class Moments(NamedTuple):
    """Numbers: the weight of all, their mean, and the sum of squares about it (Welford)."""

    def side_type(self):
        return np.float64

    def first_columns(self):
        return 3

    def columns_for(self, y):
        return 3

    def columns_of(self, y):
        return 0, 3

    def observe_leaf(self, own, node, y, weight):
        total = own[node, 0] + weight
        error = y - own[node, 1]
        own[node, 1] += error * (weight / total)
        own[node, 2] += weight * error * (y - own[node, 1])
        own[node, 0] = total

    def observe_side(self, sides, node, c, side, y, weight):
        total = sides[0, node, c, side] + weight
        error = y - sides[1, node, c, side]
        sides[1, node, c, side] += error * (weight / total)
        sides[2, node, c, side] += weight * error * (y - sides[1, node, c, side])
        sides[0, node, c, side] = total

    def gain_of(self, sides, node, c, n_columns):
        """Return ``n/2 log(SSE / SSE of the split) - log(n)/2``."""
        left, right = sides[0, node, c, 0], sides[0, node, c, 1]
        if left == 0.0 or right == 0.0:
            return 0.0
        n = left + right
        within = sides[2, node, c, 0] + sides[2, node, c, 1]
        apart = sides[1, node, c, 1] - sides[1, node, c, 0]
        total = within + left * (right / n) * apart * apart
        if not total > 0.0:
            return 0.0
        share = max(within / total, _SMALLEST_SHARE)
        return -0.5 * n * math.log(share) - 0.5 * math.log(n)

    def hand_down(self, own, sides, node, c, side, child, n_columns):
        """Return the sums of a child: its side, and its parent's mean as one row."""
        n, mean = sides[0, node, c, side], sides[1, node, c, side]
        apart = own[node, 1] - mean
        own[child, 0] = n + 1.0
        own[child, 1] = mean + apart / (n + 1.0)
        own[child, 2] = sides[2, node, c, side] + n / (n + 1.0) * apart * apart

    def add_leaf(self, own, node, n_columns, out):
        """Add the mean of a leaf."""
        out[0] += own[node, 1]


CLASS_COUNTS, MOMENTS = ClassCounts(), Moments()
