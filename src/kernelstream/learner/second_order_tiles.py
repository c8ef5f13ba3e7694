"""Learning a tile of rows by Newton: products before the loop, one update after it."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelstream.learner.algebra import algebra_of
from kernelstream.learner.learn import Trail
from kernelstream.learner.open_tile import (
    CORRECTABLE,
    EXACT,
)
from kernelstream.learner.tile_space import Space, given_of, learn_space, new_space
from kernelstream.stores import Values

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

from kernelstream.learner.second_order import (
    SAMPLE,
    TRUSTED,
    grow_inverse,
    refresh,
    regularized,
    settle,
)

__all__ = ["Products", "learn_tile_of_rows"]


class Products(NamedTuple):
    """What a tile's matrix products give; T rows, n points. The first three are where P is."""

    k_xz: Any  # (T, n): kernel values of the rows with the points
    a: Any  # (T, n): coordinates
    told: Any  # (T, n): A P, the covariance of f at the rows with f at the points
    k_xx: np.ndarray  # (T, T): kernel values of the rows
    left: np.ndarray  # (T, T): S, as the tile begins


def learn_tile_of_rows(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """Learn a tile in which nothing is due before its end; return how many rows were learned."""
    state, store, model = machine.loop_state(), machine.store, machine.model
    values = machine.kernel_tile(X, x, y, weight)
    space, products = _products(machine, values)
    given = given_of(model, state, machine.n_points)
    done = machine.call("tile", learn_space, model, given, space, y, weight, trail)
    machine.changes().mark_all()
    joined = space.joined[: space.counts[0]]
    _take_over(machine, space, products, joined, done)
    if joined.size:
        slots = np.arange(given.n_points, given.n_points + joined.size)
        store.replace(slots, X[joined], x[joined])
    return int(done)


def _products(machine: "Machine", values: Values) -> tuple[Space, Products]:
    n, dual, ridge = machine.n_points, machine.state.update, machine.model.budget.ridge
    at = algebra_of(dual.covariance)
    k_zx, own = at.of_points(values), np.asarray(values.k[n:], np.float64)
    k_xx = own.diagonal().copy()
    a, left, may_join = _coordinates(machine, k_zx, own)
    covariance = at.there(dual.covariance)[:n, :n]
    told = a @ covariance
    squares = at.here(a @ a.T) if ridge > 0.0 else np.zeros((1, 1))
    scores = at.here(a @ at.there(dual.values[:, :n].T))
    rounding = at.here((a * a) @ at.xp.abs(at.diagonal(covariance))) * n
    space = new_space(k_xx, may_join, left, squares, at.here(told @ a.T), scores, rounding)
    return space, Products(k_zx.T, a, told, own, left.copy() if may_join.any() else left)


def _coordinates(
    machine: "Machine", k_zx: Any, own: np.ndarray
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return rows over the points, A = k_xz (K + ridge I)^-1 (3.9), S, and which of them may join.

    Points that nearly depend on each other make the inverse large and its growth inexact, and a
    point that joins with inexact coordinates makes it a thousand times worse. So the coordinates of
    rows that may join are corrected once by the kernel values themselves, unless a sample of them
    shows that there is nothing to correct.
    """
    budget, n, rule = machine.state.budget, machine.n_points, machine.model.budget
    at, k_xz, k_xx = algebra_of(budget.inverse), k_zx.T, own.diagonal()
    a = k_xz @ at.there(budget.inverse)[:n, :n]
    left = own - at.here(a @ k_zx)
    share, least = rule.dependence()
    may_join = left.diagonal() > np.maximum(share * k_xx, least)
    rows = np.flatnonzero(may_join)
    if n == 0 or not rows.size:
        return a, left, may_join
    regular = regularized(machine)

    def rest_of(rows: np.ndarray, most: float) -> tuple[Any, np.ndarray]:
        rest = at.lines(k_xz, rows) - at.lines(a, rows) @ regular
        return rest, _within(most, at, rest, k_xx[rows], regular)

    if rest_of(rows[:: -(-rows.size // SAMPLE)], EXACT)[1].all():
        return a, left, may_join
    for attempt in range(2):
        rest, is_fine = rest_of(rows, CORRECTABLE)
        if not is_fine.all() and attempt == 0:
            refresh(machine)
            at.put(a, rows, at.lines(k_xz, rows) @ at.there(budget.inverse)[:n, :n])
            continue
        at.put(a, rows, at.lines(a, rows) + rest @ at.there(budget.inverse)[:n, :n])
        if is_fine.all():
            break
    else:
        may_join[rows] = rest_of(rows, TRUSTED)[1]
    return a, own - at.here(a @ k_zx), may_join


def _within(most: float, at: Any, rest: Any, k_xx: np.ndarray, regular: Any) -> np.ndarray:
    """Return which rows have kernel values that are reproduced well enough by the points."""
    sizes = at.there(most * np.sqrt(np.maximum(k_xx, 1e-300)))
    scale = sizes[:, None] * at.xp.sqrt(at.xp.abs(at.diagonal(regular)))[None, :]
    return at.here(at.xp.all(at.xp.abs(rest) <= scale, axis=1))


def _take_over(
    machine: "Machine", space: Space, products: Products, joined: np.ndarray, done: int
) -> None:
    """Let w, P and K^-1 follow the rows of a tile: one update of its rank."""
    state, n, m = machine.state, machine.n_points, len(joined)
    expansion, budget, dual = state.expansion, state.budget, state.update
    at, told = algebra_of(dual.covariance), products.told[:done, :]
    covariance, gram = at.there(dual.covariance), at.there(budget.gram)
    # every learned row, and f at it when it was learned, independent of those before
    whitened = at.there(space.basis[:done, :done]) @ told
    precision = space.precision[:done, None]
    dual.values[:, :n] += at.here(at.there((space.error[:done] * precision).T) @ whitened)
    at.subtract_square(covariance, n, at.there(np.sqrt(precision)) * whitened)
    if m:
        end, among = n + m, np.ix_(joined, joined)
        told_by = at.there(space.share[joined, :done]) @ told
        covariance[n:end, :n], covariance[:n, n:end] = told_by, told_by.T
        covariance[n:end, n:end] = at.there(space.covariance[among])
        dual.values[:, n:end] = space.scores[joined].T
        k_xz = at.lines(products.k_xz, joined)
        gram[n:end, :n], gram[:n, n:end] = k_xz, k_xz.T
        gram[n:end, n:end] = at.there(products.k_xx[among])
        expansion.n_points[0] = end
        grow_inverse(machine, at.lines(products.a, joined), products.left[among])
    expansion.n_seen[0] += space.counts[1]
    dual.squared[0] += space.squared[0]
    dual.counted[0] += space.counts[1]
    settle(machine)
