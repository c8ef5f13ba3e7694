"""Projection of points on the span of the others: what `LeastLoss` and `Independent` share."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.budgets.base import Budget, BudgetRule, norm2_of, smallest
from kernelstream.compile import compiled, helper
from kernelstream.expansion import IS_DROPPED, IS_PROJECTED, JOINS, REPLACES, Projecting
from kernelstream.expansion.operations import put_into_gram
from kernelstream.parts import LARGEST_SQUARE, SLACK, Field, rule

__all__ = [
    "LeastLossRule",
    "ProjectingBudget",
    "Projection",
    "grow_inverse",
    "refine",
    "remainder",
]  # fmt: skip

_SMALLEST_DISTANCE2 = 1e-100  # below it the inverse would overflow
_REFRESH = 4096  # replacements after which the inverse is computed anew
_ROUNDING = 1e-7  # the squared distance, as a share of k(x, x), that rounding can tell
_REFRESH_GROWTH = 512  # and new points, which are closer to the others the more there are


class Projection(NamedTuple):
    """What a budget that projects remembers."""

    gram: Any  # (points, points): k(points, points)
    inverse: Any  # its inverse
    replaced: Any  # how often the points have changed
    weights: Any  # (points and one): scratch, of a projection on the points and on the new one
    column: Any  # (points and one): scratch
    pivots: Any  # (points and one): scratch


class ProjectingBudget(Budget):
    """A budget that projects what goes on what stays."""

    projects = True

    def state(self) -> Projection:
        square, scratch = ("points", "points"), Field(("points_and_one",), 0.0, scratch=True)
        return Projection(
            gram=Field(square, 0.0),
            inverse=Field(square, 0.0, largest=LARGEST_SQUARE),
            replaced=Field((), 0, int),
            weights=scratch,
            column=scratch,
            pivots=scratch,
        )

    def take_gram(self, state: Projection, gram: np.ndarray) -> None:
        n = len(gram)
        state.gram[:n, :n] = gram
        invert(state, n, self.to_rule().ridge)


@helper
def remainder(k, i, n, u, k_xx, ridge):
    """Return squared distance of row i from the combination u of the points (3.10).

    Parameters
    ----------
    k : ndarray of shape (points and rows, rows)
        Kernel values.
    i, n : int
        The row, and how many points there are.
    u : ndarray of shape (n,)
    k_xx : float
        The row's kernel value with itself.
    ridge : float
        What is added to the diagonal of the points' kernel values.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.budgets import remainder
    >>> float(remainder(np.array([[0.6]]), 0, 1, np.array([0.6]), 1.0, 0.0))
    0.64
    """
    gap = k_xx
    for j in range(n):
        gap -= (k[j, i] + ridge * u[j]) * u[j]
    return gap


@compiled
def refine(budget_state, k, i, n, u, k_xx, ridge):
    """Make u solve (K + ridge I) u = k, where rounding has spoiled the inverse; whether it does.

    Points that nearly depend on each other make the inverse large and its growth inexact, and a new
    point that is let in by mistake makes it worse. A row that is projected with wrong weights
    changes f by another function than its own, and nothing takes that back: the coefficients of
    points that cancel each other then grow from row to row. So u is checked against the kernel
    values themselves, each in the scale of its two points.

    Parameters
    ----------
    budget_state : NamedTuple
        With the inverse, which may be computed anew.
    k, i, n, u, k_xx, ridge
        As in `remainder`.
    """
    gram, inverse, rest = budget_state.gram, budget_state.inverse, budget_state.weights
    for attempt in range(4):
        worst = 0.0
        for j in range(n):
            rest[j] = k[j, i] - ridge * u[j]
            for m in range(n):
                rest[j] -= gram[j, m] * u[m]
            worst = max(worst, abs(rest[j]) / math.sqrt(max(gram[j, j] * k_xx, 1e-300)))
        if worst <= 1e-11:
            return True
        if attempt == 2:
            invert(budget_state, n, ridge)
        for j in range(n):
            for m in range(n):
                u[m] += rest[j] * inverse[j, m]
    return worst <= 1e-8


@compiled
def grow_inverse(inverse, n, slot, u, delta):
    """Take the point in `slot` into the inverse of n points, by a block formula.

    u is the point as a combination of the others, and delta what remains of it, squared.

    Parameters
    ----------
    inverse : ndarray
    n, slot : int
    u : ndarray
    delta : float
    """
    for j in range(n):
        if j != slot:
            for m in range(n):
                if m != slot:
                    inverse[j, m] += u[j] * u[m] / delta
            inverse[j, slot] = -u[j] / delta
            inverse[slot, j] = -u[j] / delta
    inverse[slot, slot] = 1.0 / delta


@compiled
def invert(budget_state, n, ridge):
    """Compute the inverse anew from the kernel values, by elimination with pivots.

    (A call to LAPACK would make every model with such a budget compile for half a minute.)
    """
    gram, a, pivots = budget_state.gram, budget_state.inverse, budget_state.pivots
    for j in range(n):
        for m in range(n):
            a[j, m] = gram[j, m]
        a[j, j] += ridge
    for c in range(n):
        best = c
        for j in range(c + 1, n):
            if abs(a[j, c]) > abs(a[best, c]):
                best = j
        pivots[c] = best
        top = a[c]
        if best != c:
            for m in range(n):
                top[m], a[best, m] = a[best, m], top[m]
        scale = 1.0 / top[c] if top[c] != 0.0 else 1e300
        top[c] = 1.0
        for m in range(n):
            top[m] *= scale
        for j in range(n):
            factor = a[j, c]
            if j != c and factor != 0.0:
                line = a[j]
                line[c] = 0.0
                for m in range(n):
                    line[m] -= factor * top[m]
    for c in range(n - 1, -1, -1):
        best = int(pivots[c])
        if best != c:
            for j in range(n):
                a[j, c], a[j, best] = a[j, best], a[j, c]


@rule(defaults=BudgetRule)
class LeastLossRule(NamedTuple):
    """The point goes whose projection on the others changes f least, the new one included."""

    size: int
    tolerance: float
    relative: bool  # whether the tolerance is a share of k(x, x)
    ridge: float
    worth: float  # how many times as much as the cheapest point a new one must be worth

    def dependence(self):
        """Return the share of k(x, x), and the least squared distance, for `most_dependent`."""
        if self.relative:
            return self.tolerance, _SMALLEST_DISTANCE2
        return _ROUNDING, self.tolerance

    def most_dependent(self, k_xx):
        """Return the squared distance from the span of the points at which a point joins them."""
        share, least = self.dependence()
        return max(share * k_xx, least)

    def is_close(self, grown, k_jj):
        """Return whether the new point makes an old one depend on the others.

        `grown` is one over its squared distance from their span. The smallest eigenvalue of K is at
        least the smallest of these distances over the number of points, which bounds the inverse
        and so the coefficients: |alpha|^2 is at most ||f||^2 times its norm.
        """
        share = self.tolerance if self.relative else _ROUNDING
        return grown * share * k_jj >= 1.0

    def make_room(self, budget_state, expansion, tile, i, point):
        n, k = expansion.n_points[0], tile.k
        inverse, u, weights = budget_state.inverse, budget_state.column, budget_state.weights
        k_xx = np.float64(k[tile.n_points + i, i])
        tile.changes.mark_all()
        # u: the new point as a combination of the others; delta: what remains of it, squared
        u[:n] = 0.0
        for j in range(n):
            k_j = np.float64(k[j, i])
            for m in range(n):
                u[m] += k_j * inverse[j, m]
        if not refine(budget_state, k, i, n, u, k_xx, self.ridge):
            # no combination can be trusted: better dropped than projected
            return Projecting(IS_DROPPED, -1, weights, 0.0)
        gap = remainder(k, i, n, u, k_xx, self.ridge)
        if gap <= self.most_dependent(k_xx):
            return Projecting(IS_PROJECTED, -1, u, max(gap, 0.0))
        delta = k_xx + self.ridge  # of K + ridge I, whose inverse is kept
        for j in range(n):
            delta -= k[j, i] * u[j]
        p, any_close = expansion.scale[0], False
        for j in range(n):  # what it costs to lose a point: |alpha_j|^2 / (K^-1)_jj
            grown = inverse[j, j] + u[j] * u[j] / delta
            if grown <= 0.0:  # kernel values of low precision, and K is not positive any more
                return Projecting(IS_PROJECTED, -1, u, gap)
            any_close = any_close or self.is_close(grown, budget_state.gram[j, j])
            weights[j] = p * p * expansion.size2[j] / grown
        if n < self.size and not any_close:
            grow_inverse(inverse, n + 1, n, u, delta)
            return Projecting(JOINS, n, weights, 0.0)
        if any_close:  # then one of those goes that the new point can stand in for
            for j in range(n):
                if not self.is_close(inverse[j, j] + u[j] * u[j] / delta, budget_state.gram[j, j]):
                    weights[j] = np.inf
        slot = smallest(weights, n)
        if norm2_of(point.alpha) * delta < self.worth * weights[slot] * (1.0 - SLACK):
            return Projecting(IS_PROJECTED, -1, u, delta)
        # column of the slot in the inverse with the new point, whose own entry is last
        u_slot = u[slot] / delta
        pivot = inverse[slot, slot] + u[slot] * u_slot
        for j in range(n):
            weights[j] = -(inverse[j, slot] + u[j] * u_slot) / pivot
        weights[n] = u_slot / pivot
        weights[slot] = 0.0
        # remove the slot from the grown inverse, and let the new point take its place
        for j in range(n):
            if j != slot:
                for m in range(n):
                    inverse[j, m] += u[j] * u[m] / delta - pivot * weights[j] * weights[m]
        for j in range(n):
            if j != slot:
                entry = -u[j] / delta - pivot * weights[n] * weights[j]
                inverse[j, slot] = entry
                inverse[slot, j] = entry
        inverse[slot, slot] = 1.0 / delta - pivot * weights[n] * weights[n]
        return Projecting(REPLACES, slot, weights, 1.0 / pivot)

    def inserted(self, budget_state, tile, slot, i, n, grown):
        put_into_gram(budget_state.gram, tile, slot, i, n)
        self.refresh(budget_state, n, grown)

    def refresh(self, budget_state, n, grown):
        """Compute the inverse anew when rounding has had time to spoil it."""
        before = budget_state.replaced[0] // _REFRESH
        budget_state.replaced[0] += _REFRESH // _REFRESH_GROWTH if grown else 1
        if budget_state.replaced[0] // _REFRESH > before:
            invert(budget_state, n, self.ridge)
