"""Novelty: the highest of standardized scores."""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.mixing.base import Mixing
from kernelstream.compile import Call, compiled, helper
from kernelstream.parts import number, parameters, part

__all__ = [
    "HighestMean", "HighestState", "ThresholdRule", "learn_highest", "mix_highest",
    "threshold_rule",
]  # fmt: skip

_SAME = 1e-12  # of a mean: values that differ by less are the same but for rounding
# Alarms that have failed to come before the threshold hurries back: chance does that at one alarm
# in 50. It hurries up to this part of where it began: what the quantile of scores is not above.
_MISSED = 4.0
_HURRIES_UP_TO = 0.5


class HighestState(NamedTuple):
    """Running statistics of the members' scores, and the threshold of alarms."""

    mean: Any  # (members,)
    square: Any  # (members,): sum of squared deviations
    count: Any  # (1,)
    threshold: Any  # (1,): of the mixed score; below it a row is an alarm
    calm: Any  # (1,): rows since the last alarm


class ThresholdRule(NamedTuple):
    """How the threshold moves."""

    nu: float  # the share of rows that are alarms
    rate: float  # how fast it follows in the long run
    n_first: float  # rows that its start counts as
    start: float


def threshold_rule(nu: float, rate: float, n_first: float, quantiles: float = 1.0) -> ThresholdRule:
    """Return the rule of a threshold, which begins at a multiple of the normal quantile nu.

    Scores that are standardised have theirs near it, but for the rarest. From zero it would take
    too many alarms to get there.
    """
    return ThresholdRule(nu, rate, n_first, quantiles * NormalDist().inv_cdf(nu))


@helper
def standardized(value, mean, square, count):
    """Return how many standard deviations a value is from the mean of others.

    None of n values is further from their mean than sqrt(n). So far out is also what differs from
    values that have all been the same.
    """
    away = value - mean
    if square > 0.0:
        return away / math.sqrt(square / count)
    if count > 0.0 and abs(away) > _SAME * abs(mean):
        return math.copysign(math.sqrt(count), away)
    return 0.0


@helper
def mix_highest(state, n_highest, said, trust, lowest):
    """Return the mean of the lowest standardised scores, each times the trust in its member.

    Low means unlike the rows so far.
    """
    n, count = said.shape[0], state.count[0]
    for e in range(n_highest):
        lowest[e] = math.inf
    for e in range(n):
        z = trust[e] * standardized(said[e], state.mean[e], state.square[e], count)
        for place in range(n_highest):  # kept in order
            if z < lowest[place]:
                lowest[place], z = z, lowest[place]
    total = 0.0
    for place in range(n_highest):
        total += lowest[place]
    return total / n_highest


@helper
def _move_threshold(state, rule, mixed):
    """Learn whether a row was an alarm.

    The threshold follows the quantile nu of the mixed scores, by the steps of Robbins and Monro:
    1 / (n f), where the density f there is about 2 nu. Weights do not matter, since nu is a share
    of the rows. It goes on to follow scores that change, at a speed that does not depend on nu.

    A sudden change makes an alarm of every row for a while, each of which lowers the threshold by
    1 / nu - 1 times what a calm row raises it. So it would come back in thousands of rows. If
    alarms have failed to come for so long that chance hardly explains it, the steps back grow with
    the square of the time.
    """
    step = min(0.5, max(0.05 * rule.rate, 0.5 / (rule.n_first + state.count[0])) / rule.nu)
    if mixed < state.threshold[0]:
        state.calm[0] = 0.0
        state.threshold[0] -= step * (1.0 - rule.nu)
        return
    state.calm[0] += 1.0
    rise = step * rule.nu
    below, missed = _HURRIES_UP_TO * rule.start - state.threshold[0], rule.nu * state.calm[0]
    if missed > _MISSED:
        rise = max(rise, min((missed / _MISSED) ** 2 * rise, below))
    state.threshold[0] += rise


@helper
def learn_highest(state, rule, said, mixed, weight):
    """Learn what the members said of a row, and whether it was an alarm."""
    _move_threshold(state, rule, mixed)
    state.count[0] += weight
    for e in range(said.shape[0]):
        away = said[e] - state.mean[e]
        state.mean[e] += weight * away / state.count[0]
        state.square[e] += weight * away * (said[e] - state.mean[e])


@compiled
def _mix_novelty(state, n_highest, rule, scores, weight, learns, trust, lowest, out, loss):
    for i in range(scores.shape[1]):
        said = scores[:, i, 0]
        mixed = mix_highest(state, n_highest, said, trust, lowest)
        out[i, 0] = mixed
        if not learns:
            continue
        loss[i] = max(state.threshold[0] - mixed, 0.0)
        if weight[i] != 0.0:
            learn_highest(state, rule, said, mixed, weight[i])


@part("mixing", "highest")
@parameters
class HighestMean(Mixing):
    """The members' scores, standardized by their own running statistics; the mean of the highest.

    The highest are those that say most clearly that a row is new. Low scores mean new, so that with
    ``z_e = (s_e - mean_e) / sd_e`` the mixed score is the mean of the `n_highest` lowest z_e. The
    threshold t moves until a share nu of the mixed scores is below it:
    ``t <- t + step (nu - [score < t])``. After ``4 / nu`` rows without an alarm it rises faster, up
    to half of where it began.

    Parameters
    ----------
    n_highest : int, default=2
        How many members are averaged.
    nu : float, default=0.05
        The share of rows that are alarms.
    rate : float, default=0.02
        How fast the threshold follows in the long run: the standard deviations by which an alarm
        lowers it where nu is 0.05, and more where alarms are rarer. At first it is faster.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.committee.HighestMean(n_highest=1)
    HighestMean(n_highest=1, nu=0.05, rate=0.02)
    """

    n_highest: int = 2
    nu: float = 0.05
    rate: float = 0.02

    task = "novelty"

    def check(self) -> None:
        number("nu", self.nu, above=0, below=1)
        number("rate", self.rate, above=0)
        number("n_highest", self.n_highest, at_least=1)

    def new_state(self, n_members: int, n_outputs: int) -> HighestState:
        return HighestState(
            mean=np.zeros(n_members), square=np.zeros(n_members), count=np.zeros(1),
            threshold=np.array([self._rule().start]), calm=np.zeros(1),
        )  # fmt: skip

    def _rule(self) -> ThresholdRule:
        # scores of other machines may have any shape, so that the start must not count much
        return threshold_rule(float(self.nu), float(self.rate), n_first=1.0)

    def _arguments(self, state: Any, scores: Any, weight: Any, learns: bool) -> Any:
        out, loss = np.empty(scores.shape[1:]), np.zeros(scores.shape[1])
        n = min(int(self.n_highest), len(scores))
        return (
            state, n, self._rule(), scores, weight, learns,
            np.ones(len(scores)), np.zeros(n), out, loss,
        )  # fmt: skip

    def _run(self, *given: Any) -> Any:
        """Return the mixed scores and the losses."""
        arguments = self._arguments(*given)
        _mix_novelty(*arguments)
        return arguments[-2:]

    def learn(self, state, scores, y, weight):
        return self._run(state, scores, weight, True)

    def calls(self, state, scores, y):
        return [Call(_mix_novelty, *self._arguments(state, scores, np.ones(1), True))]

    def mix(self, state, scores):
        return self._run(state, scores, np.zeros(0), False)[0]

    def weights(self, state):
        return np.full(len(state.mean), 1.0 / len(state.mean))

    def threshold(self, state):
        return float(state.threshold[0])
