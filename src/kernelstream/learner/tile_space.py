"""The loop of second order among the rows of a tile: O(rows^2) per row, whatever the dictionary.

The posterior of f is a Gaussian. Its mean and its covariance at the rows of a tile, and what the
points leave open of each row, are all that it takes to learn these rows one after the other,
exactly. The caller has made them by matrix products (`kernelstream.learner.second_order`), and
takes over into the dictionary what the loop found.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import compiled, helper
from kernelstream.learner.dictionary import SMALLEST_NOISE, is_sound
from kernelstream.parts import SLACK

__all__ = ["Given", "Space", "given_of", "learn_space", "new_space", "note", "terms_of"]

# What a row must be worth to join a full dictionary, in units of what the cheapest point costs, for
# every unit of `worth` beyond one: the rows after it may raise that. Measured with worth = 10: less
# than this changes little but the time. With worth = 1, where all may try, a bar of a quarter has
# 3.5 % errors on shuffled USPS, mean of three, and none has 3.4 %.
_FIRST_SHARE = 0.25


class Space(NamedTuple):
    """Numbers of the rows of a tile, kept current from row to row; T rows.

    With the rows that have joined, and those to come, called live: only live rows and columns have
    a meaning.
    """

    k_xx: Any  # (T,)
    may_join: Any  # (T,): its coordinates can be trusted, and it may be independent of the points
    left: Any  # (T, T): kernel values less what the points can express of them
    squares: Any  # (T, T): inner products of the rows' coordinates, asked for with a ridge
    covariance: Any  # (T, T): of f at the rows
    scores: Any  # (T, outputs): f at the rows
    rounding: Any  # (T,): the size of the terms that a variance is a sum of
    share: Any  # (T, T): the covariance of f at a row with f at the points, as a combination of
    # what it was for each row when the tile began
    basis: Any  # (T, T): the same at the moment when the row is learned; zero: it is not
    precision: Any  # (T,): one over the variance that its target then had
    error: Any  # (T, outputs): and the error
    joined: Any  # (T,): the rows that joined, in order
    counts: Any  # how many joined, and how many were learned
    squared: Any  # the sum of error^2 over its variance
    target: Any  # (outputs,): memory
    gain: Any  # (T,): memory
    column: Any  # (T,): memory
    open: Any  # (T,): memory


def new_space(
    k_xx: np.ndarray, may_join: np.ndarray, left: np.ndarray, squares: np.ndarray,
    covariance: np.ndarray, scores: np.ndarray, rounding: np.ndarray,
) -> Space:  # fmt: skip
    """Return the space of a tile, before its first row is learned."""
    n, n_outputs = scores.shape
    return Space(
        k_xx, may_join, left, squares, covariance, scores, rounding,
        np.eye(n), np.zeros((n, n)), np.zeros(n), np.zeros((n, n_outputs)),
        np.zeros(n, np.int64), np.zeros(2, np.int64), np.zeros(1),
        np.zeros(n_outputs), np.zeros(n), np.zeros(n), np.zeros(n),
    )  # fmt: skip


class Given(NamedTuple):
    """What the loop has to know of the model beside its rules."""

    n_points: int
    epsilon: float
    eta: float
    bar: float  # what a row must be worth to join a full dictionary


@helper
def given_of(model, state, n_points):
    """Return the same of a state, for rows over so many points."""
    bar = _FIRST_SHARE * (model.budget.worth - 1.0) * state.update.bar[0]
    return Given(n_points, state.margin.epsilon[0], state.step_size.eta[0], bar)


@partial(compiled, nogil=True)
def learn_space(model, given, space, y, weights, trail):
    """Learn the rows of a tile in order; return how many. Fewer than all: the next is refused.

    Only `space` and `trail` are written.
    """
    c, ridge, n_rows = model.regularization, model.budget.ridge, y.shape[0]
    covariance, left, counts = space.covariance, space.left, space.counts
    for i in range(n_rows):
        note(model, given, space.counts[0], space.scores[i], space.target, y, trail, i)
        weight = weights[i] * model.loss_weight
        if weight == 0.0:
            continue  # a row without weight is as good as absent
        k_xx = space.k_xx[i]
        most = model.budget.most_dependent(k_xx)
        if not is_sound(space.target, space.scores[i], k_xx, most, weight, c, True):
            return i
        squares = space.squares[i, i] if ridge > 0.0 else 0.0
        terms = terms_of(
            model, given, counts[0], space.target, space.scores[i], weight, k_xx, covariance[i, i],
            left[i, i], squares, space.rounding[i], space.may_join[i],
        )  # fmt: skip
        for k in range(space.target.shape[0]):
            space.error[i, k] = space.target[k] - space.scores[i, k]
        space.squared[0] += surprise(space.target, space.scores[i], terms.variance, left[i, i], c)
        space.precision[i] = terms.precision
        take_in(space, i, terms.joins, terms.fresh, terms.precision, terms.variance, terms.noise,
                terms.delta, ridge)  # fmt: skip
        counts[1] += 1
        if terms.joins:
            trail.slot[i] = given.n_points + counts[0]
            space.joined[counts[0]] = i
            counts[0] += 1
        trail.n_points[i] = given.n_points + counts[0]
    return n_rows


class Terms(NamedTuple):
    """What becomes of a row, as far as its own numbers tell."""

    joins: bool
    noise: float  # of its target
    variance: float  # of its target, as far as the points tell
    precision: float  # one over the variance of its target
    fresh: float  # of that variance, the share which only a new point can express
    delta: float  # what the points leave open of it


@helper
def terms_of(
    model, given, n_new, target, scores, weight, k_xx, covariance, left, squares, rounding, may_join
):
    """Return whether a row joins, and by how much it moves f; `n_new` points are new.

    f at a row that joins is what the points tell, give or take delta / c: with the share `fresh` of
    that in the whole variance, nothing here grows without bound as c goes to zero.
    """
    c, ridge = model.regularization, model.budget.ridge
    noise = max(1.0 / weight, SMALLEST_NOISE * rounding)
    variance, delta = covariance + noise, left + ridge
    joins = may_join and left - ridge * squares > model.budget.most_dependent(k_xx)  # (3.10)
    if joins and given.n_points + n_new >= model.budget.size:
        joins = worth_of(target, scores, variance, delta, c) >= given.bar * (1.0 - SLACK)
    precision, fresh = 1.0 / variance, 0.0
    if joins:
        precision = c / (delta + c * variance)
        fresh = delta / (delta + c * variance)
    return Terms(joins, noise, variance, precision, fresh, delta)


@helper
def worth_of(target, scores, variance, delta, c):
    """Return by how much the minimum over all rows so far falls if a row becomes a point.

    It is what taking the point out again would cost, B^2 / Q of `prune`: with q = delta / c, the
    sum over the outputs of error^2 (1 / variance - 1 / (variance + q)).
    """
    squared = 0.0
    for k in range(target.shape[0]):
        error = target[k] - scores[k]
        squared += error * error
    return squared * delta / (variance * (delta + c * variance))


@helper
def surprise(target, scores, variance, left, c):
    """Return the mean of the squared errors of a row, over the variance that they should have."""
    squared, n_outputs = 0.0, target.shape[0]
    open_variance = max(left, 0.0) / c if c > 0.0 else 0.0
    for k in range(n_outputs):
        error = target[k] - scores[k]
        squared += error * error / ((variance + open_variance) * n_outputs)
    return squared


@helper
def note(model, given, n_new, scores, target, y, trail, i):
    """Compute the scores of row i, and its target."""
    n_outputs = target.shape[0]
    for k in range(n_outputs):
        target[k] = y[i]
        if n_outputs > 1:  # one output per label: one for its own, zero for the others
            target[k] = 1.0 if int(y[i]) == k else 0.0
    for k in range(trail.scores.shape[1]):
        trail.scores[i, k] = scores[k]
    trail.loss[i] = model.loss.value(scores, y[i], given.epsilon)
    trail.margin[i] = given.epsilon
    trail.eta[i] = given.eta
    trail.drift[i] = 0.0
    trail.slot[i] = -1
    trail.partner[i] = -1
    trail.n_points[i] = given.n_points + n_new


@helper
def take_in(space, i, joins, fresh, precision, variance, noise, delta, ridge):
    """Learn row i, which joins first or does not: all live rows follow.

    With M the covariance before, B = left_i / delta the coordinates of later rows on the new point
    and q = delta / c its freedom, the covariance after joining is M + q B B^T; of that the row
    takes (M_i + q B)(M_i + q B)^T / (q + variance). Multiplied out, with fresh = q / (q + variance)
    and precision = 1 / (q + variance), there is no difference of large numbers in it.
    """
    covariance, left, share = space.covariance, space.left, space.share
    gain, column, row = space.gain, space.column, covariance[i]
    n, n_joined = covariance.shape[0], space.counts[0]
    for k in range(n):
        column[k] = left[i, k] / delta if joins and k > i else 0.0
        gain[k] = fresh * column[k] + precision * row[k]
        space.open[k] = fresh * (row[k] - variance * column[k])
    own_gain = fresh + precision * row[i]
    for j in range(i + 1):
        space.basis[i, j] = share[i, j]
    for position in range(n_joined + n - i - 1):
        k = space.joined[position] if position < n_joined else i + 1 + position - n_joined
        g, line = gain[k], covariance[k]
        if joins:
            u = space.open[k]
            for j in range(n):
                line[j] -= g * row[j] + u * column[j]
        else:
            for j in range(n):
                line[j] -= g * row[j]
        for j in range(i + 1):
            share[k, j] -= g * share[i, j]
        for output in range(space.scores.shape[1]):
            space.scores[k, output] += g * space.error[i, output]
    for output in range(space.scores.shape[1]):
        space.scores[i, output] += own_gain * space.error[i, output]
    if joins:
        gain[i] = own_gain
        for k in range(n):  # what its own row leaves: 1 - gain, times what there was
            covariance[i, k] = noise * gain[k]
            covariance[k, i] = noise * gain[k]
        for j in range(i + 1):
            share[i, j] *= noise * precision
        express(space, i, ridge)


@helper
def express(space, i, ridge):
    """Make row i a point, which represents a part of the later rows."""
    left, column, squares = space.left, space.column, space.squares
    n, own = left.shape[0], space.covariance[i, i]
    for k in range(i + 1, n):
        space.rounding[k] += n * column[k] * column[k] * abs(own)
        for j in range(i + 1, n):
            left[k, j] -= column[k] * left[i, j]
    if ridge > 0.0:  # coordinates a_k become a_k - B_k a_i, and B_k on the new point
        line = squares[i]
        for k in range(i + 1, n):
            for j in range(i + 1, n):
                squares[k, j] += column[k] * column[j] * (line[i] + 1.0)
                squares[k, j] -= column[k] * line[j] + column[j] * line[k]
