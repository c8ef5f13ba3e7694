"""How far members are to be believed, against the mean of the targets.

On pure noise, what members say is worse than the mean of all targets so far, and so is any mixture
of them. So a mixed number f becomes ``m + s (f - m)``, where m is the mean of the targets before.
The share s is that of ridge regression towards one, plus one standard error, and at most one: a
committee is held back only by more evidence than chance explains::

    s = (sum d (y - m) + e) / (sum d^2 + e) + sqrt(e / (sum d^2 + e))    with    d = f - m

where e is the mean squared error, or that of the mean if it is smaller, and the sums forget. A few
wrong targets may not decide for long: from row 16 on, y - m and d count as at most ten standard
deviations of the targets.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper

__all__ = ["Caution", "learn_caution", "new_caution", "share_believed"]


_TRUSTED_ROWS = 16.0
_FARTHEST = 10.0  # standard deviations
_MEMORY = 1000.0  # rows, of errors


class Caution(NamedTuple):
    """What is remembered of targets, and of what members added to their mean."""

    count: Any  # (1,): weight of the rows so far
    mean: Any  # (1,): m
    counted: Any  # (1,): weight of the rows but for the first, of which nobody could know anything
    error: Any  # (2,): mean squared errors over these, of the committee and of the mean
    square: Any  # (1,): sum of d^2
    product: Any  # (1,): sum of d (y - m)


def new_caution() -> Caution:
    """Return the state before any row, in which members are trusted."""
    count, mean, counted, square, product = np.zeros((5, 1))
    return Caution(count, mean, counted, np.zeros(2), square, product)


@helper
def share_believed(state):
    """Return the share s of what members add to the mean."""
    error = min(state.error[0], state.error[1])
    if not error > 0.0:
        return 1.0
    evidence = state.square[0] + error
    share = (state.product[0] + error) / evidence + math.sqrt(error / evidence)
    return min(max(share, 0.0), 1.0)


@helper
def _limited(state, away):
    """Return a distance from the mean as it counts."""
    if state.count[0] < _TRUSTED_ROWS or state.error[1] <= 0.0:
        return away
    most = _FARTHEST * math.sqrt(state.error[1])
    return min(max(away, -most), most)


@helper
def learn_caution(state, decay, mixed, error, y, weight):
    """Learn from a target, of which members said `mixed`, and the committee erred by `error`."""
    away = _limited(state, y - state.mean[0])
    if state.count[0] > 0.0:
        apart = _limited(state, mixed - state.mean[0])
        state.square[0] = decay * state.square[0] + weight * apart * apart
        state.product[0] = decay * state.product[0] + weight * apart * away
        state.counted[0] += weight
        rate = weight / min(state.counted[0], max(_MEMORY, weight))
        state.error[0] += rate * (error * error - state.error[0])
        state.error[1] += rate * (away * away - state.error[1])
    state.count[0] += weight
    state.mean[0] += weight / state.count[0] * away
