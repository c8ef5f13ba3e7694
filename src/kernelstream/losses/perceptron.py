"""Perceptron losses: the hinge loss, by default with margin zero (NORMA, section 3)."""

from typing import Any, NamedTuple

from kernelstream.losses.registry import loss
from kernelstream.losses.runner_up import runner_up, structured_runner_up
from kernelstream.parts import SLACK


@loss(
    "perceptron", "classification", single_output=True, accepts_nu=False, accepts_implicit=False,
    default_margin=0.0,
)  # fmt: skip
class Perceptron(NamedTuple):
    """``l = max(0, margin - y f)`` with y = -1 or +1, and margin zero unless the update has one.

    At the kink the row counts as a mistake: otherwise a model that starts at zero would never
    change. With step size one and no regularization this is the perceptron: ``f <- f + y k(x, .)``
    if ``y f(x) <= 0``, and no change otherwise.

    Rosenblatt, Psychological Review 65, 1958; Freund, Schapire: Large Margin Classification Using
    the Perceptron Algorithm, Machine Learning 37, 1999.
    """

    def value(self, scores, y, margin):
        return max(0.0, margin - y * scores[0])

    def gradient(self, scores, y, margin, xi):
        mistaken = y * scores[0] - margin <= SLACK * (1.0 + margin)
        xi[0] = -y if mistaken else 0.0
        return mistaken


@loss(
    "perceptron", "classification", single_output=False, accepts_nu=False, accepts_implicit=False,
    default_margin=0.0,
)  # fmt: skip
class MulticlassPerceptron(NamedTuple):
    """``l = max(0, margin + max over other labels of f(x, .) - f(x, y))``; a tie is a mistake."""

    def value(self, scores, y, margin):
        other = runner_up(scores, int(y))
        if other < 0:
            return 0.0
        return max(0.0, margin + scores[other] - scores[int(y)])

    def gradient(self, scores, y, margin, xi):
        label = int(y)
        xi[:] = 0.0
        other = runner_up(scores, label)
        if other < 0:
            return False
        size = 1.0 + abs(scores[label]) + abs(scores[other])
        mistaken = scores[label] - scores[other] - margin <= SLACK * (size + margin)
        if mistaken:
            xi[label] = -1.0
            xi[other] = 1.0
        return mistaken

    def n_touched(self):
        return 2


@loss(
    "perceptron", "classification", single_output=False, accepts_nu=False, accepts_implicit=False,
    structured=True, default_margin=0.0, allocates=True,
)  # fmt: skip
class StructuredPerceptron(NamedTuple):
    """The multiclass perceptron with a label kernel; it does not use distances."""

    labels: Any

    def value(self, scores, y, margin):
        label = int(y)
        at, other = structured_runner_up(self.labels, scores, label, 0.0)
        return max(0.0, at[other] - at[label])

    def gradient(self, scores, y, margin, xi):
        label = int(y)
        xi[:] = 0.0
        at, other = structured_runner_up(self.labels, scores, label, 0.0)
        mistaken = at[label] - at[other] <= SLACK * (1.0 + abs(at[label]) + abs(at[other]))
        if mistaken:
            self.labels.separate(other, label, 1.0, xi)
        return mistaken

    def n_touched(self):
        return self.labels.n_touched()
