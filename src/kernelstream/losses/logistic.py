"""Binary logistic loss: equations (18)-(19), (36) and (43) of the SVMD paper."""

import math
from typing import NamedTuple

from kernelstream.losses.registry import loss


@loss("log_loss", "classification", single_output=True, accepts_nu=False, has_margin=False)
class Logistic(NamedTuple):
    """``l = log(1 + exp(-y f))`` with y = -1 or +1. It has no margin: every row is a violation."""

    def value(self, scores, y, margin):
        z = y * scores[0]
        return max(0.0, -z) + math.log1p(math.exp(-abs(z)))  # the argument of exp is never positive

    def gradient(self, scores, y, margin, xi):
        z = y * scores[0]
        if z >= 0.0:
            e = math.exp(-z)
            xi[0] = -y * e / (1.0 + e)
        else:
            xi[0] = -y / (1.0 + math.exp(z))
        return True

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        e = math.exp(-abs(scores[0]))
        rho = e / ((1.0 + e) * (1.0 + e))  # (36), the same for both signs of y f
        product[0] = rho * direction[0]
        return rho

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        # u = y f solves u = u0 + step / (1 + exp(u)); the right side decreases: one root, bracketed
        start = y * scores[0]
        low, high = start, start + step
        u = min(max(start, 0.0), high)
        for _ in range(100):
            e = math.exp(-abs(u))
            share = e / (1.0 + e) if u >= 0.0 else 1.0 / (1.0 + e)  # 1 / (1 + exp(u))
            excess = u - start - step * share
            if excess > 0.0:
                high = u
            else:
                low = u
            if abs(excess) <= 1e-15 * (abs(u) + abs(start)) or high - low <= 1e-15 * abs(u):
                break
            u -= excess / (1.0 + step * e / ((1.0 + e) * (1.0 + e)))  # Newton
            if not low < u < high:
                u = 0.5 * (low + high)
        e = math.exp(-abs(u))
        xi[0] = -y * (e / (1.0 + e) if u >= 0.0 else 1.0 / (1.0 + e))

    def follow(self, y, margin, step, xi, dual, slope):
        p = abs(xi[0])
        slope[0] /= 1.0 + step * p * (1.0 - p)
