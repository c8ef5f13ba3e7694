"""The budget that makes one point of two."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets.base import Budget, first_to_go, halvings, norm2_of
from kernelstream.parts import SLACK, integer_at_least, rule

__all__ = ["Merge", "best_share", "cost_of_merging", "first_share"]


# Points whose kernel value is below this have nothing in common: the smaller is simply dropped.
_LEAST_KAPPA = 1e-9
# What a merger adds to the sum of squared coefficients counts this much beside its squared
# distance. Large coefficients make good partners, since a small shift of such a point takes up
# much. Without a price two points side by side, one positive and one negative, take up all that is
# positive and all that is negative, and grow for ever, although what they give to f cancels.
_RIDGE = 1e-3
_HALF_LIFE = 256  # times the size: mergers after which a point counts half, in choosing who goes


@register_jitable
def best_share(kappa, goes2, stays2, product):
    """Where one point best replaces two: 0 at the one that stays, 1 at the one that goes.

    `kappa` is their kernel value; `goes2`, `stays2` and `product` are the squared norms and the
    inner product of their coefficients. For an RBF kernel the squared norm of the best coefficients
    at share h is ``|w1 alpha_goes + w2 alpha_stays|^2`` with ``w1 = kappa^((1-h)^2)`` and
    ``w2 = kappa^(h^2)``; the root of its derivative is bracketed, beginning where it lies for
    points that are close. Points that cancel each other leave a slope, and the best place is beyond
    the larger of the two; not farther than the other is away.
    """
    log_kappa = math.log(max(kappa, 1e-300))
    low, high = 0.0, 1.0
    if stays2 >= goes2 and goes2 * kappa + product < 0.0:
        low, high = -1.0, 0.0
    elif goes2 > stays2 and stays2 * kappa + product < 0.0:
        low, high = 1.0, 2.0
    h = min(max(first_share(goes2, stays2, product), low), high)
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
    """The best share of two points that are close, as far as `best_share` looks for it."""
    total = goes2 + stays2 + 2.0 * product
    if total <= 0.0:
        return 0.0
    return min(max((goes2 + product) / total, -1.0), 2.0)


@register_jitable
def cost_of_merging(kappa, goes2, stays2, product):
    """What it costs to replace two points by one, at nearly the best place.

    The squared distance in the kernel's space, and the price of larger coefficients.
    """
    h = first_share(goes2, stays2, product)
    log_kappa = math.log(max(kappa, 1e-300))
    w1, w2 = math.exp(log_kappa * (1.0 - h) * (1.0 - h)), math.exp(log_kappa * h * h)
    kept = goes2 * w1 * w1 + stays2 * w2 * w2 + 2.0 * product * w1 * w2
    if h < 0.0:  # that holds for points that are close; otherwise the larger one stays in its place
        kept = max(kept, goes2 * kappa * kappa + stays2 + 2.0 * product * kappa)
    elif h > 1.0:
        kept = max(kept, goes2 + stays2 * kappa * kappa + 2.0 * product * kappa)
    return (1.0 - _RIDGE) * (goes2 + stays2 - kept) + 2.0 * kappa * product


@rule
class MergeRule(NamedTuple):
    """The point with the smallest coefficients becomes one with the point that it costs least."""

    size: int
    half_life: int

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        if n < self.size:
            budget_state.since[n] = budget_state.replaced[0]
            budget_state.touched[n] = budget_state.replaced[0]
            return n, -1, -1.0
        budget_state.replaced[0] += 1
        p, new2, fade = expansion.scale[0], norm2_of(alpha), 1.0
        slot = first_to_go(budget_state, expansion, n, self.half_life, budget_state.weights)
        goes2 = p * p * budget_state.weights[slot]
        if new2 < goes2 * (1.0 - SLACK):
            slot, goes2 = -1, new2
        else:
            fade = 0.5 ** halvings(budget_state, slot, self.half_life)
        products = budget_state.column
        products[: n + 1] = 0.0
        for m in range(alpha.shape[0]):
            goes = alpha[m] if slot < 0 else fade * p * expansion.a[m, slot]
            if goes != 0.0:
                for j in range(n):
                    products[j] += goes * p * expansion.a[m, j]
                products[n] += goes * alpha[m]
        partner, least, kappa_of_best, stays2_of_best = -1, np.inf, 0.0, 0.0
        for j in range(n + 1):  # the last candidate is the new point
            if j == slot or (slot < 0 and j == n):
                continue
            if j < n:
                kappa = np.float64(k[j, i]) if slot < 0 else budget_state.gram[slot, j]
                stays2 = p * p * expansion.size2[j]
            else:
                kappa, stays2 = np.float64(k[slot, i]), new2
            if kappa < _LEAST_KAPPA:
                continue
            cost = cost_of_merging(kappa, goes2, stays2, products[j])
            if cost < least - SLACK * goes2:
                partner, least, kappa_of_best, stays2_of_best = j, cost, kappa, stays2
        now, born = float(budget_state.replaced[0]), float(budget_state.replaced[0])
        if slot >= 0:
            born = budget_state.since[slot]
            budget_state.since[slot] = now
            budget_state.touched[slot] = now
        if partner < 0:  # nothing is near: it is dropped
            return slot, -1, -1.0
        share = best_share(kappa_of_best, goes2, stays2_of_best, products[partner])
        # the merged point is as old as its two are on average, by their coefficients
        weight = math.sqrt(goes2) / (math.sqrt(goes2) + math.sqrt(stays2_of_best))
        other = now if partner == n else budget_state.since[partner]
        if partner == n:  # the new point stays: the same as if it went to the other
            slot, partner, share = -1, slot, 1.0 - share
        budget_state.since[partner] = weight * born + (1.0 - weight) * other
        budget_state.touched[partner] = now
        budget_state.share[0] = share
        return slot, partner, -1.0

    def expired(self, budget_state, expansion):
        return -1

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

    def merges(self) -> bool:
        return True

    def fades(self) -> bool:
        return True

    def to_rule(self) -> MergeRule:
        self.check()
        return MergeRule(int(self.size), _HALF_LIFE * int(self.size))
