"""The budget that drops the point with the smallest coefficients."""

from typing import Any, NamedTuple

from kernelstream.budgets.base import BudgetRule, fade, norm2_of, smallest
from kernelstream.budgets.dropping import Dropping
from kernelstream.elementary import power_of_two
from kernelstream.expansion import IS_DROPPED, JOINS, REPLACES, Replacing
from kernelstream.parts import SLACK, Field, integer_at_least, parameters, part, rule

__all__ = ["SmallestOut"]


class Fading(NamedTuple):
    """What the competition for places remembers, where points fade."""

    contests: Any  # how many rows wanted a place
    since: Any  # (points,): what `contests` was when the point came
    sizes: Any  # (points and one): memory


@rule(defaults=BudgetRule)
class SmallestOutRule(NamedTuple):
    """The point with the smallest coefficients goes, the new one included."""

    size: int

    def make_room(self, budget_state, expansion, tile, i, point):
        n = expansion.n_points[0]
        if n < self.size:
            return Replacing(JOINS, n)
        # The decay is one number for all points, so that raw sizes compare as true ones do.
        p, slot = expansion.scale[0], smallest(expansion.size2, n)
        if norm2_of(point.alpha) < p * p * expansion.size2[slot] * (1.0 - SLACK):
            return Replacing(IS_DROPPED, -1)
        return Replacing(REPLACES, slot)

    def drops_oldest(self):
        return False


@rule(defaults=BudgetRule)
class FadingSmallestRule(NamedTuple):
    """The same, where what a point counts falls with its age."""

    size: int
    half_life: int

    def make_room(self, budget_state, expansion, tile, i, point):
        n = expansion.n_points[0]
        if n < self.size:
            budget_state.since[n] = budget_state.contests[0]
            return Replacing(JOINS, n)
        budget_state.contests[0] += 1
        p, sizes = expansion.scale[0], budget_state.sizes
        for j in range(n):
            age = (budget_state.contests[0] - budget_state.since[j]) / self.half_life
            sizes[j] = expansion.size2[j] * power_of_two(-2 * fade(age))
        slot = smallest(sizes, n)
        if norm2_of(point.alpha) < p * p * sizes[slot] * (1.0 - SLACK):
            return Replacing(IS_DROPPED, -1)
        budget_state.since[slot] = budget_state.contests[0]
        return Replacing(REPLACES, slot)


@part("budget")
@parameters
class SmallestOut(Dropping):
    """Drop the point with the smallest coefficients (SILK); the new point competes for its place.

    The point j with the least ``|alpha_j|^2`` goes, where alpha_j has a coefficient per output.

    Parameters
    ----------
    size : int, default=128
        How many points are kept.
    exact : bool or None, default=None
        As in `OldestOut`.
    half_life : int or None, default=None
        In the competition for its place a point counts half after so many rows that wanted one, a
        quarter after twice as many, and so on; in f it does not. None is SILK's rule, for steps
        that stay about as large as they were, or where f decays: otherwise a full budget of large
        coefficients from the past drops every new row, for ever.

    Examples
    --------
    >>> from kernelstream.budgets import SmallestOut
    >>> SmallestOut(64).limit()
    64
    """

    size: int = 128
    exact: bool | None = None
    half_life: int | None = None

    def check(self) -> None:
        super().check()
        if self.half_life is not None:
            integer_at_least("half_life", self.half_life, 1)

    def fades(self) -> bool:
        return self.half_life is not None

    def state(self) -> Any:
        if not self.fades():
            return super().state()
        return Fading(
            contests=Field((), 0, int),
            since=Field(("points",), 0.0),
            sizes=Field(("points_and_one",), 0.0, scratch=True),
        )

    def to_rule(self) -> SmallestOutRule | FadingSmallestRule:
        self.check()
        if self.half_life is None:
            return SmallestOutRule(int(self.size))
        return FadingSmallestRule(int(self.size), int(self.half_life))
