"""Multiclass logistic loss with a label kernel: (20)-(22), where scores are those of (63)."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.losses.registry import loss
from kernelstream.losses.softmax import probabilities


@helper(allocates=True)
def _probabilities_of(labels, outputs):
    """Return the probability p(y|x) of every label (22)."""
    p = np.empty(labels.n_labels())
    labels.label_scores(outputs, 0, 0.0, p)
    probabilities(p, p)
    return p


@helper(allocates=True)
def _hessian_product(labels, p, direction, product):
    """Write ``B^T (diag(p) - p p^T) B direction``."""
    slopes = np.empty(p.shape[0])
    labels.label_scores(direction, 0, 0.0, slopes)
    mean = 0.0
    for k in range(p.shape[0]):
        mean += p[k] * slopes[k]
    for k in range(p.shape[0]):
        slopes[k] = p[k] * (slopes[k] - mean)
    labels.pull_back(slopes, product)


@helper(allocates=True)
def _solve_shifted(labels, p, step, x):
    """Solve ``(I + step B^T (diag(p) - p p^T) B) z = x`` in place by conjugate gradients."""
    n = x.shape[0]
    rest, direction, product = x.copy(), x.copy(), np.empty(n)
    x[:] = 0.0
    rest2 = 0.0
    for j in range(n):
        rest2 += rest[j] * rest[j]
    enough = 1e-30 * rest2
    for _ in range(2 * n + 20):
        if rest2 <= enough or rest2 == 0.0:
            break
        _hessian_product(labels, p, direction, product)
        bent = 0.0
        for j in range(n):
            product[j] = direction[j] + step * product[j]
            bent += direction[j] * product[j]
        share, before = rest2 / bent, rest2
        rest2 = 0.0
        for j in range(n):
            x[j] += share * direction[j]
            rest[j] -= share * product[j]
            rest2 += rest[j] * rest[j]
        for j in range(n):
            direction[j] = rest[j] + rest2 / before * direction[j]


@loss(
    "log_loss", "classification", single_output=False, accepts_nu=False, structured=True,
    has_margin=False, allocates=True,
)  # fmt: skip
class StructuredSoftmax(NamedTuple):
    """``l = -f(x, y) + log sum exp f(x, .)``, with f made of the outputs by a label structure."""

    labels: Any

    def value(self, scores, y, margin):
        p = np.empty(self.labels.n_labels())
        self.labels.label_scores(scores, 0, 0.0, p)
        own = p[int(y)]
        return max(0.0, probabilities(p, p) - own)

    def gradient(self, scores, y, margin, xi):
        p = _probabilities_of(self.labels, scores)
        p[int(y)] -= 1.0
        self.labels.pull_back(p, xi)
        return True

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        p = _probabilities_of(self.labels, scores)
        # the largest eigenvalue is at most the trace, sum_k p_k |B_k|^2 - |B^T p|^2
        self.labels.pull_back(p, product)
        trace = 0.0
        for k in range(p.shape[0]):
            trace += p[k] * self.labels.kernel_diagonal(k)
        for j in range(product.shape[0]):
            trace -= product[j] * product[j]
        _hessian_product(self.labels, p, direction, product)
        return max(trace, 0.0)

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        # Newton's method on 1/2 |z - scores|^2 + step l(z), as for plain labels; the linear system
        # is solved by conjugate gradients. `dual` holds the probabilities.
        label, n = int(y), scores.shape[0]
        n_labels = self.labels.n_labels()
        z, move, trial = scores.copy(), np.zeros(n), np.zeros(n)
        at, p = np.empty(n_labels), np.empty(n_labels)
        self.labels.label_scores(z, 0, 0.0, at)
        value = step * (probabilities(at, p) - at[label])
        before = np.inf
        for _ in range(200):
            p[label] -= 1.0
            self.labels.pull_back(p, xi)
            p[label] += 1.0
            largest, size = 0.0, 0.0
            for j in range(n):  # minus the gradient
                move[j] = scores[j] - z[j] - step * xi[j]
                largest = max(largest, abs(move[j]))
                size = max(size, abs(scores[j] - z[j]))
            nearly = largest <= 1e-6 * (size + largest)
            if largest == 0.0 or (nearly and largest >= 0.5 * before):
                break
            before = largest
            _solve_shifted(self.labels, p, step, move)
            share = 1.0
            for _ in range(60):
                distance2 = 0.0
                for j in range(n):
                    trial[j] = z[j] + share * move[j]
                    distance2 += (trial[j] - scores[j]) ** 2
                self.labels.label_scores(trial, 0, 0.0, at)
                new = 0.5 * distance2 + step * (probabilities(at, p) - at[label])
                if new <= value + 1e-12 * abs(value):
                    break
                share *= 0.5
            value = new
            z[:] = trial
        for k in range(n_labels):
            dual[k] = p[k]

    def follow(self, y, margin, step, xi, dual, slope):
        _solve_shifted(self.labels, dual[: self.labels.n_labels()], step, slope)
