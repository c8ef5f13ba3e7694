"""Soft margin loss on structured label domains: equations (25)-(26) of the SVMD paper."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.losses.clipping import share_of_step, shared_step
from kernelstream.losses.registry import loss
from kernelstream.losses.runner_up import structured_runner_up
from kernelstream.parts import SLACK

# Largest number of pairs in an exact implicit step. It is enough for the labels that compete once a
# model has learned something. At first all labels tie, and an exact minimum is not worth more.
_MOST_PAIRS = 1000
_ROUNDING = 2e-15  # labels this close, relative to their scores, are level


@loss(
    "hinge", "classification", single_output=False, accepts_nu=True, structured=True,
    allocates=True,
)  # fmt: skip
class GraphHinge(NamedTuple):
    """``l = max(0, max over other labels of [margin Delta(y, .) + f(x, .)] - f(x, y))``.

    Scores are the outputs of a model with a label structure; `labels` makes them the scores of the
    labels. At the kink the row is not a violation. The first of several runners-up counts.
    """

    labels: Any

    def value(self, scores, y, margin):
        label = int(y)
        ahead, other = structured_runner_up(self.labels, scores, label, margin)
        return max(0.0, ahead[other] - ahead[label])

    def gradient(self, scores, y, margin, xi):
        return self.value_and_gradient(scores, y, margin, xi)[1]

    def value_and_gradient(self, scores, y, margin, xi):
        label = int(y)
        xi[:] = 0.0
        ahead, other = structured_runner_up(self.labels, scores, label, margin)
        gap = ahead[other] - ahead[label]
        violated = gap > SLACK * (abs(margin) + abs(ahead[other]) + abs(ahead[label]))
        if violated:
            self.labels.separate(other, label, 1.0, xi)
        return max(0.0, gap), violated

    def margin_direction(self):
        return -1.0

    def n_touched(self):
        return self.labels.n_touched()

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        # xi = B^T (q - e_y) with q in the simplex. It is optimal if no label is ahead of those in q
        # at ``scores - step xi``. `dual` holds q.
        label = int(y)
        n = self.labels.n_labels()
        xi[:] = 0.0
        dual[:] = 0.0
        dual[label] = 1.0
        ahead, other = structured_runner_up(self.labels, scores, label, margin)
        if not exact:  # the paper's y* is the best of Delta + f_t, before the decay (18)
            _, other = structured_runner_up(self.labels, now, label, margin)
        size = abs(margin) + abs(ahead[other]) + abs(ahead[label])
        if share_of_step(ahead[other] - ahead[label], step, size) == 0.0:
            return
        if exact and self.labels.is_plain():
            shared_step(ahead, ahead[label], label, step, xi)
            for k in range(n):
                dual[k] = xi[k]
            dual[label] = 1.0 + xi[label]
            return
        # Weight moves from the label in q that is furthest behind to the label that is furthest
        # ahead; the first such pair is the whole step of the paper (18).
        z = scores.copy()
        behind = label
        for _ in range(_MOST_PAIRS if exact else 1):
            gap = ahead[other] - ahead[behind]
            if gap <= _ROUNDING * size:
                break
            curvature = step * self.labels.separate(other, behind, 0.0, z)
            moved = dual[behind]
            if gap < curvature * moved:
                moved = gap / curvature
                dual[behind] -= moved
            else:
                dual[behind] = 0.0
            dual[other] += moved
            self.labels.separate(other, behind, moved, xi)
            self.labels.separate(other, behind, -step * moved, z)
            self.labels.label_scores(z, label, margin, ahead)
            other, behind = 0, -1
            for k in range(n):
                if ahead[k] > ahead[other]:
                    other = k
                if dual[k] > 0.0 and (behind < 0 or ahead[k] < ahead[behind]):
                    behind = k

    def follow(self, y, margin, step, xi, dual, slope):
        # The labels in q stay level: the components of the slope that separate them are removed.
        n, first, active = slope.shape[0], -1, 0
        for k in range(self.labels.n_labels()):
            if dual[k] > 0.0:
                active += 1
                if first < 0:
                    first = k
        if active < 2:
            return
        basis = np.zeros((active - 1, n))
        size = 0
        for k in range(first + 1, self.labels.n_labels()):
            if dual[k] == 0.0:
                continue
            line = basis[size]
            before = self.labels.separate(k, first, 1.0, line)
            for _ in range(2):  # the second time removes the rounding errors of the first
                for m in range(size):
                    along = 0.0
                    for j in range(n):
                        along += basis[m, j] * line[j]
                    for j in range(n):
                        line[j] -= along * basis[m, j]
            norm2, along = 0.0, 0.0
            for j in range(n):
                norm2 += line[j] * line[j]
                along += line[j] * slope[j]
            if norm2 <= SLACK * before:  # linearly dependent on the others
                line[:] = 0.0
                continue
            for j in range(n):
                slope[j] -= along / norm2 * line[j]
                line[j] /= np.sqrt(norm2)
            size += 1
