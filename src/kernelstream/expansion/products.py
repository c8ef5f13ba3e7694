"""Matrix products of coefficients and kernel values."""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.compiled import compiled

__all__ = ["raw_of_all", "raw_of_few", "scores_of_all", "scores_of_few"]


def raw_of_all(coef: np.ndarray, scale: np.ndarray, block: Any, memory: Any) -> np.ndarray:
    """The raw scores ``coef . block`` of a block k(points, rows), in float64.

    Of shape (functions, rows, outputs). A float32 block is multiplied in float32, and raw numbers
    may lie far outside that range: they are brought to their true size for the product. A block
    may also be a matrix on a device, which multiplies there. `memory` lends arrays.
    """
    n, n_rows = block.shape
    n_outputs, n_functions, _ = coef.shape
    raw = np.empty((n_functions, n_rows, n_outputs))
    if sparse.issparse(block):
        for s in range(n_functions):
            _gather(coef[:, s], *_pieces(block), raw[s])
        return raw
    if isinstance(block, np.ndarray) and (block.dtype == np.float64 or n_rows <= n_outputs):
        block = block.astype(np.float64, copy=False)
        for s in range(n_functions):
            _write_product(coef[:, s, :n], block, raw[s])
        return raw
    scale = scale[:n_functions].copy()
    scale[scale == 0.0] = 1.0  # where q is zero every b is, see `Expansion`
    scaled = memory.lend("scaled", (n_functions, n_outputs, n), block.dtype)
    _scale(coef, scale, scaled)
    products = block.T @ scaled.reshape(n_functions * n_outputs, n).T
    for s in range(n_functions):
        own = products[:, s * n_outputs : (s + 1) * n_outputs]
        np.divide(own, scale[s], out=raw[s], dtype=np.float64)
    return raw


def raw_of_few(
    coef: np.ndarray, outputs: np.ndarray, n_outputs: int, block: np.ndarray, memory: Any
) -> np.ndarray:
    """The same where a point has coefficients for few of many outputs; `memory` lends arrays."""
    rows, n_functions = np.ascontiguousarray(block.T), coef.shape[1]
    raw = memory.lend("raw", (n_functions, len(rows), n_outputs))
    _scatter(outputs, coef, rows, raw)
    return raw


def scores_of_few(
    lines: np.ndarray, outputs: np.ndarray, block: np.ndarray, n_outputs: int
) -> np.ndarray:
    """What coefficients for few of many outputs give to a block."""
    rows = np.ascontiguousarray(block.T)
    result = np.empty((1, len(rows), n_outputs))
    _scatter(outputs, np.ascontiguousarray(lines[:, None]), rows, result)
    return result[0]


def scores_of_all(alpha: np.ndarray, block: np.ndarray) -> np.ndarray:
    """``block^T alpha^T`` in float64, of shape (rows, outputs)."""
    if sparse.issparse(block):
        result = np.empty((block.shape[1], len(alpha)))
        _gather(alpha, *_pieces(block), result)
        return result
    if isinstance(block, np.ndarray) and block.shape[1] <= len(alpha):  # cheaper to convert
        return _transposed_product(alpha, block.astype(np.float64, copy=False))
    return (block.T @ alpha.T.astype(block.dtype, copy=False)).astype(np.float64, copy=False)


def _transposed_product(lines: np.ndarray, block: np.ndarray) -> np.ndarray:
    if block.shape[1] == 1:  # a matrix and a vector, which BLAS does faster this way round
        return (lines @ block).T
    return block.T @ lines.T


def _write_product(lines: np.ndarray, block: np.ndarray, out: np.ndarray) -> None:
    """``block^T lines^T`` into `out`."""
    if block.shape[1] == 1:  # a matrix and a vector, which BLAS does faster this way round
        np.matmul(lines, block[:, 0], out=out[0])
    else:
        np.matmul(block.T, lines.T, out=out)


@compiled
def _scale(coef, scale, scaled):
    """Coefficients at their true size, function by function, in another precision."""
    for s in range(scaled.shape[0]):
        for k in range(scaled.shape[1]):
            for j in range(scaled.shape[2]):
                scaled[s, k, j] = coef[k, s, j] * scale[s]


@compiled
def _scatter(output, coef, rows, result):
    """Write what the stored coefficients give to rows of kernel values."""
    for s in range(coef.shape[1]):
        for i in range(rows.shape[0]):
            result[s, i] = 0.0
            for line in range(output.shape[0]):
                for j in range(rows.shape[1]):
                    result[s, i, output[line, j]] += coef[line, s, j] * rows[i, j]


def _pieces(block: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of the sparse features of rows, whose transpose a block is."""
    return block.indptr, block.indices, block.data


@partial(compiled, any_order=True)
def _gather(lines, indptr, indices, data, result):
    """What weights give to sparse rows, at the cost of their nonzeros."""
    for i in range(result.shape[0]):
        for k in range(result.shape[1]):
            total = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                total += lines[k, indices[e]] * data[e]
            result[i, k] = total
