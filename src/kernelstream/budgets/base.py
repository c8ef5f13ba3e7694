"""What budgets share: the base of the public classes, and how points compete for their places."""

from typing import Any, Protocol

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import SLACK, Part

__all__ = ["NO_LIMIT", "Budget", "BudgetRule", "fade", "norm2_of", "smallest"]

NO_LIMIT = 2**62
_MOST_HALVINGS = 200.0  # far below what a double can tell


@helper
def smallest(sizes, n):
    """Return index of the smallest of the first n; near-ties go to the lowest index."""
    best = 0
    for j in range(1, n):
        if sizes[j] < sizes[best]:
            best = j
    for j in range(best):
        if sizes[j] <= sizes[best] * (1.0 + SLACK):
            return j
    return best


@helper
def fade(half_lives):
    """Return how often a point's coefficients are halved when points compete for slots.

    What is compared fades, f does not. Without it a point that nothing touches any more, with a
    coefficient beyond all that are to come, would hold its place for ever.
    """
    return int(min(max(half_lives, 0.0), _MOST_HALVINGS))


@helper
def norm2_of(x):
    """Return squared norm of a short vector."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
    return total


class BudgetRule(Protocol):
    """What a budget's rule answers; all but `make_room` has a default.

    `budget_state` is the budget's own record, `tile` and `point` are those of the expansion.
    """

    def make_room(self, budget_state, expansion, tile, i, point):
        """Return the action for row i: whether and how it becomes a point (`expansion.actions`)."""
        raise NotImplementedError

    def expired(self, budget_state, expansion):
        """Return a point that goes whether or not another comes; -1: none."""
        return -1

    def note_decay(self, budget_state, keep):
        """Note that a row has shrunk f to `keep` times its size."""
        return

    def inserted(self, budget_state, tile, slot, i, n, grown):
        """Note that row i became the point in `slot`, of n points; `grown`: the slot was free."""
        return

    def n_kept(self, budget_state, expansion):
        """Return how many points there are."""
        return expansion.n_points[0]

    def kept_slots(self, budget_state, expansion):
        """Return the slots that hold a point, in display order. Not compiled."""
        return np.arange(expansion.n_points[0])


class Budget(Part):
    """Base of the budgets. Each declares its own state record, and lowers to a rule."""

    size: Any
    keeps_all = False  # every row with a coefficient stays a point
    is_dictionary = False  # rows join by what they add, and the others are combinations of them
    projects = False  # what goes is projected on what stays, or merged: old coefficients change
    expires = False  # points go without another's coming
    is_folded = False  # no points: rows are added to a weight for each explicit feature
    worth = 1.0  # how many times as much as the cheapest point a new one must be worth

    def limit(self) -> int | None:
        """Return the most points a model may hold; None where there is no limit."""
        return int(self.size)

    def first_limit(self) -> int | None:
        """Return the same as the stream begins: a budget may grow."""
        return self.limit()

    def keeps_gram(self, trace_decay: float, equal_norms: bool) -> bool:
        """Return whether to keep k(points, points), to correct ||f||^2 and <f, v> after drops.

        `equal_norms`: k(x, x) is the same for all rows.
        """
        return False

    def lines_read(self, state: Any, n_points: int, n_rows: int) -> list[slice]:
        """Return the points whose kernel values `make_room` and its action may read in a tile.

        Points that can't go while n rows are learned need not be among them.
        """
        return [slice(0, n_points)]

    def fades(self) -> bool:
        """Return whether points lose weight with age in the competition for slots."""
        return False

    def state(self) -> Any:
        """Return the record of what the budget remembers, a named tuple of `Field`."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def to_rule(self) -> Any:
        """Return the compiled rule: see the package's docstring for what it answers."""
        raise TypeError(f"{type(self).__name__} must say its rule.")

    def adopt(self, state: Any, expansion: Any, gram: np.ndarray) -> None:
        """Remember points that did not come row by row; `gram` has the kernel values of theirs."""
        self.take_gram(state, gram)

    def take_gram(self, state: Any, gram: np.ndarray) -> None:
        """Remember other kernel values of the same points with each other."""

    def n_kept(self, state: Any, expansion: Any) -> Any:
        """Return how many points there are, of one model or of many."""
        return expansion.n_points[..., 0]

    def truncation_error(self, state: Any) -> float | None:
        """Return a bound on the norm of the dropped points, where it is kept."""
        return None
