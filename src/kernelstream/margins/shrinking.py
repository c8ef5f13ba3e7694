"""ALMA's margin."""

import math
from typing import NamedTuple

from kernelstream.margins.base import Margin, MarginRule
from kernelstream.parts import number, parameters, part, rule

__all__ = ["Shrinking"]


@rule(defaults=MarginRule)
class ShrinkingRule(NamedTuple):
    """``eps_k = initial / sqrt(k)``, where k - 1 rows have violated it so far."""

    initial: float
    first_step: float

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        if violated:
            ratio = margin_state.epsilon[0] / self.initial
            margin_state.epsilon[0] /= math.sqrt(1.0 + ratio * ratio)


@part("margin")
@parameters
class Shrinking(Margin):
    """A margin that shrinks whenever it is violated: ``initial / sqrt(k)`` at the k-th violation.

    ALMA's; `updates.ALMA` brings it.

    Parameters
    ----------
    initial : float, default=1.0

    Examples
    --------
    >>> from kernelstream.margins import Shrinking
    >>> Shrinking(2.0)
    Shrinking(initial=2.0)
    """

    initial: float = 1.0

    def check(self) -> None:
        number("initial", self.initial, above=0)

    def to_rule(self, first_step: float) -> ShrinkingRule:
        self.check()
        return ShrinkingRule(float(self.initial), 0.0)
