"""Which points stay?

A budget knows kernel numbers and coefficients, never the loss. Its rule answers

===============  ==================================================================================
``make_room``    an action (`kernelstream.expansion.actions`): the new point joins, takes the place
                 of another, or goes itself; what goes is dropped, projected on the others or merged
``inserted``     is told when the new point has taken its slot
``expired``      the point that goes whether or not one comes, asked until it is -1
``note_decay``   is told by how much a row has shrunk f
``n_kept``       how many points there are
===============  ==================================================================================

A new budget is one new file in this folder, with the decorator ``part("budget")``.
"""

from typing import Any

from kernelstream.budgets.base import Budget
from kernelstream.budgets.folded import Folded
from kernelstream.budgets.independent import Independent
from kernelstream.budgets.least_loss import LeastLoss
from kernelstream.budgets.merging import Merge, best_share, cost_of_merging, first_share
from kernelstream.budgets.oldest_out import OldestOut
from kernelstream.budgets.projection import grow_inverse, refine, remainder
from kernelstream.budgets.smallest_out import SmallestOut
from kernelstream.budgets.unbounded import Unbounded
from kernelstream.parts import discover, integer_at_least

__all__ = [
    "Budget",
    "Folded",
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

discover(__name__, __path__)


def as_budget(budget: Any) -> Any:
    """Make a budget part from a size (the oldest point is dropped), a part, or None.

    Parameters
    ----------
    budget : int, budget part or None
        None: every point stays.

    Examples
    --------
    >>> from kernelstream.budgets import as_budget
    >>> as_budget(128).size, as_budget(None).keeps_all
    (128, True)
    """
    if budget is None:
        return Unbounded()
    if isinstance(budget, Budget):
        budget.check()
        return budget
    if isinstance(budget, str):
        raise ValueError(
            f"budget={budget!r} is unknown: give 'auto', a number of points, a budget object, or "
            "None for no limit."
        )
    return OldestOut(integer_at_least("budget", budget, 1))
