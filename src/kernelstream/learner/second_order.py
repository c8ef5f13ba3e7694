"""Second order: f fitted to all rows so far, over a dictionary, by matrix products.

f at the n points of the dictionary is a Gaussian with mean w and covariance P, whose prior is
K / c. A row is a combination a of the points, and f there is a . w. For a tile of rows, kernel
values, coordinates A = k_xz K^-1, what the points leave open of the rows, S = k_xx - A k_zx, and
the posterior at the rows, A w and A P A^T, are matrix products. Then the rows are learned in order
among themselves (`kernelstream.learner.tile_space`), and w, P and K^-1 take one update of the rank
of the tile. Rows that come one by one leave their tile open, and take that update together
(`kernelstream.learner.open_tile`, `close`).

Why w and P, and not the coefficients B = K^-1 w and their covariance Q = K^-1 P K^-1, which need
one product less: where points nearly depend on each other B and Q are large and cancel in every
score, and the models of different blocks then agree to fewer digits. w and P are of the size of the
targets. The coefficients are computed once per tile, for those who predict.

What is not linear in the rows happens after every `PERIOD`-th row of the stream, so that the model
does not depend on blocks: a dictionary that has grown beyond its size is pruned, old rows are
forgotten, and K^-1 is computed anew where it has changed often.

K, K^-1 and P may be on a device (`kernelstream.learner.algebra`). Their products with a tile are
then made there, and what belongs to the rows of the tile alone comes to the host.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import lapack

from kernelstream.compile import compiled
from kernelstream.learner.algebra import algebra_of, inverse_root
from kernelstream.learner.open_tile import (
    DELTA,
    NOISE,
    PRECISION,
    SETTLED,
)
from kernelstream.parts import SLACK
from kernelstream.updates.dual import PERIOD

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine


__all__ = ["change_kernel", "close", "closed", "unit_of", "variances"]

_CHANGES = 1024  # points that came or went, after which K^-1 is computed anew
# A row may join if its coordinates, corrected again, reproduce its kernel values so well.
TRUSTED = 1e-8
SAMPLE = 8  # rows by which it is seen whether there is anything to correct
_SMALLEST_PART = 1e-6  # of the precision of f that another prior may leave
_MORE_CANDIDATES = 16  # points that are looked at beyond as many as go


def regularized(machine: "Machine") -> Any:
    """Return K + ridge I, on the device of K."""
    budget, n, ridge = machine.state.budget, machine.n_points, machine.model.budget.ridge
    at = algebra_of(budget.gram)
    gram = at.there(budget.gram)[:n, :n]
    return gram if ridge == 0.0 else gram + ridge * at.identity(n)


def close(machine: "Machine") -> None:
    """Let P and K^-1 follow the rows that came one by one, if any; f has followed already."""
    state, tile = machine.state, machine.state.update.tile
    n_rows, m, end = int(tile.n_rows[0]), int(tile.n_joined[0]), machine.n_points
    if n_rows == 0:
        return
    machine.changes().mark_all()
    n, covariance, numbers = end - m, state.update.covariance, tile.numbers[:n_rows]
    told, joined, at = tile.told[:n_rows, :n], tile.joined[:m], algebra_of(covariance)
    precision = numbers[:, PRECISION]
    at.subtract_square(covariance, n, np.sqrt(precision)[:, None] * told)
    if m:
        places, later = np.arange(m), np.arange(n_rows)[:, None] > joined
        joint = np.where(later, tile.joint[:n_rows, :m], 0.0)  # rows with earlier new points
        share = -(precision[:, None] * joint).T
        own = share @ joint
        share[places, joined] = numbers[joined, NOISE] * precision[joined]
        of_pairs = np.tril((numbers[joined, NOISE] * precision[joined])[:, None] * joint[joined])
        own += of_pairs + of_pairs.T
        own[places, places] += numbers[joined, SETTLED]
        told_by = share @ told
        covariance[n:end, :n], covariance[:n, n:end] = told_by, told_by.T
        covariance[n:end, n:end] = 0.5 * (own + own.T)
        _fill_gram(machine, n)
        lower = np.tril(tile.column[joined, :m], -1) + np.eye(m)
        left = (lower * numbers[joined, DELTA]) @ lower.T
        grow_inverse(machine, tile.a[joined, :n], left - machine.model.budget.ridge * np.eye(m))
    tile.n_rows[0] = tile.n_joined[0] = 0
    tile.joined[:] = 0
    tile.rest[:] = 0.0


def _fill_gram(machine: "Machine", n_known: int) -> None:
    """Return the kernel values of new points with all points."""
    gram, n, store = machine.state.budget.gram, machine.n_points, machine.store
    block = store.basis(n, *store.at(np.arange(n_known, n)))
    diagonal = machine.kernel.diagonal(store.row_cache[n_known:n])
    gram[:n, n_known:n] = block
    gram[n_known:n, :n_known] = gram[:n_known, n_known:n].T
    own = gram[n_known:n, n_known:n]
    own[...] = 0.5 * (own + own.T)
    if diagonal is not None:
        np.fill_diagonal(own, diagonal)


def closed(machine: "Machine") -> "Machine":
    """Return a machine of which no row waits: the same one, or a copy."""
    if machine.parts.update.n_waiting(machine.state.update)[0]:
        machine = machine.copy()
        close(machine)
    return machine


def grow_inverse(machine: "Machine", a: Any, left: np.ndarray) -> None:
    """Take new points with the coordinates a into K^-1, by a block formula."""
    budget, m, end = machine.state.budget, len(left), machine.n_points
    root, n = inverse_root(left + machine.model.budget.ridge * np.eye(m)), end - m
    if root is None:
        refresh(machine)
        return
    at = algebra_of(budget.inverse)
    side, inverse = at.there(root) @ a, at.there(budget.inverse)
    at.subtract_square(inverse, n, side, times=-1.0)
    across = -(at.there(root.T) @ side)
    inverse[n:end, :n], inverse[:n, n:end] = across, across.T
    inverse[n:end, n:end] = at.there(root.T @ root)
    budget.replaced[0] += m


def settle(machine: "Machine") -> None:
    """Return the coefficients K^-1 w."""
    expansion, n = machine.state.expansion, machine.n_points
    values, inverse = machine.state.update.values, machine.state.budget.inverse
    at = algebra_of(inverse)
    coef = at.here(at.there(values[:, :n]) @ at.there(inverse)[:n, :n])
    expansion.scale[0] = 1.0
    expansion.coef[:, 0, :n] = coef
    expansion.size2[:n] = np.einsum("ij,ij->j", coef, coef)
    expansion.norm2[0] = max(np.vdot(coef, values[:, :n]), 0.0)


# --- after every PERIOD-th row -------------------------------------------------------------------


def follow_period(machine: "Machine") -> None:
    """Run the maintenance of every `PERIOD`-th row."""
    close(machine)
    maintain(machine)


def maintain(machine: "Machine") -> None:
    """Prune a dictionary beyond its size, forget, and keep K^-1 accurate."""
    size, forgetting = machine.model.budget.size, machine.model.update.forgetting
    if machine.n_points >= size:
        prune(machine, machine.n_points - size)
    if forgetting < 1.0:
        forget(machine, forgetting**PERIOD)
    if machine.state.budget.replaced[0] >= _CHANGES:
        refresh(machine)
    settle(machine)


def refresh(machine: "Machine") -> None:
    """Compute K^-1 anew from the kernel values."""
    n, budget, regular = machine.n_points, machine.state.budget, regularized(machine)
    at = algebra_of(budget.inverse)
    machine.changes().mark_all()
    if not at.invert(regular, at.there(budget.inverse)):
        # kernel values of low precision, and K is not positive any more
        budget.inverse[:n, :n] = np.linalg.pinv(at.here(regular), hermitian=True)
    budget.replaced[0] = 0


def forget(machine: "Machine", keep: float) -> None:
    """Go back to the prior a little: P <- a P + (1 - a) K / c, w <- sqrt(a) w.

    (The tracker of Van Vaerenbergh, Lazaro-Gredilla and Santamaria, 2012.)
    """
    n, dual, c = machine.n_points, machine.state.update, machine.model.regularization
    covariance = algebra_of(dual.covariance).there(dual.covariance)
    prior = (1.0 - keep) / c * regularized(machine)
    covariance[:n, :n] = keep * covariance[:n, :n] + prior
    dual.values[:, :n] *= math.sqrt(keep)
    dual.squared[0] *= keep
    dual.counted[0] *= keep
    dual.bar[0] *= keep


def prune(machine: "Machine", n_goes: int) -> None:
    """Take points out of the dictionary, and fit f anew to all rows on those that stay.

    With the coefficients B = K^-1 w, of covariance Q = K^-1 P K^-1, the minimum over all rows where
    those of the points that go are zero is w - (P K^-1)_g Q_gg^-1 B_g, and the covariance is P -
    (P K^-1)_g Q_gg^-1 (K^-1 P)_g: f is conditioned on it. Losing a point j then costs B_j^2 / Q_jj
    of what is being minimised. Points go one after the other, each the cheapest that is left. What
    the next one would cost is the bar for rows that would join, until this happens again.
    """
    state, n = machine.state, machine.n_points
    budget, dual, expansion = state.budget, state.update, state.expansion
    at = algebra_of(budget.inverse)
    inverse, covariance = at.there(budget.inverse), at.there(dual.covariance)
    coef = expansion.coef[:, 0, :n]
    worth = np.ones(n)
    worth[machine.model.budget.size :] = machine.model.budget.worth  # of points that are new
    # Q takes a product of three matrices. It is made for points alone that cost ||f|| little.
    costs = (coef**2).sum(axis=0) / at.here(at.diagonal(inverse[:n, :n])) / worth
    candidates = np.sort(np.argsort(costs, kind="stable")[: n_goes + _MORE_CANDIDATES])
    lines = at.lines(inverse[:n, :n], candidates)
    pull = lines @ covariance[:n, :n]
    own = at.here(pull @ lines.T)
    goes = np.zeros(n_goes + 1, np.int64)
    dual.bar[0] = cheapest_first(0.5 * (own + own.T), coef[:, candidates], worth[candidates], goes)
    goes = goes[:n_goes]
    if n_goes == 0:
        return
    root = inverse_root(own[np.ix_(goes, goes)])
    if root is not None:  # otherwise they are left out as they are, which is not much worse
        pull = at.there(root) @ at.lines(pull, goes)
        dual.values[:, :n] -= at.here(at.there(coef[:, candidates[goes]] @ root.T) @ pull)
        at.subtract_square(covariance, n, pull)
    order = np.sort(goes)  # as the candidates are
    goes, lines = candidates[order], at.lines(lines, order)
    root = inverse_root(at.here(at.lines(lines.T, goes)))
    if root is not None:
        at.subtract_square(inverse, n, at.there(root) @ lines)
    _close_ranks(machine, goes)
    budget.replaced[0] += n_goes
    if root is None:
        refresh(machine)


def _close_ranks(machine: "Machine", goes: np.ndarray) -> None:
    """Move the last remaining points into the slots of the removed ones."""
    state, store, n = machine.state, machine.store, machine.n_points
    stays = np.ones(n, bool)
    stays[goes] = False
    stay = np.flatnonzero(stays)
    n_left = len(stay)
    free, last = goes[goes < n_left], stay[stay >= n_left]
    at = algebra_of(state.budget.gram)
    for square in (state.budget.gram, state.budget.inverse, state.update.covariance):
        at.move(at.there(square), n, free, last)
    state.update.values[:, free] = state.update.values[:, last]
    # The slots at the end, too, are written as they are: rows that are being learned stand there
    # next, and only what is written in this way can be undone.
    end = np.arange(n_left, n)
    slots, rows = np.concatenate([free, end]), np.concatenate([last, end])
    store.replace(slots, *store.at(rows))
    state.expansion.n_points[0] = n_left


@compiled
def cheapest_first(own, coef, worth, order):
    """Choose points one after the other: the cheapest, after those before it have gone.

    Answers what the last one costs. `own` is Q and `coef` B among the candidates; both are those of
    the minimum without the points that have gone. Of points that cost the same the last one goes. A
    pivoted Cholesky factorisation of Q by other pivots than the largest.
    """
    n, n_outputs, least = own.shape[0], coef.shape[0], 0.0
    for position in range(order.shape[0]):
        best, least = -1, np.inf
        for j in range(n):
            if worth[j] > 0.0:
                cost = 0.0
                for k in range(n_outputs):
                    cost += coef[k, j] * coef[k, j]
                cost /= max(own[j, j], 1e-300) * worth[j]
                if best < 0 or cost <= least * (1.0 + SLACK):
                    best, least = j, min(cost, least)
        order[position] = best
        worth[best] = 0.0  # it has gone
        pivot = max(own[best, best], 1e-300)
        line = own[best]
        for k in range(n_outputs):
            step = coef[k, best] / pivot
            for j in range(n):
                coef[k, j] -= step * line[j]
        for j in range(n):
            if worth[j] > 0.0:
                step = line[j] / pivot
                for m in range(n):
                    own[j, m] -= step * line[m]
    return least


# --- another kernel, and what is not certain -----------------------------------------------------


def change_kernel(machine: "Machine", gram: np.ndarray) -> None:
    """Go on with other kernel values between the same points: what the rows told stays.

    P <- (P^-1 + D)^-1 with D = c (K_new^-1 - K_old^-1), and w <- P_new P_old^-1 w = w - P_new D w,
    the posterior mean under the new prior (measured: better than w as it is, docs/untuned.md). With
    X = P^(1/2) D P^(1/2), P_new is P^(1/2) (I + X)^-1 P^(1/2); where rounding, or a prior that
    tells more than the rows did, makes I + X lose definiteness, its eigenvalues are kept above a
    small number, and w stays. The caller has put the points through the new scale
    (`learner/renewal.py`).
    """
    n, c = machine.n_points, machine.model.regularization
    budget, dual = machine.state.budget, machine.state.update
    before = np.array(budget.inverse[:n, :n])
    budget.gram[:n, :n] = gram
    refresh(machine)
    root = _root_of(np.asarray(dual.covariance[:n, :n]))
    exchange = c * (np.asarray(budget.inverse[:n, :n]) - before)
    change = root.T @ exchange @ root
    change = 0.5 * (change + change.T) + np.eye(n)
    half, is_sound = inverse_root(change), True
    if half is None or np.vdot(half, half) > 1.0 / _SMALLEST_PART:  # an eigenvalue may be small
        values, vectors = np.linalg.eigh(change)
        is_sound = values[0] > _SMALLEST_PART
        half = vectors.T / np.sqrt(np.maximum(values, _SMALLEST_PART))[:, None]
    root = root @ half.T
    covariance = root @ root.T
    dual.covariance[:n, :n] = covariance
    if is_sound:
        dual.values[:, :n] -= dual.values[:, :n] @ exchange @ covariance
    machine.changes().mark_all()
    settle(machine)


def _root_of(matrix: np.ndarray) -> np.ndarray:
    """Return R with R R^T = matrix, for a matrix that is positive except for rounding."""
    factor, failed = lapack.dpotrf(0.5 * (matrix + matrix.T), lower=1, clean=1)
    if not failed:
        return np.ascontiguousarray(factor)
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def variances(machine: "Machine", k: Any, k_xx: np.ndarray) -> np.ndarray:
    """Return the variance of f at rows with the kernel values k.

    It is what the rows so far left open at the points, and what the points cannot express of the
    row, in units that only the errors so far can tell (`unit_of`).
    """
    n, dual, c = machine.n_points, machine.state.update, machine.model.regularization
    at = algebra_of(dual.covariance)
    k_xz = at.there(k).T
    a = k_xz @ at.there(machine.state.budget.inverse)[:n, :n]
    variance = at.here(at.line_products(a @ at.there(dual.covariance)[:n, :n], a))
    if c > 0.0:
        variance += np.maximum(k_xx - at.here(at.line_products(a, k_xz)), 0.0) / c
    return unit_of(machine) * np.maximum(variance, 0.0)


def unit_of(machine: "Machine") -> float:
    """Return the mean ratio of squared errors and their expected variance without the unit."""
    dual = machine.state.update
    if dual.counted[0] == 0.0:
        raise ValueError(
            "how certain a prediction is can only be said after a row has been learned."
        )
    return float(dual.squared[0] / dual.counted[0])
