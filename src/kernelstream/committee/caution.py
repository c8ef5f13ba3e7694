"""How far members are to be believed, against the mean of the targets.

On pure noise, what members say is worse than the mean of all targets so far, and so is any mixture
of them. So a mixed number f becomes ``m + s (f - m)``, where m is the mean of the targets before.
The share s is that of ridge regression towards one, plus one standard error, and at most one: a
committee is held back only by more evidence than chance explains::

    s = (sum d (y - m) + e) / (sum d^2 + e) + sqrt(e / (sum d^2 + e))    with    d = f - m

where e is the mean squared error, or that of the mean if it is smaller, and the sums forget.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compiled import helper

__all__ = ["Caution", "learn_caution", "new_caution", "share_believed"]


class Caution(NamedTuple):
    """What is remembered of targets, and of what members added to their mean."""

    count: Any  # (1,): weight of the rows so far
    mean: Any  # (1,): m
    counted: Any  # (1,): weight of the rows but for the first, of which nobody could know anything
    error: Any  # (2,): mean squared errors over these, of the committee and of the mean
    square: Any  # (1,): sum of d^2
    product: Any  # (1,): sum of d (y - m)


def new_caution() -> Caution:
    """Nothing is known yet, and members are believed."""
    return Caution(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(2), np.zeros(1), np.zeros(1))


@helper
def share_believed(state):
    """The share s of what members add to the mean."""
    error = min(state.error[0], state.error[1])
    if not error > 0.0:
        return 1.0
    evidence = state.square[0] + error
    share = (state.product[0] + error) / evidence + math.sqrt(error / evidence)
    return min(max(share, 0.0), 1.0)


@helper
def learn_caution(state, decay, mixed, error, y, weight):
    """Learn from a target, of which members said `mixed`, and the committee erred by `error`."""
    if state.count[0] > 0.0:
        apart, away = mixed - state.mean[0], y - state.mean[0]
        state.square[0] = decay * state.square[0] + weight * apart * apart
        state.product[0] = decay * state.product[0] + weight * apart * away
        state.counted[0] += weight
        rate = weight / state.counted[0]
        state.error[0] += rate * (error * error - state.error[0])
        state.error[1] += rate * (away * away - state.error[1])
    state.count[0] += weight
    state.mean[0] += weight / state.count[0] * (y - state.mean[0])
