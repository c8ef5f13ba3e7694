"""One machine of several that learned other rows of one stream.

First order: the mean of the functions, a sum in the kernel's space, f = sum_m w_m f_m. It stands on
the points of all machines, and is projected on as many of them as the budget allows. Step sizes,
margins and intercepts are means. Second order: f at the points of each machine is a Gaussian, and
what its rows told is that posterior over the prior. The product over all machines, with the prior
once, is what one machine would know that had learned all rows, but for what their dictionaries left
open.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse

from kernelstream.learner import second_order
from kernelstream.learner.state import arrays, fields

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["closest_on_few", "mean_of_functions", "product_of_posteriors", "product_of_weights"]

_BLOCK = 2048  # points whose kernel values with all points are made at a time
_CANDIDATES = 4  # times as many points as may stay are looked at, those with the largest terms
_LEAST_DISTANCE = 1e-6  # of a point from the span of others, squared, as a share of k(x, x)
_LEAST_TOLD = 1e-10  # what rows told of f, in units of the prior, that counts
_MEANS = ["step_size", "margin", "intercept", "update", "drift"]


# --- first order ---------------------------------------------------------------------------------


def mean_of_functions(
    machines: Sequence["Machine"], weights: np.ndarray, outputs: Sequence[np.ndarray],
    machine: "Machine",
) -> None:  # fmt: skip
    """Make f the mean of the functions, and average the numbers of the other parts."""
    for part in _MEANS:
        _mean_of_state(machines, weights, outputs, machine, part)
    coef = np.zeros((machine.n_outputs, sum(one.n_points for one in machines)))
    if machine.parts.budget.is_folded:
        coef = coef[:, : machine.n_points]
        for one, weight, where in zip(machines, weights, outputs, strict=True):
            coef[where] += weight * one.weights()
        machine.state.expansion.coef[:, 0, : coef.shape[1]] = coef
        _settle(machine, coef, coef)
        return
    start = 0
    for one, weight, where in zip(machines, weights, outputs, strict=True):
        own = one.coefficients()
        coef[where, start : start + own.shape[1]] = weight * own
        start += own.shape[1]
    rows = _stacked([one.support() for one in machines])
    coef = coef[:, :start]
    limit = machine.parts.budget.limit()
    if machine.parts.budget.projects or (limit is not None and start > limit):
        chosen, coef = closest_on_few(machine.kernel, rows, coef, limit or start)
        rows = rows[chosen]
    _put_points(machine, rows, coef)


def _mean_of_state(
    machines: Sequence["Machine"], weights: np.ndarray, outputs: Sequence[np.ndarray],
    machine: "Machine", part: str,
) -> None:  # fmt: skip
    """Average numbers, add counts, and reset what belongs to single points."""
    records = [dict(arrays(getattr(one.state, part))) for one in machines]
    declared = dict(fields(getattr(machine.declared, part)))
    for name, array in arrays(getattr(machine.state, part)):
        axes = declared[name].axes
        if not machine.parts.budget.is_folded and any("points" in axis for axis in axes):
            continue
        total = np.zeros(array.shape)
        for record, weight, where in zip(records, weights, outputs, strict=True):
            own = array.astype(
                float
            )  # outputs that a machine does not know are as in the beginning
            place = (where,) if axes[:1] in (("outputs",), ("lines",)) else ...
            own[place] = record[name]
            total += (weight if array.dtype.kind == "f" else 1.0) * own
        array[...] = total


def _put_points(machine: "Machine", rows: Any, coef: np.ndarray) -> None:
    """Let rows be the points of a machine that has none, with these coefficients."""
    n = rows.shape[0]
    machine.make_room(n)
    state = machine.state
    gram = np.asarray(machine.kernel(rows), dtype=np.float64)
    machine.store.replace(np.arange(n), rows, machine.kernel.row_cache(rows))
    state.expansion.n_points[0] = n
    state.expansion.coef[:, 0, :n] = coef
    for _, array in arrays(state.gram):
        array[:n, :n] = gram
    machine.parts.budget.adopt(state.budget, state.expansion, gram)
    _settle(machine, coef, coef @ gram)


def _settle(machine: "Machine", coef: np.ndarray, values: np.ndarray) -> None:
    """Recompute the norms of f and reset its trace."""
    expansion = machine.state.expansion
    expansion.size2[: coef.shape[1]] = np.einsum("ij,ij->j", coef, coef)
    expansion.norm2[0] = max(float(np.vdot(coef, values)), 0.0)


def _stacked(blocks: list[Any]) -> Any:
    if sparse.issparse(blocks[0]):
        return sparse.csr_array(sparse.vstack(blocks))
    return np.concatenate(blocks)


def closest_on_few(
    kernel: Any, rows: Any, coef: np.ndarray, n_points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Project f = sum_i coef_i k(x_i, .) on the span of few of its points.

    Points are chosen one after the other, each the one with which the projection comes closest to
    f (orthogonal matching pursuit in the kernel's space): with r what is left of f, and d the
    squared distance of a point from the span of those chosen, it is the largest r(x)^2 / d(x).

    Parameters
    ----------
    kernel : Kernel
    rows : ndarray or csr_array of shape (n, features)
    coef : ndarray of shape (outputs, n)
    n_points : int
        The most points.

    Returns
    -------
    chosen : ndarray of int
        In the order in which they stand in `rows`.
    coef : ndarray of shape (outputs, chosen)
    """
    candidates = _largest(kernel, rows, coef, _CANDIDATES * n_points)
    among = rows[candidates]
    values = np.zeros((len(coef), len(candidates)))  # of f
    for start in range(0, rows.shape[0], _BLOCK):
        block = slice(start, start + _BLOCK)
        values += coef[:, block] @ kernel(rows[block], among)
    left, distance = values.copy(), _diagonal(kernel, among)
    least = np.maximum(_LEAST_DISTANCE * distance, 1e-300)
    n_points = min(n_points, len(candidates))
    basis = np.empty((n_points, len(candidates)))  # orthonormal functions
    chosen: list[int] = []
    while len(chosen) < n_points:
        gain = np.where(distance > least, (left**2).sum(axis=0), -1.0) / np.maximum(distance, least)
        best = int(gain.argmax())
        if gain[best] < 0.0:
            break
        m = len(chosen)
        function = kernel(among[[best]], among)[0] - basis[:m, best] @ basis[:m]
        function /= np.sqrt(distance[best])
        basis[m] = function
        left -= np.outer(left[:, best] / np.sqrt(distance[best]), function)
        distance -= function * function
        distance[best] = 0.0
        chosen.append(best)
    order = np.sort(np.array(chosen, dtype=np.int64))
    gram = kernel(among[order])
    # the projection has the values of f at the chosen points
    return candidates[order], linalg.solve(gram, values[:, order].T, assume_a="sym").T


def _largest(kernel: Any, rows: Any, coef: np.ndarray, n: int) -> np.ndarray:
    """Return the points with the largest terms of f, in the order in which they stand."""
    sizes = (coef**2).sum(axis=0) * _diagonal(kernel, rows)
    return np.sort(np.argsort(-sizes, kind="stable")[:n])


def _diagonal(kernel: Any, rows: Any) -> np.ndarray:
    """Return k(x, x) of every row."""
    found = kernel.diagonal(kernel.row_cache(rows))
    if found is not None:
        return np.array(np.broadcast_to(found, (rows.shape[0],)), dtype=np.float64)
    return np.array([kernel(rows[[i]])[0, 0] for i in range(rows.shape[0])])


# --- second order --------------------------------------------------------------------------------


def product_of_posteriors(
    machines: Sequence["Machine"], weights: np.ndarray, outputs: Sequence[np.ndarray],
    machine: "Machine",
) -> None:  # fmt: skip
    """Multiply the posteriors on a joint dictionary, machine after machine."""
    size = machine.parts.budget.limit()
    n_slots = (size or 0) + sum(one.n_points for one in machines)
    if size is not None:
        n_slots = 2 * size + max(one.n_points for one in machines)
    joint = type(machine)(
        machine.parts, machine.n_features, machine.n_outputs, machine.dtype, machine.is_sparse,
        n_slots=max(n_slots, machine.n_slots),
    )  # fmt: skip
    for one, power, where in zip(machines, weights, outputs, strict=True):
        _multiply(joint, second_order.closed(one), float(power), where)
        second_order.refresh(joint)
        second_order.settle(joint)
        if size is not None and joint.n_points > size:
            second_order.prune(joint, joint.n_points - size)
            second_order.refresh(joint)
            second_order.settle(joint)
    if machine.limit is None:
        machine.make_room(joint.n_points)
    _mean_of_state(machines, weights / weights.sum(), outputs, machine, "margin")
    joint.state.expansion.n_seen[0] = machine.n_seen
    # memory of the budget, and what is not of the posterior, stay as they are
    memory = {name for name, field in fields(machine.declared) if "points_and_one" in field.axes}
    own = {
        name: array
        for name, array in arrays(machine.state)
        if name in memory or name.startswith("margin.")
    }
    machine.fill({**joint.to_arrays(), **own})


def _multiply(joint: "Machine", one: "Machine", power: float, outputs: np.ndarray) -> None:
    """Let a machine know what the rows of another told, to some power.

    With the prior K / c = R R^T at the points of the other, R^-1 f has the prior I and the
    posterior G = U diag(g) U^T: what the rows told are independent observations of U^T R^-1 f, with
    precisions 1 / g - 1. They are observations of f at the joint dictionary, too.
    """
    c, n = joint.model.regularization, one.n_points
    dual, own = joint.state.update, one.state.update
    q = _extend(joint, one)  # f at the points of the other is q times f at the joint ones
    spread, vectors = np.linalg.eigh(one.state.budget.gram[:n, :n] / c)
    sound = spread > 1e-13 * spread[-1]
    whiten = (vectors[:, sound] / np.sqrt(spread[sound])).T  # R^-1
    g, turn = np.linalg.eigh(whiten @ own.covariance[:n, :n] @ whiten.T)
    g = np.clip(g, 1e-14, 1.0)
    told = 1.0 / g - 1.0 > _LEAST_TOLD
    root = np.sqrt(power * (1.0 / g[told] - 1.0))[:, None]
    to_observed = turn[:, told].T @ whiten
    observed = root * ((to_observed @ own.values[:, :n].T) / (1.0 - g[told])[:, None])
    lines = root * (to_observed @ q)
    m = joint.n_points
    reach = lines @ dual.covariance[:m, :m]
    spread_of_errors = np.eye(len(root)) + reach @ lines.T
    gain = linalg.solve(spread_of_errors, reach, assume_a="pos")
    errors = observed - lines @ dual.values[outputs, :m].T
    dual.values[outputs, :m] += errors.T @ gain
    covariance = dual.covariance[:m, :m] - reach.T @ gain
    dual.covariance[:m, :m] = 0.5 * (covariance + covariance.T)
    dual.squared[0] += power * own.squared[0]
    dual.counted[0] += power * own.counted[0]


def _extend(joint: "Machine", one: "Machine") -> np.ndarray:
    """Take the points of another machine into the dictionary that it does not stand for yet.

    Answers the coordinates of all points of the other over the dictionary.
    """
    budget, dual, c = joint.state.budget, joint.state.update, joint.model.regularization
    n, rows = joint.n_points, one.store.stored(one.n_points)
    k = np.asarray(joint.kernel(joint.store.stored(n), rows)) if n else np.zeros((0, rows.shape[0]))
    a = k.T @ budget.inverse[:n, :n]
    gram = one.state.budget.gram[: one.n_points, : one.n_points]
    left = gram - a @ k
    new = np.arange(len(gram)) if n == 0 else _independent(left, gram, joint.model.budget)
    end = n + len(new)
    if len(new):
        told = a[new] @ dual.covariance[:n, :n]
        dual.covariance[n:end, :n], dual.covariance[:n, n:end] = told, told.T
        own = told @ a[new].T + left[np.ix_(new, new)] / c
        dual.covariance[n:end, n:end] = 0.5 * (own + own.T)
        dual.values[:, n:end] = dual.values[:, :n] @ a[new].T
        budget.gram[n:end, :n], budget.gram[:n, n:end] = k[:, new].T, k[:, new]
        budget.gram[n:end, n:end] = gram[np.ix_(new, new)]
        joint.store.replace(np.arange(n, end), rows[new], joint.kernel.row_cache(rows[new]))
        joint.state.expansion.n_points[0] = end
        second_order.refresh(joint)
    k_all = np.concatenate([k, gram[new]])
    return k_all.T @ budget.inverse[:end, :end]


def _independent(left: np.ndarray, gram: np.ndarray, rule: Any) -> np.ndarray:
    """Return the points that a dictionary does not represent, the farthest first."""
    left, chosen = left.copy(), []
    share, least = rule.dependence()
    most = np.maximum(share * gram.diagonal(), least)
    for _ in range(len(left)):
        over = left.diagonal() - most
        best = int(over.argmax())
        if over[best] <= 0.0:
            break
        line = left[best] / np.sqrt(left[best, best])
        left -= np.outer(line, line)
        left[best, best] = 0.0
        chosen.append(best)
    return np.sort(np.array(chosen, dtype=np.int64))


def product_of_weights(
    machines: Sequence["Machine"], weights: np.ndarray, outputs: Sequence[np.ndarray],
    machine: "Machine",
) -> None:  # fmt: skip
    """Multiply the posteriors of weights, whose prior is I / c."""
    c, state = machine.model.regularization, machine.state
    n = state.update.covariance.shape[0]
    precision, moments = c * np.eye(n), np.zeros((machine.n_outputs, n))
    for one, power, where in zip(machines, weights, outputs, strict=True):
        own = np.linalg.inv(one.state.update.covariance)
        precision += power * (own - c * np.eye(n))
        weights_of = np.concatenate([one.intercept()[:, None], one.weights()], axis=1)
        moments[where] += power * weights_of @ own
    covariance = np.linalg.inv(0.5 * (precision + precision.T))
    found = moments @ covariance
    state.update.covariance[...] = covariance
    state.update.n_begun[0] = n
    state.intercept.b[:] = found[:, 0]
    state.expansion.coef[:, 0, :] = found[:, 1:]
    _settle(machine, found[:, 1:], found[:, 1:])
