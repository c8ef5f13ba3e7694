"""What a mixing answers, and the small linear systems that mixings solve."""

import math
from typing import Any

import numpy as np

from kernelstream.compile import Call, helper
from kernelstream.parts import Part

__all__ = ["Mixing", "solve_positive"]


class Mixing(Part):
    """Base of the mixings."""

    task: str
    gives_probabilities = False  # whether the softmax of mixed scores are probabilities
    gives_deviations = False  # whether it knows how far targets lie from mixed scores

    def new_state(self, n_members: int, n_outputs: int) -> Any:
        """Return the state before any row: a record of arrays."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def widened(self, state: Any, n_outputs: int) -> Any:
        """Return the state for members with another number of outputs."""
        return state

    def learn(
        self, state: Any, scores: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mix the scores of rows, of shape (members, rows, outputs), and learn from each.

        Answers the mixed scores as they were before each row was learned, of shape (rows,
        outputs), and the loss of each row.
        """
        raise TypeError(f"{type(self).__name__} must say how it learns.")

    def calls(self, state: Any, scores: np.ndarray, y: np.ndarray) -> list[Call]:
        """Return the compiled calls that learn the row in `scores` and `y`; none: use `learn`."""
        return []

    def mix(self, state: Any, scores: np.ndarray) -> np.ndarray:
        """Mix the scores of rows, of shape (members, rows, outputs), as it is now."""
        raise TypeError(f"{type(self).__name__} must say how it mixes.")

    def deviations(self, state: Any, scores: np.ndarray) -> np.ndarray:
        """Return the standard deviation of y around each mixed score, if `gives_deviations`."""
        raise TypeError(f"{type(self).__name__} must say how far y may be.")

    def weights(self, state: Any) -> np.ndarray:
        """Return how much each member counts."""
        raise TypeError(f"{type(self).__name__} must say how much each member counts.")

    def threshold(self, state: Any) -> float:
        """Return the score below which a row is an alarm, where there are alarms."""
        return 0.0


@helper
def solve_positive(matrix, ridge, right, factor, out):
    """Write (matrix + ridge I)^-1 right into `out`, by Cholesky's factorization."""
    n = right.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            if i == j:
                total += ridge
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(max(total, 1e-300))
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(n):
        total = right[i]
        for k in range(i):
            total -= factor[i, k] * out[k]
        out[i] = total / factor[i, i]
    for i in range(n - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, n):
            total -= factor[k, i] * out[k]
        out[i] = total / factor[i, i]
