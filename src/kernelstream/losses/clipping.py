"""The implicit step of a piecewise linear loss with a single kink."""

from numba.extending import register_jitable

from kernelstream.parts import SLACK

__all__ = ["share_of_step"]


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
