"""The implicit steps of piecewise linear losses: with a single kink, and with one a label."""

import numpy as np
from numba.extending import register_jitable

from kernelstream.parts import SLACK

__all__ = ["share_of_step", "sorted_step"]


@register_jitable
def share_of_step(gap, step, size):
    """How much of a whole step brings the score to the kink that is `gap` away: 0 to 1, (16).

    `size` is the size of the numbers whose difference the gap is.
    """
    if gap <= SLACK * size:
        return 0.0
    if gap >= step:
        return 1.0
    return gap / step


@register_jitable
def sorted_step(gaps, label, step, xi):
    """Write the gradient of ``max(0, max of gaps)`` where the implicit step arrives.

    A label's gap is how far it is ahead of where it may be. The dual: maximise
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
        if capped:  # (gap - level) / step, for steps so small that level and gap look the same
            xi[k] = 1.0 / active + (gaps[k] - total / active) / step
        else:
            xi[k] = (gaps[k] - level) / step
        xi[label] -= xi[k]
    if capped:
        xi[label] = -1.0
