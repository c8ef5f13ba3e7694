"""The budget that projects the point whose loss changes f least."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets.base import Budget, norm2_of, smallest
from kernelstream.parts import SLACK, integer_at_least, number, rule

__all__ = ["LeastLoss", "LeastLossRule", "grow_inverse", "refine", "remainder"]

_SMALLEST_DISTANCE2 = 1e-100  # below it the inverse would overflow
_REFRESH = 4096  # replacements after which the inverse is computed anew
_ROUNDING = 1e-7  # the squared distance, as a share of k(x, x), that rounding can tell
_REFRESH_GROWTH = 512  # and new points, which are closer to the others the more there are


@register_jitable
def remainder(k, i, n, u, k_xx, ridge):
    """Squared distance of row i from the combination u of the points (3.10)."""
    gap = k_xx
    for j in range(n):
        gap -= (k[j, i] + ridge * u[j]) * u[j]
    return gap


@register_jitable
def refine(budget_state, k, i, n, u, k_xx, ridge):
    """Make u solve (K + ridge I) u = k, where rounding has spoiled the inverse; whether it does.

    Points that nearly depend on each other make the inverse large and its growth inexact, and a new
    point that is let in by mistake makes it worse. A row that is projected with wrong weights
    changes f by another function than its own, and nothing takes that back: the coefficients of
    points that cancel each other then grow from row to row. So u is checked against the kernel
    values themselves, each in the scale of its two points.
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


@register_jitable
def grow_inverse(inverse, n, slot, u, delta):
    """Take the point in `slot` into the inverse of n points, by a block formula.

    u is the point as a combination of the others, and delta what remains of it, squared.
    """
    for j in range(n):
        if j != slot:
            for m in range(n):
                if m != slot:
                    inverse[j, m] += u[j] * u[m] / delta
            inverse[j, slot] = -u[j] / delta
            inverse[slot, j] = -u[j] / delta
    inverse[slot, slot] = 1.0 / delta


@register_jitable
def invert(budget_state, n, ridge):
    """Compute the inverse anew from the kernel values."""
    regular = budget_state.gram[:n, :n].copy()
    for j in range(n):
        regular[j, j] += ridge
    budget_state.inverse[:n, :n] = np.linalg.inv(regular)


@rule
class LeastLossRule(NamedTuple):
    """The point goes whose projection on the others changes f least, the new one included."""

    size: int
    tolerance: float
    relative: bool  # whether the tolerance is a share of k(x, x)
    ridge: float

    def most_dependent(self, k_xx):
        """The squared distance from the span of the points at which a point joins them."""
        if self.relative:
            return max(self.tolerance * k_xx, _SMALLEST_DISTANCE2)
        return max(self.tolerance, _ROUNDING * k_xx)

    def is_close(self, grown, k_jj):
        """Whether the new point makes an old one depend on the others.

        `grown` is one over its squared distance from their span. The smallest eigenvalue of K is at
        least the smallest of these distances over the number of points, which bounds the inverse
        and so the coefficients: |alpha|^2 is at most ||f||^2 times its norm.
        """
        share = self.tolerance if self.relative else _ROUNDING
        return grown * share * k_jj >= 1.0

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        inverse, u, weights = budget_state.inverse, budget_state.column, budget_state.weights
        k_xx = np.float64(k[line, i])
        # u: the new point as a combination of the others; delta: what remains of it, squared
        u[:n] = 0.0
        for j in range(n):
            k_j = np.float64(k[j, i])
            for m in range(n):
                u[m] += k_j * inverse[j, m]
        if not refine(budget_state, k, i, n, u, k_xx, self.ridge):
            return -1, -1, -1.0  # no combination can be trusted: better dropped than projected
        gap = remainder(k, i, n, u, k_xx, self.ridge)
        if gap <= self.most_dependent(k_xx):
            weights[:n] = u[:n]
            return -1, -1, max(gap, 0.0)
        delta = k_xx + self.ridge  # of K + ridge I, whose inverse is kept
        for j in range(n):
            delta -= k[j, i] * u[j]
        p, any_close = expansion.scale[0], False
        for j in range(n):  # what it costs to lose a point: |alpha_j|^2 / (K^-1)_jj
            grown = inverse[j, j] + u[j] * u[j] / delta
            if grown <= 0.0:  # kernel values of low precision, and K is not positive any more
                weights[:n] = u[:n]
                return -1, -1, gap
            any_close = any_close or self.is_close(grown, budget_state.gram[j, j])
            weights[j] = p * p * expansion.size2[j] / grown
        if n < self.size and not any_close:
            grow_inverse(inverse, n + 1, n, u, delta)
            return n, -1, -1.0
        if any_close:  # then one of those goes that the new point can stand in for
            for j in range(n):
                if not self.is_close(inverse[j, j] + u[j] * u[j] / delta, budget_state.gram[j, j]):
                    weights[j] = np.inf
        slot = smallest(weights, n)
        if norm2_of(alpha) * delta < weights[slot] * (1.0 - SLACK):
            weights[:n] = u[:n]
            return -1, -1, delta
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
        return slot, -1, 1.0 / pivot

    def expired(self, budget_state, expansion):
        return -1

    def refresh(self, budget_state, n, grown):
        before = budget_state.replaced[0] // _REFRESH
        budget_state.replaced[0] += _REFRESH // _REFRESH_GROWTH if grown else 1
        if budget_state.replaced[0] // _REFRESH > before:
            invert(budget_state, n, self.ridge)


class LeastLoss(Budget):
    """Project the point on the others whose loss changes f least.

    When a new point comes, the point j goes, the new one included, with the least
    ``|alpha_j|^2 / (K^-1)_jj``: the squared distance from f to the nearest function without j. Its
    coefficients move to the others, and ``||f||^2`` and ``<f, v>`` stay exact at no cost. It
    keeps far more of f than dropping does, for O(size^2) work at every row that becomes a point.

    Parameters
    ----------
    size : int, default=256
        How many points are kept.
    tolerance : float, default=1e-6
        A new point whose squared distance from the span of the others is at most this share of its
        own squared norm is projected at once, also while there is room. An old point that a new one
        brings as close to the span of the others gives up its place to it. So the inverse of the
        kernel values stays bounded, and with it the coefficients.

    Examples
    --------
    >>> from kernelstream.budgets import LeastLoss
    >>> LeastLoss(64).limit()
    64
    """

    def __init__(self, size: int = 256, tolerance: float = 1e-6):
        self.size = size
        self.tolerance = tolerance
        self.check()

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)
        number("tolerance", self.tolerance, above=0, below=1)

    def projects(self) -> bool:
        return True

    def to_rule(self) -> LeastLossRule:
        self.check()
        return LeastLossRule(int(self.size), float(self.tolerance), True, 0.0)
