"""Label structures for compiled code.

====================  ===========================================================================
``n_labels``          the number of labels
``n_touched``         the largest number of outputs in which two labels differ
``is_plain``          whether B is the identity, that is, whether labels are outputs
``label_scores``      writes the score of every label, plus margin times its distance from y
``separate``          adds amount (B_i - B_j) to the outputs, and returns |B_i - B_j|^2
``pull_back``         writes B^T xi
``kernel_diagonal``   |B_k|^2
``distance_between``  Delta(i, j)
====================  ===========================================================================
"""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import compiled, helper
from kernelstream.parts import rule

__all__ = ["MatrixLabels", "PlainLabels", "TreeLabels", "measure_pairs", "score_rows"]


@helper
def _first_climbs(depth, a, b):
    """Return whether the first of two nodes moves up next, on the way to their common ancestor."""
    return b < 0 or (a >= 0 and depth[a] >= depth[b])


@rule(allocates=True)
class TreeLabels(NamedTuple):
    """Labels are nodes of a tree; outputs are its nodes without the root, parents first."""

    parent: Any  # (nodes,): the parent of each; -1 is the root
    depth: Any  # (nodes,): number of edges to the root
    node: Any  # (labels,): the node of each label

    def n_labels(self):
        return self.node.shape[0]

    def n_touched(self):
        return 2 * self.depth.max()

    def is_plain(self):
        return False

    def label_scores(self, outputs, y, margin, scores):
        n = self.parent.shape[0]
        to_root = np.empty(n)  # sum of the outputs from here to the root
        # Edges from here to the root, less twice those that are on the way from y to the root.
        # With the depth of y it is the number of edges between both.
        edges = np.zeros(n)
        depth_y, m = 0.0, self.node[y]
        if m >= 0:
            depth_y = self.depth[m]
        while m >= 0:
            edges[m] = -2.0
            m = self.parent[m]
        for m in range(n):
            above = self.parent[m]
            to_root[m] = outputs[m] + (to_root[above] if above >= 0 else 0.0)
            edges[m] += 1.0 + (edges[above] if above >= 0 else 0.0)
        half = 0.5 * margin  # of the edges count (62)
        for k in range(self.node.shape[0]):
            m = self.node[k]
            scores[k] = half * depth_y if m < 0 else to_root[m] + half * (depth_y + edges[m])

    def separate(self, i, j, amount, outputs):
        a, b = self.node[i], self.node[j]
        n_steps = 0
        while a != b:
            n_steps += 1
            if _first_climbs(self.depth, a, b):
                outputs[a] += amount
                a = self.parent[a]
            else:
                outputs[b] -= amount
                b = self.parent[b]
        return float(n_steps)

    def pull_back(self, xi, outputs):
        outputs[:] = 0.0
        for k in range(self.node.shape[0]):
            if self.node[k] >= 0:
                outputs[self.node[k]] += xi[k]
        for m in range(self.parent.shape[0] - 1, -1, -1):
            if self.parent[m] >= 0:
                outputs[self.parent[m]] += outputs[m]

    def kernel_diagonal(self, k):
        return float(self.depth[self.node[k]]) if self.node[k] >= 0 else 0.0

    def distance_between(self, i, j):
        a, b = self.node[i], self.node[j]
        n_steps = 0
        while a != b:
            n_steps += 1
            if _first_climbs(self.depth, a, b):
                a = self.parent[a]
            else:
                b = self.parent[b]
        return 0.5 * n_steps


@rule
class PlainLabels(NamedTuple):
    """Labels are outputs; the distances between them are given."""

    distance: Any  # (labels, labels): of the second label if the first is true

    def n_labels(self):
        return self.distance.shape[0]

    def n_touched(self):
        return 2

    def is_plain(self):
        return True

    def label_scores(self, outputs, y, margin, scores):
        for k in range(self.distance.shape[0]):
            scores[k] = outputs[k] + margin * self.distance[y, k]

    def separate(self, i, j, amount, outputs):
        outputs[i] += amount
        outputs[j] -= amount
        return 0.0 if i == j else 2.0

    def pull_back(self, xi, outputs):
        for k in range(self.distance.shape[0]):
            outputs[k] = xi[k]

    def kernel_diagonal(self, k):
        return 1.0

    def distance_between(self, i, j):
        return self.distance[i, j]


@rule
class MatrixLabels(NamedTuple):
    """Labels with any kernel; B is its symmetric square root."""

    root: Any  # (labels, labels)
    distance: Any

    def n_labels(self):
        return self.distance.shape[0]

    def n_touched(self):
        return self.distance.shape[0]

    def is_plain(self):
        return False

    def label_scores(self, outputs, y, margin, scores):
        for k in range(self.distance.shape[0]):
            total = margin * self.distance[y, k]
            for m in range(outputs.shape[0]):
                total += self.root[k, m] * outputs[m]
            scores[k] = total

    def separate(self, i, j, amount, outputs):
        norm2 = 0.0
        for m in range(outputs.shape[0]):
            difference = self.root[i, m] - self.root[j, m]
            outputs[m] += amount * difference
            norm2 += difference * difference
        return norm2

    def pull_back(self, xi, outputs):
        outputs[:] = 0.0
        for k in range(self.distance.shape[0]):
            if xi[k] != 0.0:
                for m in range(outputs.shape[0]):
                    outputs[m] += xi[k] * self.root[k, m]

    def kernel_diagonal(self, k):
        total = 0.0
        for m in range(self.distance.shape[0]):
            total += self.root[k, m] * self.root[k, m]
        return total

    def distance_between(self, i, j):
        return self.distance[i, j]


@compiled
def score_rows(labels, outputs, scores):
    """Write the scores of the labels for every row of outputs."""
    for i in range(outputs.shape[0]):
        labels.label_scores(outputs[i], 0, 0.0, scores[i])


@compiled
def measure_pairs(labels, first, second, distances):
    """Write the distance of every pair of labels."""
    for i in range(first.shape[0]):
        distances[i] = labels.distance_between(first[i], second[i])
