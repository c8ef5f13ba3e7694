"""Rows as kernels see them: what a machine's scaling makes of them."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from kernelstream.compile import as_argument
from kernelstream.learner.rows import NOT_FINITE, BadRow, refuse_large, too_large
from kernelstream.scalings import (
    LARGEST_FEATURE,
    count_and_scale,
    count_and_scale_entries,
    count_and_scale_targets,
    scale,
    scale_entries,
)

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = [
    "Scales",
    "in_units",
    "refuse_too_far",
    "refuse_unfit",
    "scaled",
    "scaled_in_order",
    "scaled_targets",
    "targets_in_order",
    "unfit",
    "unscaled_scores",
]


class Scales(Protocol):
    """What has scalings, and what they know of the rows so far."""

    scaling: Any  # the compiled rules
    target_scaling: Any

    @property
    def parts(self) -> Any:
        """Return the rules with `scaling` and `target_scaling`."""
        ...

    @property
    def state(self) -> Any:
        """Return the state with `scaling` and `target_scaling`, which hold their statistics."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """Return the precision of rows."""
        ...

    def call(self, name: str, function: Any, *arguments: Any) -> Any:
        """Call compiled code whose arguments always have the same types."""
        ...


_TOO_LARGE = f"it has a feature beyond {LARGEST_FEATURE:g}: scale it down"


def scaled(machine: Scales, X: Any) -> Any:
    """Return rows as the statistics of the rows so far make them, for a prediction."""
    if not machine.parts.scaling.is_scaled:
        return X
    scaling, state = machine.scaling, machine.state.scaling
    if sparse.issparse(X):
        out = np.empty_like(X.data)
        done = scale_entries(scaling, state, X.indptr, X.indices, X.data, out)
        return _checked(X, done, _with_data(X, out))
    X = as_argument(X, machine.dtype)
    out = np.empty_like(X)
    return _checked(X, machine.call("scale", scale, scaling, state, X, out), out)


def scaled_in_order(machine: Scales, X: Any, weight: np.ndarray) -> Any:
    """Return rows in the order in which they are learned, each as the rows before it make it.

    Afterwards the statistics have seen all of them.
    """
    if not machine.parts.scaling.is_scaled:
        return X
    scaling, state = machine.scaling, machine.state.scaling
    if sparse.issparse(X):
        out = np.empty_like(X.data)
        done = count_and_scale_entries(scaling, state, X.indptr, X.indices, X.data, weight, out)
        return _checked(X, done, _with_data(X, out))
    X = as_argument(X, machine.dtype)
    out = np.empty_like(X)
    done = machine.call("count and scale", count_and_scale, scaling, state, X, weight, out)
    return _checked(X, done, out)


def targets_in_order(
    machine: Scales, y: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Scale each target by those before it; return the zero, unit and bounds of each as well.

    None in place of these: targets as they are. Afterwards the statistics have seen all of them.
    """
    if not machine.parts.target_scaling.is_scaled:
        return y, None
    scaling, state = machine.target_scaling, machine.state.target_scaling
    out, units = np.empty_like(y), np.empty((4, len(y)))
    machine.call("targets", count_and_scale_targets, scaling, state, y, weight, out, units)
    return out, units


def scaled_targets(machine: Scales, y: np.ndarray) -> np.ndarray:
    """Scale targets by the statistics of all of them."""
    rule, state = machine.target_scaling, machine.state.target_scaling
    zero, unit = rule.unit_of(state)
    return np.array([rule.scale_target(state, target, zero, unit) for target in y.tolist()])


def in_units(scores: np.ndarray, units: np.ndarray) -> None:
    """Turn scores of rows in order into the units of their targets, in place.

    `units` are those of `targets_in_order`: zero, unit, least and most, of each row.
    """
    zero, unit, least, most = units[:, :, None]
    np.clip(zero + unit * scores, least, most, out=scores)


def unscaled_scores(machine: Scales, scores: np.ndarray) -> np.ndarray:
    """Return scores, changed in place, in the units of the targets."""
    if machine.parts.target_scaling.is_scaled:
        rule, state = machine.target_scaling, machine.state.target_scaling
        zero, unit = rule.unit_of(state)
        least, most = rule.bounds_of(state)
        if scores.shape == (1,):  # for which NumPy would take longer
            scores[0] = min(max(zero + unit * scores.item(), least), most)
            return scores
        scores *= unit
        scores += zero
        np.clip(scores, least, most, out=scores)
    return scores


def _with_data(X: Any, data: np.ndarray) -> Any:
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _checked(X: Any, done: int, out: Any) -> Any:
    if done < X.shape[0]:
        values = X[[done]].data if sparse.issparse(X) else X[done]
        raise BadRow(int(done), _TOO_LARGE if np.isfinite(values).all() else NOT_FINITE)
    return out


def _too_far(X: np.ndarray) -> np.ndarray:
    """Return which dense rows have a feature that is too large to be scaled, or not finite."""
    return ~(np.abs(X).max(axis=1, initial=0.0) <= LARGEST_FEATURE)


def refuse_too_far(X: Any) -> None:
    """Refuse rows with a feature that is too large to be scaled, or not finite."""
    values = X.data if sparse.issparse(X) else X
    # as Python's float: in float32 the limit is infinite
    if float(max(values.max(initial=0.0), -values.min(initial=0.0))) <= LARGEST_FEATURE:  # nor NaN
        return
    if sparse.issparse(X):
        entry = np.flatnonzero(~(np.abs(values) <= LARGEST_FEATURE))[0]
        row = np.searchsorted(X.indptr, entry, side="right") - 1
    else:
        row = np.flatnonzero(_too_far(X))[0]
    _checked(X, int(row), None)


def unfit(machine: "Machine", X: np.ndarray) -> np.ndarray:
    """Return which dense rows cannot be learned, before they are scaled."""
    if machine.parts.scaling.is_scaled:
        return _too_far(X)
    return too_large(machine.kernel, machine.dtype, machine.kernel.row_cache(X))


def refuse_unfit(machine: "Machine", X: np.ndarray) -> None:
    """Refuse dense rows that cannot be learned, before they are scaled."""
    if machine.parts.scaling.is_scaled:
        refuse_too_far(X)
    else:
        refuse_large(machine.kernel, machine.dtype, X, machine.kernel.row_cache(X))
