"""Squared loss (NORMA, section 3: the coefficient of a new point is eta times the residual)."""

from typing import NamedTuple

from kernelstream.losses.registry import loss


@loss("squared_error", "regression", single_output=True, accepts_nu=False, has_margin=False)
class Squared(NamedTuple):
    """``l = (y - f)^2 / 2``. Every row is a violation."""

    def value(self, scores, y, margin):
        return 0.5 * (y - scores[0]) ** 2

    def gradient(self, scores, y, margin, xi):
        xi[0] = scores[0] - y
        return True

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        product[0] = direction[0]
        return 1.0

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        xi[0] = (scores[0] - y) / (1.0 + step)

    def follow(self, y, margin, step, xi, dual, slope):
        slope[0] /= 1.0 + step
