"""Huber's robust loss; with nu its zone adapts, like a trimmed mean (NORMA, section 3)."""

from typing import NamedTuple

from kernelstream.losses.registry import loss
from kernelstream.parts import SLACK


@loss("huber", "regression", single_output=True, accepts_nu=True, needs_positive_margin=True)
class Huber(NamedTuple):
    """``l = (y - f)^2 / (2 margin)`` inside the zone, ``|y - f| - margin / 2`` outside.

    A residual outside the zone is a violation; the border belongs to the zone. If the zone is
    empty, the loss is its limit, the absolute loss.
    """

    def value(self, scores, y, margin):
        residual = abs(y - scores[0])
        if residual >= margin:
            return residual - 0.5 * margin
        return 0.5 * residual * residual / margin

    def gradient(self, scores, y, margin, xi):
        residual = y - scores[0]
        violated = abs(residual) - margin > SLACK * (abs(margin) + abs(y) + abs(scores[0]))
        if abs(residual) < margin:
            xi[0] = -residual / margin
        elif residual > 0.0:
            xi[0] = -1.0
        elif residual < 0.0:
            xi[0] = 1.0
        else:
            xi[0] = 0.0
        return violated

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        rho = 0.0
        if abs(y - scores[0]) < margin:
            rho = 1.0 / margin
        product[0] = rho * direction[0]
        return rho

    def margin_direction(self):
        return 1.0

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        residual = y - scores[0]
        zone = max(margin, 0.0)
        if abs(residual) >= zone + step:
            xi[0] = -1.0 if residual > 0.0 else 1.0
            if residual == 0.0:
                xi[0] = 0.0
        else:
            xi[0] = -residual / (zone + step)

    def follow(self, y, margin, step, xi, dual, slope):
        zone = max(margin, 0.0)
        if abs(xi[0]) < 1.0 and zone + step > 0.0:
            slope[0] *= zone / (zone + step)
