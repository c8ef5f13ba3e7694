"""How much does each member count?

A mixing is a scan over rows. At each row it is given the members' scores, says the mixed ones, and
then learns from the target. Two mixers with a short and a long memory stand side by side, and a
third of the same kind mixes the two: drifting streams need the first, stationary ones the second.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.deviations import (
    Deviations,
    deviation_of,
    learn_deviation,
    new_deviations,
)
from kernelstream.compiled import compiled, helper
from kernelstream.parts import Part, number, part
from kernelstream.steps import Call

__all__ = [
    "HighestMean",
    "HighestState",
    "Mixing",
    "NewtonStacking",
    "RidgeStacking",
    "first_threshold",
    "learn_highest",
    "mix_highest",
]


class Mixing(Part):
    """Base of the mixings."""

    task: str
    gives_probabilities = False  # whether the softmax of mixed scores are probabilities
    gives_deviations = False  # whether it knows how far targets lie from mixed scores

    def new_state(self, n_members: int) -> Any:
        """What it remembers before any row has been seen: a record of arrays."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def learn(
        self, state: Any, scores: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mix the scores of rows, of shape (members, rows, outputs), and learn from each.

        Answers the mixed scores as they were before each row was learned, of shape (rows,
        outputs), and the loss of each row.
        """
        raise TypeError(f"{type(self).__name__} must say how it learns.")

    def calls(self, state: Any, scores: np.ndarray, y: np.ndarray) -> list[Call]:
        """The calls of compiled code that learn the row in `scores` and `y`; none: see `learn`."""
        return []

    def mix(self, state: Any, scores: np.ndarray) -> np.ndarray:
        """Mix the scores of rows, of shape (members, rows, outputs), as it is now."""
        raise TypeError(f"{type(self).__name__} must say how it mixes.")

    def deviations(self, state: Any, scores: np.ndarray) -> np.ndarray:
        """The standard deviation of y around each mixed score, where it `gives_deviations`."""
        raise TypeError(f"{type(self).__name__} must say how far y may be.")

    def weights(self, state: Any) -> np.ndarray:
        """How much each member counts."""
        raise TypeError(f"{type(self).__name__} must say how much each member counts.")

    def threshold(self, state: Any) -> float:
        """The score below which a row is an alarm, where there are alarms."""
        return 0.0


# --- small positive definite systems --------------------------------------------------------------


@helper
def solve_positive(matrix, ridge, right, factor, out):
    """Write (matrix + ridge I)^-1 right into `out`, by Cholesky's factorization."""
    n = right.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            if i == j:
                total += ridge
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(max(total, 1e-300))
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(n):
        total = right[i]
        for k in range(i):
            total -= factor[i, k] * out[k]
        out[i] = total / factor[i, i]
    for i in range(n - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, n):
            total -= factor[k, i] * out[k]
        out[i] = total / factor[i, i]


# --- labels: Newton steps on the log loss ---------------------------------------------------------


class NewtonState(NamedTuple):
    """Weights of the members in two mixers, of the two mixers in the third, and their Hessians."""

    weights: Any  # (2, members)
    hessian: Any  # (2, members, members)
    top_weights: Any  # (2,)
    top_hessian: Any  # (2, 2)


class NewtonWork(NamedTuple):
    """Memory for one row."""

    centred: Any  # (members, classes)
    halves: Any  # (2, classes): what the two mixers say
    mixed: Any  # (classes,)
    p: Any  # (classes,)
    mean: Any  # (members,)
    slope: Any  # (members,)
    step: Any  # (members,)
    factor: Any  # (members, members)


@helper
def _centre(scores, limit, out):
    """Scores of a row with mean zero over the classes, within the limit; one output is two."""
    n = out.shape[0]
    if scores.shape[0] == 1:
        half = min(max(0.5 * scores[0], -limit), limit)
        out[0], out[1] = -half, half
        return
    mean = 0.0
    for k in range(n):
        mean += scores[k]
    mean /= n
    for k in range(n):
        out[k] = min(max(scores[k] - mean, -limit), limit)


@helper
def _combine(weights, scores, n, out):
    for k in range(out.shape[0]):
        out[k] = 0.0
    for e in range(n):
        for k in range(out.shape[0]):
            out[k] += weights[e] * scores[e, k]


@helper
def _softmax(z, p):
    """Probabilities; return the logarithm of their sum before they were divided by it."""
    top = z[0]
    for k in range(z.shape[0]):
        top = max(top, z[k])
    total = 0.0
    for k in range(z.shape[0]):
        p[k] = math.exp(z[k] - top)
        total += p[k]
    for k in range(z.shape[0]):
        p[k] /= total
    return top + math.log(total)


@helper
def _newton_step(weights, hessian, decay, ridge, scores, n, z, label, weight, work):
    """One Newton step on the log loss: g = S (p - e_y), H = Cov_p(S)."""
    _softmax(z, work.p)
    for e in range(n):
        mean = 0.0
        for k in range(z.shape[0]):
            mean += work.p[k] * scores[e, k]
        work.mean[e] = mean
        work.slope[e] = weight * (mean - scores[e, label])
    for e in range(n):
        for f in range(e + 1):
            total = 0.0
            for k in range(z.shape[0]):
                total += work.p[k] * scores[e, k] * scores[f, k]
            curvature = weight * (total - work.mean[e] * work.mean[f])
            prior = (1.0 - decay) * ridge if e == f else 0.0
            hessian[e, f] = decay * hessian[e, f] + curvature + prior
            hessian[f, e] = hessian[e, f]
    solve_positive(hessian, 0.0, work.slope[:n], work.factor, work.step)
    for e in range(n):
        weights[e] -= work.step[e]


@compiled
def _mix_labels(state, limit, scores, work, out):
    """Mixed scores of rows, by the weights as they are."""
    for i in range(scores.shape[1]):
        _mix_row(state, limit, scores, i, work)
        _write_scores(work.mixed, out[i])


@helper
def _mix_row(state, limit, scores, i, work):
    n = scores.shape[0]
    for e in range(n):
        _centre(scores[e, i], limit, work.centred[e])
    for half in range(2):
        _combine(state.weights[half], work.centred, n, work.mixed)
        _centre(work.mixed, limit, work.halves[half])
    _combine(state.top_weights, work.halves, 2, work.mixed)


@helper
def _write_scores(z, out):
    if out.shape[0] == 1:
        out[0] = z[1] - z[0]
    else:
        for k in range(z.shape[0]):
            out[k] = z[k]


@compiled
def _learn_labels(state, decays, top_decay, ridge, limit, scores, y, weight, work, out, loss):
    n, single = scores.shape[0], scores.shape[2] == 1
    for i in range(scores.shape[1]):
        _mix_row(state, limit, scores, i, work)
        _write_scores(work.mixed, out[i])
        label = int(y[i] > 0.0) if single else int(y[i])
        loss[i] = _softmax(work.mixed, work.p) - work.mixed[label]
        if weight[i] == 0.0:
            continue
        _newton_step(
            state.top_weights, state.top_hessian, top_decay, ridge, work.halves, 2, work.mixed,
            label, weight[i], work,
        )  # fmt: skip
        for half in range(2):
            _combine(state.weights[half], work.centred, n, work.mixed)
            _newton_step(
                state.weights[half], state.hessian[half], decays[half], ridge, work.centred, n,
                work.mixed, label, weight[i], work,
            )  # fmt: skip


@part("mixing", "newton")
class NewtonStacking(Mixing):
    """One weight per member, learned by Newton steps on the log loss of the mixed scores.

    The scores of each member are centred over the classes and limited; ``z = sum_e w_e s_e`` are
    the mixed scores, and ``softmax(z)`` are probabilities. At each row
    ``M <- decay M + Cov_p(s) + (1 - decay) ridge I`` and ``w <- w - M^-1 g``, with the gradient g
    of the log loss.

    Parameters
    ----------
    decays : tuple of two floats, default=(0.99, 0.9999)
        How fast the two mixers forget.
    top_decay : float, default=0.999
        How fast the mixer of the two forgets.
    ridge : float, default=4.0
        The curvature before any row has been seen.
    start : float, default=1.0
        The sum of the weights before any row has been seen.
    limit : float, default=20.0
        The largest centred score.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.committee.NewtonStacking(ridge=1.0)
    NewtonStacking(decays=(0.99, 0.9999), limit=20.0, ridge=1.0, start=1.0, top_decay=0.999)
    """

    task = "classification"
    gives_probabilities = True

    def __init__(
        self, decays: Any = (0.99, 0.9999), top_decay: float = 0.999, ridge: float = 4.0,
        start: float = 1.0, limit: float = 20.0,
    ):  # fmt: skip
        self.decays = decays
        self.top_decay = top_decay
        self.ridge = ridge
        self.start = start
        self.limit = limit
        self.check()

    def check(self) -> None:
        if len(self.decays) != 2:
            raise ValueError(f"decays={self.decays!r} are not two numbers: give (0.99, 0.9999).")
        for decay in (*self.decays, self.top_decay):
            number("decay", decay, above=0, at_most=1)
        for name in ("ridge", "start", "limit"):
            number(name, getattr(self, name), above=0)

    def new_state(self, n_members: int) -> NewtonState:
        ridge = float(self.ridge)
        return NewtonState(
            np.full((2, n_members), self.start / n_members),
            np.tile(ridge * np.eye(n_members), (2, 1, 1)),
            np.full(2, 0.5),
            ridge * np.eye(2),
        )

    def _work(self, scores: np.ndarray) -> NewtonWork:
        n, classes = max(len(scores), 2), max(scores.shape[2], 2)
        return NewtonWork(
            np.zeros((n, classes)), np.zeros((2, classes)), np.zeros(classes), np.zeros(classes),
            np.zeros(n), np.zeros(n), np.zeros(n), np.zeros((n, n)),
        )  # fmt: skip

    def _arguments(self, state: Any, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
        out, loss = np.empty(scores.shape[1:]), np.empty(scores.shape[1])
        return (
            state, np.array(self.decays, float), float(self.top_decay), float(self.ridge),
            float(self.limit), scores, y, weight, self._work(scores), out, loss,
        )  # fmt: skip

    def learn(self, state, scores, y, weight):
        arguments = self._arguments(state, scores, y, weight)
        _learn_labels(*arguments)
        return arguments[-2:]

    def calls(self, state, scores, y):
        return [Call(_learn_labels, *self._arguments(state, scores, y, np.ones(1)))]

    def mix(self, state, scores):
        out = np.empty(scores.shape[1:])
        _mix_labels(state, float(self.limit), scores, self._work(scores), out)
        return out

    def weights(self, state):
        return state.top_weights @ state.weights


# --- numbers: ridge regression on what sets members apart -----------------------------------------


class RidgeLevel(NamedTuple):
    """What one stacking of some predictions remembers."""

    error: Any  # (members,): mean squared error of each
    own_error: Any  # (1,): and of what it says itself
    count: Any  # (1,): weight of the rows so far
    products: Any  # (members, members): sum of h h^T
    right: Any  # (members,): sum of h (y - centre)


class RidgeState(NamedTuple):
    """Two stackings with other memories, one of the two, and how far from it targets lie."""

    first: RidgeLevel
    second: RidgeLevel
    top: RidgeLevel
    deviations: Deviations


class RidgeWork(NamedTuple):
    """Memory for one row."""

    share: Any  # (members,)
    apart: Any  # (3, members): h of each level
    coef: Any  # (members,)
    factor: Any  # (members, members)
    halves: Any  # (2,)


_FIRST_ROW = 1e-9  # the weight of the first row, whose error would outlast a thousand others


@helper
def _shares(error, share):
    """Shares of the members in the centre, by the inverse square of their mean squared error."""
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
    """What a stacking makes of what members said, and the centre; h is written into `apart`."""
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
    rate = weight / level.count[0]
    level.own_error[0] += rate * ((y - result) ** 2 - level.own_error[0])
    for e in range(n):
        level.error[e] += rate * ((y - said[e]) ** 2 - level.error[e])
        level.right[e] = decay * level.right[e] + weight * apart[e] * (y - centre)
        for f in range(n):
            level.products[e, f] = decay * level.products[e, f] + weight * apart[e] * apart[f]


@compiled
def _stack_numbers(state, decays, ridge, scores, y, weight, learns, work, out, loss, deviation):
    apart, n = work.apart, scores.shape[0]
    for i in range(scores.shape[1]):
        said = scores[:, i, 0]
        first, first_centre = _predict_level(state.first, ridge, said, work, apart[0])
        spread = 0.0
        for e in range(n):
            spread += work.share[e] * apart[0, e] ** 2
        deviation[i] = deviation_of(state.deviations, spread)
        second, second_centre = _predict_level(state.second, ridge, said, work, apart[1])
        work.halves[0], work.halves[1] = first, second
        result, centre = _predict_level(state.top, ridge, work.halves, work, apart[2])
        out[i, 0] = result
        if not learns:
            continue
        loss[i] = 0.5 * (y[i] - result) ** 2
        if weight[i] == 0.0:
            continue
        if state.top.count[0] > 0.0:  # where targets lie nobody could know before
            learn_deviation(state.deviations, spread, y[i] - result, weight[i])
        _learn_level(
            state.first, decays[0], said, apart[0, :n], first_centre, first, y[i], weight[i]
        )
        _learn_level(
            state.second, decays[1], said, apart[1, :n], second_centre, second, y[i], weight[i]
        )
        _learn_level(
            state.top, decays[2], work.halves, apart[2, :2], centre, result, y[i], weight[i]
        )


@part("mixing", "ridge")
class RidgeStacking(Mixing):
    """A centre weighted by the members' errors, and a ridge regression on what sets them apart.

    The first row does not count: where targets lie nobody could know.
    The centre is a mean of the members' predictions with weights ``mse^-2``; with h the
    predictions minus the centre, the coefficients are
    ``(sum h h^T + ridge mse I)^-1 sum h (y - centre)``, where mse is that of the committee. The
    correction stays within the members' range, extended by as much on each side. How far targets
    lie from that is learned from its errors, and from how much the members differ at a row.

    Parameters
    ----------
    decays : tuple of two floats, default=(1.0, 0.998)
        How fast the two stackings forget.
    top_decay : float, default=0.999
        How fast the stacking of the two forgets.
    ridge : float, default=30.0
        The ridge, in mean squared errors of the committee.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.committee.RidgeStacking(ridge=10.0)
    RidgeStacking(decays=(1.0, 0.998), ridge=10.0, top_decay=0.999)
    """

    task = "regression"
    gives_deviations = True

    def __init__(
        self, decays: Any = (1.0, 0.998), top_decay: float = 0.999, ridge: float = 30.0
    ):  # fmt: skip
        self.decays = decays
        self.top_decay = top_decay
        self.ridge = ridge
        self.check()

    def check(self) -> None:
        if len(self.decays) != 2:
            raise ValueError(f"decays={self.decays!r} are not two numbers: give (1.0, 0.998).")
        for decay in (*self.decays, self.top_decay):
            number("decay", decay, above=0, at_most=1)
        number("ridge", self.ridge, above=0)

    def new_state(self, n_members: int) -> RidgeState:
        def level(n: int) -> RidgeLevel:
            return RidgeLevel(np.zeros(n), np.zeros(1), np.zeros(1), np.zeros((n, n)), np.zeros(n))

        return RidgeState(level(n_members), level(n_members), level(2), new_deviations())

    def _arguments(self, state: Any, scores: Any, y: Any, weight: Any, learns: bool) -> Any:
        n = max(len(scores), 2)
        work = RidgeWork(
            np.zeros(n), np.zeros((3, n)), np.zeros(n), np.zeros((n, n)), np.zeros(2)
        )  # fmt: skip
        out, (loss, deviation) = np.empty(scores.shape[1:]), np.zeros((2, scores.shape[1]))
        decays = np.array([*self.decays, self.top_decay], float)
        return (
            state, decays, float(self.ridge), scores, y, weight, learns, work, out, loss, deviation,
        )  # fmt: skip

    def _run(self, *given: Any) -> Any:
        """What was said, the losses, and how far targets may be from it."""
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
        return shares

    def _linear(self, level: RidgeLevel) -> np.ndarray:
        """What a level multiplies each prediction with, before it is limited."""
        n = len(level.error)
        share = np.zeros(n)
        _shares(level.error, share)
        if level.own_error[0] <= 0.0:
            return share
        matrix = level.products + self.ridge * level.own_error[0] * np.eye(n)
        coef = np.linalg.solve(matrix, level.right)
        return share + coef - coef.sum() * share


# --- novelty: the highest of standardised scores --------------------------------------------------

_SAME = 1e-12  # of a mean: values that differ by less are the same but for rounding


class HighestState(NamedTuple):
    """Running statistics of the members' scores, and the threshold of alarms."""

    mean: Any  # (members,)
    square: Any  # (members,): sum of squared deviations
    count: Any  # (1,)
    threshold: Any  # (1,): of the mixed score; below it a row is an alarm


def first_threshold(nu: float) -> float:
    """Where the threshold begins: the quantile nu of the normal distribution.

    Scores that are standardised have theirs near it, but for the rarest. From zero it would take
    too many alarms to get there.
    """
    return NormalDist().inv_cdf(nu)


@helper
def standardized(value, mean, square, count):
    """How many standard deviations a value is from the mean of others.

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
    """The mean of the lowest standardised scores, each times the trust in its member.

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
def learn_highest(state, nu, rate, n_first, said, mixed, weight):
    """Learn what the members said of a row, and whether it was an alarm.

    Where the threshold begins counts as much as `n_first` rows.
    """
    # The threshold follows the quantile nu of the mixed scores, by the steps of Robbins and Monro:
    # 1 / (n f), where the density f there is about 2 nu. Weights do not matter, since nu is a share
    # of the rows. It goes on to follow scores that change, at a speed that does not depend on nu.
    step = min(0.5, max(0.05 * rate, 0.5 / (n_first + state.count[0])) / nu)
    alarm = mixed < state.threshold[0]
    state.threshold[0] += step * (nu - (1.0 if alarm else 0.0))
    state.count[0] += weight
    for e in range(said.shape[0]):
        away = said[e] - state.mean[e]
        state.mean[e] += weight * away / state.count[0]
        state.square[e] += weight * away * (said[e] - state.mean[e])


@compiled
def _mix_novelty(state, n_highest, nu, rate, scores, weight, learns, trust, lowest, out, loss):
    for i in range(scores.shape[1]):
        said = scores[:, i, 0]
        mixed = mix_highest(state, n_highest, said, trust, lowest)
        out[i, 0] = mixed
        if not learns:
            continue
        loss[i] = max(state.threshold[0] - mixed, 0.0)
        if weight[i] != 0.0:
            # scores of other machines may have any shape, so that the threshold must come soon
            learn_highest(state, nu, rate, 1.0, said, mixed, weight[i])


@part("mixing", "highest")
class HighestMean(Mixing):
    """The members' scores, standardized by their own running statistics; the mean of the highest.

    The highest are those that say most clearly that a row is new. Low scores mean new, so that with
    ``z_e = (s_e - mean_e) / sd_e`` the mixed score is the mean of the `n_highest` lowest z_e. The
    threshold t moves until a share nu of the mixed scores is below it:
    ``t <- t + step (nu - [score < t])``.

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

    task = "novelty"

    def __init__(self, n_highest: int = 2, nu: float = 0.05, rate: float = 0.02):
        self.n_highest = n_highest
        self.nu = nu
        self.rate = rate
        self.check()

    def check(self) -> None:
        number("nu", self.nu, above=0, below=1)
        number("rate", self.rate, above=0)
        number("n_highest", self.n_highest, at_least=1)

    def new_state(self, n_members: int) -> HighestState:
        first = np.array([first_threshold(self.nu)])
        return HighestState(np.zeros(n_members), np.zeros(n_members), np.zeros(1), first)

    def _arguments(self, state: Any, scores: Any, weight: Any, learns: bool) -> Any:
        out, loss = np.empty(scores.shape[1:]), np.zeros(scores.shape[1])
        n = min(int(self.n_highest), len(scores))
        return (
            state, n, float(self.nu), float(self.rate), scores, weight, learns,
            np.ones(len(scores)), np.zeros(n), out, loss,
        )  # fmt: skip

    def _run(self, *given: Any) -> Any:
        """What was said, and the losses."""
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
