"""What scalings share."""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelstream.compile import compiled
from kernelstream.parts import Part, rule

__all__ = [
    "LARGEST_FEATURE",
    "UNSCALED",
    "Scaling",
    "ScalingRule",
    "Unscaled",
    "count_and_scale",
    "count_and_scale_entries",
    "count_and_scale_targets",
    "scale",
    "scale_entries",
]

LARGEST_FEATURE = 1e100  # of rows that are scaled: sums of its square are still numbers


class ScalingRule(Protocol):
    """What a scaling's rule answers. Its record of `Field` objects is `scaling_state`."""

    def scale_row(self, scaling_state, x, out):
        """Write the row x, scaled, into `out`; return what `count_row` wants to know of it."""
        raise NotImplementedError

    def count_row(self, scaling_state, x, size):
        """The row x has come: let it count for the rows after it."""
        raise NotImplementedError

    def scale_sparse(self, scaling_state, indices, data, out):
        """`scale_row` for a row of which only the entries are there that are not zero."""
        raise NotImplementedError

    def count_sparse(self, scaling_state, indices, data, size):
        """`count_row` for such a row."""
        raise NotImplementedError

    def unit_of(self, scaling_state):
        """The zero and the unit of targets, which are rows of one feature, as they are now."""
        raise NotImplementedError

    def scale_target(self, scaling_state, y, zero, unit):
        """A target in that unit; where there is none yet, zero."""
        raise NotImplementedError

    def bounds_of(self, scaling_state):
        """The smallest and the largest prediction that targets so far allow."""
        return -math.inf, math.inf

    def seen_row(self, x, out):
        """What kernels see of x: `out`, where `scale_row` has written."""
        return out


class Scaling(Part):
    """Base of the scalings."""

    is_scaled = True
    may_widen = True  # whether rows may get more features
    renews = False  # whether its numbers are frozen, but for rows at which they are renewed
    finds_metric = False  # whether it then asks for the gradients of f

    def gives_unit_length(self) -> bool:
        """Whether rows are about as long as one, whatever the number of features."""
        return False

    def state(self, axis: str = "features") -> Any:
        """The record of what it remembers: a named tuple of `Field` along `axis`."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def to_rule(self) -> Any:
        """The compiled rule, of `ScalingRule`."""
        raise TypeError(f"{type(self).__name__} must say its rule.")

    def rows_until_renewal(self, n_rows: int) -> int | None:
        """How many rows may be learned, after so many, before its numbers are renewed."""
        return None

    def renew(self, scaling_state: Any, squared_gradients: np.ndarray | None = None) -> None:
        """Scale by the statistics of the rows so far from now on.

        `squared_gradients` is the sum of grad f grad f^T over points, by the features as they were
        scaled up to now, where f tells enough for a metric.
        """

    def renew_target(self, scaling_state: Any) -> None:
        """The same for targets, whose unit is never zero afterwards."""

    def raw(self, scaling_state: Any, rows: np.ndarray) -> np.ndarray:
        """Scaled rows as they were before."""
        raise TypeError(f"{type(self).__name__} must say how to turn a scaled row back.")


@rule
class NotScaled(NamedTuple):
    """Rows as they are: rule and record in one."""

    def scale_row(self, scaling_state, x, out):
        return 0.0

    def count_row(self, scaling_state, x, size):
        return

    def unit_of(self, scaling_state):
        return 0.0, 1.0

    def scale_target(self, scaling_state, y, zero, unit):
        return y

    def bounds_of(self, scaling_state):
        return -math.inf, math.inf

    def seen_row(self, x, out):
        return x


class Unscaled(Scaling):
    """Rows as they are."""

    is_scaled = False

    def state(self, axis: str = "features") -> Any:
        return _NOT_SCALED

    def to_rule(self) -> Any:
        return _NOT_SCALED


_NOT_SCALED = NotScaled()
UNSCALED = Unscaled()


@compiled
def scale(scaling, state, X, out):
    """Scale rows by what is known; return how many. Fewer than all: the next is refused.

    Parameters
    ----------
    scaling, state : NamedTuple
        The rule, and what it remembers.
    X : ndarray of rows
    out : ndarray
        Where scaled rows are written.
    """
    for i in range(X.shape[0]):
        if not _is_sound(X[i]):
            return i
        scaling.scale_row(state, X[i], out[i])
    return X.shape[0]


@compiled
def count_and_scale(scaling, state, X, weight, out):
    """Scale rows in order, each by what the rows before it have left; return how many.

    Fewer than all: the next is refused. A row without weight does not count.

    Parameters
    ----------
    scaling, state : NamedTuple
        The rule, and what it remembers.
    X : ndarray of rows
    weight : ndarray
        Of the rows.
    out : ndarray
        Where scaled rows are written.
    """
    for i in range(X.shape[0]):
        if not _is_sound(X[i]):
            return i
        size = scaling.scale_row(state, X[i], out[i])
        if weight[i] != 0.0:
            scaling.count_row(state, X[i], size)
    return X.shape[0]


@compiled
def count_and_scale_targets(scaling, state, y, weight, out, units):
    """Scale targets in order, each by those before it, and say by what: y = zero + unit out.

    Lines of `units` are zero, unit, and the bounds of what may be said of the target.

    Parameters
    ----------
    scaling, state : NamedTuple
        The rule, and what it remembers.
    y : ndarray
    weight : ndarray
        Of the rows.
    out : ndarray
        Where scaled targets are written.
    units : ndarray of shape (4, targets)
    """
    for i in range(y.shape[0]):
        units[0, i], units[1, i] = scaling.unit_of(state)
        units[2, i], units[3, i] = scaling.bounds_of(state)
        out[i] = scaling.scale_target(state, y[i], units[0, i], units[1, i])
        if weight[i] != 0.0:
            scaling.count_row(state, y[i : i + 1], 0.0)


@compiled
def scale_entries(scaling, state, indptr, indices, data, out):
    """`scale` for sparse rows.

    Parameters
    ----------
    scaling, state : NamedTuple
        The rule, and what it remembers.
    indptr, indices, data : ndarray
        The rows in CSR form.
    out : ndarray
        Where scaled rows are written.
    """
    for i in range(indptr.shape[0] - 1):
        begin, end = indptr[i], indptr[i + 1]
        if not _is_sound(data[begin:end]):
            return i
        scaling.scale_sparse(state, indices[begin:end], data[begin:end], out[begin:end])
    return indptr.shape[0] - 1


@compiled
def count_and_scale_entries(scaling, state, indptr, indices, data, weight, out):
    """`count_and_scale` for sparse rows.

    Parameters
    ----------
    scaling, state : NamedTuple
        The rule, and what it remembers.
    indptr, indices, data : ndarray
        The rows in CSR form.
    weight : ndarray
        Of the rows.
    out : ndarray
        Where scaled rows are written.
    """
    for i in range(indptr.shape[0] - 1):
        begin, end = indptr[i], indptr[i + 1]
        if not _is_sound(data[begin:end]):
            return i
        size = scaling.scale_sparse(state, indices[begin:end], data[begin:end], out[begin:end])
        if weight[i] != 0.0:
            scaling.count_sparse(state, indices[begin:end], data[begin:end], size)
    return indptr.shape[0] - 1


@compiled
def _is_sound(x):
    for j in range(x.shape[0]):  # noqa: SIM110 (compiled code has no generators)
        if not abs(x[j]) <= LARGEST_FEATURE:  # NaN is not either
            return False
    return True
