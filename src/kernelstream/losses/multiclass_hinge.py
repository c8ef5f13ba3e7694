"""Multiclass soft margin loss: equations (16)-(17) of the SVMD paper."""

from typing import NamedTuple

from kernelstream.losses.clipping import share_of_step, shared_step
from kernelstream.losses.registry import loss
from kernelstream.losses.runner_up import runner_up
from kernelstream.parts import SLACK


@loss("hinge", "classification", single_output=False, accepts_nu=True)
class MulticlassHinge(NamedTuple):
    """``l = max(0, margin + max over other labels of f(x, .) - f(x, y))``, y a label's index.

    At the kink the row is not a violation and the gradient is zero. If there are several
    runners-up, the one with the lowest index counts. With a single label the loss is zero.
    """

    def value(self, scores, y, margin):
        other = runner_up(scores, int(y))
        if other < 0:
            return 0.0
        return max(0.0, margin + scores[other] - scores[int(y)])

    def gradient(self, scores, y, margin, xi):
        return self.value_and_gradient(scores, y, margin, xi)[1]

    def value_and_gradient(self, scores, y, margin, xi):
        label = int(y)
        xi[:] = 0.0
        other = runner_up(scores, label)
        if other < 0:
            return 0.0, False
        gap = margin + scores[other] - scores[label]
        violated = gap > SLACK * (abs(margin) + abs(scores[other]) + abs(scores[label]))
        if violated:
            xi[label] = -1.0
            xi[other] = 1.0
        return max(0.0, gap), violated

    def margin_direction(self):
        return -1.0

    def n_touched(self):
        return 2

    def proximal(self, scores, now, y, margin, step, exact, xi, dual):
        label = int(y)
        xi[:] = 0.0
        # the rule of the paper uses one runner-up, that of the scores before the decay (18); it can
        # differ from that after the decay if there is an intercept, which is not decayed
        other = runner_up(scores if exact else now, label)
        if other < 0:
            return
        size = abs(margin) + abs(scores[other]) + abs(scores[label])
        if not exact:
            share = share_of_step(margin + scores[other] - scores[label], 2.0 * step, size)
            xi[other] = min(share, 1.0)
            xi[label] = -xi[other]
            return
        if share_of_step(margin + scores[other] - scores[label], step, size) == 0.0:
            return
        shared_step(scores, scores[label] - margin, label, step, xi)

    def follow(self, y, margin, step, xi, dual, slope):
        # Active labels stay level with each other, and with the true one unless the step is capped.
        label = int(y)
        total, active = 0.0, 0
        for k in range(xi.shape[0]):
            if k != label and xi[k] > 0.0:
                total += slope[k]
                active += 1
        if active == 0:
            return
        pinned = xi[label] > -1.0
        if pinned:
            total += slope[label]
            active += 1
        for k in range(xi.shape[0]):
            if (k != label and xi[k] > 0.0) or (k == label and pinned):
                slope[k] = total / active
