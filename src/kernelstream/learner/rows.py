"""Rows that cannot be learned, and why."""

from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.kernels import Kernel
from kernelstream.threads import sum_of_squares

__all__ = [
    "LARGEST_TARGET",
    "LARGEST_WEIGHT",
    "NOT_FINITE",
    "TOO_LARGE_A_STEP",
    "BadRow",
    "extreme",
    "extreme_target",
    "largest_kernel",
    "refuse_extreme",
    "refuse_large",
    "rows_until",
    "too_large",
]

NOT_FINITE = "it contains NaN or infinity: leave it out or fill it in"
TOO_LARGE_A_STEP = "the step it asks for is too large to be represented"
# A larger target leaves rounding errors in the coefficients that drown everything else, and float32
# could not hold them; weights multiply them.
LARGEST_TARGET = LARGEST_WEIGHT = 1e30
_LARGEST_KERNEL = {np.dtype(np.float64): 1e100, np.dtype(np.float32): 1e30}


class BadRow(ValueError):  # noqa: N818 (it names what it is about)
    """A row that cannot be learned. The model is as it was before the call that brought it.

    Parameters
    ----------
    row : int
        Its number in the block.
    reason : str
        Why it was refused, with the remedy.
    """

    def __init__(self, row: int, reason: str):
        super().__init__(f"row {row} was refused: {reason}")
        self.row = row
        self.reason = reason

    def __reduce__(self) -> tuple:
        return BadRow, (self.row, self.reason)


def rows_until(due: int, weight: np.ndarray) -> int:
    """Return how many rows of these weights come up to the one that is the `due`-th to be counted.

    All of them, where there are not so many. Rows without weight are as good as absent.
    """
    counted = np.flatnonzero(weight > 0.0)
    return int(counted[due - 1]) + 1 if len(counted) >= due else len(weight)


def largest_kernel(dtype: np.dtype) -> float:
    """Return the largest kernel value with which rows of a precision can be learned."""
    return _LARGEST_KERNEL[dtype]


def too_large(kernel: Kernel, dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    """Return which rows have kernel values that overflow or are not finite; x is their cache."""
    return ~(kernel.magnitude(x) <= _LARGEST_KERNEL[dtype])


def refuse_large(kernel: Kernel, dtype: np.dtype, X: Any, x: np.ndarray) -> None:
    """Refuse rows whose kernel values would overflow."""
    # the maximum is NaN where any entry is, and then not below the limit either
    if not np.maximum.reduce(kernel.magnitude(x), initial=0.0) <= _LARGEST_KERNEL[dtype]:
        row = int(np.flatnonzero(too_large(kernel, dtype, x))[0])
        values = X[[row]].data if sparse.issparse(X) else X[row]
        if np.isfinite(values).all():
            raise BadRow(row, "it is so large that its kernel values would overflow: scale it down")
        raise BadRow(row, NOT_FINITE)


def extreme(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return which rows have a target or a weight that is too large to be learned."""
    return ~((np.abs(y) <= LARGEST_TARGET) & (weight <= LARGEST_WEIGHT))


def extreme_target(y: float) -> str | None:
    """Return the problem with a target that is too large to be learned, or None."""
    if abs(y) <= LARGEST_TARGET:
        return None
    return f"its target {y:g} is too large: scale targets, to at most {LARGEST_TARGET:g}"


def refuse_extreme(y: np.ndarray, weight: np.ndarray) -> None:
    """Refuse rows whose target or weight is too large to be learned."""
    if sum_of_squares(y) <= LARGEST_TARGET**2 and sum_of_squares(weight) <= LARGEST_WEIGHT**2:
        return  # each of them is, then; NaN is not
    bad = extreme(y, weight)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise BadRow(
            row,
            extreme_target(float(y[row]))
            or f"its sample_weight {weight[row]:g} is too large: give at most {LARGEST_WEIGHT:g}",
        )
