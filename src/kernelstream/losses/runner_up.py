"""The best label other than the true one, y* in equations (16)-(17)."""

import math

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import SLACK


@helper
def runner_up(scores, label):
    """Return the index of the highest score except that of `label`; near-ties: the lowest index.

    It is -1 if there is no other label.
    """
    # Without branches, which a processor would guess wrong at every other row.
    n, highest, largest = scores.shape[0], -math.inf, 0.0
    for candidate in range(n):
        largest = max(largest, abs(scores[candidate]))
        highest = max(highest, scores[candidate] if candidate != label else -math.inf)
    nearly, best = highest - SLACK * largest, n
    for candidate in range(n):
        is_near = (candidate != label) & (scores[candidate] >= nearly)
        best = min(best, candidate if is_near else n)
    return best if best < n else -1


@helper(allocates=True)
def structured_runner_up(labels, outputs, label, margin):
    """Return the score of every label plus margin times its distance, and the runner-up."""
    ahead = np.empty(labels.n_labels())
    labels.label_scores(outputs, label, margin, ahead)
    return ahead, runner_up(ahead, label)
