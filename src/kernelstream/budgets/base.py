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
    """Index of the smallest of the first n; near-ties go to the lowest index."""
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
    """How often the coefficients of a point have been halved in the competition for its place.

    What is compared fades, f does not. Without it a point that nothing touches any more, with a
    coefficient beyond all that are to come, would hold its place for ever.
    """
    return int(min(max(half_lives, 0.0), _MOST_HALVINGS))


@helper
def norm2_of(x):
    """Squared norm of a short vector."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
    return total


class BudgetRule(Protocol):
    """What a budget's rule answers; all but `make_room` has a default.

    `budget_state` is the budget's own record, `tile` and `point` are those of the expansion.
    """

    def make_room(self, budget_state, expansion, tile, i, point):
        """The action by which row i becomes a point, or not (`kernelstream.expansion.actions`)."""
        raise NotImplementedError

    def expired(self, budget_state, expansion):
        """A point that goes whether or not another comes; -1: none."""
        return -1

    def note_decay(self, budget_state, keep):
        """A row has shrunk f to `keep` times what it was."""
        return

    def inserted(self, budget_state, tile, slot, i, n, grown):
        """Row i has become the point in `slot`, of n points; `grown`: the slot was free."""
        return

    def n_kept(self, budget_state, expansion):
        """How many points there are."""
        return expansion.n_points[0]

    def kept_slots(self, budget_state, expansion):
        """The slots that hold a point, in the order in which they are shown. Not compiled."""
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
        """The most points a model may hold; None where there is no limit."""
        return int(self.size)

    def first_limit(self) -> int | None:
        """The same as the stream begins: a budget may grow."""
        return self.limit()

    def keeps_gram(self, trace_decay: float, equal_norms: bool) -> bool:
        """Whether to keep k(points, points), to correct ||f||^2 and <f, v> for dropped points.

        `equal_norms`: k(x, x) is the same for all rows.
        """
        return False

    def lines_read(self, state: Any, n_points: int, n_rows: int) -> list[slice]:
        """The points whose kernel values with a tile's rows `make_room` and its action may read.

        Points that can't go while n rows are learned need not be among them.
        """
        return [slice(0, n_points)]

    def fades(self) -> bool:
        """Whether what a point counts in the competition for its place falls with its age."""
        return False

    def state(self) -> Any:
        """The record of what the budget remembers, a named tuple of `Field`."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def to_rule(self) -> Any:
        """The compiled rule: see the package's docstring for what it answers."""
        raise TypeError(f"{type(self).__name__} must say its rule.")

    def adopt(self, state: Any, expansion: Any, gram: np.ndarray) -> None:
        """Remember points that did not come row by row; `gram` has the kernel values of theirs."""
        self.take_gram(state, gram)

    def take_gram(self, state: Any, gram: np.ndarray) -> None:
        """Remember other kernel values of the same points with each other."""

    def n_kept(self, state: Any, expansion: Any) -> Any:
        """How many points there are, of one model or of many."""
        return expansion.n_points[..., 0]

    def truncation_error(self, state: Any) -> float | None:
        """A bound on the norm of what has been dropped, where it is kept."""
        return None
