"""Renewals of a scaling: points are put through the new scale, and what the rows told stays.

They come after rows 1, 3, 7, 15, ... of the stream, whatever the blocks, so that the next row is
the first that the new numbers scale. Points are not kept twice: the old scale is turned back.
"""

from typing import TYPE_CHECKING

import numpy as np

from kernelstream.compile import as_argument
from kernelstream.learner import second_order
from kernelstream.learner.rows import rows_until
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.scalings import scale

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["metric_of", "renew", "renew_after", "rows_until_due", "rows_until_renewal"]

_ROWS_FOR_METRIC = 128  # from then on, f tells which directions matter
# At how many points, and of how many outputs: more would take longer and tell the same.
_MOST_POINTS, _MOST_OUTPUTS = 320, 64
_NUGGET = 1e-5  # on the diagonal of K, since points that were independent may not be so any more


def rows_until_renewal(machine: "Machine", weight: np.ndarray) -> int:
    """Return how many of these rows to learn up to the next renewal, its row included."""
    due = rows_until_due(machine, machine.n_seen)
    return len(weight) if due is None else rows_until(due, weight)


def rows_until_due(machine: "Machine", n_seen: int) -> int | None:
    """Return how many more rows may be learned before a scaling is renewed; None: any number."""
    parts = machine.parts
    if not parts.renews:
        return None
    scalings = parts.scaling, parts.target_scaling
    found = (scaling.rows_until_renewal(n_seen) for scaling in scalings if scaling.renews)
    return min((rows for rows in found if rows is not None), default=None)


def renew_after(machine: "Machine", n_before: int) -> None:
    """Renew what is due, after the rows since `n_before`."""
    if machine.n_seen - n_before == rows_until_due(machine, n_before):
        renew(machine)


def renew(machine: "Machine") -> None:
    """Take new numbers for the scales of rows and targets, and a metric."""
    if machine.parts.update.is_second_order:
        second_order.close(machine)
    if machine.parts.target_scaling.renews:
        _renew_targets(machine)
    if machine.parts.scaling.renews:
        _renew_rows(machine)


def _renew_targets(machine: "Machine") -> None:
    """Keep f as it is in the units of y: zero + unit w."""
    state, dual = machine.state.target_scaling, machine.state.update
    zero, unit = machine.target_scaling.unit_of(state)
    machine.parts.target_scaling.renew_target(state)
    new_zero, new_unit = machine.target_scaling.unit_of(state)
    if unit == 0.0:  # so far there was none, and nothing was learned but zeros
        return
    values = dual.values[:, : machine.n_points]
    values *= unit / new_unit
    values += (zero - new_zero) / new_unit
    dual.squared[0] *= (unit / new_unit) ** 2
    dual.bar[0] *= (unit / new_unit) ** 2
    machine.changes().mark_all()
    second_order.settle(machine)


def _renew_rows(machine: "Machine") -> None:
    """Rewrite the points in the new scale and metric, and the prior between them."""
    scaling, state, store = machine.parts.scaling, machine.state.scaling, machine.store
    n = machine.n_points
    rows = store.stored(n)
    gradients = None
    if scaling.finds_metric and machine.n_seen + 1 >= _ROWS_FOR_METRIC:
        gradients = scaling.gradient_in(state, _gradients(machine, rows)).reshape(-1, rows.shape[1])
        gradients = gradients.T @ gradients
    raw = as_argument(scaling.raw(state, rows.astype(np.float64)), machine.dtype)
    scaling.renew(state, gradients)
    machine.call("scale", scale, machine.scaling, state, raw, rows)
    cache = machine.kernel.row_cache(rows)
    store.replace(np.arange(n), rows, cache)
    gram = np.empty((n, n), machine.dtype)
    store.block(n, rows, cache, gram)
    if machine.parts.update.is_second_order:
        gram = gram.astype(np.float64)
        gram = 0.5 * (gram + gram.T)
        gram.reshape(-1)[:: n + 1] += _NUGGET
        second_order.change_kernel(machine, gram)
    else:
        _renew_norms(machine, gram)
        machine.parts.budget.take_gram(machine.state.budget, gram)


def _renew_norms(machine: "Machine", gram: np.ndarray) -> None:
    """Return ||f||^2 and <f, v> with other kernel values between the points."""
    expansion, n = machine.state.expansion, machine.n_points
    p, q, r = expansion.scale
    coef, points = expansion.coef[:, :, :n], np.arange(n)
    raw = expansion.outputs.raw_scores(
        expansion.coef, expansion.scale, machine.n_outputs, gram, machine.store.memory
    )
    norm2, pi = 0.0, 0.0
    for line in range(coef.shape[0]):
        f = p * raw[expansion.outputs.output_of(line, points), 0, points]
        norm2 += p * float(coef[line, 0] @ f)
        if coef.shape[1] > 1:
            pi += float((q * coef[line, 1] + r * coef[line, 0]) @ f)
    expansion.norm2[0], expansion.pi[0] = max(norm2, 0.0), pi
    for _, array in state_arrays(machine.state.gram):
        array[:n, :n] = gram
    machine.changes().mark_all()


def _gradients(machine: "Machine", rows: np.ndarray) -> np.ndarray:
    """Return the gradients of f at the points, by features as kernels see them: some of many."""
    expansion, n = machine.state.expansion, len(rows)
    lines = expansion.coef[:, 0, :n]
    coef = expansion.outputs.scores_of(lines, np.eye(n), machine.n_outputs).T
    return machine.kernel.gradients(rows, _some(rows, _MOST_POINTS), _some(coef, _MOST_OUTPUTS))


def _some(lines: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many lines, evenly chosen."""
    return lines[:: max(1, -(-len(lines) // most))]


def metric_of(machine: "Machine") -> np.ndarray:
    """Return the squared metric that kernels see rows through."""
    if not machine.parts.scaling.finds_metric:
        raise AttributeError(
            "metric_ is known with scaling=Renewed(metric=True), not with "
            f"{machine.parts.scaling!r}."
        )
    return machine.parts.scaling.metric_in(machine.state.scaling)
