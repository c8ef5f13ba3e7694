"""The specification of the perceptron, Ballseptron and ALMA, in plain NumPy."""

import math

import numpy as np

from kernelstream.learner.machine import Parts
from tests.reference.parts import is_named

__all__ = ["PerceptronReference"]


class PerceptronReference:
    """The perceptron, Ballseptron and ALMA as their papers state them, norms by their definition.

    With several outputs a row is the difference of its label's part and that of the runner-up.
    """

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.parts = parts
        self.kernel = parts.kernel.resolve(n_features)
        self.points = np.zeros((0, n_features))
        self.alpha = np.zeros((0, n_outputs))
        self.n_corrections = 0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        update = self.parts.update
        k = self.kernel(self.points, x[None])[:, 0] if len(self.points) else np.zeros(0)
        scores = self.alpha.T @ k
        if weight == 0:
            return scores
        weight *= self.parts.loss_weight
        sign = self._signs(scores, y)
        ahead, norm = sign @ scores, math.sqrt(self._norm2())
        if is_named(update, "ALMA"):
            length = np.linalg.norm(sign)  # of the row, where k(x, x) = 1
            root_k = math.sqrt(self.n_corrections + 1)
            if ahead / length < (1 - update.alpha) * math.sqrt(8) / update.alpha / root_k:
                self._add(x, weight * math.sqrt(2) / root_k * sign / length)
                self.alpha /= max(1.0, math.sqrt(self._norm2()))
                self._truncate()
        elif is_named(update, "Ballseptron"):
            if ahead <= 0:
                self._add(x, weight * sign)
                self._truncate()
            elif ahead <= update.radius * norm:
                self.alpha *= max(0.0, 1 - weight * update.radius / norm)
                self._add(x, weight * sign)
                self._truncate()
        elif ahead <= 0:
            self._add(x, weight * sign)
            self._truncate()
        return scores

    def _signs(self, scores: np.ndarray, y: float) -> np.ndarray:
        if len(scores) == 1:
            return np.array([y])
        sign = np.eye(len(scores))[int(y)]
        rivals = np.where(sign > 0, -np.inf, scores)
        return sign - np.eye(len(scores))[int(rivals.argmax())]

    def _norm2(self) -> float:
        if not len(self.points):
            return 0.0
        return float(np.sum(self.alpha * (self.kernel(self.points) @ self.alpha)))

    def _add(self, x: np.ndarray, coefficients: np.ndarray) -> None:
        self.points = np.vstack([self.points, x])
        self.alpha = np.vstack([self.alpha, coefficients])
        self.n_corrections += 1

    def _truncate(self) -> None:
        budget = self.parts.budget
        if is_named(budget, "OldestOut") and len(self.points) > budget.size:
            self.points, self.alpha = self.points[1:], self.alpha[1:]
