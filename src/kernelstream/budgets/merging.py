"""The budget that makes one point of two."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.budgets.base import Budget, BudgetRule, fade, norm2_of, smallest
from kernelstream.compile import compiled, helper
from kernelstream.elementary import exp_of_negative, log_of_share, power_of_two
from kernelstream.expansion import IS_DROPPED, IS_MERGED, JOINS, MERGES, REPLACES, Merging
from kernelstream.expansion.operations import put_into_gram
from kernelstream.parts import (
    LARGEST_NUMBER,
    SLACK,
    Choice,
    Field,
    integer_at_least,
    parameters,
    part,
    rule,
)

__all__ = ["Merge", "best_share", "cost_of_merging", "first_share"]


# Points whose kernel value is below this have nothing in common: the smaller is simply dropped.
_LEAST_KAPPA = 1e-9
# What a merger adds to the sum of squared coefficients counts this much beside its squared
# distance. Large coefficients make good partners, since a small shift of such a point takes up
# much. Without a price two points side by side, one positive and one negative, take up all that is
# positive and all that is negative, and grow for ever, although what they give to f cancels.
_RIDGE = 1e-3
_IDLE = 8.0  # points with which nothing is merged fade so many times as fast
_HALF_LIFE = 256  # times the size: mergers after which a point counts half, in choosing who goes
_ROWS_PER_PLACE = 24  # rows with one output that found no place, for each place more


@compiled
def best_share(kappa, goes2, stays2, product):
    """Return where one point best replaces two: 0 at the one that stays, 1 at the one that goes.

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


@helper(inlines=True)
def first_share(goes2, stays2, product):
    """Return the best share of two points that are close, as far as `best_share` looks for it.

    Parameters
    ----------
    goes2, stays2 : float
        Squared norms of the coefficients of the two points.
    product : float
        The inner product of the two.

    Examples
    --------
    >>> from kernelstream.budgets import first_share
    >>> first_share(1.0, 1.0, 1.0)  # two equal points meet in the middle
    0.5
    """
    total = goes2 + stays2 + 2.0 * product
    share = (goes2 + product) / (total if total > 0.0 else 1.0)
    return min(max(share, -1.0), 2.0) if total > 0.0 else 0.0


@helper(inlines=True)
def cost_of_merging(kappa, goes2, stays2, product):
    """Return the cost of replacing two points by one, at nearly the best place.

    The squared distance in the kernel's space, and the price of larger coefficients.

    Parameters
    ----------
    kappa, goes2, stays2, product : float
        As in `best_share`.

    Examples
    --------
    >>> from kernelstream.budgets import cost_of_merging
    >>> cost_of_merging(1.0, 4.0, 4.0, -4.0) < 0.0 < cost_of_merging(0.5, 4.0, 4.0, 4.0)
    True
    """
    h = first_share(goes2, stays2, product)
    log_kappa = log_of_share(kappa)
    w1 = exp_of_negative(log_kappa * (1.0 - h) * (1.0 - h))
    w2 = exp_of_negative(log_kappa * h * h)
    kept = goes2 * w1 * w1 + stays2 * w2 * w2 + 2.0 * product * w1 * w2
    # a share beyond the two holds for points that are close; otherwise the larger one stays
    larger, smaller = (stays2, goes2) if h < 0.0 else (goes2, stays2)
    in_place = larger + smaller * kappa * kappa + 2.0 * product * kappa
    kept = max(kept, in_place) if h < 0.0 or h > 1.0 else kept
    return (1.0 - _RIDGE) * (goes2 + stays2 - kept) + 2.0 * kappa * product


class Mergers(NamedTuple):
    """What merging remembers."""

    gram: Any  # (points, points): k(points, points)
    contests: Any  # how many rows wanted a place
    since: Any  # (points,): what that was when the point came; of a merged one, the mean
    touched: Any  # (points,): what it was when something was last merged with the point
    sizes: Any  # (points and one): memory
    products: Any  # (points and one): memory


@rule(defaults=BudgetRule)
class MergeRule(NamedTuple):
    """The point with the smallest coefficients becomes one with the point that it costs least."""

    size: int
    most: int
    half_life: int

    def make_room(self, budget_state, expansion, tile, i, point):
        n, gram, memory = expansion.n_points[0], budget_state.gram, budget_state.products
        if n < self.places(budget_state, point.alpha.shape[0]):
            budget_state.since[n] = budget_state.contests[0]
            budget_state.touched[n] = budget_state.contests[0]
            return Merging(JOINS, n, -1, 0.0, gram, memory)
        budget_state.contests[0] += 1
        now, p = float(budget_state.contests[0]), expansion.scale[0]
        new2, sizes = norm2_of(point.alpha), budget_state.sizes
        for j in range(n):
            sizes[j] = expansion.size2[j] * power_of_two(-2 * self.halvings(budget_state, j))
        slot = smallest(sizes, n)
        goes2, halves = p * p * sizes[slot], 1.0
        if new2 < goes2 * (1.0 - SLACK):
            slot, goes2 = -1, new2
        else:
            halves = power_of_two(-self.halvings(budget_state, slot))
        partner = self.cheapest_partner(budget_state, expansion, tile, i, point, slot, halves)
        born = now
        if slot >= 0:
            born = budget_state.since[slot]
            budget_state.since[slot] = now
            budget_state.touched[slot] = now
        if partner < 0:  # nothing is near: it is dropped
            return Merging(IS_DROPPED if slot < 0 else REPLACES, slot, -1, 0.0, gram, memory)
        if partner == n:
            kappa, stays2, other = np.float64(tile.k[slot, i]), new2, now
        else:
            kappa = np.float64(tile.k[partner, i]) if slot < 0 else gram[slot, partner]
            stays2, other = p * p * expansion.size2[partner], budget_state.since[partner]
        share = best_share(kappa, goes2, stays2, budget_state.products[partner])
        # the merged point is as old as its two are on average, by their coefficients
        total = math.sqrt(goes2) + math.sqrt(stays2)  # 0 where both are too small to be squared
        weight = math.sqrt(goes2) / total if total > 0.0 else 0.5
        if partner == n:  # the new point stays: the same as if it went to the other
            slot, partner, share = -1, slot, 1.0 - share
        budget_state.since[partner] = weight * born + (1.0 - weight) * other
        budget_state.touched[partner] = now
        return Merging(MERGES if slot >= 0 else IS_MERGED, slot, partner, share, gram, memory)

    def places(self, budget_state, n_outputs):
        """Return how many points there may be now: functions that divide many classes need more."""
        grown = budget_state.contests[0] * n_outputs // _ROWS_PER_PLACE
        return min(self.most, max(self.size, grown))

    def halvings(self, budget_state, j):
        """Return how often a point's coefficients are halved, for its age and for being idle."""
        now = budget_state.contests[0]
        idle = (now - budget_state.touched[j]) / self.half_life * _IDLE
        return fade((now - budget_state.since[j]) / self.half_life + idle)

    def cheapest_partner(self, budget_state, expansion, tile, i, point, slot, halves):
        """Return the cheapest partner for merging the point in `slot`, or row i where that is -1.

        n stands for row i itself, and -1 for none. `products` are left as the inner products of
        their coefficients with those of the point that goes.
        """
        n, p, products = expansion.n_points[0], expansion.scale[0], budget_state.products
        products[: n + 1] = 0.0
        goes2, new2 = 0.0, norm2_of(point.alpha)
        for m in range(point.alpha.shape[0]):
            goes = point.alpha[m] if slot < 0 else halves * p * expansion.coef[m, 0, slot]
            goes2 += goes * goes
            if goes != 0.0:
                for j in range(n):
                    products[j] += goes * p * expansion.coef[m, 0, j]
                products[n] += goes * point.alpha[m]
        costs = budget_state.sizes  # which are known, and needed no more
        if slot < 0:
            for j in range(n):
                costs[j] = np.float64(tile.k[j, i])
            costs[n] = 0.0  # the new point is no partner of itself
        else:
            for j in range(n):
                costs[j] = np.float64(budget_state.gram[slot, j])
            costs[n], costs[slot] = np.float64(tile.k[slot, i]), 0.0
        for j in range(n + 1):  # without a branch, so that several are computed at once
            kappa = costs[j]
            stays2 = p * p * expansion.size2[j] if j < n else new2
            cost = cost_of_merging(kappa, goes2, stays2, products[j])
            costs[j] = cost if kappa >= _LEAST_KAPPA else LARGEST_NUMBER
        partner, least = -1, LARGEST_NUMBER
        for j in range(n + 1):  # the last candidate is the new point
            if costs[j] < least - SLACK * goes2:
                partner, least = j, costs[j]
        return partner

    def inserted(self, budget_state, tile, slot, i, n, grown):
        put_into_gram(budget_state.gram, tile, slot, i, n)


@part("budget")
@parameters
class Merge(Budget):
    """Make one point of two, where the kernel is RBF.

    The point i with the smallest coefficients, the new one included, and the point j for which
    that costs least become one point z on the line through the two. z and its coefficient are
    those for which one kernel function best replaces theirs:

        ``min over z of ||alpha_i k(x_i, .) + alpha_j k(x_j, .) - alpha k(z, .)||``

    with ``alpha = alpha_i k(x_i, z) + alpha_j k(x_j, z)``. It keeps more of f than a choice among
    the points that came can, for O(size) work at every row that becomes a point.

    Parameters
    ----------
    size : int, default=256
        How many points are kept; at least 2.
    most : int, default=None
        How many points may be kept in a long stream. None: as many as `size`. Otherwise there is a
        place for every 24 rows that wanted to become points and found none, and with K outputs for
        every 24 / K of them; `size` places at first and `most` at last.

    References
    ----------
    Wang, Crammer, Vucetic: Breaking the Curse of Kernelization: Budgeted Stochastic Gradient
    Descent for Large-Scale SVM Training. JMLR 13, 2012.

    Examples
    --------
    >>> from kernelstream.budgets import Merge
    >>> Merge(64).limit()
    64
    >>> Merge(64, most=512).limit()
    512
    """

    size: int = 256
    most: int | None = None

    projects = True

    def check(self) -> None:
        integer_at_least("budget", self.size, 2)
        if self.most is not None:
            integer_at_least("most", self.most, self.size)

    def limit(self) -> int:
        return int(self.size if self.most is None else self.most)

    def first_limit(self) -> int:
        return int(self.size)

    def fades(self) -> bool:
        return True

    def check_with(self, choice: Choice) -> None:
        if not choice.kernel.interpolates:
            raise ValueError(
                f"budget={self!r} does not go with kernel={choice.kernel!r}: a point between two "
                "others is known for the RBF kernel only. Use LeastLoss, or kernel='rbf'."
            )
        if choice.sparse:
            raise ValueError(
                f"budget={self!r} does not go with sparse rows: a point between two others would "
                "fill up. Use LeastLoss, or give dense rows."
            )

    def state(self) -> Mergers:
        points, scratch = ("points",), Field(("points_and_one",), 0.0, scratch=True)
        return Mergers(
            gram=Field(("points", "points"), 0.0),
            contests=Field((), 0, int),
            since=Field(points, 0.0),
            touched=Field(points, 0.0),
            sizes=scratch,
            products=scratch,
        )

    def take_gram(self, state: Mergers, gram: np.ndarray) -> None:
        state.gram[: len(gram), : len(gram)] = gram

    def to_rule(self) -> MergeRule:
        self.check()
        return MergeRule(int(self.size), self.limit(), _HALF_LIFE * int(self.size))
