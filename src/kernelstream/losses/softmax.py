"""Multiclass logistic loss: equations (20)-(22), (37)-(38) and (44) of the SVMD paper."""

import math
from typing import NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.losses.registry import loss


@helper
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


@helper
def _solve_shifted(p, step, x):
    """Solve ``(I + step (diag(p) - p p^T)) z = x`` in place (Sherman and Morrison)."""
    along, total = 0.0, 0.0
    for k in range(x.shape[0]):
        weight = p[k] / (1.0 + step * p[k])
        along += weight * x[k]
        total += weight * p[k]
    factor = step * along / (1.0 - step * total)
    for k in range(x.shape[0]):
        x[k] = (x[k] + factor * p[k]) / (1.0 + step * p[k])


@loss(
    "log_loss", "classification", single_output=False, accepts_nu=False, has_margin=False,
    allocates=True,
)  # fmt: skip
class Softmax(NamedTuple):
    """``l = -f(x, y) + log sum exp f(x, .)``, y a label's index. Every row is a violation."""

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

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        # Newton's method on 1/2 |z - scores|^2 + step l(z), whose Hessian is diagonal plus rank
        # one. Steps that increase it are halved. Near the minimum the objective is constant up
        # to rounding, so the loop ends when the gradient stops shrinking. xi holds the
        # probabilities at z.
        label = int(y)
        n = scores.shape[0]
        z, move, trial = scores.copy(), np.zeros(n), np.zeros(n)
        value = step * (probabilities(z, xi) - z[label])
        before = np.inf
        for _ in range(200):
            largest, size = 0.0, 0.0
            for k in range(n):  # minus the gradient
                move[k] = scores[k] - z[k] - step * (xi[k] - (1.0 if k == label else 0.0))
                largest = max(largest, abs(move[k]))
                size = max(size, abs(scores[k] - z[k]))
            nearly = largest <= 1e-6 * (size + largest)
            if largest == 0.0 or (nearly and largest >= 0.5 * before):
                break
            before = largest
            _solve_shifted(xi, step, move)
            share = 1.0
            for _ in range(60):
                distance2 = 0.0
                for k in range(n):
                    trial[k] = z[k] + share * move[k]
                    distance2 += (trial[k] - scores[k]) ** 2
                new = 0.5 * distance2 + step * (probabilities(trial, xi) - trial[label])
                if new <= value + 1e-12 * abs(value):
                    break
                share *= 0.5
            value = new
            z[:] = trial
        xi[label] -= 1.0

    def follow(self, y, margin, step, xi, dual, slope):
        p = xi.copy()
        p[int(y)] += 1.0
        _solve_shifted(p, step, slope)
