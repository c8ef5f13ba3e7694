"""How far targets lie from what a committee of regressors says.

Where the members differ more than usual, the target is usually farther from their mixture. With s^2
the spread of the members at a row, S its running mean and e the error of the mixture, the variance
of y is taken to be::

    v = E g + max(0, s^2 - 9 S)    with    g = ((s^2 + 0.05 S) / (1.05 S))^b

The second term is for rows unlike all before, of which the errors tell nothing: members that differ
so much cannot all be right. E is the running mean of e^2 / g. The power b is that of the highest
likelihood of normal errors, followed by Newton's steps: with ``f = log g / b``, the negative
log-likelihood has the derivative ``f (1 - e^2 / (E g)) / 2`` by b, and the expected curvature
``f^2 / 2``.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper

__all__ = ["Deviations", "deviation_of", "learn_deviation", "new_deviations"]

# Chosen on the regression streams of the benchmark that are for choosing; the coverage of intervals
# changes by less than a point between 0.98 and 0.998.
_MEMORY = 0.99
_FLOOR = 0.05  # of the spread, in means: where all members agree nobody is certain
_UNUSUAL = 9.0  # a spread, in means
_HIGHEST_POWER = 1.5
_LARGEST_RATIO = 9.0  # of a squared error and its variance, as an outlier may not decide alone
_FIRST_CURVATURE = 10.0  # as if about so many rows had spoken for b = 0


class Deviations(NamedTuple):
    """What is remembered of errors and of spreads."""

    count: Any  # (1,): weight of the rows in memory
    square: Any  # (1,): E
    spread: Any  # (1,): S
    power: Any  # (1,): b
    curvature: Any  # (1,)


def new_deviations() -> Deviations:
    """Return the state before any row."""
    return Deviations(
        np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1), np.full(1, _FIRST_CURVATURE)
    )


@helper
def _relative(state, spread):
    """Return the logarithm f of a row's spread, relative to the usual one."""
    usual = state.spread[0]
    if not usual > 0.0:
        return 0.0
    return math.log((spread / usual + _FLOOR) / (1.0 + _FLOOR))


@helper
def deviation_of(state, spread):
    """Return the standard deviation of y for this spread of members; infinite before any row."""
    if state.count[0] == 0.0:
        return math.inf
    usual = state.square[0] * math.exp(state.power[0] * _relative(state, spread))
    return math.sqrt(usual + max(0.0, spread - _UNUSUAL * state.spread[0]))


@helper
def learn_deviation(state, spread, error, weight):
    """Learn from the error of a row."""
    relative = _relative(state, spread)
    shape = math.exp(state.power[0] * relative)
    variance, square = state.square[0] * shape, error * error
    if variance > 0.0:
        ratio = min(square / variance, _LARGEST_RATIO)
        curvature = _MEMORY * state.curvature[0] + weight * 0.5 * relative * relative
        power = state.power[0] + weight * 0.5 * (ratio - 1.0) * relative / curvature
        state.curvature[0] = curvature
        state.power[0] = min(max(power, 0.0), _HIGHEST_POWER)
    state.count[0] = _MEMORY * state.count[0] + weight
    rate = weight / state.count[0]
    state.square[0] += rate * (square / shape - state.square[0])
    state.spread[0] += rate * (spread - state.spread[0])
