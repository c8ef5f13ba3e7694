"""The budget that makes one point of two."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets.base import Budget, norm2_of, smallest
from kernelstream.parts import SLACK, integer_at_least, rule

__all__ = ["Merge", "best_share", "first_share"]


@register_jitable
def best_share(kappa, goes2, stays2, product):
    """Where one point best replaces two: 0 at the one that stays, 1 at the one that goes.

    `kappa` is their kernel value; `goes2`, `stays2` and `product` are the squared norms and the
    inner product of their coefficients. For an RBF kernel the squared norm of the best coefficients
    at share h is ``|w1 alpha_goes + w2 alpha_stays|^2`` with ``w1 = kappa^((1-h)^2)`` and
    ``w2 = kappa^(h^2)``; the root of its derivative is bracketed, beginning where it lies for
    points that are close.
    """
    log_kappa = math.log(max(kappa, 1e-300))
    low, high = 0.0, 1.0
    h = first_share(goes2, stays2, product)
    for _ in range(60):
        w1, w2 = math.exp(log_kappa * (1.0 - h) * (1.0 - h)), math.exp(log_kappa * h * h)
        slope = (1.0 - h) * goes2 * w1 * w1 - h * stays2 * w2 * w2
        slope += product * (1.0 - 2.0 * h) * w1 * w2
        if slope > 0.0:
            low = h
        else:
            high = h
        h = 0.5 * (low + high)
    return h


@register_jitable
def first_share(goes2, stays2, product):
    """The best share of two points that are close."""
    total = goes2 + stays2 + 2.0 * product
    if total <= 0.0:
        return 0.0
    return min(max((goes2 + product) / total, 0.0), 1.0)


@register_jitable
def _cost_of_merging(kappa, goes2, stays2, product):
    """Squared distance between two points and the one that replaces them, nearly the best one."""
    h = first_share(goes2, stays2, product)
    log_kappa = math.log(max(kappa, 1e-300))
    w1, w2 = math.exp(log_kappa * (1.0 - h) * (1.0 - h)), math.exp(log_kappa * h * h)
    kept = goes2 * w1 * w1 + stays2 * w2 * w2 + 2.0 * product * w1 * w2
    return goes2 + stays2 + 2.0 * kappa * product - kept


@rule
class MergeRule(NamedTuple):
    """The point with the smallest coefficients becomes one with the point that it costs least."""

    size: int

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        if n < self.size:
            return n, -1, -1.0
        p = expansion.scale[0]
        new2 = norm2_of(alpha)
        slot = smallest(expansion.size2, n)
        goes2 = p * p * expansion.size2[slot]
        if new2 < goes2 * (1.0 - SLACK):
            slot, goes2 = -1, new2
        products = budget_state.column
        products[: n + 1] = 0.0
        for m in range(alpha.shape[0]):
            goes = alpha[m] if slot < 0 else p * expansion.a[m, slot]
            if goes != 0.0:
                for j in range(n):
                    products[j] += goes * p * expansion.a[m, j]
                products[n] += goes * alpha[m]
        partner, least = -1, np.inf
        for j in range(n + 1):  # the last candidate is the new point
            if j == slot or (slot < 0 and j == n):
                continue
            kappa = k[min(j, n - 1), i]
            stays2 = new2
            if j < n:
                stays2 = p * p * expansion.size2[j]
                if slot >= 0:
                    kappa = budget_state.gram[slot, j]
            else:
                kappa = k[slot, i]
            cost = _cost_of_merging(kappa, goes2, stays2, products[j])
            if cost < least - SLACK * goes2:
                partner, least = j, cost
                budget_state.weights[0], budget_state.weights[1] = kappa, stays2
        if partner < 0:  # a single point and nothing to merge it with
            return max(slot, 0), -1, -1.0
        share = best_share(
            budget_state.weights[0], goes2, budget_state.weights[1], products[partner]
        )
        if partner == n:  # the new point stays: the same as if it went to the other
            slot, partner, share = -1, slot, 1.0 - share
        budget_state.share[0] = share
        return slot, partner, -1.0

    def refresh(self, budget_state, n, grown):
        return


class Merge(Budget):
    """Make one point of two, where the kernel is RBF.

    The point with the smallest coefficients, the new one included, becomes one with the point for
    which that costs least. The new point lies between the two, where one kernel function best
    replaces theirs. It keeps more of f than a choice among the points that came can, for O(size)
    work at every row that becomes a point.

    Parameters
    ----------
    size : int, default=256
        How many points are kept; at least 2.

    References
    ----------
    Wang, Crammer, Vucetic: Breaking the Curse of Kernelization: Budgeted Stochastic Gradient
    Descent for Large-Scale SVM Training. JMLR 13, 2012.

    Examples
    --------
    >>> from kernelstream.budgets import Merge
    >>> Merge(64).limit()
    64
    """

    def __init__(self, size: int = 256):
        self.size = size
        self.check()

    def check(self) -> None:
        integer_at_least("budget", self.size, 2)

    def projects(self) -> bool:
        return True

    def to_rule(self) -> MergeRule:
        self.check()
        return MergeRule(int(self.size))
