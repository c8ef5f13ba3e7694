"""A row of the second order by itself: learned exactly, while P and K^-1 wait.

A tile of rows in a block is learned among the rows, and then takes one update of P and K^-1
(`kernelstream.learner.tile_space`). Rows that come one by one do the same: the tile stays open from
call to call, and what row i told is kept as a line of `OpenTile`. So a row reads P once and K^-1
twice, for its coordinates a = K^-1 k, for P a, and for what it does to the coefficients; and it
writes nothing of their size. With n first points, which P and K^-1 know, and z the values of f
there, a later row catches up with those before it as it does in a tile:

    r_m = (P a)_i . a_m - sum_(j < m) (g_j R_mj + u_j B_mj)      covariance with row m, before it
    b_m = (k(x_i, x_m) - a_m . k_i - sum_j b_j delta_j B_mj) / delta_m    if row m is a point
    g_m = fresh_m b_m + precision_m r_m,      u_m = fresh_m (r_m - variance_m b_m),

where R and B hold the r and the b of earlier rows (`earlier`, `column`). f at row i is then a . z +
b . rest, and its covariance with z is P a - sum_j g_j told_j.

New points are expressed by those before them up to a rest that is independent of them: with unit
lower triangular L = B, K = [K_n, K_n A^T; A K_n, A K_n A^T + L diag(delta) L^T]. So coefficients
follow by substitutions as long as there are new points, and no matrix of all points is touched.
`second_order.close` brings P and K^-1 up to date.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import compiled, helper
from kernelstream.learner.dictionary import is_sound, largest_variance
from kernelstream.learner.kernel_rows import norm2_of, write_kernel_values
from kernelstream.learner.tile_space import given_of, note, surprise, terms_of
from kernelstream.updates.dual import PERIOD

__all__ = ["AloneWork", "learn_alone", "new_alone_work"]

# How well coordinates reproduce kernel values, each in the scale of its two points: up to here
# there is nothing to correct; and one correction, which squares the error of K^-1, is enough.
EXACT, CORRECTABLE = 1e-12, 1e-7

PRECISION, FRESH, VARIANCE, DELTA, NOISE, SETTLED = range(6)  # of `OpenTile.numbers`


class AloneWork(NamedTuple):
    """Memory for a row. n points, and T rows of a tile."""

    k: Any  # (n,): kernel values with the first points
    own: Any  # (T,): and with the rows of the tile
    told: Any  # (n,): P a
    move: Any  # (n,): the direction of the coefficients
    covariance: Any  # (T,): of f at the row with f at the rows of the tile, as the tile began
    left: Any  # (T,): kernel values with new points, less what the first points express of them
    gain: Any  # (T,)
    open: Any  # (T,)
    amount: Any  # (T,): what the row moves of what is new in each new point, per unit of error
    share: Any  # (T,): the direction of the coefficients of new points
    scores: Any  # (outputs,)
    target: Any  # (outputs,)


def new_alone_work(n_outputs: int, n_slots: int) -> AloneWork:
    """Return memory for the rows of a model."""

    def new(n: int, names: str) -> dict[str, np.ndarray]:
        return {name: np.zeros(n) for name in names.split()}

    return AloneWork(
        **new(n_slots, "k told move"), **new(n_outputs, "scores target"),
        **new(PERIOD, "own covariance left gain open amount share"),
    )  # fmt: skip


@partial(compiled, nogil=True, any_order=True)
def learn_alone(
    model, kernel, rows, row_cache, state, largest, X, x, y, weights, trail, changes, work, writer
):
    """Learn the only row of X; False: nothing has changed, and a tile of one row learns it, or not.

    Rows whose squared norm is beyond `largest` need more care with their kernel values.
    """
    expansion, budget, dual = state.expansion, state.budget, state.update
    tile, c, ridge = dual.tile, model.regularization, model.budget.ridge
    norm2, i, n = norm2_of(X[0]), tile.n_rows[0], expansion.n_points[0]
    if not norm2 <= largest:  # NaN is not either
        return False
    x[0] = norm2
    n_first, n_new = n - tile.n_joined[0], tile.n_joined[0]
    write_kernel_values(kernel, rows, row_cache, n_first, X[0], norm2, work.k)
    write_kernel_values(kernel, tile.x, tile.norm2, i, X[0], norm2, work.own)
    k_xx = float(kernel.of_products(norm2, norm2, norm2))
    multiply(budget.inverse, n_first, work.k, tile.a[i])
    given, weight = given_of(model, state, n_first), weights[0] * model.loss_weight
    most, is_exact = model.budget.most_dependent(k_xx), False
    while True:
        own, left = catch_up(dual.covariance, tile, n_first, i, k_xx, work)
        read_scores(dual.values, tile, n_first, i, work.scores)
        note(model, given, n_new, work.scores, work.target, y, trail, 0)
        if weight == 0.0:
            return True  # a row without weight is as good as absent
        if not is_sound(work.target, work.scores, k_xx, most, weight, c, True):
            return False
        squares = squared_length(tile, n_first, n_new, i, work) if ridge > 0.0 else 0.0
        terms = terms_of(
            model, given, n_new, work.target, work.scores, weight, k_xx, own, left, squares,
            largest_term(dual.covariance, tile, n_first, i), True,
        )  # fmt: skip
        if is_exact or not terms.joins:
            break
        # a point that joins with inexact coordinates makes K^-1 a thousand times worse
        error = correct(budget, n_first, tile.a[i], work.k, k_xx, ridge, work.move, work.told)
        if not error <= CORRECTABLE:
            return False
        if error <= EXACT:
            break
        is_exact = True
    dual.squared[0] += surprise(work.target, work.scores, terms.variance, left, c)
    for m in range(n + 1 if terms.joins else n):
        changes.mark(m)
    for j in range(X.shape[1]):
        tile.x[i, j] = X[0, j]
    tile.norm2[i] = norm2
    take_in_alone(expansion, dual, budget.inverse, terms, own, n_first, work)
    if terms.joins:
        trail.slot[0] = n
        trail.n_points[0] = n + 1
    writer.write_points(expansion, tile, trail, 1)
    return True


# --- the row, before it is learned ---------------------------------------------------------------


@helper
def multiply(square, n, x, out):
    """Multiply the first n rows and columns of a symmetric matrix by x, reading half of it.

    Four lines at a time, each with what lies left of the diagonal.
    """
    whole = n - n % 4
    for m in range(n):
        out[m] = 0.0
    for m in range(0, whole, 4):
        first, second, third, fourth = square[m], square[m + 1], square[m + 2], square[m + 3]
        at_first, at_second, at_third, at_fourth = x[m], x[m + 1], x[m + 2], x[m + 3]
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for j in range(m):
            one += first[j] * x[j]
            two += second[j] * x[j]
            three += third[j] * x[j]
            four += fourth[j] * x[j]
            out[j] += (
                first[j] * at_first + second[j] * at_second
                + third[j] * at_third + fourth[j] * at_fourth
            )  # fmt: skip
        for j in range(m, m + 4):  # the square on the diagonal
            one += first[j] * x[j]
            two += second[j] * x[j]
            three += third[j] * x[j]
            four += fourth[j] * x[j]
        out[m] += one
        out[m + 1] += two
        out[m + 2] += three
        out[m + 3] += four
    for m in range(whole, n):
        line, total = square[m], 0.0
        for j in range(m):
            total += line[j] * x[j]
            out[j] += line[j] * x[m]
        out[m] += total + line[m] * x[m]


@helper
def product(one, other, n):
    """Return the inner product of the first n entries."""
    total = 0.0
    for j in range(n):
        total += one[j] * other[j]
    return total


@helper
def catch_up(covariance, tile, n_first, i, k_xx, work):
    """Return the variance of row i given the tile and the points, and what they leave open.

    Line i of the tile, where its coordinates are, is written as far as it can be known before the
    row is learned.
    """
    a, gain, freedom, n_new = tile.a[i], work.gain, work.open, tile.n_joined[0]
    multiply(covariance, n_first, a, work.told)
    own, left = product(work.told, a, n_first), k_xx - product(work.k, a, n_first)
    for m in range(i):
        work.covariance[m] = product(work.told, tile.a[m], n_first)
    for q in range(n_new):
        m = tile.joined[q]
        work.left[q] = work.own[m] - product(work.k, tile.a[m], n_first)
    q = 0  # new points among the rows so far
    for m in range(i):
        numbers, column = tile.numbers[m], tile.column[m]
        told = work.covariance[m] - product(gain, tile.earlier[m], m) - product(freedom, column, q)
        tile.earlier[i, m] = told
        gain[m] = numbers[PRECISION] * told
        if q < n_new and tile.joined[q] == m:
            rest = work.left[q]
            for p in range(q):
                rest -= work.left[p] * column[p]
            work.left[q] = rest
            share = rest / numbers[DELTA]
            tile.column[i, q] = share
            gain[m] += numbers[FRESH] * share
            freedom[q] = numbers[FRESH] * (told - numbers[VARIANCE] * share)
            own -= freedom[q] * share
            left -= rest * share
            q += 1
        own -= gain[m] * told
    return own, left


@helper
def read_scores(values, tile, n_first, i, scores):
    """Return f at row i."""
    for k in range(scores.shape[0]):
        scores[k] = product(values[k], tile.a[i], n_first)
        scores[k] += product(tile.rest[k], tile.column[i], tile.n_joined[0])


@helper
def largest_term(covariance, tile, n_first, i):
    """Return the size of the terms that the variance of row i is a sum of."""
    total = n_first * largest_variance(covariance, n_first, tile.a[i])
    for q in range(tile.n_joined[0]):
        share = tile.column[i, q]
        total += PERIOD * share * share * abs(tile.numbers[tile.joined[q], SETTLED])
    return total


@helper
def squared_length(tile, n_first, n_new, i, work):
    """Return the squared length of the coordinates of row i over all points."""
    share, move, total = work.share, work.move, 0.0
    for q in range(n_new):
        share[q] = tile.column[i, q]
    substitute_back(tile, n_new, share)
    for m in range(n_first):
        move[m] = tile.a[i, m]
    for q in range(n_new):
        total += share[q] * share[q]
        subtract(move, share[q], tile.a[tile.joined[q]], n_first)
    return total + product(move, move, n_first)


@helper
def correct(budget, n, a, k, k_xx, ridge, rest, move):
    """Correct coordinates by what (K + ridge I) a leaves of k, unless that is nothing, or too much.

    Answers how large it was, in the scale of the points.
    """
    largest = 0.0
    for m in range(n):
        line = budget.gram[m]
        rest[m] = k[m] - ridge * a[m] - product(line, a, n)
        scale = np.sqrt(max(k_xx, 1e-300) * abs(line[m] + ridge))
        if not abs(rest[m]) <= CORRECTABLE * scale:  # NaN is not
            return np.inf
        if abs(rest[m]) > largest * scale:
            largest = abs(rest[m]) / scale
    if largest > EXACT:
        multiply(budget.inverse, n, rest, move)
        for m in range(n):
            a[m] += move[m]
    return largest


# --- and what it leaves behind -------------------------------------------------------------------


@helper
def subtract(line, amount, other, n):
    """Subtract a multiple of another line."""
    for m in range(n):
        line[m] -= amount * other[m]


@helper
def substitute_back(tile, n_new, share):
    """Solve L^T s = share, with the unit lower triangular L of the new points, in place."""
    for q in range(n_new - 1, -1, -1):
        for p in range(q):
            share[p] -= tile.column[tile.joined[q], p] * share[q]


@helper
def take_in_alone(expansion, dual, inverse, terms, own, n_first, work):
    """Learn the row that has caught up: the tile, f at the points, and the coefficients."""
    tile = dual.tile
    i, n_old, gain = tile.n_rows[0], tile.n_joined[0], work.gain
    told, n_new = tile.told[i], n_old
    for m in range(n_first):
        told[m] = work.told[m]
    for j in range(i):
        subtract(told, gain[j], tile.told[j], n_first)
    clear_rest(tile, i, n_first, n_old)
    numbers, own_gain = tile.numbers[i], terms.fresh + terms.precision * own
    numbers[PRECISION], numbers[FRESH], numbers[VARIANCE] = (
        terms.precision, terms.fresh, terms.variance,
    )  # fmt: skip
    numbers[DELTA], numbers[NOISE] = terms.delta, terms.noise
    numbers[SETTLED] = terms.noise * own_gain
    for q in range(n_old):
        m = tile.joined[q]
        joint = tile.numbers[m, NOISE] * gain[m]
        for j in range(m + 1, i):
            joint -= gain[j] * tile.joint[j, q]
        tile.joint[i, q] = joint
        # of what is new in this point: what its first points tell, and new ones before it, is not
        rest = joint - product(told, tile.a[m], n_first)
        for p in range(q):
            rest -= tile.column[m, p] * work.amount[p]
        work.amount[q] = rest
    for q in range(n_old):
        work.amount[q] *= terms.precision
    if terms.joins:
        tile.joined[n_old] = i
        work.amount[n_old] = terms.fresh
        n_new += 1
    point_coefficients(inverse, tile, terms.precision, n_first, n_new, i, work)
    move_all(expansion, dual, terms.precision, own_gain, n_first, n_new, work)
    tile.n_joined[0] = n_new
    tile.n_rows[0] = i + 1
    expansion.n_points[0] = n_first + n_new
    expansion.n_seen[0] += 1
    dual.counted[0] += 1.0


@helper
def clear_rest(tile, i, n_first, n_old):
    """Clear row i of what other tiles wrote, so that equal models have equal bytes."""
    for m in range(n_first, tile.a.shape[1]):
        tile.a[i, m] = 0.0
        tile.told[i, m] = 0.0
    for q in range(n_old, PERIOD):
        tile.column[i, q] = 0.0
        tile.joint[i, q] = 0.0
    for m in range(i, PERIOD):
        tile.earlier[i, m] = 0.0


@helper
def point_coefficients(inverse, tile, precision, n_first, n_new, i, work):
    """Return the direction of the coefficients per unit of error: K^-1 times that of f."""
    share, move = work.share, work.move
    for q in range(n_new):
        share[q] = work.amount[q] / tile.numbers[tile.joined[q], DELTA]
    substitute_back(tile, n_new, share)
    multiply(inverse, n_first, tile.told[i], move)
    for m in range(n_first):
        move[m] *= precision
    for q in range(n_new):
        subtract(move, share[q], tile.a[tile.joined[q]], n_first)


@helper
def move_all(expansion, dual, precision, own_gain, n_first, n_new, work):
    """Compute f at all points, and all coefficients, after the last row of the tile."""
    tile, coef, values = dual.tile, expansion.coef, dual.values
    i, n_old, norm2 = tile.n_rows[0], tile.n_joined[0], 0.0
    for m in range(n_first + n_new):
        expansion.size2[m] = 0.0
    for k in range(values.shape[0]):
        error, line, f = work.target[k] - work.scores[k], coef[k, 0], values[k]
        for q in range(n_old, n_new):  # the row itself, where it joins
            line[n_first + q], f[n_first + q], tile.rest[k, q] = 0.0, work.scores[k], 0.0
            f[n_first + q] += own_gain * error
        step = precision * error
        for m in range(n_first):
            f[m] += step * tile.told[i, m]
            line[m] += error * work.move[m]
        for q in range(n_new):
            line[n_first + q] += error * work.share[q]
            tile.rest[k, q] += error * work.amount[q]
        for q in range(n_old):
            f[n_first + q] += step * tile.joint[i, q]
        for m in range(n_first + n_new):
            expansion.size2[m] += line[m] * line[m]
            norm2 += line[m] * f[m]
    expansion.norm2[0] = max(norm2, 0.0)
