"""Scores of a machine for many rows, and how certain they are."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.expansion import scoring
from kernelstream.learner import second_order
from kernelstream.learner.rows import refuse_large
from kernelstream.learner.scaled import scaled, unscaled_scores
from kernelstream.threads import each, rows_of_a_piece

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = [
    "READOUTS", "deviations_of", "noise_variance_of", "scores_of", "variances_of",
    "why_no_deviations",
]  # fmt: skip

_ROWS = 512  # scored at a time, which bounds the memory

# What predicts: the model as it is, the average of all models so far, or their vote.
READOUTS = {"last": scoring.scores, "averaged": scoring.averaged, "voted": scoring.votes}


def scores_of(machine: "Machine", X: Any, readout: str) -> np.ndarray:
    """Return the scores of every row, of shape (rows, outputs), see `Machine.scores`."""
    X = machine.store.taken(scaled(machine, X))
    x, read = machine.store.row_cache_of(X), READOUTS[readout]
    refuse_large(machine.kernel, machine.dtype, X, x)
    expansion, b = machine.state.expansion, machine.state.intercept.b

    n_rows, n_terms = X.shape[0], max(machine.n_features, machine.n_outputs)
    n_of_piece = rows_of_a_piece(n_rows, machine.n_points, n_terms, _ROWS)

    def scores_from(start: int) -> np.ndarray:
        rows = slice(start, start + n_of_piece)
        return read(expansion, b, machine.store.basis(machine.n_points, X[rows], x[rows]))

    result, starts = np.empty((n_rows, machine.n_outputs)), range(0, n_rows, n_of_piece)
    with machine.threads(n_rows, _ROWS):
        pieces = each(scores_from, starts, repeatable=True)
        for start, scores in zip(starts, pieces, strict=True):
            result[start : start + n_of_piece] = scores
    return unscaled_scores(machine, result)


def variances_of(machine: "Machine", X: Any) -> np.ndarray:
    """Return the variance of f at every row, of shape (rows,), where the update knows it.

    It is the same for all outputs. A machine that learned nothing raises a `ValueError`.
    """
    closed = second_order.closed(machine)
    result, X = np.empty(X.shape[0]), machine.store.taken(scaled(machine, X))
    x, n = machine.store.row_cache_of(X), machine.n_points
    refuse_large(machine.kernel, machine.dtype, X, x)
    diagonal = machine.kernel.diagonal(x)
    for start in range(0, X.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        piece = X[rows]
        if diagonal is None:
            own = np.empty((piece.shape[0], piece.shape[0]), machine.dtype)
            machine.kernel.block(piece, piece, x[rows], x[rows], own)
            k_xx = own.diagonal()
        else:
            k_xx = np.broadcast_to(diagonal, (X.shape[0],))[rows]
        block = machine.store.basis(n, piece, x[rows])
        result[rows] = second_order.variances(closed, block, k_xx)
    return result * _target_unit(machine) ** 2


def deviations_of(machine: "Machine", X: Any) -> np.ndarray:
    """Return the standard deviation of targets: f is uncertain, and rows have noise."""
    return np.sqrt(variances_of(machine, X) + noise_variance_of(machine))


def why_no_deviations(update: Any) -> str | None:
    """Return why an update has no `deviations_of`, or None."""
    if update.is_second_order:
        return None
    return (
        f"update={update!r} does not know how certain its predictions are: use a committee, "
        "such as AutoRegressor, or ks.make('sog-svr', 'regressor') or ks.make('sog-svc', "
        "'classifier'), which are update=Dual() with budget=Independent(...)."
    )


def noise_variance_of(machine: "Machine") -> float:
    """Return the variance of the noise of a row of weight one, where the update knows it."""
    unit = second_order.unit_of(machine) / machine.model.loss_weight
    return unit * _target_unit(machine) ** 2


def _target_unit(machine: "Machine") -> float:
    """Return the unit of targets."""
    if not machine.parts.target_scaling.is_scaled:
        return 1.0
    return float(machine.target_scaling.unit_of(machine.state.target_scaling)[1])
