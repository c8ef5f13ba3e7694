"""Second order: f fitted to all rows so far, over a dictionary, by matrix products.

f at the n points of the dictionary is a Gaussian with mean w and covariance P, whose prior is
K / c. A row is a combination a of the points, and f there is a . w. For a tile of rows, kernel
values, coordinates A = k_xz K^-1, what the points leave open of the rows, S = k_xx - A k_zx, and
the posterior at the rows, A w and A P A^T, are matrix products. Then the rows are learned in order
among themselves (`kernelstream.learner.tile_space`), and w, P and K^-1 take one update of the rank
of the tile.

Why w and P, and not the coefficients B = K^-1 w and their covariance Q = K^-1 P K^-1, which need
one product less: where points nearly depend on each other B and Q are large and cancel in every
score, and the models of different blocks then agree to fewer digits. w and P are of the size of the
targets. The coefficients are computed once per tile, for those who predict.

What is not linear in the rows happens after every `PERIOD`-th row of the stream, so that the model
does not depend on blocks: a dictionary that has grown beyond its size is pruned, old rows are
forgotten, and K^-1 is computed anew where it has changed often.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from kernelstream.compiled import compiled
from kernelstream.learner.learn import Trail
from kernelstream.learner.rows import rows_until
from kernelstream.learner.tile_space import (
    Given,
    RowProducts,
    Space,
    learn_row,
    learn_space,
    new_space,
    refill,
)
from kernelstream.parts import SLACK
from kernelstream.updates.dual import PERIOD

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["change_kernel", "learn_by_tiles", "unit_of", "variances"]

_CHANGES = 1024  # points that came or went, after which K^-1 is computed anew
# A row may join if its coordinates reproduce its kernel values, each in the scale of its two
# points, so well. One correction squares the error that K^-1 brings, up to its condition.
_TRUSTED, _CORRECTABLE = 1e-8, 1e-7
_EXACT, _SAMPLE = 1e-12, 8  # so well that there is nothing to correct, and by how many rows
# What a row must be worth to join a full dictionary, in units of what the cheapest point costs, for
# every unit of `worth` beyond one: the rows after it may raise that. Measured with worth = 10: less
# than this changes little but the time. With worth = 1, where all may try, a bar of a quarter has
# 3.5 % errors on shuffled USPS, mean of three, and none has 3.4 %.
_FIRST_SHARE = 0.25
_SMALLEST_PART = 1e-6  # of the precision of f that another prior may leave
_MORE_CANDIDATES = 32  # points that are looked at beyond as many as go


class Products(NamedTuple):
    """What a tile's matrix products give; T rows, n points."""

    k: np.ndarray  # (n + T, T): kernel values of the points and of the rows
    a: np.ndarray  # (T, n): coordinates
    told: np.ndarray  # (T, n): A P, the covariance of f at the rows with f at the points
    left: np.ndarray  # (T, T): S, as the tile begins


# --- a tile --------------------------------------------------------------------------------------


def learn_by_tiles(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """Learn rows in order, in tiles that end where something happens after a row."""
    start, n_rows = 0, X.shape[0]
    while start < n_rows:
        due = PERIOD - machine.n_seen % PERIOD
        stop = start + rows_until(due, weight[start : start + PERIOD])
        rows, n_seen = slice(start, stop), machine.n_seen
        if start == 0 and stop == n_rows:
            done = _learn_tile(machine, X, x, y, weight, trail)
        else:
            own = Trail(*(column[rows] for column in trail))
            done = _learn_tile(machine, X[rows], x[rows], y[rows], weight[rows], own)
        if machine.n_seen // PERIOD > n_seen // PERIOD:
            maintain(machine)
        start += done
        if start < stop:
            break
    return start


def _learn_tile(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    state, store, model = machine.loop_state(), machine.store, machine.model
    values = machine.kernel_tile(X, x, y, weight)
    space, products = _products(machine, values.k)
    given = Given(
        machine.n_points, float(state.margin.epsilon[0]), float(state.step_size.eta[0]),
        _FIRST_SHARE * (model.budget.worth - 1.0) * float(state.update.bar[0]),
    )  # fmt: skip
    if len(x) == 1:
        done = machine.call(
            "learn", learn_row, model, state, given, space, _of_row(machine, products), y, weight,
            trail, store.writer(X, x, values), machine.changes(),
        )  # fmt: skip
        store.write(trail, done, X, x)
        return int(done)
    done = machine.call("tile", learn_space, model, given, space, y, weight, trail)
    machine.changes().mark_all()
    joined = space.joined[: space.counts[0]]
    _take_over(machine, space, products, joined, done)
    if joined.size:
        slots = np.arange(given.n_points, given.n_points + joined.size)
        store.replace(slots, X[joined], x[joined])
    return int(done)


def _products(machine: "Machine", k: np.ndarray) -> tuple[Space, Products]:
    n, dual, ridge = machine.n_points, machine.state.update, machine.model.budget.ridge
    k = k.astype(np.float64, copy=False)
    k_xx = k[n:].diagonal().copy()
    a, may_join = _coordinates(machine, k[:n].T, k_xx)
    covariance = dual.covariance[:n, :n]
    told = a @ covariance
    left = k[n:] - a @ k[:n]
    squares = a @ a.T if ridge > 0.0 else np.zeros((1, 1))
    rounding = (a * a) @ np.abs(covariance.diagonal()) * n
    begins = k_xx, may_join, left, squares, told @ a.T, a @ dual.values[:, :n].T, rounding
    space = machine.scratch.get("space")  # whose memory compiled code has checked already
    if len(k_xx) > 1:
        space = new_space(*begins)
    elif space is None or space.scores.shape[1] != machine.n_outputs:
        space = machine.scratch["space"] = new_space(*begins)
    else:
        refill(space, *begins)
    return space, Products(k, a, told, left.copy() if may_join.any() else left)


def _coordinates(
    machine: "Machine", k_xz: np.ndarray, k_xx: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows over the points, A = k_xz (K + ridge I)^-1 (3.9), and which of them may join.

    Points that nearly depend on each other make the inverse large and its growth inexact, and a
    point that joins with inexact coordinates makes it a thousand times worse. So the coordinates of
    rows that may join are corrected once by the kernel values themselves, unless a sample of them
    shows that there is nothing to correct.
    """
    budget, n, rule = machine.state.budget, machine.n_points, machine.model.budget
    a = k_xz @ budget.inverse[:n, :n]
    if (k_xx == k_xx[0]).all():  # as with most kernels
        most = rule.most_dependent(k_xx[0])
    else:
        most = np.array([rule.most_dependent(own) for own in k_xx])
    may_join = k_xx - np.einsum("ij,ij->i", a, k_xz) > most
    rows = np.flatnonzero(may_join)
    if n == 0 or not rows.size:
        return a, may_join
    regular = _regular(machine, n)
    some = rows[:: -(-rows.size // _SAMPLE)]
    if _within(_EXACT, k_xz[some] - a[some] @ regular, k_xx[some], regular).all():
        return a, may_join
    for attempt in range(2):
        rest = k_xz[rows] - a[rows] @ regular
        is_fine = _within(_CORRECTABLE, rest, k_xx[rows], regular).all()
        if not is_fine and attempt == 0:
            refresh(machine)
            a[rows] = k_xz[rows] @ budget.inverse[:n, :n]
            continue
        a[rows] += rest @ budget.inverse[:n, :n]
        if is_fine:
            return a, may_join
    rest = k_xz[rows] - a[rows] @ regular
    may_join[rows] = _within(_TRUSTED, rest, k_xx[rows], regular)
    return a, may_join


def _within(most: float, rest: np.ndarray, k_xx: np.ndarray, regular: np.ndarray) -> np.ndarray:
    """Of which rows all kernel values are reproduced so well, in the scale of their points."""
    scale = np.sqrt(np.maximum(np.outer(k_xx, regular.diagonal()), 1e-300))
    return (np.abs(rest) <= most * scale).all(axis=1)


def _regular(machine: "Machine", n: int) -> np.ndarray:
    """K + ridge I over the first n points."""
    gram, ridge = machine.state.budget.gram[:n, :n], machine.model.budget.ridge
    return gram if ridge == 0.0 else gram + ridge * np.eye(n)


def _of_row(machine: "Machine", products: Products) -> RowProducts:
    n, told = machine.n_points, products.told[0]
    k = np.ascontiguousarray(products.k[:n, 0])
    return RowProducts(k, products.a[0], told, machine.state.budget.inverse[:n, :n] @ told)


def _take_over(
    machine: "Machine", space: Space, products: Products, joined: np.ndarray, done: int
) -> None:
    """Let w, P and K^-1 follow the rows of a tile: one update of its rank."""
    state, n, m = machine.state, machine.n_points, len(joined)
    expansion, budget, dual = state.expansion, state.budget, state.update
    covariance, told = dual.covariance, products.told
    # every learned row, and f at it when it was learned, independent of those before
    whitened = space.basis[:done, :done] @ told[:done]
    precision = space.precision[:done, None]
    dual.values[:, :n] += (space.error[:done] * precision).T @ whitened
    whitened *= np.sqrt(precision)
    _subtract_square(covariance[:n, :n], whitened)
    if m:
        end = n + m
        told_by = space.share[joined, :done] @ told[:done]
        covariance[n:end, :n], covariance[:n, n:end] = told_by, told_by.T
        covariance[n:end, n:end] = space.covariance[np.ix_(joined, joined)]
        dual.values[:, n:end] = space.scores[joined].T
        k = products.k[:, joined]
        budget.gram[:n, n:end], budget.gram[n:end, :n] = k[:n], k[:n].T
        budget.gram[n:end, n:end] = k[n + joined]
        expansion.n_points[0] = end
        _grow_inverse(machine, products.a[joined], products.left[np.ix_(joined, joined)])
    expansion.n_seen[0] += space.counts[1]
    dual.squared[0] += space.squared[0]
    dual.counted[0] += space.counts[1]
    settle(machine)


def _grow_inverse(machine: "Machine", a: np.ndarray, left: np.ndarray) -> None:
    """Take new points with the coordinates a into K^-1, by a block formula."""
    budget, m, n = machine.state.budget, len(a), machine.n_points - len(a)
    root = _inverse_root(left + machine.model.budget.ridge * np.eye(m))
    if root is None:
        refresh(machine)
        return
    side, inverse = root @ a, budget.inverse[: n + m, : n + m]
    _subtract_square(inverse[:n, :n], side, times=-1.0)
    inverse[n:, :n] = -root.T @ side
    inverse[:n, n:] = inverse[n:, :n].T
    inverse[n:, n:] = root.T @ root
    budget.replaced[0] += m


def _subtract_square(square: np.ndarray, lines: np.ndarray, times: float = 1.0) -> None:
    """Subtract lines^T lines, which is symmetric to the last bit and half the work of others."""
    if lines.size:  # some versions of BLAS complain about a matrix without columns
        add_symmetric(square, blas.dsyrk(1.0, lines.T, lower=1).T, -times)


def _inverse_root(matrix: np.ndarray) -> np.ndarray | None:
    """R with R^T R = matrix^-1, of a matrix that is symmetric and positive except for rounding."""
    factor, failed = lapack.dpotrf(0.5 * (matrix + matrix.T), lower=1, clean=1)
    if failed:
        return None
    return np.ascontiguousarray(lapack.dtrtri(factor, lower=1)[0])


def settle(machine: "Machine") -> None:
    """The coefficients K^-1 w."""
    expansion, n = machine.state.expansion, machine.n_points
    values = machine.state.update.values
    coef = values[:, :n] @ machine.state.budget.inverse[:n, :n]
    expansion.scale[0] = 1.0
    expansion.coef[:, 0, :n] = coef
    expansion.size2[:n] = np.einsum("ij,ij->j", coef, coef)
    expansion.norm2[0] = max(np.vdot(coef, values[:, :n]), 0.0)


# --- after every PERIOD-th row -------------------------------------------------------------------


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
    n, budget = machine.n_points, machine.state.budget
    regular = _regular(machine, n)
    inverse, failed = lapack.dpotrf(regular, lower=1)
    if not failed:
        inverse, failed = lapack.dpotri(inverse, lower=1, overwrite_c=1)
    if failed:  # kernel values of low precision, and K is not positive any more
        budget.inverse[:n, :n] = np.linalg.pinv(regular, hermitian=True)
    else:
        mirror(inverse.T, budget.inverse[:n, :n])
    budget.replaced[0] = 0


@compiled
def add_symmetric(square, upper, times):
    """Add a symmetric matrix, of which `upper` has the entries above the diagonal."""
    for i in range(upper.shape[0]):
        for j in range(i, upper.shape[0]):
            value = square[i, j] + times * upper[i, j]
            square[i, j] = value
            square[j, i] = value


@compiled
def mirror(upper, out):
    """The symmetric matrix of which `upper` has the entries above the diagonal."""
    for i in range(upper.shape[0]):
        for j in range(i, upper.shape[0]):
            out[i, j] = upper[i, j]
            out[j, i] = upper[i, j]


def forget(machine: "Machine", keep: float) -> None:
    """Go back to the prior a little: P <- a P + (1 - a) K / c, w <- sqrt(a) w.

    (The tracker of Van Vaerenbergh, Lazaro-Gredilla and Santamaria, 2012.)
    """
    n, dual, c = machine.n_points, machine.state.update, machine.model.regularization
    covariance = dual.covariance[:n, :n]
    covariance *= keep
    covariance += (1.0 - keep) / c * _regular(machine, n)
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
    inverse, covariance = budget.inverse[:n, :n], dual.covariance[:n, :n]
    coef = expansion.coef[:, 0, :n]
    worth = np.ones(n)
    worth[machine.model.budget.size :] = machine.model.budget.worth  # of points that are new
    # Q takes a product of three matrices. It is made for points alone that cost ||f|| little.
    costs = (coef**2).sum(axis=0) / inverse.diagonal() / worth
    candidates = np.sort(np.argsort(costs, kind="stable")[: n_goes + _MORE_CANDIDATES])
    lines = inverse[candidates]
    pull = lines @ covariance
    own = pull @ lines.T
    goes = np.zeros(n_goes + 1, np.int64)
    dual.bar[0] = cheapest_first(0.5 * (own + own.T), coef[:, candidates], worth[candidates], goes)
    goes = goes[:n_goes]
    if n_goes == 0:
        return
    root = _inverse_root(own[np.ix_(goes, goes)])
    if root is not None:  # otherwise they are left out as they are, which is not much worse
        pull = root @ pull[goes]
        dual.values[:, :n] -= (coef[:, candidates[goes]] @ root.T) @ pull
        _subtract_square(covariance, pull)
    goes = np.sort(candidates[goes])
    root = _inverse_root(inverse[np.ix_(goes, goes)])
    if root is not None:
        _subtract_square(inverse, root @ inverse[goes])
    _close_ranks(machine, goes)
    budget.replaced[0] += n_goes
    if root is None:
        refresh(machine)


def _close_ranks(machine: "Machine", goes: np.ndarray) -> None:
    """The last points that stay take the slots of those that go."""
    state, store, n = machine.state, machine.store, machine.n_points
    stays = np.ones(n, bool)
    stays[goes] = False
    stay = np.flatnonzero(stays)
    n_left = len(stay)
    free, last = goes[goes < n_left], stay[stay >= n_left]
    for square in (state.budget.gram, state.budget.inverse, state.update.covariance):
        square[free, :n] = square[last, :n]
        square[:n, free] = square[:n, last]
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
    before = budget.inverse[:n, :n].copy()
    budget.gram[:n, :n] = gram
    refresh(machine)
    root = _root_of(dual.covariance[:n, :n])
    exchange = c * (budget.inverse[:n, :n] - before)
    change = root.T @ exchange @ root
    change = 0.5 * (change + change.T) + np.eye(n)
    half, is_sound = _inverse_root(change), True
    if half is None or np.vdot(half, half) > 1.0 / _SMALLEST_PART:  # an eigenvalue may be small
        values, vectors = np.linalg.eigh(change)
        is_sound = values[0] > _SMALLEST_PART
        half = vectors.T / np.sqrt(np.maximum(values, _SMALLEST_PART))[:, None]
    root = root @ half.T
    dual.covariance[:n, :n] = root @ root.T
    if is_sound:
        dual.values[:, :n] -= dual.values[:, :n] @ exchange @ dual.covariance[:n, :n]
    machine.changes().mark_all()
    settle(machine)


def _root_of(matrix: np.ndarray) -> np.ndarray:
    """R with R R^T = matrix, of a matrix that is symmetric and positive except for rounding."""
    factor, failed = lapack.dpotrf(0.5 * (matrix + matrix.T), lower=1, clean=1)
    if not failed:
        return np.ascontiguousarray(factor)
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def variances(machine: "Machine", k: np.ndarray, k_xx: np.ndarray) -> np.ndarray:
    """The variance of f at rows with the kernel values k.

    It is what the rows so far left open at the points, and what the points cannot express of the
    row, in units that only the errors so far can tell (`unit_of`).
    """
    n, dual, c = machine.n_points, machine.state.update, machine.model.regularization
    a = k.T.astype(np.float64) @ machine.state.budget.inverse[:n, :n]
    variance = np.einsum("ij,ij->i", a @ dual.covariance[:n, :n], a)
    if c > 0.0:
        variance += np.maximum(k_xx - np.einsum("ij,ji->i", a, k), 0.0) / c
    return unit_of(machine) * np.maximum(variance, 0.0)


def unit_of(machine: "Machine") -> float:
    """The mean of squared errors over the variance that they should have had but for the unit."""
    dual = machine.state.update
    if dual.counted[0] == 0.0:
        raise ValueError(
            "how certain a prediction is can only be said after a row has been learned; a model "
            "from an older file has to learn another one first."
        )
    return float(dual.squared[0] / dual.counted[0])
