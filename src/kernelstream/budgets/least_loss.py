"""The budget that projects the point whose loss changes f least."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets.base import Budget, norm2_of, smallest
from kernelstream.parts import SLACK, integer_at_least, number, rule

__all__ = ["LeastLoss", "refresh_inverse"]

_REFRESH = 4096  # replacements after which the inverse is computed anew


@rule
class LeastLossRule(NamedTuple):
    """The point goes whose projection on the others changes f least, the new one included."""

    size: int
    tolerance: float

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
        delta = k_xx
        for j in range(n):
            delta -= k[j, i] * u[j]
        if delta <= self.tolerance * k_xx:  # as good as dependent
            weights[:n] = u[:n]
            return -1, -1, max(delta, 0.0)
        if n < self.size:  # the inverse grows by a block formula
            for j in range(n):
                for m in range(n):
                    inverse[j, m] += u[j] * u[m] / delta
                inverse[j, n] = -u[j] / delta
                inverse[n, j] = -u[j] / delta
            inverse[n, n] = 1.0 / delta
            return n, -1, -1.0
        p = expansion.scale[0]
        for j in range(n):  # what it costs to lose a point: |alpha_j|^2 / (K^-1)_jj
            weights[j] = p * p * expansion.size2[j] / (inverse[j, j] + u[j] * u[j] / delta)
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


@register_jitable
def refresh_inverse(budget_state, n):
    """Compute the inverse anew when rounding has had enough replacements to add up."""
    budget_state.replaced[0] += 1
    if budget_state.replaced[0] % _REFRESH == 0:
        budget_state.inverse[:n, :n] = np.linalg.inv(budget_state.gram[:n, :n].copy())


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
        own norm is projected at once, also while there is room.

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
        return LeastLossRule(int(self.size), float(self.tolerance))
