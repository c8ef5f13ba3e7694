"""Budgets that simply drop what goes."""

from typing import NamedTuple

from kernelstream.budgets.base import NO_LIMIT, Budget, norm2_of, smallest
from kernelstream.parts import SLACK, integer_at_least, rule

__all__ = ["OldestOut", "SmallestOut", "Unbounded"]


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

    def refresh(self, budget_state, n, grown):
        return

    def drops_oldest(self):
        return True


@rule
class SmallestOutRule(NamedTuple):
    """The point with the smallest coefficients goes, the new one included."""

    size: int

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        if n < self.size:
            return n, -1, -1.0
        # The decay is one number for all points, so that raw sizes compare as true ones do.
        slot = smallest(expansion.size2, n)
        p = expansion.scale[0]
        if norm2_of(alpha) < p * p * expansion.size2[slot] * (1.0 - SLACK):
            return -1, -1, -1.0
        return slot, -1, -1.0

    def refresh(self, budget_state, n, grown):
        return

    def drops_oldest(self):
        return False


class Dropping(Budget):
    """A budget that simply drops what goes."""

    exact: bool | None

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)

    def keeps_gram(self, trace_decay: float) -> bool:
        return trace_decay**self.size > 0.01 if self.exact is None else bool(self.exact)


class OldestOut(Dropping):
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


class SmallestOut(Dropping):
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


class Unbounded(Budget):
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
        return OldestOutRule(NO_LIMIT)  # a ring that never closes
