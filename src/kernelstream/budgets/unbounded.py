"""The budget without a limit."""

from typing import Any

from kernelstream.budgets.base import NO_LIMIT, Budget
from kernelstream.budgets.dropping import Ring, RingRule, ring
from kernelstream.parts import part

__all__ = ["Unbounded"]


@part("budget")
class Unbounded(Budget):
    """Keep every point with a coefficient. Memory grows with the stream.

    Examples
    --------
    >>> from kernelstream.budgets import Unbounded
    >>> Unbounded().limit() is None
    True
    """

    keeps_all = True

    def limit(self) -> int | None:
        return None

    def lines_read(self, state: Any, n_points: int, n_rows: int) -> list[slice]:
        return []  # no point goes

    def state(self) -> Ring:
        return ring()

    def to_rule(self) -> RingRule:
        return RingRule(NO_LIMIT)  # a ring that never closes
