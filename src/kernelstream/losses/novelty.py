"""One-class soft margin loss: equations (23)-(24) of the SVMD paper, (53) with nu."""

from typing import NamedTuple

from kernelstream.losses.clipping import share_of_step
from kernelstream.losses.registry import loss
from kernelstream.parts import SLACK


@loss("novelty", "novelty", single_output=True, accepts_nu=True)
class Novelty(NamedTuple):
    """``l = max(0, margin - f)``. At the kink ``f = margin`` the row is not a violation."""

    def value(self, scores, y, margin):
        return max(0.0, margin - scores[0])

    def gradient(self, scores, y, margin, xi):
        gap = margin - scores[0]
        violated = gap > SLACK * (abs(margin) + abs(scores[0]))
        xi[0] = -1.0 if violated else 0.0
        return violated

    def margin_direction(self):
        return -1.0

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        gap = margin - scores[0]
        xi[0] = -share_of_step(gap, step, abs(margin) + abs(scores[0]))

    def follow(self, y, margin, step, xi, dual, slope):
        if 0.0 < abs(xi[0]) < 1.0:  # the new score stays at the kink
            slope[0] = 0.0
