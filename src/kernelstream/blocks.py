"""Blocks of numbers for every two rows, of which kernels are made: dense rows and sparse ones."""

import math
import threading
from functools import partial
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload
from scipy import sparse

from kernelstream.compiled import compiled

__all__ = [
    "exp_of_negative",
    "inner_products",
    "negative_distances",
    "powers",
    "squared_norms",
    "sums_over_common",
    "sums_over_rows",
]


@partial(compiled, any_order=True)
def _squared_norms(X):
    norms = np.empty(X.shape[0], X.dtype)
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * X[i, j]
        norms[i] = total
    return norms


@compiled
def sums_over_rows(indptr, data, squared):
    """Of every sparse row, the sum of its squares, or of its absolute values."""
    sums = np.empty(indptr.shape[0] - 1, data.dtype)
    for i in range(sums.shape[0]):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e] * data[e] if squared else abs(data[e])
        sums[i] = total
    return sums


def squared_norms(X: Any) -> np.ndarray:
    """|x|^2 of every row."""
    if sparse.issparse(X):
        return sums_over_rows(X.indptr, X.data, True)
    return _squared_norms(X)


@compiled
def _sum_over_common(p_ptr, p_index, p_data, x_ptr, x_index, x_data, place, products, out):
    """For every two rows, a sum over the features in which neither is zero.

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
    """For every two sparse rows, what `_sum_over_common` says, into `out`."""
    # Zeros that are kept: with a million features, to make them costs more than to use them.
    place = getattr(_of_thread, "place", None)
    if place is None or len(place) < X.shape[1]:
        place = _of_thread.place = np.zeros(X.shape[1], np.int32)
    _sum_over_common(P.indptr, P.indices, P.data, X.indptr, X.indices, X.data, place, products, out)


def inner_products(P: Any, X: Any, out: np.ndarray) -> None:
    """Write <p, x> for every two rows into `out`."""
    if sparse.issparse(X):
        sums_over_common(P, X, True, out)
    else:
        np.matmul(P, X.T, out=out)


@intrinsic
def _bits_of(typing_context, number):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic
def _number_of(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


_SHIFT = 1.5 * 2.0**52  # added to a number, rounds it; its last bits are then the whole number
_LOG2_E = 1.4426950408889634
_LN_2, _LN_2_REST = 0.6931471803691238, 1.9082149292705877e-10  # their sum has more digits
_T = tuple(1.0 / math.factorial(k) for k in range(14))  # the series' terms


def exp_of_negative(x: float) -> float:
    """``exp(x)`` for x up to zero. Compiled, several at once, which a call to the library is not.

    With ``x = n ln 2 + r`` it is 2^n times thirteen terms of the series of exp(r), |r| < 0.35;
    below -700 it is that of -700, nearly zero.
    """
    return math.exp(max(x, -700.0))


@overload(exp_of_negative, jit_options={"forceinline": True})
def _overload_exp(x):
    def compute(x):
        x = max(x, -700.0)
        shifted = x * _LOG2_E + _SHIFT
        n = shifted - _SHIFT
        r = (x - n * _LN_2) - n * _LN_2_REST
        # In groups, which do not wait for each other; a loop would keep `r` from being several.
        r2 = r * r
        r4 = r2 * r2
        low = (_T[0] + _T[1] * r) + r2 * (_T[2] + _T[3] * r)
        middle = (_T[4] + _T[5] * r) + r2 * (_T[6] + _T[7] * r)
        high = (_T[8] + _T[9] * r) + r2 * (_T[10] + _T[11] * r) + r4 * (_T[12] + _T[13] * r)
        series = low + r4 * (middle + r4 * high)
        return series * _number_of((_bits_of(shifted) + 1023) << 52)

    return compute


@compiled
def negative_distances(products, p, x, twice_gamma):
    """``2 gamma <P, X> - gamma |P|^2 - gamma |X|^2`` in place, in one pass over the memory."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            exponent = twice_gamma * products[i, j] - p[i] - x[j]
            products[i, j] = min(exponent, 0.0)  # a distance that rounding made negative


@compiled
def powers(products, gamma, coef0, degree):
    """``(gamma <P, X> + coef0)^degree`` in place; np.power takes some ten times as long."""
    for i in range(products.shape[0]):
        line = products[i]
        for j in range(products.shape[1]):
            line[j] = gamma * line[j] + coef0
        if degree == 2:
            for j in range(products.shape[1]):
                line[j] *= line[j]
        elif degree > 2:
            base = line.copy()
            rest = degree - 1
            while rest > 0:  # repeated squaring
                if rest & 1:
                    for j in range(products.shape[1]):
                        line[j] *= base[j]
                rest >>= 1
                if rest > 0:
                    for j in range(products.shape[1]):
                        base[j] *= base[j]
