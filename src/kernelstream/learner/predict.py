"""Reading a learner: coefficients and scores."""

import numpy as np

from kernelstream.learner.state import State

__all__ = ["coefficients", "raw_scores", "scores_of", "trace_coefficients"]


def coefficients(state: State) -> np.ndarray:
    """The coefficients alpha of f, of shape (outputs, points)."""
    expansion = state.expansion
    return expansion.scale[0] * expansion.a[:, : expansion.n_points[0]]


def trace_coefficients(state: State) -> np.ndarray:
    """The coefficients beta of the trace v, of shape (outputs, points)."""
    expansion = state.expansion
    n = expansion.n_points[0]
    _, q, r = expansion.scale
    return q * expansion.b[:, :n] + r * expansion.a[:, :n]


def scores_of(alpha: np.ndarray, block: np.ndarray) -> np.ndarray:
    """``alpha . block`` in float64, of shape (outputs, rows)."""
    if block.shape[1] <= len(alpha):  # the block is what is cheaper to convert
        return alpha @ block.astype(np.float64, copy=False)
    return (alpha.astype(block.dtype, copy=False) @ block).astype(np.float64, copy=False)


def raw_scores(state: State, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The raw scores ``a . block`` and ``b . block`` of a block k(points, rows), in float64.

    A float32 block is multiplied in float32, and raw numbers may lie far outside that range: they
    are brought to their true size for the product.
    """
    expansion = state.expansion
    n, n_outputs = len(block), len(expansion.a)
    if block.dtype == np.float64 or block.shape[1] <= n_outputs:
        block = block.astype(np.float64, copy=False)
        raw_f = expansion.a[:, :n] @ block
        return raw_f, expansion.b[:, :n] @ block if expansion.b.size else _NOTHING
    p, q, _ = expansion.scale
    if not expansion.b.size:
        return scores_of(p * expansion.a[:, :n], block) / p, _NOTHING
    both = np.empty((2 * n_outputs, n), block.dtype)
    np.multiply(expansion.a[:, :n], p, out=both[:n_outputs], casting="same_kind")
    np.multiply(expansion.b[:, :n], q, out=both[n_outputs:], casting="same_kind")
    products = both @ block
    # where q is zero every b is, see `Expansion`
    return (
        np.divide(products[:n_outputs], p, dtype=np.float64),
        np.divide(products[n_outputs:], q or 1.0, dtype=np.float64),
    )


_NOTHING = np.empty((0, 0))
