"""Which points stay?

A budget knows kernel numbers and coefficients, never the loss. Asked for room, it answers the slot
of the point that goes.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.parts import Field, Part, integer_at_least, rule

__all__ = ["BudgetState", "OldestOut", "Unbounded", "as_budget"]

_NO_LIMIT = 2**62


class BudgetState(NamedTuple):
    """The slot of the oldest point, and k(points, points) where the budget keeps it."""

    oldest: object
    gram: object


@rule
class OldestOutRule(NamedTuple):
    """A ring of slots: once it is full, the new point takes the place of the oldest."""

    size: int

    def choose_slot(self, budget_state, n_points):
        if n_points < self.size:
            return n_points
        oldest = budget_state.oldest[0]
        budget_state.oldest[0] = (oldest + 1) % self.size
        return oldest


class _Budget(Part):
    def limit(self) -> int | None:
        """The most points a model may hold; None where there is no limit."""
        raise TypeError(f"{type(self).__name__} must say its limit.")

    def keeps_gram(self, trace_decay: float) -> bool:
        """Whether to keep k(points, points), to correct ||f||^2 and <f, v> for dropped points."""
        return False

    def state(self, trace_decay: float | None, dtype: np.dtype) -> BudgetState:
        """`trace_decay` is None where the model uses neither ||f||^2 nor <f, v>."""
        keeps = trace_decay is not None and self.keeps_gram(trace_decay)
        axes = ("points", "points") if keeps else ("none", "none")
        return BudgetState(oldest=Field((), 0, int), gram=Field(axes, 0.0, dtype))


class OldestOut(_Budget):
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

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)

    def limit(self) -> int | None:
        return int(self.size)

    def keeps_gram(self, trace_decay: float) -> bool:
        return trace_decay**self.size > 0.01 if self.exact is None else bool(self.exact)

    def to_rule(self) -> OldestOutRule:
        self.check()
        return OldestOutRule(int(self.size))


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
