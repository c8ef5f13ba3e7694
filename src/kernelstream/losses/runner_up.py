"""The best label other than the true one, y* in equations (16)-(17)."""

import numpy as np

from kernelstream.compiled import helper
from kernelstream.parts import SLACK


@helper
def runner_up(scores, label):
    """The index of the highest score other than that of `label`; near-ties go to the lowest index.

    It is -1 if there is no other label.
    """
    best = -1
    largest = 0.0
    for candidate in range(scores.shape[0]):
        largest = max(largest, abs(scores[candidate]))
        if candidate != label and (best < 0 or scores[candidate] > scores[best]):
            best = candidate
    if best < 0:
        return best
    nearly = scores[best] - SLACK * largest
    for candidate in range(best):
        if candidate != label and scores[candidate] >= nearly:
            return candidate
    return best


@helper(allocates=True)
def structured_runner_up(labels, outputs, label, margin):
    """The score of every label plus margin times its distance from `label`, and the runner-up."""
    ahead = np.empty(labels.n_labels())
    labels.label_scores(outputs, label, margin, ahead)
    return ahead, runner_up(ahead, label)
