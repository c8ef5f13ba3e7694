"""The margin that stays."""

from typing import NamedTuple

from kernelstream.margins.base import Margin, MarginRule
from kernelstream.parts import Choice, number, parameters, part, rule

__all__ = ["Fixed"]


@rule(defaults=MarginRule)
class FixedRule(NamedTuple):
    """A margin that stays."""

    initial: float
    first_step: float


@part("margin")
@parameters
class Fixed(Margin):
    """A margin that stays where it is.

    Parameters
    ----------
    value : float, default=1.0
        The margin of hinge and novelty losses; epsilon or sigma in regression.

    Examples
    --------
    >>> from kernelstream.margins import Fixed
    >>> Fixed(0.5)
    Fixed(value=0.5)
    """

    value: float = 1.0

    is_fixed = True

    def check(self) -> None:
        number("margin", self.value, at_least=0)

    def check_with(self, choice: Choice) -> None:
        if choice.loss.needs_positive_margin:
            number("margin", self.value, above=0)

    def to_rule(self, first_step: float) -> FixedRule:
        self.check()
        return FixedRule(float(self.value), 0.0)
