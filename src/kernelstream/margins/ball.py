"""Ballseptron's margin."""

import math
from typing import NamedTuple

from kernelstream.margins.base import Margin, MarginRule
from kernelstream.parts import number, parameters, part, rule

__all__ = ["Ball"]


@rule(defaults=MarginRule)
class BallRule(NamedTuple):
    """``radius ||f||``: a row is this far from where the score is zero."""

    initial: float
    first_step: float
    radius: float

    def current_margin(self, margin_state, norm2):
        return self.radius * math.sqrt(norm2)


@part("margin")
@parameters
class Ball(Margin):
    """A margin in the units of the kernel's space: ``radius ||f||``.

    Ballseptron's; `updates.Ballseptron` brings it.

    Parameters
    ----------
    radius : float, default=0.1

    Examples
    --------
    >>> from kernelstream.margins import Ball
    >>> Ball(0.1)
    Ball(radius=0.1)
    """

    radius: float = 0.1

    def check(self) -> None:
        number("radius", self.radius, at_least=0)

    def to_rule(self, first_step: float) -> BallRule:
        self.check()
        return BallRule(0.0, 0.0, float(self.radius))
