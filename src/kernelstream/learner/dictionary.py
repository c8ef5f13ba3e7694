"""The loop for the paper's dual updates: every row moves all coefficients, over a dictionary.

Row t is a combination a_t of the dictionary's points. The steps are in `kernelstream.updates.dual`.
Numbers in parentheses are equations of the SOG-SVR paper (2002). (Newton's direction, which goes to
the minimum at once, has a loop of its own: `kernelstream.learner.second_order`.)

The same arguments as `learn.learn_tile`, and the same promise: it is the sequential algorithm, and
a refused row has changed nothing.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernelstream.budgets.projection import grow_inverse, refine, remainder
from kernelstream.compile import compiled, helper
from kernelstream.learner.learn import LARGEST_NORM2

__all__ = ["learn_dictionary", "new_dictionary_work"]

# The largest coefficient, score and weight: squared they stay within `LARGEST_NORM2`.
LARGEST_SIZE = LARGEST_NORM2**0.5
# A target beyond this is refused. Least squares takes its size at once and never forgets it, and
# the square of a squared error has to be a sound number too.
LARGEST_FITTED = LARGEST_SIZE**0.5
# How many rows, or what part of one, a weight may stand for where no prior bounds P: the products
# of a heavy row would drown those of the others.
LARGEST_COUNT = 1e10
# The least variance of a row, as a share of the largest that a . P a could have by its terms: below
# it is their rounding, and P would not stay positive.
SMALLEST_NOISE = 1e-14


class DictionaryWork(NamedTuple):
    """Memory for the rows of a tile."""

    coordinates: Any  # (rows, points + rows): every row over the dictionary, (K + ridge I)^-1 k
    scores: Any  # (outputs,)
    target: Any  # (outputs,)
    share: Any  # (points + rows,)
    gain: Any  # (points + rows,)
    product: Any  # (points + rows,)
    memory: Any  # (points + rows,)
    both: Any  # (4, points + rows)


def new_dictionary_work(k: np.ndarray, inverse: np.ndarray, n_outputs: int) -> DictionaryWork:
    """Return memory for a tile with the kernel values k, and its rows over the dictionary (3.9).

    There is room for the points that join.
    """
    n, n_rows = len(inverse), k.shape[1]
    coordinates = np.zeros((n_rows, n + n_rows))
    np.matmul(k[:n].T.astype(np.float64, copy=False), inverse, out=coordinates[:, :n])
    line = (n + n_rows,)
    return DictionaryWork(
        coordinates, np.zeros(n_outputs), np.zeros(n_outputs), np.zeros(line), np.zeros(line),
        np.zeros(line), np.zeros(line), np.zeros((4, *line)),
    )  # fmt: skip


class TargetRow(NamedTuple):
    """What a dual update learns from."""

    target: Any  # (outputs,)
    weight: float
    k_xx: float


@partial(compiled, nogil=True)
def learn_dictionary(model, state, tile, trail, work, writer):
    """Learn the rows of a tile in order; return how many. Fewer than all: the next is refused.

    The rows that became points are written into their slots.
    """
    tile.changes.mark_all()
    expansion, budget, dual, update = state.expansion, state.budget, state.update, model.update
    n_rows, n, ridge = tile.raw.shape[2], expansion.n_points[0], model.budget.ridge
    coordinates, scores, target = work.coordinates, work.scores, work.target
    share, gain, product, memory = work.share, work.gain, work.product, work.memory
    done = n_rows

    for i in range(n_rows):
        n = expansion.n_points[0]
        a, k_xx = coordinates[i], np.float64(tile.k[tile.n_points + i, i])
        read(model, state, tile, trail, i, scores, target)
        weight = tile.weight[i]  # which the paper's rule takes as so many rows at once
        if weight == 0.0:
            continue
        most = model.budget.most_dependent(k_xx)
        if not is_sound(target, scores, k_xx, most, weight, 0.0, False):
            done = i
            break

        may_join = n < model.budget.size
        joins = may_join and remainder(tile.k, i, n, a, k_xx, ridge) > most  # (3.10)
        if joins and refine(budget, tile.k, i, n, a, k_xx, ridge):
            joins = remainder(tile.k, i, n, a, k_xx, ridge) > most
        else:
            joins = False
        slot = -1
        # P a; P itself loses share gain^T, which is done on the way to the next row's P a
        a_p_a = shrink_and_multiply(dual.covariance, n, share, gain, a, product)
        noise = max(1.0 / weight, SMALLEST_NOISE * largest_variance(dual.covariance, n, a))
        if joins:
            slot = n
            share[: n + 1] = 0.0  # which P has lost
            gain[: n + 1] = 0.0
            join(update, expansion, budget, dual, tile, coordinates, i, slot, k_xx + ridge)
            model.budget.refresh(budget, expansion.n_points[0], True)
            n = expansion.n_points[0]
            dual.covariance[slot, slot] = 1.0 / weight  # nothing but its own row tells of it
        else:
            for m in range(n):
                gain[m] = product[m]
                share[m] = product[m] / (noise + a_p_a)
        expansion.n_seen[0] += 1
        trail.slot[i] = slot
        trail.n_points[i] = n
        row = TargetRow(target, weight, k_xx)
        update.learn_targets(state, row, a, n, slot, share, gain, memory, work.both)
    n = expansion.n_points[0]
    shrink_and_multiply(dual.covariance, n, share, gain, share, product)
    writer.write_points(expansion, tile, trail, done)
    return done


@helper(inlines=True)  # to pass all these arrays takes long
def read(model, state, tile, trail, i, scores, target):
    """Compute the scores of row i, and its target."""
    expansion, epsilon = state.expansion, state.margin.epsilon[0]
    n, n_outputs = expansion.n_points[0], scores.shape[0]
    for k in range(n_outputs):
        scores[k] = model.update.score_of_row(expansion, tile, i, k, n)
        target[k] = tile.y[i]
        if n_outputs > 1:  # one output per label: one for its own, zero for the others
            target[k] = 1.0 if int(tile.y[i]) == k else 0.0
    for k in range(trail.scores.shape[1]):
        trail.scores[i, k] = scores[k]
    trail.loss[i] = model.loss.value(scores, tile.y[i], epsilon)
    trail.margin[i] = epsilon
    trail.eta[i] = state.step_size.eta[0]
    trail.drift[i] = 0.0
    trail.slot[i] = -1
    trail.partner[i] = -1
    trail.n_points[i] = n


@helper
def is_sound(target, scores, k_xx, most, weight, c, newton):
    """Return whether nothing that a row can do to the model leaves the range of sound numbers."""
    largest, size = 0.0, 0.0
    for k in range(target.shape[0]):
        largest = max(largest, abs(target[k]))
        size = max(size, abs(target[k]), abs(scores[k]))
    sound = largest <= LARGEST_FITTED and weight <= (LARGEST_SIZE if newton else LARGEST_COUNT)
    # of a score as a part of ||f||, and of a coefficient, for which there is this much of a point
    sound = sound and size * max(1.0, math.sqrt(max(k_xx, 0.0))) <= LARGEST_SIZE
    sound = sound and size <= LARGEST_SIZE * max(most, 1.0 if k_xx <= most else 0.0)
    if c == 0.0:  # nothing but its own row tells of a new point: its variance is 1 / weight
        return sound and weight * LARGEST_COUNT >= 1.0
    return sound and k_xx <= c * LARGEST_NORM2  # and here up to k(x, x) / c


@helper(apart=True)
def shrink_and_multiply(covariance, n, share, gain, a, product):
    """Compute P <- P - share gain^T, P a and a . P a in one pass over the memory."""
    product[:n] = 0.0
    for m in range(0, n - 1, 2):  # two lines at a time: product is then touched half as often
        first, second = covariance[m], covariance[m + 1]
        s, t, v, w = share[m], share[m + 1], a[m], a[m + 1]
        for j in range(n):
            x, y = first[j] - s * gain[j], second[j] - t * gain[j]
            first[j] = x
            second[j] = y
            product[j] += v * x + w * y
    if n % 2 == 1:
        first = covariance[n - 1]
        for j in range(n):
            first[j] -= share[n - 1] * gain[j]
            product[j] += a[n - 1] * first[j]
    a_p_a = 0.0
    for m in range(n):
        a_p_a += a[m] * product[m]
    return a_p_a


@helper
def largest_variance(covariance, n, a):
    """Return the value of a . P a if all its terms had the size that the diagonal of P allows."""
    total = 0.0
    for m in range(n):
        total += a[m] * a[m] * abs(covariance[m, m])
    return n * total


@helper
def distance2(k, i, n, a, k_xx):
    """Return the squared distance of row i from the span of the points, by K's inverse.

    With `ridge`, that is in k_xx, this is not (3.10).
    """
    for m in range(n):
        k_xx -= k[m, i] * a[m]
    return k_xx


@helper
def join(update, expansion, budget, dual, tile, coordinates, i, slot, delta):
    """Make row i the point in `slot`, which is new: K^-1, P, f at it, coordinates."""
    line, n = tile.n_points + i, max(expansion.n_points[0], slot + 1)
    a = coordinates[i]
    a[slot] = 0.0
    delta = distance2(tile.k, i, n, a, delta)
    gram, covariance = budget.gram, dual.covariance
    grow_inverse(budget.inverse, n, slot, a, delta)
    covariance[slot, :n] = 0.0
    covariance[:n, slot] = 0.0
    dual.values[:, slot] = 0.0
    for m in range(n):
        if m != slot:
            gram[m, slot] = tile.k[m, i]
            gram[slot, m] = tile.k[m, i]
            # f(x) = k . beta, as far as the others tell
            for k in range(dual.values.shape[0]):
                update.add_to_value(dual, expansion, tile, i, k, m, slot)
    gram[slot, slot] = tile.k[line, i]
    covariance[slot, slot] = 1.0  # A^T A gets a one
    expansion.coef[:, :, slot] = 0.0
    for j in range(i + 1, coordinates.shape[0]):
        rest = np.float64(tile.k[line, j])
        for m in range(n):
            if m != slot:
                rest -= tile.k[m, i] * coordinates[j, m]
        rest /= delta
        for m in range(n):
            coordinates[j, m] -= a[m] * rest
        coordinates[j, slot] = rest
        tile.k[slot, j] = tile.k[line, j]
    a[:n] = 0.0
    a[slot] = 1.0
    expansion.n_points[0] = n
