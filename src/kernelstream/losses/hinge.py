"""Binary soft margin loss: equations (14)-(15) of the SVMD paper."""

from typing import NamedTuple

from kernelstream.losses.clipping import share_of_step
from kernelstream.losses.registry import loss
from kernelstream.parts import SLACK


@loss("hinge", "classification", single_output=True, accepts_nu=True)
class Hinge(NamedTuple):
    """``l = max(0, margin - y f)`` with y = -1 or +1.

    At the kink ``y f = margin`` the row is not a violation and the gradient is zero.
    """

    def value(self, scores, y, margin):
        return max(0.0, margin - y * scores[0])

    def gradient(self, scores, y, margin, xi):
        gap = margin - y * scores[0]
        violated = gap > SLACK * (abs(margin) + abs(scores[0]))
        xi[0] = -y if violated else 0.0
        return violated

    def margin_direction(self):
        return -1.0

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        gap = margin - y * scores[0]
        xi[0] = -y * share_of_step(gap, step, abs(margin) + abs(scores[0]))

    def follow(self, y, margin, step, xi, dual, slope):
        if 0.0 < abs(xi[0]) < 1.0:  # the new score stays at the kink
            slope[0] = 0.0
