"""Epsilon-insensitive loss, with a fixed margin or with nu (NORMA, section 3)."""

from typing import NamedTuple

from kernelstream.losses.clipping import share_of_step
from kernelstream.losses.registry import loss
from kernelstream.parts import SLACK


@loss("epsilon_insensitive", "regression", single_output=True, accepts_nu=True)
class EpsilonInsensitive(NamedTuple):
    """``l = max(0, |y - f| - margin)``: residuals inside the zone cost nothing.

    A row on the border of the zone is not a violation. With nu, a violation widens the zone.
    """

    def value(self, scores, y, margin):
        return max(0.0, abs(y - scores[0]) - margin)

    def gradient(self, scores, y, margin, xi):
        residual = y - scores[0]
        excess = abs(residual) - margin
        violated = excess > SLACK * (abs(margin) + abs(y) + abs(scores[0]))
        xi[0] = 0.0
        if violated:
            xi[0] = -1.0 if residual > 0.0 else 1.0
        return violated

    def margin_direction(self):
        return 1.0

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        residual = y - scores[0]
        size = abs(margin) + abs(y) + abs(scores[0])
        share = share_of_step(abs(residual) - margin, step, size)
        xi[0] = -share if residual > 0.0 else share

    def follow(self, y, margin, step, xi, dual, slope):
        if 0.0 < abs(xi[0]) < 1.0:  # the new score stays at the kink
            slope[0] = 0.0
