"""Numbers: ridge regression on what sets members apart."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.caution import Caution, learn_caution, new_caution, share_believed
from kernelstream.committee.deviations import (
    Deviations,
    deviation_of,
    learn_deviation,
    new_deviations,
)
from kernelstream.committee.mixing.base import Mixing, solve_positive
from kernelstream.committee.mixing.frame import (
    Frame,
    frame_deviation,
    learn_frame,
    new_frame,
    to_frame,
)
from kernelstream.compile import Call, compiled, helper
from kernelstream.parts import number, parameters, part

__all__ = ["RidgeStacking"]


class RidgeLevel(NamedTuple):
    """What one stacking of some predictions remembers."""

    error: Any  # (members,): mean squared error of each
    own_error: Any  # (1,): and of what it says itself
    count: Any  # (1,): weight of the rows so far
    products: Any  # (members, members): sum of h h^T
    right: Any  # (members,): sum of h (y - centre)


class RidgeState(NamedTuple):
    """Two stackings with other memories, one of the two, and how far it is to be believed."""

    first: RidgeLevel
    second: RidgeLevel
    top: RidgeLevel
    caution: Caution
    deviations: Deviations
    n_far: Any  # (1,): how many targets in succession were far from what the committee said
    frame: Frame  # the units of all this


class RidgeWork(NamedTuple):
    """Memory for one row."""

    said: Any  # (members,): their predictions in the units of the frame
    share: Any  # (members,)
    apart: Any  # (3, members): h of each level
    coef: Any  # (members,)
    factor: Any  # (members, members)
    halves: Any  # (2,)


_FIRST_ROW = 1e-9  # the weight of the first row, whose error would outlast a thousand others
_MEMORY = 300.0  # rows, of errors: what was wrong once is forgotten
# From some row on, a target is learned as if it were no farther from the committee's prediction
# than so many root mean square errors. The limit grows while targets stay beyond it.
_FAR = 5.0
_GROWTH = 1.5
_TRUSTED = 16.0
_MOST_FAR = 400.0  # in succession: the limit is then larger than any number


@helper
def _shares(error, share):
    """Compute the members' shares in the centre from their mean squared errors."""
    least = error[0]
    for e in range(error.shape[0]):
        least = min(least, error[e])
    total = 0.0
    for e in range(error.shape[0]):
        ratio = least / error[e] if error[e] > 0.0 else 1.0
        share[e] = ratio * ratio
        total += share[e]
    for e in range(error.shape[0]):
        share[e] /= total


@helper
def _predict_level(level, ridge, said, work, apart):
    """Return the stacked prediction and the centre; write h into `apart`."""
    n = level.error.shape[0]
    _shares(level.error, work.share)
    centre, lowest, highest = 0.0, said[0], said[0]
    for e in range(n):
        centre += work.share[e] * said[e]
        lowest, highest = min(lowest, said[e]), max(highest, said[e])
    for e in range(n):
        apart[e] = said[e] - centre
    if level.own_error[0] <= 0.0:
        return centre, centre
    solve_positive(level.products, ridge * level.own_error[0], level.right, work.factor, work.coef)
    result, width = centre, highest - lowest
    for e in range(n):
        result += work.coef[e] * apart[e]
    return min(max(result, lowest - width), highest + width), centre


@helper
def _learn_level(level, decay, said, apart, centre, result, y, weight):
    n = level.error.shape[0]
    if level.count[0] == 0.0:  # where targets lie nobody could know
        level.count[0] = _FIRST_ROW
        return
    level.count[0] += weight
    rate = weight / min(level.count[0], max(_MEMORY, weight))
    level.own_error[0] += rate * ((y - result) ** 2 - level.own_error[0])
    for e in range(n):
        level.error[e] += rate * ((y - said[e]) ** 2 - level.error[e])
        level.right[e] = decay * level.right[e] + weight * apart[e] * (y - centre)
        for f in range(n):
            level.products[e, f] = decay * level.products[e, f] + weight * apart[e] * apart[f]


@helper
def _limited(state, result, y):
    """Return the target as it is learned: an outlier may not decide alone."""
    error = state.top.own_error[0]
    if state.top.count[0] < _TRUSTED:
        return y
    # and one standard deviation at least: what was constant may become anything
    most = max(_FAR * math.sqrt(error) * _GROWTH ** state.n_far[0], frame_deviation(state.frame))
    if abs(y - result) <= most:
        state.n_far[0] = max(0.5 * state.n_far[0] - 1.0, 0.0)
        return y
    state.n_far[0] = min(state.n_far[0] + 1.0, _MOST_FAR)
    return result + math.copysign(most, y - result)


@compiled
def _stack_numbers(state, decays, ridge, scores, y, weight, learns, work, out, loss, deviation):
    apart, n = work.apart, scores.shape[0]
    for i in range(scores.shape[1]):
        zero, unit, said = state.frame.zero[0], state.frame.unit[0], work.said
        for e in range(n):
            said[e] = (scores[e, i, 0] - zero) / unit
        first, first_centre = _predict_level(state.first, ridge, said, work, apart[0])
        spread = 0.0
        for e in range(n):
            spread += work.share[e] * apart[0, e] ** 2
        deviation[i] = unit * deviation_of(state.deviations, spread)
        second, second_centre = _predict_level(state.second, ridge, said, work, apart[1])
        work.halves[0], work.halves[1] = first, second
        mixed, centre = _predict_level(state.top, ridge, work.halves, work, apart[2])
        mean = state.caution.mean[0]
        result = mean + share_believed(state.caution) * (mixed - mean)
        out[i, 0] = zero + unit * result
        if not learns:
            continue
        loss[i] = 0.5 * (y[i] - out[i, 0]) ** 2
        if weight[i] == 0.0:
            continue
        target = _limited(state, result, to_frame(state.frame, y[i]))
        if not learn_frame(state.frame, y[i]):
            continue
        if state.top.count[0] > 0.0:  # where targets lie nobody could know before
            learn_deviation(state.deviations, spread, target - result, weight[i])
        learn_caution(state.caution, decays[2], mixed, target - result, target, weight[i])
        _learn_level(
            state.first, decays[0], said, apart[0, :n], first_centre, first, target, weight[i]
        )
        _learn_level(
            state.second, decays[1], said, apart[1, :n], second_centre, second, target, weight[i]
        )
        _learn_level(
            state.top, decays[2], work.halves, apart[2, :2], centre, mixed, target, weight[i]
        )


@part("mixing", "ridge")
@parameters
class RidgeStacking(Mixing):
    """A centre weighted by the members' errors, and a ridge regression on what sets them apart.

    The first row does not count: where targets lie nobody could know.
    The centre is a mean of the members' predictions with weights ``mse^-2``; with h the
    predictions minus the centre, the coefficients are
    ``(sum h h^T + ridge mse I)^-1 sum h (y - centre)``, where mse is that of the committee. The
    correction stays within the members' range, extended by as much on each side. Where that is
    worse than the mean of the targets so far, the mixture is drawn towards the mean, and so is the
    sum of the weights towards zero (`kernelstream.committee.caution`). How far targets lie from
    what is said is learned from the errors, and from how much the members differ at a row. A
    target farther than five root mean square errors from the prediction is learned as if it were
    there, unless more of them follow; and where the level or the scale of the targets changes, the
    units of all this change with it (`kernelstream.scalings.breaks`).

    Parameters
    ----------
    decays : tuple of two floats, default=(1.0, 0.995)
        How fast the two stackings forget.
    top_decay : float, default=0.999
        How fast the stacking of the two forgets, and what is known of its use.
    ridge : float, default=30.0
        The ridge, in mean squared errors of the committee.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.committee.RidgeStacking(ridge=10.0)
    RidgeStacking(decays=(1.0, 0.995), ridge=10.0, top_decay=0.999)
    """

    decays: Any = (1.0, 0.995)
    top_decay: float = 0.999
    ridge: float = 30.0

    version = 2
    task = "regression"
    gives_deviations = True

    def check(self) -> None:
        if len(self.decays) != 2:
            raise ValueError(f"decays={self.decays!r} are not two numbers: give (1.0, 0.995).")
        for decay in (*self.decays, self.top_decay):
            number("decay", decay, above=0, at_most=1)
        number("ridge", self.ridge, above=0)

    def new_state(self, n_members: int, n_outputs: int) -> RidgeState:
        def level(n: int) -> RidgeLevel:
            return RidgeLevel(np.zeros(n), np.zeros(1), np.zeros(1), np.zeros((n, n)), np.zeros(n))

        return RidgeState(
            level(n_members), level(n_members), level(2), new_caution(), new_deviations(),
            np.zeros(1), new_frame(),
        )  # fmt: skip

    def _arguments(self, state: Any, scores: Any, y: Any, weight: Any, learns: bool) -> Any:
        n = max(len(scores), 2)
        work = RidgeWork(
            np.zeros(len(scores)), np.zeros(n), np.zeros((3, n)), np.zeros(n), np.zeros((n, n)),
            np.zeros(2),
        )  # fmt: skip
        out, (loss, deviation) = np.empty(scores.shape[1:]), np.zeros((2, scores.shape[1]))
        decays = np.array([*self.decays, self.top_decay], float)
        return (
            state, decays, float(self.ridge), scores, y, weight, learns, work, out, loss, deviation,
        )  # fmt: skip

    def _run(self, *given: Any) -> Any:
        """Return the mixed predictions, the losses and the deviations of targets."""
        arguments = self._arguments(*given)
        _stack_numbers(*arguments)
        return arguments[-3:]

    def learn(self, state, scores, y, weight):
        return self._run(state, scores, y, weight, True)[:2]

    def calls(self, state, scores, y):
        return [Call(_stack_numbers, *self._arguments(state, scores, y, np.ones(1), True))]

    def mix(self, state, scores):
        return self._run(state, scores, np.zeros(0), np.zeros(0), False)[0]

    def deviations(self, state, scores):
        return self._run(state, scores, np.zeros(0), np.zeros(0), False)[2]

    def weights(self, state):
        n = len(state.first.error)
        tops, shares = self._linear(state.top), np.zeros(n)
        for top, level in zip(tops, (state.first, state.second), strict=True):
            shares += top * self._linear(level)
        return share_believed(state.caution) * shares

    def _linear(self, level: RidgeLevel) -> np.ndarray:
        """Return the factor of each prediction at a level, before it is limited."""
        n = len(level.error)
        share = np.zeros(n)
        _shares(level.error, share)
        if level.own_error[0] <= 0.0:
            return share
        matrix = level.products + self.ridge * level.own_error[0] * np.eye(n)
        coef = np.linalg.solve(matrix, level.right)
        return share + coef - coef.sum() * share
