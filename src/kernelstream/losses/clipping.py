"""The implicit steps of piecewise linear losses with a single kink, or with one per label."""

from kernelstream.compile import helper
from kernelstream.parts import SLACK

__all__ = ["share_of_step", "shared_step"]


@helper
def share_of_step(gap, step, size):
    """Return the share of a step, 0 to 1, that moves the score to a kink at `gap` (16).

    `size` is the magnitude of the numbers whose difference is the gap.
    """
    if gap <= SLACK * size:
        return 0.0
    if gap >= step:
        return 1.0
    return gap / step


@helper
def shared_step(scores, limit, label, step, xi):
    """Write the gradient of ``max(0, max of gaps)`` at the end of the implicit step.

    The gap of another label is how far its score exceeds `limit`; one of them must. The dual
    problem is to maximise ``p . gaps - step (|p|^2 + (sum p)^2) / 2`` over p >= 0, sum p <= 1.
    The labels with the largest gaps are active: p_k = (gap_k - level) / step, and the sum of p is
    level / step, or one. This makes the level the root of a convex function that falls, which
    Newton steps from below reach exactly: each leaves the labels out that are not above its level.
    """
    floor, level, total = 0.0, 0.0, 0.0
    active, capped = scores.shape[0], False
    while True:
        above, total_above = 0, 0.0
        for k in range(scores.shape[0]):
            gap = scores[k] - limit
            if k != label and gap > level:
                above += 1
                total_above += gap
        newly_capped = level > step and not capped
        # none is above where the level of a very small step has rounded to the largest gap
        if above == 0 or (above >= active and not newly_capped):
            break
        capped = capped or newly_capped
        floor, active, total = level, above, total_above
        level = (total - step) / active if capped else total / (1.0 + active)
    for k in range(scores.shape[0]):
        gap = scores[k] - limit
        if k == label or gap <= floor:
            continue
        if capped:  # (gap - level) / step, also for steps so small that level rounds to gap
            xi[k] = 1.0 / active + (gap - total / active) / step
        else:
            xi[k] = (gap - level) / step
        xi[label] -= xi[k]
    if capped:
        xi[label] = -1.0
