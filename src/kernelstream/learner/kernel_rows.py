"""Kernel values of a row by itself, in compiled code, of kernels made of inner products."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.compile import compiled, helper
from kernelstream.learner.rows import largest_kernel, refuse_large

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["checked_row", "has_kernel_rows", "largest_norm2", "norm2_of", "write_kernel_values"]


def has_kernel_rows(machine: "Machine") -> bool:
    """Return whether compiled code can make the kernel values of a machine's points with a row."""
    return machine.store.points_in_memory() is not None and machine.largest_norm2() > 0.0


def largest_norm2(machine: "Machine") -> float:
    """Return a squared norm up to which rows need no special care; beyond, the longer way decides.

    Zero: it always does.
    """
    kernel, dtype = machine.kernel, machine.dtype
    is_here = not machine.is_sparse and machine.parts.device is None
    if not (is_here and kernel.from_products and kernel.is_bounded_by_cache):
        return 0.0
    for exponent in range(30, -30, -1):
        norm2 = np.array([10.0**exponent], dtype)
        is_small = kernel.magnitude(norm2)[0] <= largest_kernel(dtype)
        if is_small and not kernel.loses_digits(norm2, dtype):
            return float(norm2[0])
    return 0.0


def checked_row(machine: "Machine", X: Any) -> np.ndarray:
    """Return the row cache of one row, checked without the cost of checking a block."""
    largest = machine.largest_norm2()
    if largest > 0.0:
        norm2 = norm2_of(X[0])
        if norm2 <= largest:  # NaN is not
            return np.array([norm2], machine.dtype)
    x = machine.store.row_cache_of(X)
    if not machine.kernel.magnitude(x)[0] <= largest_kernel(machine.dtype):
        refuse_large(machine.kernel, machine.dtype, X, x)
    return x


@helper(apart=True, any_order=True)
def _products(rows, n, x, out):
    """Return the inner products of the first n rows with x."""
    for i in range(n):
        total = x[0] * rows[i, 0]
        for j in range(1, x.shape[0]):
            total += x[j] * rows[i, j]
        out[i] = total


@partial(compiled, any_order=True)
def norm2_of(x):
    """Return the squared norm of a row."""
    total = x[0] * x[0]
    for j in range(1, x.shape[0]):
        total += x[j] * x[j]
    return total


@helper
def write_kernel_values(kernel, rows, row_cache, n, x, norm2, out):
    """Write k(row, x) for the first n rows; `row_cache` are their squared norms."""
    _products(rows, n, x, out)
    for i in range(n):
        out[i] = kernel.of_products(out[i], row_cache[i], norm2)
