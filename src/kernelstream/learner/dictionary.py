"""The loop for dual updates: every row moves all coefficients, over a dictionary of points.

Row t is a combination a_t of the dictionary's points; f at a row is ``a . values``, where values
are f at the points. So Newton's direction works on those, and on P, their covariance; coefficients
are needed only when it is done. Numbers in parentheses are equations of the SOG-SVR paper (2002).

The same arguments as `learn.learn_tile`, and the same promise: it is the sequential algorithm, and
a refused row has changed nothing.
"""

from functools import partial

import numpy as np
from numba.extending import register_jitable

from kernelstream.budgets import grow_inverse, refine, remainder
from kernelstream.compiled import compiled
from kernelstream.learner.learn import LARGEST_NORM2
from kernelstream.parts import SLACK

__all__ = ["learn_dictionary"]


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
    newton, boxed = model.update.newton, model.update.box > 0.0
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
    along = np.zeros((n_outputs, n + n_rows))
    done = n_rows

    for i in range(n_rows):
        n = expansion.n_points[0]
        line, a = tile.n_points + i, coordinates[i]
        k_xx = np.float64(tile.k[line, i])
        for k in range(n_outputs):
            scores[k] = 0.0
            for m in range(n):
                if newton:
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
        if tile.weight[i] == 0.0:
            continue
        weight = model.loss_weight * tile.weight[i] if newton else 1.0
        largest = 0.0
        for k in range(n_outputs):
            largest = max(largest, abs(target[k]), abs(scores[k]))
        if not largest * largest * max(1.0, k_xx) * max(1.0, weight) <= LARGEST_NORM2:
            done = i
            break

        most = model.budget.most_dependent(k_xx)
        may_join = n < model.budget.size or newton
        joins = may_join and remainder(tile.k, i, n, a, k_xx, ridge) > most  # (3.10)
        if joins and refine(budget, tile.k, i, n, a, k_xx, ridge):
            joins = remainder(tile.k, i, n, a, k_xx, ridge) > most
        else:
            joins = False
        if joins:
            shrink_and_multiply(dual.covariance, n, share, gain, a, product)
            share[: n + 1] = 0.0
            gain[: n + 1] = 0.0
            slot = n
            if n == model.budget.size:
                left = remainder(tile.k, i, n, a, k_xx, ridge)
                slot = cheapest(budget, dual, n, a, product, target, left, c, weight)
                if slot >= 0:
                    forget(budget, dual, coordinates, i, n, slot)
            joins = slot >= 0
        if joins:
            join(expansion, budget, dual, tile, coordinates, i, slot, k_xx + ridge, c, newton)
            if fresh_is_exact(c, newton):
                dual.covariance[slot, slot] = 1.0 / weight
            trail.slot[i] = slot
            grown = slot == n
            n = expansion.n_points[0]
            model.budget.refresh(budget, n, grown)
        expansion.n_seen[0] += 1
        trail.n_points[i] = n

        # P a; P itself loses share gain^T, which is done on the way to the next row's P a
        shrink_and_multiply(dual.covariance, n, share, gain, a, product)
        a_p_a = 0.0
        for m in range(n):
            a_p_a += a[m] * product[m]
        total = 1.0 / weight + a_p_a
        fresh = trail.slot[i] >= 0 and fresh_is_exact(c, newton)  # P has it already
        for m in range(n):
            gain[m] = product[m]
            share[m] = 0.0 if fresh else gain[m] / total
        if newton:  # to the minimum over all rows so far
            for k in range(n_outputs):
                error = target[k]
                for m in range(n):
                    error -= a[m] * dual.values[k, m]
                for m in range(n):
                    dual.values[k, m] += share[m] * error
                if fresh:
                    dual.values[k, trail.slot[i]] = target[k]
        else:
            for m in range(n):
                dual.ones[m] += a[m]
                for j in range(n):
                    dual.products[m, j] += a[m] * a[j]
                for k in range(n_outputs):
                    dual.moments[k, m] += a[m] * target[k]
            for k in range(n_outputs):
                ascend(model, expansion, budget, dual, n, k, along, boxed, epsilon, share, gain)
    n = expansion.n_points[0]
    shrink_and_multiply(dual.covariance, n, share, gain, share, product)
    if newton:
        settle(expansion, budget, dual)
    return done


@register_jitable
def shrink_and_multiply(covariance, n, share, gain, a, product):
    """P <- P - share gain^T, and P a, in one pass over the memory: that is what a row costs."""
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


@register_jitable
def fresh_is_exact(c, newton):
    """Whether nothing but its own row tells of a new point's value."""
    return c == 0.0 or not newton


@register_jitable
def cheapest(budget, dual, n, a, product, target, left, c, weight):
    """The point whose loss changes f least, or -1 where that is the new one.

    It costs beta_j^2 / (K^-1)_jj to lose a point; `left` is the squared distance of the new one
    from the others, and `product` is P a.
    """
    inverse, values = budget.inverse, dual.values
    best, least = -1, 0.0
    a_p_a = 0.0
    for m in range(n):
        a_p_a += a[m] * product[m]
    # what the new point's coefficient would be: it takes up the share of the error that its own
    # freedom, left / c, has in the whole uncertainty
    for k in range(values.shape[0]):
        error = target[k]
        for m in range(n):
            error -= a[m] * values[k, m]
        if c > 0.0:
            error *= left / (c * (1.0 / weight + a_p_a) + left)
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
    for m in range(n):
        if m != slot:
            delta -= tile.k[m, i] * a[m]
    gram, covariance = budget.gram, dual.covariance
    grow_inverse(budget.inverse, n, slot, a, delta)
    covariance[slot, :n] = 0.0
    covariance[:n, slot] = 0.0
    dual.values[:, slot] = 0.0
    for m in range(n):
        if m != slot:
            gram[m, slot] = tile.k[m, i]
            gram[slot, m] = tile.k[m, i]
            # as far as the others tell, f(x) = a . values
            for k in range(dual.values.shape[0]):
                dual.values[k, slot] += a[m] * dual.values[k, m]
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
        if newton:
            dual.values[:, slot] = 0.0
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
def ascend(model, expansion, budget, dual, n, k, along, boxed, epsilon, share, gain):
    """One step along g = A^T (y - f) (4.12), of output k; f at the points follows, K times it."""
    g = along[k]
    for m in range(n):
        g[m] = dual.moments[k, m]
        for j in range(n):
            g[m] -= dual.products[m, j] * dual.values[k, j]
    step = 2.0 * model.update.step  # alpha* and alpha both move by eta
    if step == 0.0:
        slope, bend = 0.0, 0.0
        for m in range(n):
            for j in range(n):
                slope += g[m] * (dual.covariance[m, j] - share[m] * gain[j]) * g[j]
                bend += g[m] * budget.gram[m, j] * g[j]
        step = slope / bend if bend > 0.0 else 0.0
    if boxed:  # (4.22): keep both vectors, and the difference in g
        for m in range(n):
            half, shift = 0.5 * step, epsilon * dual.ones[m]
            star = dual.star[k, m] + half * (g[m] - shift)
            plain = dual.plain[k, m] - half * (g[m] + shift)
            star = min(max(star, -model.update.box), model.update.box)
            plain = min(max(plain, -model.update.box), model.update.box)
            g[m] = (star - dual.star[k, m]) - (plain - dual.plain[k, m])
            dual.star[k, m] = star
            dual.plain[k, m] = plain
        step = 1.0
    for m in range(n):
        if g[m] != 0.0:
            expansion.a[k, m] += step * g[m]
            for j in range(n):
                dual.values[k, j] += step * g[m] * budget.gram[m, j]


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
