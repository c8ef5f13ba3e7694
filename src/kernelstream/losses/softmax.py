"""Multiclass logistic loss: equations (20)-(22), (37)-(38) and (44) of the SVMD paper."""

import math
from typing import NamedTuple

from numba.extending import register_jitable

from kernelstream.losses.registry import loss


@register_jitable
def probabilities(scores, p):
    """Write ``p(y|x) = exp f(x, y) / sum exp f(x, .)`` (22) into `p`; return log of the sum."""
    largest = scores[0]
    for k in range(1, scores.shape[0]):
        largest = max(largest, scores[k])
    total = 0.0
    for k in range(scores.shape[0]):
        p[k] = math.exp(scores[k] - largest)
        total += p[k]
    for k in range(scores.shape[0]):
        p[k] /= total
    return largest + math.log(total)


@loss("log_loss", "classification", single_output=False, accepts_nu=False)
class Softmax(NamedTuple):
    """``l = -f(x, y) + log sum exp f(x, .)``, y a label's index. Every row is a violation."""

    unused: bool = False

    def value(self, scores, y, margin):
        largest = scores[0]
        for k in range(1, scores.shape[0]):
            largest = max(largest, scores[k])
        total = 0.0
        for k in range(scores.shape[0]):
            total += math.exp(scores[k] - largest)
        return max(0.0, largest - scores[int(y)] + math.log(total))

    def gradient(self, scores, y, margin, xi):
        probabilities(scores, xi)
        xi[int(y)] -= 1.0
        return True

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        probabilities(scores, product)
        mean = 0.0
        largest = 0.0
        for k in range(scores.shape[0]):
            mean += product[k] * direction[k]
            largest = max(largest, product[k] * (1.0 - product[k]))
        for k in range(scores.shape[0]):
            product[k] *= direction[k] - mean  # diag(p) - p p^T, (38)
        return 2.0 * largest  # Gershgorin's bound on the largest eigenvalue

    def margin_direction(self):
        return 0.0
