"""Which points stay?

A budget knows kernel numbers and coefficients, never the loss. Asked for room, it answers
``(slot, partner, gap)``: the point in `slot` goes, or the new one itself where slot is -1; n, the
number of points, means that there is room. What goes is

- dropped, where partner and gap are negative;
- replaced by a combination of the others, where gap is not: their `weights` (the last one is the
  new point's) are in the state, and gap is the squared distance that remains;
- merged with `partner`, where that is not negative: the two become one, a `share` of the way from
  the partner to it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.parts import SLACK, Field, Part, integer_at_least, number, rule

__all__ = [
    "BudgetState",
    "LeastLoss",
    "Merge",
    "OldestOut",
    "SmallestOut",
    "Unbounded",
    "as_budget",
]

_NO_LIMIT = 2**62
_REFRESH = 4096  # replacements after which an inverse is computed anew


class BudgetState(NamedTuple):
    """What budgets remember. Arrays that a budget has no use for are empty."""

    oldest: Any  # the slot of the oldest point
    gram: Any  # k(points, points)
    inverse: Any  # its inverse
    weights: Any  # of the last projection, on the points and on the new one
    column: Any  # working memory
    share: Any  # of the last merger
    replaced: Any  # how often a point was replaced


@register_jitable
def _smallest(sizes, n):
    """Index of the smallest of the first n; near-ties go to the lowest index."""
    best = 0
    for j in range(1, n):
        if sizes[j] < sizes[best]:
            best = j
    for j in range(best):
        if sizes[j] <= sizes[best] * (1.0 + SLACK):
            return j
    return best


@register_jitable
def _norm2(x):
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
    return total


@rule
class OldestOutRule(NamedTuple):
    """A ring of slots: once it is full, the new point takes the place of the oldest."""

    size: int

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        if n < self.size:
            return n, -1, -1.0
        oldest = budget_state.oldest[0]
        budget_state.oldest[0] = (oldest + 1) % self.size
        return oldest, -1, -1.0


@rule
class SmallestOutRule(NamedTuple):
    """The point with the smallest coefficients goes, the new one included."""

    size: int

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        if n < self.size:
            return n, -1, -1.0
        # The decay is one number for all points, so that raw sizes compare as true ones do.
        slot = _smallest(expansion.size2, n)
        p = expansion.scale[0]
        if _norm2(alpha) < p * p * expansion.size2[slot] * (1.0 - SLACK):
            return -1, -1, -1.0
        return slot, -1, -1.0


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
        slot = _smallest(weights, n)
        if _norm2(alpha) * delta < weights[slot] * (1.0 - SLACK):
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
        new2 = _norm2(alpha)
        slot = _smallest(expansion.size2, n)
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


@register_jitable
def refresh_inverse(budget_state, n):
    """Compute the inverse anew when rounding has had enough replacements to add up."""
    budget_state.replaced[0] += 1
    if budget_state.replaced[0] % _REFRESH == 0:
        budget_state.inverse[:n, :n] = np.linalg.inv(budget_state.gram[:n, :n].copy())


class _Budget(Part):
    size: int

    def limit(self) -> int | None:
        """The most points a model may hold; None where there is no limit."""
        return int(self.size)

    def keeps_gram(self, trace_decay: float) -> bool:
        """Whether to keep k(points, points), to correct ||f||^2 and <f, v> for dropped points."""
        return False

    def projects(self) -> bool:
        """Whether what goes is projected on what stays, which needs kernel values and memory."""
        return False

    def state(self, trace_decay: float | None, dtype: np.dtype) -> BudgetState:
        """`trace_decay` is None where the model uses neither ||f||^2 nor <f, v>."""
        keeps = trace_decay is not None and self.keeps_gram(trace_decay)
        square, nothing = ("points", "points"), ("none", "none")
        projects = self.projects()
        return BudgetState(
            oldest=Field((), 0, int),
            gram=Field(square if keeps or projects else nothing, 0.0, float if projects else dtype),
            inverse=Field(square if projects else nothing, 0.0),
            weights=Field(("points_and_one",) if projects else ("none",), 0.0),
            column=Field(("points_and_one",) if projects else ("none",), 0.0),
            share=Field((), 0.0),
            replaced=Field((), 0, int),
        )


class _Dropping(_Budget):
    """A budget that simply drops what goes."""

    exact: bool | None

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)

    def keeps_gram(self, trace_decay: float) -> bool:
        return trace_decay**self.size > 0.01 if self.exact is None else bool(self.exact)


class OldestOut(_Dropping):
    """Keep the last `size` points (the circular buffer of the SVMD paper, section 5.5).

    Parameters
    ----------
    size : int, default=512
        How many points are kept.
    exact : bool or None, default=None
        Correct ``||f||^2`` and ``<f, v>`` for every point that is dropped, so that they belong to
        the truncated f. It keeps the kernel values between the points (size x size numbers) and
        costs a fifth to a third of the speed. None: where the trace of SMD outlives the points
        (``decay ** size > 0.01``), since the difference has faded elsewhere.

    Examples
    --------
    >>> from kernelstream.budgets import OldestOut
    >>> OldestOut(256).limit()
    256
    """

    def __init__(self, size: int = 512, exact: bool | None = None):
        self.size = size
        self.exact = exact
        self.check()

    def to_rule(self) -> OldestOutRule:
        self.check()
        return OldestOutRule(int(self.size))


class SmallestOut(_Dropping):
    """Drop the point with the smallest coefficients (SILK); the new point competes for its place.

    Parameters
    ----------
    size : int, default=128
        How many points are kept.
    exact : bool or None, default=None
        As in `OldestOut`.

    Examples
    --------
    >>> from kernelstream.budgets import SmallestOut
    >>> SmallestOut(64).limit()
    64
    """

    def __init__(self, size: int = 128, exact: bool | None = None):
        self.size = size
        self.exact = exact
        self.check()

    def to_rule(self) -> SmallestOutRule:
        self.check()
        return SmallestOutRule(int(self.size))


class LeastLoss(_Budget):
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


class Merge(_Budget):
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


class Unbounded(_Budget):
    """Keep every point with a coefficient. Memory grows with the stream.

    Examples
    --------
    >>> from kernelstream.budgets import Unbounded
    >>> Unbounded().limit() is None
    True
    """

    def limit(self) -> int | None:
        return None

    def to_rule(self) -> OldestOutRule:
        return OldestOutRule(_NO_LIMIT)  # a ring that never closes


def as_budget(budget: Any) -> Any:
    """A budget part from what a user may give: a size (the oldest point goes), a part, or None."""
    if budget is None:
        return Unbounded()
    if isinstance(budget, _Budget):
        budget.check()
        return budget
    return OldestOut(integer_at_least("budget", budget, 1))
