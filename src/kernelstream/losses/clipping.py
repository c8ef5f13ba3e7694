"""The implicit steps of piecewise linear losses with a single kink, or with one per label."""

import numpy as np

from kernelstream.compiled import helper
from kernelstream.parts import SLACK

__all__ = ["share_of_step", "sorted_step"]


@helper
def share_of_step(gap, step, size):
    """The share of a whole step, 0 to 1, that moves the score to the kink at distance `gap` (16).

    `size` is the magnitude of the numbers whose difference is the gap.
    """
    if gap <= SLACK * size:
        return 0.0
    if gap >= step:
        return 1.0
    return gap / step


@helper(allocates=True)
def sorted_step(gaps, label, step, xi):
    """Write the gradient of ``max(0, max of gaps)`` at the end of the implicit step.

    The gap of a label is how far its score exceeds its limit. The dual problem is to maximise
    ``p . gaps - step (|p|^2 + (sum p)^2) / 2`` over p >= 0, sum p <= 1. The labels with the largest
    gaps are active: p_k = (gap_k - level) / step, and the sum of p is level / step, or one.
    """
    gaps[label] = -np.inf
    order = np.argsort(-gaps)
    total, level, active = 0.0, 0.0, 0
    capped = False
    for rank in range(order.shape[0] - 1):
        gap = gaps[order[rank]]
        if rank > 0 and gap <= level:
            break
        total += gap
        active += 1
        level = total / (1.0 + active)
        capped = level > step
        if capped:
            level = (total - step) / active
    for rank in range(active):
        k = order[rank]
        if capped:  # (gap - level) / step, also for steps so small that level rounds to gap
            xi[k] = 1.0 / active + (gaps[k] - total / active) / step
        else:
            xi[k] = (gaps[k] - level) / step
        xi[label] -= xi[k]
    if capped:
        xi[label] = -1.0
