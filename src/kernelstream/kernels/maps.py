"""Maps from a quantity to a kernel value.

Each is written once, for a number in compiled code and for an array in plain Python.
"""

from typing import Any, NamedTuple

from kernelstream.compile import helper
from kernelstream.elementary import exp_of_negative
from kernelstream.parts import rule

__all__ = ["Exponential", "Identity", "Power"]


@rule
class Exponential(NamedTuple):
    """``exp(-gamma q)``."""

    gamma: Any

    def map_value(self, q):
        return exp_of_negative(-self.gamma * q)


@rule
class Identity(NamedTuple):
    """q itself."""

    def map_value(self, q):
        return q


@rule
class Power(NamedTuple):
    """``(gamma q + coef0)^degree``."""

    gamma: Any
    coef0: Any
    degree: int

    def map_value(self, q):
        return power(self.gamma * q + self.coef0, self.degree)


@helper
def power(base, degree):
    """Return ``base^degree`` by repeated squaring, ten times as fast as np.power.

    For degrees below 32 there is no loop whose length is not known, so that compiled code takes
    several numbers at once.
    """
    result = base - base + 1
    for bit in range(5):
        if (degree >> bit) & 1:
            result = result * base
        base = base * base
    rest = degree >> 5
    while rest > 0:
        if rest & 1:
            result = result * base
        base = base * base
        rest >>= 1
    return result
