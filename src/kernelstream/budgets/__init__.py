"""Which points stay?

A budget knows kernel numbers and coefficients, never the loss. Asked for room, it answers
``(slot, partner, gap)``: the point in `slot` goes, or the new one itself where slot is -1; n, the
number of points, means that there is room. What goes is

- dropped, where partner and gap are negative;
- replaced by a combination of the others, where gap is not: their `weights` (the last one is the
  new point's) are in the state, and gap is the squared distance that remains;
- merged with `partner`, where that is not negative: the two become one, a `share` of the way from
  the partner to it.

`expired`, asked at every row until it answers -1, says which point goes whether or not one comes.
`refresh` is told when the points have changed, for budgets that keep numbers which rounding spoils.
"""

from typing import Any

from kernelstream.budgets.base import Budget, BudgetState
from kernelstream.budgets.dropping import OldestOut, SmallestOut, Unbounded
from kernelstream.budgets.independent import Independent
from kernelstream.budgets.least_loss import LeastLoss, grow_inverse, refine, remainder
from kernelstream.budgets.merging import Merge, best_share, cost_of_merging, first_share
from kernelstream.parts import integer_at_least

__all__ = [
    "BudgetState",
    "Independent",
    "LeastLoss",
    "Merge",
    "OldestOut",
    "SmallestOut",
    "Unbounded",
    "as_budget",
    "best_share",
    "cost_of_merging",
    "first_share",
    "grow_inverse",
    "refine",
    "remainder",
]


def as_budget(budget: Any) -> Any:
    """A budget part from what a user may give: a size (the oldest point goes), a part, or None."""
    if budget is None:
        return Unbounded()
    if isinstance(budget, Budget):
        budget.check()
        return budget
    return OldestOut(integer_at_least("budget", budget, 1))
