"""Matrix products of coefficients and kernel values."""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.compile import compiled

__all__ = ["raw_of_all", "raw_of_few", "scores_of_all", "scores_of_few"]


def raw_of_all(coef: np.ndarray, scale: np.ndarray, block: Any, memory: Any) -> np.ndarray:
    """Return the raw scores ``coef . block`` of a block k(points, rows), in float64.

    Of shape (outputs, functions, rows): the raw scores are to the rows what `coef` is to the
    points. A float32 block is multiplied in float32, and raw numbers may lie far outside that
    range: they are brought to their true size for the product. A block may also be a matrix on a
    device, which multiplies there. `memory` lends arrays.
    """
    n, n_rows = block.shape
    n_outputs, n_functions, n_slots = coef.shape
    raw = memory.lend("raw", (n_outputs, n_functions, n_rows))
    if sparse.issparse(block):
        _gather(coef, *_pieces(block), raw)
        return raw
    is_here = isinstance(block, np.ndarray)
    if is_here and (block.dtype == np.float64 or n_rows <= n_outputs):
        lines = coef.reshape(n_outputs * n_functions, n_slots)[:, :n]
        np.matmul(lines, block.astype(np.float64, copy=False), out=raw.reshape(len(lines), n_rows))
        return raw
    scale = scale[:n_functions].copy()
    scale[scale == 0.0] = 1.0  # where q is zero every b is, see `Expansion`
    scaled = memory.lend("scaled", (n_outputs, n_functions, n), block.dtype)
    _multiply(coef, scale, scaled)
    lines = scaled.reshape(n_outputs * n_functions, n)
    products = lines @ block if is_here else np.ascontiguousarray((block.T @ lines.T).T)
    _multiply(products.reshape(raw.shape), 1.0 / scale, raw)
    return raw


def raw_of_few(
    coef: np.ndarray, outputs: np.ndarray, n_outputs: int, block: np.ndarray, memory: Any
) -> np.ndarray:
    """Compute the same where a point has few coefficients; `memory` lends arrays."""
    raw = memory.lend("raw", (n_outputs, coef.shape[1], block.shape[1]))
    _scatter(outputs, coef, np.asarray(block), raw)
    return raw


def scores_of_few(
    lines: np.ndarray, outputs: np.ndarray, block: np.ndarray, n_outputs: int
) -> np.ndarray:
    """Multiply a block by coefficients of few out of many outputs."""
    result = np.empty((n_outputs, 1, block.shape[1]))
    _scatter(outputs, np.ascontiguousarray(lines[:, None]), np.asarray(block), result)
    return result[:, 0].T


def scores_of_all(alpha: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return ``block^T alpha^T`` in float64, of shape (rows, outputs)."""
    if sparse.issparse(block):
        result = np.empty((len(alpha), 1, block.shape[1]))
        _gather(alpha[:, None], *_pieces(block), result)
        return result[:, 0].T
    if isinstance(block, np.ndarray) and block.shape[1] <= len(alpha):  # cheaper to convert
        return _transposed_product(alpha, block.astype(np.float64, copy=False))
    return (block.T @ alpha.T.astype(block.dtype, copy=False)).astype(np.float64, copy=False)


def _transposed_product(lines: np.ndarray, block: np.ndarray) -> np.ndarray:
    if block.shape[1] == 1:  # a matrix and a vector, which BLAS does faster this way round
        return (lines @ block).T
    return block.T @ lines.T


@compiled
def _multiply(values, scale, out):
    """Multiply numbers of every function by its own factor, into another precision."""
    for k in range(out.shape[0]):
        for s in range(out.shape[1]):
            own, factor, line = out[k, s], scale[s], values[k, s]
            for j in range(own.shape[0]):
                own[j] = line[j] * factor


@compiled
def _scatter(output, coef, block, result):
    """Write what the stored coefficients give to a block of kernel values, a line for a point."""
    for k in range(result.shape[0]):
        for s in range(result.shape[1]):
            for i in range(result.shape[2]):
                result[k, s, i] = 0.0
    for line in range(output.shape[0]):
        for j in range(block.shape[0]):
            for s in range(coef.shape[1]):
                own, amount, values = result[output[line, j], s], coef[line, s, j], block[j]
                if amount != 0.0:
                    for i in range(values.shape[0]):
                        own[i] += amount * values[i]


def _pieces(block: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of the sparse features of rows, whose transpose a block is."""
    return block.indptr, block.indices, block.data


@partial(compiled, any_order=True)
def _gather(lines, indptr, indices, data, result):
    """Multiply sparse rows by weights, at the cost of their nonzeros."""
    for i in range(result.shape[2]):
        for k in range(result.shape[0]):
            for s in range(result.shape[1]):
                total = 0.0
                for e in range(indptr[i], indptr[i + 1]):
                    total += lines[k, s, indices[e]] * data[e]
                result[k, s, i] = total
