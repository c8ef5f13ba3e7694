"""Reading a learner: coefficients and scores."""

import numpy as np

from kernelstream.compiled import compiled
from kernelstream.learner.points import Memory
from kernelstream.learner.state import State

__all__ = [
    "averaged", "averaged_margin", "coefficients", "raw_scores", "scores", "sum_from_births",
    "trace_coefficients", "votes",
]  # fmt: skip


def coefficients(state: State) -> np.ndarray:
    """The coefficients alpha of f, of shape (outputs, points)."""
    return state.expansion.scale[0] * _lines(state, state.expansion.a)


def trace_coefficients(state: State) -> np.ndarray:
    """The coefficients beta of the trace v, of shape (outputs, points)."""
    expansion = state.expansion
    _, q, r = expansion.scale
    return q * _lines(state, expansion.b) + r * _lines(state, expansion.a)


def _lines(state: State, stored: np.ndarray) -> np.ndarray:
    """Raw coefficients with a line for every output."""
    expansion = state.expansion
    n = expansion.n_points[0]
    if not expansion.output.size:
        return stored[:, :n]
    lines = np.zeros((len(state.intercept.b), n))
    for output, line in zip(expansion.output[:, :n], stored[:, :n], strict=True):
        lines[output, np.arange(n)] += line
    return lines


def scores(state: State, block: np.ndarray) -> np.ndarray:
    """The scores f(x) + b of a block k(points, rows), in float64, of shape (rows, outputs)."""
    expansion = state.expansion
    n = len(block)
    if expansion.output.size:
        result = np.empty((block.shape[1], len(state.intercept.b)))
        _scatter(expansion.output, expansion.a, np.ascontiguousarray(block.T), result)
        result *= expansion.scale[0]
    else:
        result = _product(expansion.scale[0] * expansion.a[:, :n], block)
    result += state.intercept.b
    return result


def averaged(state: State, block: np.ndarray) -> np.ndarray:
    """The scores of a block by the average of all models so far, of shape (rows, outputs).

    The models are those after each row (ILK, end of section 3.2, without the zero that the first
    row met). What a point brought to them is in the average as long as the point is there; a point
    that is dropped takes it away, one that is projected or merged hands it on.
    """
    expansion = state.expansion
    n_seen = max(int(expansion.n_seen[0]), 1)
    mean = (expansion.p_sum[0] * expansion.a + expansion.past) / n_seen
    if expansion.output.size:
        result = np.empty((block.shape[1], len(state.intercept.b)))
        _scatter(expansion.output, mean, np.ascontiguousarray(block.T), result)
    else:
        result = _product(mean[:, : len(block)], block)
    result += expansion.b_sum / n_seen
    return result


def averaged_margin(state: State) -> float:
    """The mean of the margins of all models so far."""
    return float(state.expansion.margin_sum[0] / max(int(state.expansion.n_seen[0]), 1))


def sum_from_births(state: State, born: np.ndarray) -> None:
    """The sum of all models of a perceptron, whose old coefficients never change.

    A point that came when t rows had been learned has been part of every model since: n - t times.
    For files from before the sum was kept.
    """
    expansion = state.expansion
    counts = expansion.n_seen[0] - born
    expansion.past[:, : len(born)] = counts * expansion.scale[0] * expansion.a[:, : len(born)]


def votes(state: State, block: np.ndarray) -> np.ndarray:
    """The votes of all models so far on a block, of shape (rows, outputs).

    The model after each point is the sum up to it, so that one walk over the points is enough.
    Each votes for its label as often as it stood: with a single output -1 or +1, and in all between
    -1 and 1; otherwise the labels' shares.
    """
    expansion = state.expansion
    born = expansion.born[: len(block)]
    order = np.argsort(born, kind="stable")
    n_seen = max(int(expansion.n_seen[0]), 1)
    stood = np.diff(np.append(born[order], n_seen)).astype(np.float64)  # whole, so that sums are
    alpha = np.ascontiguousarray(coefficients(state)[:, order])
    rows = np.ascontiguousarray(block[order].T, dtype=np.float64)
    result = np.zeros((len(rows), len(alpha)))
    _count_votes(alpha, rows, stood, result)
    return result / n_seen


@compiled
def _count_votes(alpha, rows, stood, result):
    f = np.zeros(alpha.shape[0])
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


def raw_scores(state: State, block: np.ndarray, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
    """The raw scores ``a . block`` and ``b . block`` of a block k(points, rows), in float64.

    Both of shape (rows, outputs). A float32 block is multiplied in float32, and raw numbers may lie
    far outside that range: they are brought to their true size for the product. `memory` lends
    arrays where outputs are many.
    """
    expansion = state.expansion
    n, n_outputs = len(block), len(state.intercept.b)
    if expansion.output.size:
        rows = np.ascontiguousarray(block.T)
        raw_f = memory.lend("raw_f", (len(rows), n_outputs))
        _scatter(expansion.output, expansion.a, rows, raw_f)
        if not expansion.b.size:
            return raw_f, _NOTHING
        raw_v = memory.lend("raw_v", (len(rows), n_outputs))
        _scatter(expansion.output, expansion.b, rows, raw_v)
        return raw_f, raw_v
    if block.dtype == np.float64 or block.shape[1] <= n_outputs:
        block = block.astype(np.float64, copy=False)
        raw_f = _transposed_product(expansion.a[:, :n], block)
        if not expansion.b.size:
            return raw_f, _NOTHING
        return raw_f, _transposed_product(expansion.b[:, :n], block)
    p, q, _ = expansion.scale
    if not expansion.b.size:
        return _product(p * expansion.a[:, :n], block) / p, _NOTHING
    both = np.empty((2 * n_outputs, n), block.dtype)
    np.multiply(expansion.a[:, :n], p, out=both[:n_outputs], casting="same_kind")
    np.multiply(expansion.b[:, :n], q, out=both[n_outputs:], casting="same_kind")
    products = block.T @ both.T
    # where q is zero every b is, see `Expansion`
    return (
        np.divide(products[:, :n_outputs], p, dtype=np.float64),
        np.divide(products[:, n_outputs:], q or 1.0, dtype=np.float64),
    )


def _product(alpha: np.ndarray, block: np.ndarray) -> np.ndarray:
    """``block^T alpha^T`` in float64, of shape (rows, outputs)."""
    if block.shape[1] <= len(alpha):  # the block is what is cheaper to convert
        return _transposed_product(alpha, block.astype(np.float64, copy=False))
    return (block.T @ alpha.T.astype(block.dtype, copy=False)).astype(np.float64, copy=False)


def _transposed_product(lines: np.ndarray, block: np.ndarray) -> np.ndarray:
    if block.shape[1] == 1:  # a matrix and a vector, which BLAS does faster this way round
        return (lines @ block).T
    return block.T @ lines.T


@compiled
def _scatter(output, stored, rows, result):
    """Write what the stored coefficients give to rows of kernel values."""
    for i in range(rows.shape[0]):
        result[i] = 0.0
        for line in range(output.shape[0]):
            for j in range(rows.shape[1]):
                result[i, output[line, j]] += stored[line, j] * rows[i, j]


_NOTHING = np.empty((0, 0))
