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
        """Return the row x has come: let it count for the rows after it."""
        raise NotImplementedError

    def scale_sparse(self, scaling_state, indices, data, out):
        """Scale a row that has only its nonzero entries."""
        raise NotImplementedError

    def count_sparse(self, scaling_state, indices, data, size):
        """Count such a row."""
        raise NotImplementedError

    def unit_of(self, scaling_state):
        """Return the zero and the unit of targets, which are rows of one feature."""
        raise NotImplementedError

    def scale_target(self, scaling_state, y, zero, unit):
        """Return a target in that unit; where there is none yet, zero."""
        raise NotImplementedError

    def bounds_of(self, scaling_state):
        """Return the smallest and the largest prediction that targets so far allow."""
        return -math.inf, math.inf

    def seen_row(self, x, out):
        """Return the row that the kernel sees: `out`, if `scale_row` wrote there."""
        return out


class Scaling(Part):
    """Base of the scalings."""

    is_scaled = True
    may_widen = True  # whether rows may get more features
    renews = False  # whether its numbers are frozen, but for rows at which they are renewed
    finds_metric = False  # whether it then asks for the gradients of f

    def gives_unit_length(self) -> bool:
        """Return whether rows are about as long as one, whatever the number of features."""
        return False

    def state(self, axis: str = "features") -> Any:
        """Return the record of what it remembers: a named tuple of `Field` along `axis`."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def to_rule(self) -> Any:
        """Return the compiled rule, of `ScalingRule`."""
        raise TypeError(f"{type(self).__name__} must say its rule.")

    def rows_until_renewal(self, n_rows: int) -> int | None:
        """Return how many more rows may be learned before the scaling is renewed."""
        return None

    def renew(self, scaling_state: Any, squared_gradients: np.ndarray | None = None) -> None:
        """Scale by the statistics of the rows so far from now on.

        `squared_gradients` is the sum of grad f grad f^T over points, by the features as they were
        scaled up to now, where f tells enough for a metric.
        """

    def renew_target(self, scaling_state: Any) -> None:
        """Return the state for targets, whose unit never becomes zero."""

    def raw(self, scaling_state: Any, rows: np.ndarray) -> np.ndarray:
        """Return scaled rows in their original units."""
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
    """Scale sparse rows.

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
    """Scale sparse rows in order, and count them.

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
