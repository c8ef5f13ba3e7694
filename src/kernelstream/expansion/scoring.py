"""Reading an expansion: coefficients and scores."""

import numpy as np
from scipy import sparse

from kernelstream.compile import compiled
from kernelstream.expansion.record import Expansion

__all__ = [
    "averaged", "averaged_margin", "by_output", "coefficients", "scores",
    "trace_coefficients", "votes",
]  # fmt: skip


def coefficients(expansion: Expansion, n_outputs: int) -> np.ndarray:
    """Return the coefficients alpha of f, of shape (outputs, points)."""
    return expansion.scale[0] * by_output(expansion, 0, n_outputs)


def trace_coefficients(expansion: Expansion, n_outputs: int) -> np.ndarray:
    """Return the coefficients beta of the trace v, of shape (outputs, points)."""
    _, q, r = expansion.scale
    return q * by_output(expansion, 1, n_outputs) + r * by_output(expansion, 0, n_outputs)


def by_output(expansion: Expansion, function: int, n_outputs: int) -> np.ndarray:
    """Return raw coefficients of f or v with a line for every output."""
    n = expansion.n_points[0]
    stored = expansion.coef[:, function, :n]
    lines = np.zeros((n_outputs, n))
    for k, line in enumerate(stored):
        slots = np.arange(n)
        lines[expansion.outputs.output_of(k, slots), slots] += line
    return lines


def scores(expansion: Expansion, b: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return the scores f(x) + b of a block k(points, rows), in float64, of shape (rows, outputs).

    The lines of a block are what coefficients belong to: points, or explicit features.
    """
    p, raw = expansion.scale[0], expansion.coef[:, 0, : block.shape[0]]
    if block.dtype == np.float64 or sparse.issparse(block):
        result = expansion.outputs.scores_of(raw, block, len(b))
        result *= p
    else:  # raw numbers may lie outside the range of float32
        result = expansion.outputs.scores_of(p * raw, block, len(b))
    result += b
    return result


def averaged(expansion: Expansion, b: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return the scores of a block by the average of all models so far, of shape (rows, outputs).

    The models are those after each row (ILK, end of section 3.2, without the zero that the first
    row met). What a point brought to them is in the average as long as the point is there; a point
    that is projected or merged hands it on. A dropped point takes it away: so estimators refuse
    budgets that drop points, and only `Merge` drops one, where no other is near enough to merge.
    """
    n, n_seen = block.shape[0], max(int(expansion.n_seen[0]), 1)
    average = expansion.average
    total = average.p_sum[0] * expansion.coef[:, 0, :n] + average.past[:, :n]
    result = expansion.outputs.scores_of(total / n_seen, block, len(b))
    result += average.b_sum / n_seen
    return result


def averaged_margin(expansion: Expansion) -> float:
    """Return the mean of the margins of all models so far."""
    return float(expansion.average.margin_sum[0] / max(int(expansion.n_seen[0]), 1))


def votes(expansion: Expansion, b: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return the votes of all models so far on a block, of shape (rows, outputs).

    The model after each point is the sum up to it, so that one walk over the points is enough.
    Each votes for its label as often as it stood: with a single output -1 or +1, and in all between
    -1 and 1; otherwise the labels' shares.
    """
    born = expansion.births.born[: block.shape[0]]
    order = np.argsort(born, kind="stable")
    n_seen = max(int(expansion.n_seen[0]), 1)
    stood = np.diff(np.append(born[order], n_seen)).astype(np.float64)  # whole, so that sums are
    alpha = np.ascontiguousarray(coefficients(expansion, len(b))[:, order])
    rows = np.ascontiguousarray(np.asarray(block)[order].T, dtype=np.float64)
    result = np.zeros((len(rows), len(alpha)))
    _count_votes(alpha, rows, stood, np.zeros(len(alpha)), result)
    return result / n_seen


@compiled
def _count_votes(alpha, rows, stood, f, result):
    for i in range(rows.shape[0]):
        f[:] = 0.0
        for j in range(rows.shape[1]):
            best = 0
            for k in range(alpha.shape[0]):
                f[k] += alpha[k, j] * rows[i, j]
                if f[k] > f[best]:
                    best = k
            if alpha.shape[0] == 1:
                result[i, 0] += stood[j] if f[0] > 0.0 else -stood[j]
            else:
                result[i, best] += stood[j]
