"""The loop for dual updates: every row moves all coefficients, over a dictionary of points.

Row t is a combination a_t of the dictionary's points; f at a row is ``a . values``, where values
are f at the points. So Newton's direction works on those, and on P, their covariance; coefficients
are needed only when it is done. Numbers in parentheses are equations of the SOG-SVR paper (2002).

The same arguments as `learn.learn_tile`, and the same promise: it is the sequential algorithm, and
a refused row has changed nothing.
"""

import math
from functools import partial

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets import grow_inverse, refine, remainder
from kernelstream.compiled import compiled
from kernelstream.learner.learn import LARGEST_NORM2
from kernelstream.parts import SLACK

__all__ = ["learn_dictionary"]

# The largest coefficient, score and weight: squared they stay within `LARGEST_NORM2`.
LARGEST_SIZE = LARGEST_NORM2**0.5
# A target beyond this is refused. Least squares takes its size at once and never forgets it, and
# the square of a squared error has to be a sound number too.
LARGEST_TARGET = LARGEST_SIZE**0.5
# How many rows, or what part of one, a weight may stand for where no prior bounds P: the products
# of a heavy row would drown those of the others.
LARGEST_COUNT = 1e10
# The least variance of a row, as a share of the largest that a . P a could have by its terms: below
# it is their rounding, and P would not stay positive.
SMALLEST_NOISE = 1e-14


@partial(compiled, nogil=True)
def learn_dictionary(model, state, tile, trail, work, slots):
    """`learn_dictionary_rows`, and the rows that became points written into their slots."""
    done = learn_dictionary_rows(model, state, tile, trail, work)
    slots.write_points(trail, done)
    return done


@register_jitable
def learn_dictionary_rows(model, state, tile, trail, work):
    """Learn the rows of a tile in order; return how many. Fewer than all: the next is refused."""
    expansion, budget, dual = state.expansion, state.budget, state.dual
    n_rows, n_outputs = tile.raw_f.shape
    n = expansion.n_points[0]
    c, ridge = model.regularization, model.budget.ridge
    newton = model.update.newton
    epsilon = state.margin.epsilon[0]
    # every row over the dictionary as it is now, (K + ridge I)^-1 k (3.9), a line a row; there is
    # room for the points that join
    coordinates = np.zeros((n_rows, n + n_rows))
    block = np.zeros((n_rows, n))
    for m in range(n):
        for i in range(n_rows):
            block[i, m] = tile.k[m, i]
    coordinates[:, :n] = block @ np.ascontiguousarray(budget.inverse[:n, :n])
    scores, target = np.zeros(n_outputs), np.zeros(n_outputs)
    share, gain, product = np.zeros(n + n_rows), np.zeros(n + n_rows), np.zeros(n + n_rows)
    g = np.zeros(n + n_rows)
    done = n_rows

    for i in range(n_rows):
        n = expansion.n_points[0]
        line, a = tile.n_points + i, coordinates[i]
        k_xx = np.float64(tile.k[line, i])
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
            join(expansion, budget, dual, tile, coordinates, i, slot, k_xx + ridge, c, newton)
            model.budget.refresh(budget, expansion.n_points[0], slot == n)
            n = expansion.n_points[0]
        expansion.n_seen[0] += 1
        trail.slot[i] = slot
        trail.n_points[i] = n

        if slot >= 0 and fresh_is_exact(c, newton):
            dual.covariance[slot, slot] = 1.0 / weight
            if newton:
                dual.values[:, slot] = target
        else:
            if slot >= 0:
                a_p_a = shrink_and_multiply(dual.covariance, n, share, gain, a, product)
            for m in range(n):
                gain[m] = product[m]
                share[m] = product[m] / (noise + a_p_a)
        if newton:  # to the minimum over all rows so far
            for k in range(n_outputs):
                error = target[k]
                for m in range(n):
                    error -= a[m] * dual.values[k, m]
                for m in range(n):
                    dual.values[k, m] += share[m] * error
            if slot >= 0 and c > 0.0:
                pin(dual.covariance, n, slot, share, gain, a_p_a / noise)
        else:
            take(dual, n, a, weight, target)
            for k in range(n_outputs):
                if n == 1 and slot == 0:
                    begin(model, expansion, dual, k, target[k], k_xx)
                else:
                    ascend(model, expansion, budget, dual, n, k, g, epsilon, share, gain)
    n = expansion.n_points[0]
    shrink_and_multiply(dual.covariance, n, share, gain, share, product)
    if newton:
        settle(expansion, budget, dual)
    return done


@register_jitable(forceinline=True)  # to pass all these arrays takes long
def read(model, state, tile, trail, i, a, scores, target):
    """What the model says of row i, and what it should say."""
    expansion, dual, epsilon = state.expansion, state.dual, state.margin.epsilon[0]
    n, n_outputs = expansion.n_points[0], scores.shape[0]
    for k in range(n_outputs):
        scores[k] = 0.0
        for m in range(n):
            if model.update.newton:
                scores[k] += a[m] * dual.values[k, m]
            else:
                scores[k] += expansion.a[k, m] * tile.k[m, i]
        target[k] = tile.y[i]
        if n_outputs > 1:  # one output a label: one for its own, zero for the others
            target[k] = 1.0 if int(tile.y[i]) == k else 0.0
    if trail.scores.size > 0:
        trail.scores[i] = scores
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
    sound = largest <= LARGEST_TARGET and weight <= (LARGEST_SIZE if newton else LARGEST_COUNT)
    # of a score as a part of ||f||, and of a coefficient, for which there is this much of a point
    sound = sound and size * max(1.0, math.sqrt(max(k_xx, 0.0))) <= LARGEST_SIZE
    sound = sound and size <= LARGEST_SIZE * max(most, 1.0 if k_xx <= most else 0.0)
    if fresh_is_exact(c, newton):  # the variance of a new point is 1 / weight
        return sound and weight * LARGEST_COUNT >= 1.0
    return sound and k_xx <= c * LARGEST_NORM2  # and here up to k(x, x) / c


@register_jitable
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


@register_jitable
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
def join(expansion, budget, dual, tile, coordinates, i, slot, delta, c, newton):
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
            # f(x) = k . beta, as far as the others tell. Newton's direction has the coefficients
            # (K + ridge I)^-1 values, which makes it a . values; the paper's has values = K beta
            for k in range(dual.values.shape[0]):
                if newton:
                    dual.values[k, slot] += a[m] * dual.values[k, m]
                else:
                    dual.values[k, slot] += tile.k[m, i] * expansion.a[k, m]
    gram[slot, slot] = tile.k[line, i]
    if newton and c > 0.0:  # give or take delta / c
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
        expansion.a[:, slot] = 0.0
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


@register_jitable
def pin(covariance, n, slot, share, gain, told):
    """A new point's own row leaves 1 / (1 + told) of its line of P.

    What `share` would take away is nearly all of it where the point was free: the difference would
    be rounding.
    """
    left = 1.0 / (1.0 + told)
    for m in range(n):
        if m != slot:
            covariance[slot, m] *= left
            covariance[m, slot] *= left
    covariance[slot, slot] *= left
    share[slot] = 0.0
    gain[slot] = 0.0


@register_jitable
def begin(model, expansion, dual, k, target, k_xx):
    """The first point takes all of its target (table 2).

    The table prints alpha = min(0, -y / k), by which f would be twice a positive target and none of
    a negative one; with max, f(x) = y.
    """
    beta, box = target / k_xx, model.update.box
    if box > 0.0:  # (4.22)
        dual.star[k, 0] = min(max(beta, 0.0), box)
        dual.plain[k, 0] = min(max(-beta, 0.0), box)
        beta = dual.star[k, 0] - dual.plain[k, 0]
    expansion.a[k, 0] = beta
    dual.values[k, 0] = beta * k_xx


@register_jitable
def take(dual, n, a, weight, target):
    """Let a row into A^T A, A^T y and A^T e."""
    for m in range(n):
        dual.ones[m] += weight * a[m]
        for j in range(n):
            dual.products[m, j] += weight * a[m] * a[j]
        for k in range(target.shape[0]):
            dual.moments[k, m] += weight * a[m] * target[k]


@register_jitable
def ascend(model, expansion, budget, dual, n, k, g, epsilon, share, gain):
    """One step along g = A^T (y - f) (4.12), of output k; f at the points follows, K times it."""
    for m in range(n):
        g[m] = dual.moments[k, m]
        for j in range(n):
            g[m] -= dual.products[m, j] * dual.values[k, j]
    step = 2.0 * model.update.step  # alpha* and alpha both move by eta
    if model.update.box > 0.0:
        move_both(model, budget, dual, n, k, g, epsilon, share, gain)
        step = 1.0
    elif step == 0.0:
        slope, bend = 0.0, 0.0
        for m in range(n):
            for j in range(n):
                slope += g[m] * (dual.covariance[m, j] - share[m] * gain[j]) * g[j]
                bend += g[m] * budget.gram[m, j] * g[j]
        step = slope / bend if bend > 0.0 else 0.0
    for m in range(n):
        if g[m] != 0.0:
            expansion.a[k, m] += step * g[m]
            for j in range(n):
                dual.values[k, j] += step * g[m] * budget.gram[m, j]


@register_jitable
def move_both(model, budget, dual, n, k, g, epsilon, share, gain):
    """Move alpha* and alpha inside their box (4.22); g becomes the change of their difference."""
    to, rise, box = np.empty((2, n)), np.zeros((2, n)), model.update.box
    slope, bend = 0.0, 0.0
    for m in range(n):  # (4.12), by which the reduced dual (4.18) rises with the slope (4.20)
        to[0, m] = g[m] - epsilon * dual.ones[m]
        to[1, m] = -g[m] - epsilon * dual.ones[m]
    for m in range(n):
        for j in range(n):
            p = dual.covariance[m, j] - share[m] * gain[j]
            rise[0, m] += p * to[0, j]
            rise[1, m] += p * to[1, j]
            bend += 4.0 * g[m] * budget.gram[m, j] * g[j]
        slope += to[0, m] * rise[0, m] + to[1, m] * rise[1, m]
    step, best = model.update.step, model.update.step == 0.0
    if best:  # (g^T P g + epsilon^2 1^T P 1) / 2 g^T K g, where 1 is A^T e
        step = slope / bend if slope < LARGEST_SIZE * bend else LARGEST_SIZE
    for m in range(n):
        to[0, m] = min(max(dual.star[k, m] + step * to[0, m], -box), box) - dual.star[k, m]
        to[1, m] = min(max(dual.plain[k, m] + step * to[1, m], -box), box) - dual.plain[k, m]
    kept = best_share(budget, n, to, rise) if best else 1.0
    for m in range(n):
        dual.star[k, m] = min(max(dual.star[k, m] + kept * to[0, m], -box), box)
        dual.plain[k, m] = min(max(dual.plain[k, m] + kept * to[1, m], -box), box)
        g[m] = kept * (to[0, m] - to[1, m])


@register_jitable
def best_share(budget, n, to, rise):
    """How much of a step to take that the box has bent: all of it, if the dual rises to its end."""
    slope, bend = 0.0, 0.0
    for m in range(n):
        slope += to[0, m] * rise[0, m] + to[1, m] * rise[1, m]
        for j in range(n):
            bend += (to[0, m] - to[1, m]) * budget.gram[m, j] * (to[0, j] - to[1, j])
    if slope <= 0.0:
        return 0.0
    return 1.0 if slope >= bend * (1.0 - SLACK) else slope / bend


@register_jitable
def settle(expansion, budget, dual):
    """Coefficients K^-1 values, and ||f||^2, from f at the points."""
    n = expansion.n_points[0]
    expansion.scale[0] = 1.0
    expansion.size2[:n] = 0.0
    expansion.norm2[0] = 0.0
    for k in range(dual.values.shape[0]):
        for m in range(n):
            total = 0.0
            for j in range(n):
                total += budget.inverse[m, j] * dual.values[k, j]
            expansion.a[k, m] = total
            expansion.size2[m] += total * total
            expansion.norm2[0] += total * dual.values[k, m]
    expansion.norm2[0] = max(expansion.norm2[0], 0.0)
