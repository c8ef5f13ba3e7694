"""The loop of recursive least squares on explicit features.

Weights are ``coef[k, 0]`` with scale one, and the intercepts; P is their covariance, the same for
all outputs, whose first line is that of the intercept. A row x with noise 1 / weight, where
``s = 1 / weight + x . P x`` and e are the errors of the scores:

    w <- w + P x e / s,    P <- P - P x (P x)^T / s,
    and forgetting         w <- sqrt(a) w,    P <- a P + (1 - a) I / c.

The same promise as `learn.learn_tile`: it is the sequential algorithm, and a refused row has
changed nothing.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import compiled, helper
from kernelstream.learner.dictionary import (
    LARGEST_FITTED,
    LARGEST_SIZE,
    SMALLEST_NOISE,
    largest_variance,
    shrink_and_multiply,
)
from kernelstream.learner.learn import LARGEST_NORM2

__all__ = ["LeastSquaresWork", "learn_least_squares", "new_least_squares_work"]

SMALLEST_SCALE = 1e-30  # of P: below, it is multiplied out


class LeastSquaresWork(NamedTuple):
    """Memory for the rows of a tile. Lines are the intercept's and then those of the features."""

    scores: Any  # (outputs,)
    target: Any  # (outputs,)
    a: Any  # (lines,): the row
    share: Any  # (lines,): P still has to lose share gain^T
    gain: Any  # (lines,)
    product: Any  # (lines,): P a


def new_least_squares_work(n_outputs: int, n_features: int) -> LeastSquaresWork:
    """Return memory for the rows of a model."""
    outputs = (np.zeros(n_outputs) for _ in range(2))
    return LeastSquaresWork(*outputs, *(np.zeros(n_features + 1) for _ in range(4)))


@partial(compiled, nogil=True, any_order=True)
def learn_least_squares(model, state, x, y, weights, trail, work, changes):
    """Learn the rows x in order; return how many. Fewer than all: the next is refused."""
    changes.mark_all()
    expansion, b = state.expansion, state.intercept.b
    P, coef, c, keep = state.update.covariance, expansion.coef, model.regularization, 1.0
    n, n_outputs, forgetting = P.shape[0], coef.shape[0], model.update.forgetting
    scores, target, a, share, gain = work.scores, work.target, work.a, work.share, work.gain
    begin_lines(state.update, c)
    share[:] = 0.0
    gain[:] = 0.0
    done = x.shape[0]

    for i in range(x.shape[0]):
        read(model, state, x, y, trail, i, work)
        weight = model.loss_weight * weights[i]
        if weight == 0.0:
            continue
        if not is_sound(target, scores, a, weight, c):
            done = i
            break
        # P is keep times what is stored, which still has to lose share gain^T
        a_p_a = keep * shrink_and_multiply(P, n, share, gain, a, work.product)
        noise = max(1.0 / weight, SMALLEST_NOISE * keep * largest_variance(P, n, a))
        for m in range(n):
            gain[m] = work.product[m]
            share[m] = keep * work.product[m] / (noise + a_p_a)
        root = math.sqrt(forgetting)
        for k in range(n_outputs):
            error = target[k] - scores[k]
            b[k] = root * (b[k] + share[0] * error)
            for j in range(n - 1):
                coef[k, 0, j] = root * (coef[k, 0, j] + share[j + 1] * error)
        if forgetting < 1.0:
            keep *= forgetting
            for m in range(n):
                P[m, m] += (1.0 - forgetting) / (c * keep)
            if keep < SMALLEST_SCALE:
                multiply_out(P, share, gain, keep)
                keep = 1.0
        expansion.n_seen[0] += 1
    multiply_out(P, share, gain, keep)
    return done


@helper
def read(model, state, x, y, trail, i, work):
    """Compute the scores of row i, and its target."""
    expansion, epsilon, a = state.expansion, state.margin.epsilon[0], work.a
    a[0] = 1.0 if model.intercept.is_fitted() else 0.0
    for j in range(a.shape[0] - 1):  # features that the stream has not made yet are zero
        a[j + 1] = x[i, j] if j < x.shape[1] else 0.0
    n_outputs = work.scores.shape[0]
    for k in range(n_outputs):
        total = state.intercept.b[k]
        for j in range(x.shape[1]):
            total += a[j + 1] * expansion.coef[k, 0, j]
        work.scores[k] = total
        work.target[k] = y[i]
        if n_outputs > 1:  # one output per label: one for its own, zero for the others
            work.target[k] = 1.0 if int(y[i]) == k else 0.0
    for k in range(trail.scores.shape[1]):
        trail.scores[i, k] = work.scores[k]
    trail.loss[i] = model.loss.value(work.scores, y[i], epsilon)
    trail.margin[i] = epsilon
    trail.eta[i] = state.step_size.eta[0]
    trail.drift[i] = 0.0
    trail.slot[i] = -1
    trail.partner[i] = -1
    trail.n_points[i] = 0  # weights have no points


@helper
def is_sound(target, scores, a, weight, c):
    """Return whether nothing that a row can do to the model leaves the range of sound numbers."""
    sound, length2 = weight <= LARGEST_SIZE, 0.0
    for k in range(target.shape[0]):
        sound = sound and abs(target[k]) <= LARGEST_FITTED and abs(scores[k]) <= LARGEST_SIZE
    for m in range(a.shape[0]):
        length2 += a[m] * a[m]
    return sound and length2 <= c * LARGEST_NORM2


@helper
def begin_lines(least_squares, c):
    """Give lines that are new their prior."""
    for m in range(least_squares.n_begun[0], least_squares.covariance.shape[0]):
        least_squares.covariance[m, m] = 1.0 / c
    least_squares.n_begun[0] = least_squares.covariance.shape[0]


@helper(apart=True)
def multiply_out(P, share, gain, keep):
    """Compute ``P <- keep (P - share gain^T)``."""
    n = P.shape[0]
    for m in range(n):
        for j in range(n):
            P[m, j] = keep * (P[m, j] - share[m] * gain[j])
    for m in range(n):
        share[m] = 0.0
        gain[m] = 0.0
