"""The loop for dual updates: every row moves all coefficients, over a dictionary of points.

Row t is a combination a_t of the dictionary's points; f at a row is ``a . values``, where values
are f at the points. So Newton's direction works on those, and on P, their covariance; coefficients
are needed only when it is done. What differs between directions is in `kernelstream.updates.dual`.
Numbers in parentheses are equations of the SOG-SVR paper (2002).

The same arguments as `learn.learn_tile`, and the same promise: it is the sequential algorithm, and
a refused row has changed nothing.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets.projection import grow_inverse, refine, remainder
from kernelstream.compiled import compiled
from kernelstream.learner.learn import LARGEST_NORM2
from kernelstream.parts import SLACK

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
    """Memory for a tile with the kernel values k, and its rows over the dictionary (3.9).

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
    n_rows, n = tile.raw.shape[1], expansion.n_points[0]
    c, ridge, newton = model.regularization, model.budget.ridge, model.update.is_newton()
    coordinates, scores, target = work.coordinates, work.scores, work.target
    share, gain, product, memory = work.share, work.gain, work.product, work.memory
    done = n_rows

    for i in range(n_rows):
        n = expansion.n_points[0]
        a, k_xx = coordinates[i], np.float64(tile.k[tile.n_points + i, i])
        read(model, state, tile, trail, i, a, scores, target)
        weight = tile.weight[i]  # which the paper's rule takes as so many rows at once
        if newton:
            weight *= model.loss_weight
        if weight == 0.0:
            continue
        most = model.budget.most_dependent(k_xx)
        if not is_sound(target, scores, k_xx, most, weight, c, newton):
            done = i
            break

        may_join = n < model.budget.size or newton
        joins = may_join and remainder(tile.k, i, n, a, k_xx, ridge) > most  # (3.10)
        if joins and refine(budget, tile.k, i, n, a, k_xx, ridge):
            joins = remainder(tile.k, i, n, a, k_xx, ridge) > most
        else:
            joins = False
        # P a; P itself loses share gain^T, which is done on the way to the next row's P a
        a_p_a = shrink_and_multiply(dual.covariance, n, share, gain, a, product)
        noise = max(1.0 / weight, SMALLEST_NOISE * largest_variance(dual.covariance, n, a))
        slot = n if joins else -1
        if slot == model.budget.size:
            delta = distance2(tile.k, i, n, a, k_xx + ridge)
            slot = cheapest(budget, dual, n, a, noise + a_p_a, target, delta, c)
            if slot >= 0:
                forget(budget, dual, coordinates, i, n, slot)
        if slot >= 0:
            share[: n + 1] = 0.0  # which P has lost
            gain[: n + 1] = 0.0
            join(update, expansion, budget, dual, tile, coordinates, i, slot, k_xx + ridge, c)
            model.budget.refresh(budget, expansion.n_points[0], slot == n)
            n = expansion.n_points[0]
        expansion.n_seen[0] += 1
        trail.slot[i] = slot
        trail.n_points[i] = n

        if slot >= 0 and fresh_is_exact(c, newton):
            dual.covariance[slot, slot] = 1.0 / weight
            if newton:
                for k in range(target.shape[0]):
                    dual.values[k, slot] = target[k]
        else:
            if slot >= 0:
                a_p_a = shrink_and_multiply(dual.covariance, n, share, gain, a, product)
            for m in range(n):
                gain[m] = product[m]
                share[m] = product[m] / (noise + a_p_a)
        row = TargetRow(target, weight, k_xx)
        update.learn_targets(
            model, state, row, a, n, slot, share, gain, a_p_a / noise, memory, work.both
        )
    n = expansion.n_points[0]
    shrink_and_multiply(dual.covariance, n, share, gain, share, product)
    update.settle(expansion, budget.inverse, dual)
    writer.write_points(expansion, tile, trail, done)
    return done


@register_jitable(forceinline=True)  # to pass all these arrays takes long
def read(model, state, tile, trail, i, a, scores, target):
    """What the model says of row i, and what it should say."""
    expansion, epsilon = state.expansion, state.margin.epsilon[0]
    n, n_outputs = expansion.n_points[0], scores.shape[0]
    for k in range(n_outputs):
        scores[k] = model.update.score_of_row(state.update, expansion, tile, i, k, a, n)
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


@register_jitable
def is_sound(target, scores, k_xx, most, weight, c, newton):
    """Whether nothing that a row can do to the model leaves the range of sound numbers."""
    largest, size = 0.0, 0.0
    for k in range(target.shape[0]):
        largest = max(largest, abs(target[k]))
        size = max(size, abs(target[k]), abs(scores[k]))
    sound = largest <= LARGEST_FITTED and weight <= (LARGEST_SIZE if newton else LARGEST_COUNT)
    # of a score as a part of ||f||, and of a coefficient, for which there is this much of a point
    sound = sound and size * max(1.0, math.sqrt(max(k_xx, 0.0))) <= LARGEST_SIZE
    sound = sound and size <= LARGEST_SIZE * max(most, 1.0 if k_xx <= most else 0.0)
    if fresh_is_exact(c, newton):  # the variance of a new point is 1 / weight
        return sound and weight * LARGEST_COUNT >= 1.0
    return sound and k_xx <= c * LARGEST_NORM2  # and here up to k(x, x) / c


@compiled
def shrink_and_multiply(covariance, n, share, gain, a, product):
    """P <- P - share gain^T, P a and a . P a, in one pass over the memory: what a row costs."""
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


@register_jitable
def largest_variance(covariance, n, a):
    """At least what a . P a would be if all its terms had the size that P's diagonal allows."""
    total = 0.0
    for m in range(n):
        total += a[m] * a[m] * abs(covariance[m, m])
    return n * total


@register_jitable
def distance2(k, i, n, a, k_xx):
    """What remains of row i beside its combination of the points, squared, as K's inverse has it.

    With `ridge`, that is in k_xx, this is not (3.10).
    """
    for m in range(n):
        k_xx -= k[m, i] * a[m]
    return k_xx


@register_jitable
def fresh_is_exact(c, newton):
    """Whether nothing but its own row tells of a new point's value."""
    return c == 0.0 or not newton


@register_jitable
def cheapest(budget, dual, n, a, variance, target, left, c):
    """The point whose loss changes f least, or -1 where that is the new one.

    It costs beta_j^2 / (K^-1)_jj to lose a point; `left` is the squared distance of the new one
    from the others, `variance` what they leave open of its target.
    """
    inverse, values = budget.inverse, dual.values
    best, least = -1, 0.0
    # what the new point's coefficient would be: it takes up the share of the error that its own
    # freedom, left / c, has in the whole uncertainty
    for k in range(values.shape[0]):
        error = target[k]
        for m in range(n):
            error -= a[m] * values[k, m]
        if c > 0.0:
            error *= left / (c * variance + left)
        least += error * error / left
    for j in range(n):
        cost = 0.0
        for k in range(values.shape[0]):
            beta = 0.0
            for m in range(n):
                beta += inverse[j, m] * values[k, m]
            cost += beta * beta / inverse[j, j]
        if cost < least * (1.0 - SLACK):
            best, least = j, cost
    return best


@compiled
def forget(budget, dual, coordinates, i, n, slot):
    """Take a point out: rows are combinations of the others, and P loses its line."""
    inverse = budget.inverse
    pivot = inverse[slot, slot]
    for row in range(i, coordinates.shape[0]):
        share = coordinates[row, slot]
        for m in range(n):
            coordinates[row, m] -= share * inverse[m, slot] / pivot
        coordinates[row, slot] = 0.0
    for m in range(n):
        if m != slot:
            share = inverse[m, slot] / pivot
            for j in range(n):
                if j != slot:
                    inverse[m, j] -= share * inverse[slot, j]
    for m in range(n):
        inverse[m, slot] = 0.0
        inverse[slot, m] = 0.0
        dual.covariance[m, slot] = 0.0
        dual.covariance[slot, m] = 0.0
    dual.values[:, slot] = 0.0


@register_jitable
def join(update, expansion, budget, dual, tile, coordinates, i, slot, delta, c):
    """Make row i the point in `slot`, which is empty or new: K^-1, P, f at it, coordinates."""
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
                update.add_to_value(dual, expansion, tile, i, k, a, m, slot)
    gram[slot, slot] = tile.k[line, i]
    if update.is_newton() and c > 0.0:  # give or take delta / c
        a_p_a = 0.0
        for m in range(n):
            if m != slot:
                total = 0.0
                for j in range(n):
                    total += a[j] * covariance[j, m]
                covariance[slot, m] = total
                a_p_a += a[m] * total
        for m in range(n):
            covariance[m, slot] = covariance[slot, m]
        covariance[slot, slot] = a_p_a + delta / c
    else:  # A^T A gets a one
        covariance[slot, slot] = 1.0
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
