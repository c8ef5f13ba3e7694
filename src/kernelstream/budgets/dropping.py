"""What budgets that simply drop what goes have in common."""

from typing import Any, NamedTuple

from kernelstream.budgets.base import Budget, BudgetRule
from kernelstream.expansion import JOINS, REPLACES, Replacing
from kernelstream.parts import Field, integer_at_least, rule

__all__ = ["Dropping", "Ring", "RingRule", "ring"]

# The share of the trace with which what dropped points leave in norms does no harm, where rows may
# be of any norm, and where all have the same one: there, only 0.75 and more were seen to do so.
_FADED = 0.01, 0.3


class Ring(NamedTuple):
    """What a ring of slots remembers."""

    oldest: Any  # the slot of the oldest point


def ring() -> Ring:
    """Return the declaration of a ring's state."""
    return Ring(oldest=Field((), 0, int, below="points"))


@rule(defaults=BudgetRule)
class RingRule(NamedTuple):
    """A ring of slots: once it is full, the new point takes the place of the oldest."""

    size: int

    def make_room(self, budget_state, expansion, tile, i, point):
        n = expansion.n_points[0]
        if n < self.size:
            return Replacing(JOINS, n)
        oldest = budget_state.oldest[0]
        budget_state.oldest[0] = (oldest + 1) % self.size
        return Replacing(REPLACES, oldest)

    def drops_oldest(self):
        return True


class Dropping(Budget):
    """A budget that simply drops what goes."""

    exact: bool | None

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)

    def keeps_gram(self, trace_decay: float, equal_norms: bool) -> bool:
        if self.exact is None:
            return trace_decay ** self.longest_life() > _FADED[equal_norms]
        return bool(self.exact)

    def longest_life(self) -> int:
        """Return how many points come, at most, before a point goes."""
        return int(self.size)

    def state(self) -> Any:
        return ring()
