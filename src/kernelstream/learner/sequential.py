"""Learners that revisit their rows: every row has a coefficient of its own, in several passes.

SVRseq (table 1 of the SOG-SVR paper, after Vijayakumar and Wu): ascent on the dual of support
vector regression, one coordinate at a time, truncated to its box. It converges to the batch
solution.
"""

from typing import Any

import numpy as np

from kernelstream.compiled import compiled
from kernelstream.learner.model import Learner

__all__ = ["fit_sequential"]

_LARGEST_GRAM = 2**26  # kernel values that are kept; beyond, they are computed again in every pass
_ROWS = 256


@compiled
def _sweep(block, rows, y, limit, epsilon, step, f, star, plain):
    """One visit of some rows; the largest change of a coefficient, relative to its box."""
    largest = 0.0
    for position in range(rows.shape[0]):
        i = rows[position]
        line = block[position]
        eta = step if step > 0.0 else 1.0 / max(line[i], 1e-300)
        error = y[i] - f[i]
        new_star = min(max(star[i] + eta * (error - epsilon), 0.0), limit[i])
        new_plain = min(max(plain[i] - eta * (error + epsilon), 0.0), limit[i])
        change = (new_star - star[i]) - (new_plain - plain[i])
        star[i] = new_star
        plain[i] = new_plain
        if change != 0.0:
            largest = max(largest, abs(change) * line[i])
            for j in range(f.shape[0]):
                f[j] += change * line[j]
    return largest


def fit_sequential(
    learner: Learner, X: Any, y: np.ndarray, weight: np.ndarray, orders: Any, step: float
) -> int:
    """Fit a new learner to X by passes in the orders given; how many passes were needed.

    It stops early where a whole pass changes no score by more than a millionth of the targets'
    spread.
    """
    kernel = learner.points.kernel
    n, c = X.shape[0], learner.model.regularization
    numbers = kernel.numbers(X)
    weights = learner.model.loss_weight * weight
    limit = weights / c if c > 0 else np.where(weights > 0, np.inf, 0.0)
    epsilon = float(learner.state.margin.epsilon[0])
    f, star, plain = np.zeros(n), np.zeros(n), np.zeros(n)
    enough = 1e-6 * max(float(y.std()), 1e-12)

    def values(rows: np.ndarray) -> np.ndarray:
        block = np.empty((len(rows), n), learner.dtype)
        kernel.block(X[rows], X, numbers[rows], numbers, block)
        return block.astype(np.float64, copy=False)

    gram = values(np.arange(n)) if n * n <= _LARGEST_GRAM else None
    passes = 0
    for order in orders:
        passes += 1
        visited = np.arange(n)[order]
        largest = 0.0
        for start in range(0, n, _ROWS):
            rows = visited[start : start + _ROWS]
            block = values(rows) if gram is None else gram[rows]
            change = _sweep(block, rows, y, limit, epsilon, step, f, star, plain)
            largest = max(largest, change)
        if largest <= enough:
            break
    _keep_support(learner, X, numbers, star - plain, f)
    return passes


def _keep_support(
    learner: Learner, X: Any, numbers: np.ndarray, beta: np.ndarray, f: np.ndarray
) -> None:
    support = np.flatnonzero(beta)
    learner.make_room(len(support))
    expansion = learner.state.expansion
    expansion.n_points[0], expansion.n_seen[0] = len(support), len(beta)
    expansion.a[0, : len(support)] = beta[support]
    expansion.size2[: len(support)] = beta[support] ** 2
    expansion.norm2[0] = max(float(beta @ f), 0.0)
    learner.points.restore(X[support], numbers[support])
