"""Sums over the features of every two rows, dense or sparse, of which quantities are made."""

import threading
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.arrays import is_elsewhere, namespace_of
from kernelstream.compile import compiled

__all__ = ["inner_products", "squared_norms", "sums_over_common", "sums_over_rows"]


@partial(compiled, any_order=True)
def _squared_norms(X, norms):
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * X[i, j]
        norms[i] = total


@compiled
def _sums_over_rows(indptr, data, squared, sums):
    for i in range(sums.shape[0]):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e] * data[e] if squared else abs(data[e])
        sums[i] = total


def sums_over_rows(X: Any, squared: bool) -> np.ndarray:
    """Sum the squares, or the absolute values, of every sparse row."""
    sums = np.empty(X.shape[0], X.dtype)
    _sums_over_rows(X.indptr, X.data, squared, sums)
    return sums


def squared_norms(X: Any) -> np.ndarray:
    """Return |x|^2 of every row."""
    if sparse.issparse(X):
        return sums_over_rows(X, squared=True)
    if is_elsewhere(X):
        return namespace_of(X).sum(X * X, axis=1)
    norms = np.empty(X.shape[0], X.dtype)  # made here: compiled code takes seconds to learn how
    _squared_norms(X, norms)
    return norms


@partial(compiled, allocates=True)
def _sum_over_common(p_ptr, p_index, p_data, x_ptr, x_index, x_data, place, products, out):
    """Sum over the features in which neither of two rows is zero, for every two rows.

    Of the products p x, or of |p - x| - |p| - |x|. `place` has a zero for every feature, also
    afterwards.
    """
    n_entries = x_index.shape[0]
    start = np.zeros(n_entries + 2, np.int64)
    n_features = 0
    for e in range(n_entries):  # the features that X has, numbered from 1 as they come
        if place[x_index[e]] == 0:
            n_features += 1
            place[x_index[e]] = n_features
        start[place[x_index[e]] + 1] += 1
    for f in range(1, n_features + 2):
        start[f] += start[f - 1]
    rows, values = np.empty(n_entries, np.int64), np.empty(n_entries, x_data.dtype)
    for i in range(x_ptr.shape[0] - 1):  # X sorted by feature
        for e in range(x_ptr[i], x_ptr[i + 1]):
            f = place[x_index[e]]
            rows[start[f]], values[start[f]] = i, x_data[e]
            start[f] += 1
    out[:] = 0.0
    for i in range(p_ptr.shape[0] - 1):
        line = out[i]
        for e in range(p_ptr[i], p_ptr[i + 1]):
            f = place[p_index[e]]
            if f == 0:
                continue
            value = p_data[e]
            for m in range(start[f - 1], start[f]):
                if products:
                    line[rows[m]] += value * values[m]
                else:
                    line[rows[m]] += abs(value - values[m]) - abs(value) - abs(values[m])
    for e in range(n_entries):
        place[x_index[e]] = 0


_of_thread = threading.local()


def sums_over_common(P: Any, X: Any, products: bool, out: np.ndarray) -> None:
    """Write the sums of `_sum_over_common` for every two sparse rows into `out`."""
    # Zeros that are kept: with a million features, to make them costs more than to use them.
    place = getattr(_of_thread, "place", None)
    if place is None or len(place) < X.shape[1]:
        place = _of_thread.place = np.zeros(X.shape[1], np.int32)
    _sum_over_common(P.indptr, P.indices, P.data, X.indptr, X.indices, X.data, place, products, out)


def inner_products(P: Any, X: Any, out: np.ndarray) -> None:
    """Write <p, x> for every two rows into `out`.

    Parameters
    ----------
    P, X : arrays or sparse arrays of rows
    out : ndarray of shape (rows of P, rows of X)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import inner_products
    >>> out = np.empty((1, 2))
    >>> inner_products(np.array([[1.0, 2.0]]), np.eye(2), out)
    >>> out
    array([[1., 2.]])
    """
    if sparse.issparse(X):
        sums_over_common(P, X, True, out)
    else:
        np.matmul(P, X.T, out=out)
