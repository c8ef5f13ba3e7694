"""What a move does to the kernel expansion, and to the raw scores of the rows still to come.

Every function here changes coefficients and, by the same linear rule, the raw scores of the rows
after row i of the tile. Each also keeps ||f||^2 and <f, v> true where it can.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.learner.state import SMALLEST_SCALE
from kernelstream.parts import rule

__all__ = [
    "ComputedGram", "StoredGram", "decay_all", "dot", "dot_on", "drop", "insert", "leave_out",
    "merge", "nonzeros", "project", "retire", "sum_up",
]  # fmt: skip

# The sum of p over the models is put into `past` before it is so many times p: a point's own sum is
# a difference of two such numbers, and the digits that they share are lost.
LARGEST_SUM = 1e4


@rule
class StoredGram(NamedTuple):
    """Kernel values between points, as the budget keeps them, if it does."""

    unused: bool = False

    def gram_line(self, gram, slot, n):
        """Whether norms are corrected for a dropped point, and its kernel values with the rest."""
        return gram.size > 0, gram[slot if gram.size > 0 else 0 :].reshape(-1)[:n]


@rule
class ComputedGram(NamedTuple):
    """Kernel values between points, computed from their rows when they are asked for."""

    kernel: Any
    features: Any  # of the points, a line for every feature
    memory: Any  # (points,)
    corrects: bool

    def gram_line(self, gram, slot, n):
        """As that of `StoredGram`."""
        if self.corrects:
            self.kernel.write_column(self.features, n, self.features[:, slot], self.memory)
        return self.corrects, self.memory


@register_jitable
def dot(x, y):
    """Inner product of two short vectors, without a call to BLAS."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@register_jitable
def dot_on(active, n_active, x, y):
    """Inner product over the outputs in `active` alone."""
    total = 0.0
    for m in range(n_active):
        total += x[active[m]] * y[active[m]]
    return total


@register_jitable
def nonzeros(alpha, beta, traced, active):
    """Write the outputs that a row touches into `active`; return how many."""
    n_active = 0
    for k in range(alpha.shape[0]):
        if alpha[k] != 0.0 or (traced and beta[k] != 0.0):
            active[n_active] = k
            n_active += 1
    return n_active


@register_jitable
def output_of(expansion, line, slot):
    """Which output a stored coefficient belongs to: its line, unless only nonzeros are stored."""
    return expansion.output[line, slot] if expansion.output.size > 0 else line


@register_jitable
def raw_at(expansion, coefficients, output, n, k_j):
    """Raw score of one output at a point whose kernel values with the points are k_j."""
    total = 0.0
    if expansion.output.size == 0:
        line = coefficients[output]
        for j in range(n):
            total += line[j] * k_j[j]
        return total
    for line in range(coefficients.shape[0]):
        for j in range(n):
            if expansion.output[line, j] == output:
                total += coefficients[line, j] * k_j[j]
    return total


@register_jitable
def decay_all(expansion, tile, keep, keep_v, cross):
    """Multiply f by `keep`, v by `keep_v`, and add `cross` f to v, by their three scalars."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    if expansion.b.size > 0:
        r = keep_v * r + cross * p
        if q != 0.0 and keep_v == 0.0:  # v forgets all of b; from here q is zero, as every b is
            expansion.b[:] = 0.0
            tile.raw_v[:] = 0.0
        q = keep_v * q
    p = keep * p
    folds = p < SMALLEST_SCALE or 0.0 < q < SMALLEST_SCALE
    if expansion.p_sum.size > 0 and (folds or expansion.p_sum[0] > LARGEST_SUM * p):
        settle(expansion)
    if folds:
        fold(expansion.a, expansion.b, p, q, r)
        expansion.size2[:] *= p * p
        expansion.lost[:] *= p
        fold(tile.raw_f, tile.raw_v, p, q, r)
        p, q, r = 1.0, 1.0, 0.0
    expansion.scale[0] = p
    expansion.scale[1] = q
    expansion.scale[2] = r


@register_jitable
def fold(a, b, p, q, r):
    """Make ``alpha = p a`` and ``beta = q b + r a`` the stored numbers, in place."""
    for k in range(a.shape[0]):
        for j in range(a.shape[1]):
            if b.size > 0:
                b[k, j] = q * b[k, j] + r * a[k, j]
            a[k, j] *= p


@register_jitable
def settle(expansion):
    """Put what every coefficient has summed up into `past`."""
    for k in range(expansion.a.shape[0]):
        for j in range(expansion.n_points[0]):
            expansion.past[k, j] += expansion.p_sum[0] * expansion.a[k, j]
    expansion.p_sum[0] = 0.0


@register_jitable
def sum_up(expansion, b, margin):
    """Add the model as it is now to the sum of all models."""
    expansion.p_sum[0] += expansion.scale[0]
    for k in range(b.shape[0]):
        expansion.b_sum[k] += b[k]
    expansion.margin_sum[0] += margin


@register_jitable
def drop(expansion, gram, tile, slot, i, alpha, beta):
    """Take the point in `slot` out of f and v, which row i has just joined with alpha and beta.

    Its share of the sum of all models goes with it.
    """
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n = expansion.n_points[0]
    if expansion.p_sum.size > 0:
        expansion.past[:, slot] = 0.0
    corrects, k_j = tile.source.gram_line(gram, slot, n)
    for line in range(expansion.a.shape[0]):
        a = expansion.a[line, slot]
        b = expansion.b[line, slot] if expansion.b.size > 0 else 0.0
        if a == 0.0 and b == 0.0:
            continue
        k = output_of(expansion, line, slot)
        if corrects:
            # ||f - a k_j||^2 = ||f||^2 - 2 a f(x_j) + a^2 k_jj, and likewise for <f, v>
            raw_f = raw_at(expansion, expansion.a, k, n, k_j)
            f_j, alpha_j = p * raw_f + alpha[k] * tile.k[slot, i], p * a
            expansion.norm2[0] += alpha_j * (alpha_j * k_j[slot] - 2.0 * f_j)
            if expansion.b.size > 0:
                raw_v = raw_at(expansion, expansion.b, k, n, k_j)
                v_j, beta_j = q * raw_v + r * raw_f + beta[k] * tile.k[slot, i], q * b + r * a
                expansion.pi[0] += alpha_j * beta_j * k_j[slot] - alpha_j * v_j - beta_j * f_j
        add_to_rest(tile.raw_f, k, -a, tile.k, slot, i)
        if b != 0.0:
            add_to_rest(tile.raw_v, k, -b, tile.k, slot, i)
    expansion.norm2[0] = max(expansion.norm2[0], 0.0)


@register_jitable
def retire(expansion, gram, tile, slot, i, alpha, beta):
    """As `drop`, where no other point takes the place: the slot stays, without coefficients."""
    drop(expansion, gram, tile, slot, i, alpha, beta)
    expansion.a[:, slot] = 0.0
    if expansion.b.size > 0:
        expansion.b[:, slot] = 0.0
    expansion.size2[slot] = 0.0


@register_jitable
def project(expansion, weights, tile, slot, i, alpha, beta, gap):
    """Replace the point in `slot` by a combination of the others, row i among them."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n, n_rows = expansion.n_points[0], tile.raw_f.shape[0]
    if expansion.p_sum.size > 0:
        project_sum(expansion, weights, slot)
    difference = np.zeros(n_rows)  # of the combination and the point, at the rows to come
    for j in range(i + 1, n_rows):
        difference[j] = -tile.k[slot, j]
    for m in range(n):
        if weights[m] != 0.0:
            for j in range(i + 1, n_rows):
                difference[j] += weights[m] * tile.k[m, j]
    for k in range(expansion.a.shape[0]):
        a = expansion.a[k, slot]
        b = expansion.b[k, slot] if expansion.b.size > 0 else 0.0
        if a == 0.0 and b == 0.0:
            continue
        alpha_j, beta_j = p * a, q * b + r * a
        expansion.norm2[0] -= alpha_j * alpha_j * gap
        expansion.pi[0] -= alpha_j * beta_j * gap
        move(expansion.a, tile.raw_f, k, a, weights, n, difference, i)
        alpha[k] += weights[n] * alpha_j
        if expansion.b.size > 0:
            move(expansion.b, tile.raw_v, k, b, weights, n, difference, i)
            beta[k] += weights[n] * beta_j
    measure(expansion, n)


@register_jitable
def project_sum(expansion, weights, slot):
    """The same for the sum of all models, before coefficients are changed.

    `past` is ``sum - a p_sum``, and so it goes the way of both. The place of the point that goes
    keeps what the new one gets of its sum; `insert` takes it from there.
    """
    n = expansion.n_points[0]
    for k in range(expansion.past.shape[0]):
        past = expansion.past[k, slot]
        for m in range(n):
            expansion.past[k, m] += past * weights[m]
        total = past + expansion.p_sum[0] * expansion.a[k, slot]
        expansion.past[k, slot] = weights[n] * total


@register_jitable
def merge_sum(expansion, slot, partner, w1, w2, alpha):
    """The sum of all models of two points that become one, before coefficients are changed."""
    for k in range(expansion.past.shape[0]):
        if slot < 0:  # the row is new: its sum is zero
            past = -expansion.p_sum[0] * alpha[k] / expansion.scale[0]
        else:
            past = expansion.past[k, slot]
            expansion.past[k, slot] = 0.0
        expansion.past[k, partner] = w1 * past + w2 * expansion.past[k, partner]


@register_jitable
def merge(expansion, budget_state, tile, slot, partner, i, alpha, beta):
    """Make one point of `partner` and of the point in `slot`, or of row i where slot is -1."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n, n_rows = expansion.n_points[0], tile.raw_f.shape[0]
    traced = expansion.b.size > 0
    gram, h = budget_state.gram, budget_state.share[0]
    line = tile.n_points + i if slot < 0 else slot
    kappa = np.float64(tile.k[partner, i]) if slot < 0 else gram[slot, partner]
    log_kappa = math.log(max(kappa, 1e-300))
    w1, w2 = math.exp(log_kappa * (1.0 - h) * (1.0 - h)), math.exp(log_kappa * h * h)
    if expansion.p_sum.size > 0:
        merge_sum(expansion, slot, partner, w1, w2, alpha)
    # k(z, .) between the two: |z - x|^2 = h |g - x|^2 + (1-h) |j - x|^2 - h (1-h) |g - j|^2
    between = budget_state.column
    for m in range(n):
        k_goes = np.float64(tile.k[m, i]) if slot < 0 else gram[slot, m]
        between[m] = blend(k_goes, gram[partner, m], h, log_kappa)
    k_new = blend(np.float64(tile.k[line, i]), np.float64(tile.k[partner, i]), h, log_kappa)
    for j in range(i + 1, n_rows):
        k_goes, k_stays = np.float64(tile.k[line, j]), np.float64(tile.k[partner, j])
        merged = blend(k_goes, k_stays, h, log_kappa)
        for k in range(expansion.a.shape[0]):
            a = expansion.a[k, slot] if slot >= 0 else 0.0
            tile.raw_f[j, k] -= a * k_goes + expansion.a[k, partner] * k_stays
            if traced:
                b = expansion.b[k, slot] if slot >= 0 else 0.0
                tile.raw_v[j, k] -= b * k_goes + expansion.b[k, partner] * k_stays
        tile.k[partner, j] = merged
    for k in range(expansion.a.shape[0]):
        a = alpha[k] / p if slot < 0 else expansion.a[k, slot]
        a_merged = w1 * a + w2 * expansion.a[k, partner]
        b, b_merged = 0.0, 0.0
        if traced:
            if slot < 0:
                if q == 0.0:  # every b is zero, so their scale is free
                    q = 1.0
                    expansion.scale[1] = q
                b = (beta[k] - r * a) / q
            else:
                b = expansion.b[k, slot]
            b_merged = w1 * b + w2 * expansion.b[k, partner]
        if a != 0.0 or b != 0.0 or a_merged != 0.0 or b_merged != 0.0:
            correct_norms(
                expansion, gram, between, tile, slot, partner, i, k, alpha, beta,
                a, b, a_merged, b_merged, kappa, k_new,
            )  # fmt: skip
        expansion.a[k, partner] = a_merged
        if slot >= 0:
            expansion.a[k, slot] = 0.0
        for j in range(i + 1, n_rows):
            tile.raw_f[j, k] += a_merged * tile.k[partner, j]
        if traced:
            expansion.b[k, partner] = b_merged
            if slot >= 0:
                expansion.b[k, slot] = 0.0
            for j in range(i + 1, n_rows):
                tile.raw_v[j, k] += b_merged * tile.k[partner, j]
    expansion.norm2[0] = max(expansion.norm2[0], 0.0)
    tile.k[partner, i] = k_new
    for m in range(n):
        gram[partner, m] = between[m]
        gram[m, partner] = between[m]
    gram[partner, partner] = 1.0
    total = 0.0
    for k in range(expansion.a.shape[0]):
        total += expansion.a[k, partner] * expansion.a[k, partner]
    expansion.size2[partner] = total


@register_jitable
def blend(k_goes, k_stays, h, log_kappa):
    """The RBF kernel value of the point a share h of the way from one point to another."""
    if k_goes <= 0.0 or k_stays <= 0.0:
        return 0.0
    exponent = h * math.log(k_goes) + (1.0 - h) * math.log(k_stays) - h * (1.0 - h) * log_kappa
    return math.exp(min(exponent, 0.0))


@register_jitable
def correct_norms(
    expansion, gram, between, tile, slot, partner, i, k, alpha, beta, a, b, a_merged, b_merged,
    kappa, k_new,
):  # fmt: skip
    """||f||^2 and <f, v> of output k after a merger that has not been written yet.

    With r = alpha_g k_g + alpha_j k_j - alpha_z k_z, f becomes f - r_f and v becomes v - r_v.
    """
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n, traced = expansion.n_points[0], expansion.b.size > 0
    a_j = expansion.a[k, partner]
    b_j = expansion.b[k, partner] if traced else 0.0
    # f and v (with the new point) at the point that goes, at its partner and between them
    raw = np.zeros((2, 3))
    for m in range(n):
        k_goes = np.float64(tile.k[m, i]) if slot < 0 else gram[slot, m]
        raw[0, 0] += expansion.a[k, m] * k_goes
        raw[0, 1] += expansion.a[k, m] * gram[partner, m]
        raw[0, 2] += expansion.a[k, m] * between[m]
        if traced:
            raw[1, 0] += expansion.b[k, m] * k_goes
            raw[1, 1] += expansion.b[k, m] * gram[partner, m]
            raw[1, 2] += expansion.b[k, m] * between[m]
    at_new = np.zeros(3)  # kernel values of the new point with the three
    at_new[0] = 1.0 if slot < 0 else tile.k[slot, i]
    at_new[1] = tile.k[partner, i]
    at_new[2] = k_new
    signs = np.array([1.0, 1.0, -1.0])
    alphas = p * np.array([a, a_j, a_merged])
    betas = q * np.array([b, b_j, b_merged]) + r * np.array([a, a_j, a_merged])
    f_rf, f_rv, v_rf = 0.0, 0.0, 0.0
    for m in range(3):
        f_m = p * raw[0, m] + alpha[k] * at_new[m]
        v_m = q * raw[1, m] + r * raw[0, m] + beta[k] * at_new[m] if traced else 0.0
        f_rf += signs[m] * alphas[m] * f_m
        f_rv += signs[m] * betas[m] * f_m
        v_rf += signs[m] * alphas[m] * v_m
    rf_rf = alphas[0] ** 2 + alphas[1] ** 2 + 2.0 * kappa * alphas[0] * alphas[1] - alphas[2] ** 2
    rf_rv = alphas[0] * betas[0] + alphas[1] * betas[1] - alphas[2] * betas[2]
    rf_rv += kappa * (alphas[0] * betas[1] + alphas[1] * betas[0])
    expansion.norm2[0] += rf_rf - 2.0 * f_rf
    if traced:
        expansion.pi[0] += rf_rv - f_rv - v_rf


@register_jitable
def leave_out(expansion, weights, tile, i, alpha, beta, gap):
    """Project row i on the points; it becomes none itself."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n, n_rows = expansion.n_points[0], tile.raw_f.shape[0]
    expansion.norm2[0] = max(expansion.norm2[0] - dot(alpha, alpha) * gap, 0.0)
    if expansion.b.size > 0:
        expansion.pi[0] -= dot(alpha, beta) * gap
    if q == 0.0:  # every b is zero, so their scale is free
        q = 1.0
        expansion.scale[1] = q
    combination = np.zeros(n_rows)  # at the rows to come
    for m in range(n):
        for j in range(i + 1, n_rows):
            combination[j] += weights[m] * tile.k[m, j]
    for k in range(expansion.a.shape[0]):
        a = alpha[k] / p
        if expansion.p_sum.size > 0:
            for m in range(n):
                expansion.past[k, m] -= expansion.p_sum[0] * a * weights[m]
        move(expansion.a, tile.raw_f, k, a, weights, n, combination, i)
        if expansion.b.size > 0:
            b = (beta[k] - r * a) / q
            move(expansion.b, tile.raw_v, k, b, weights, n, combination, i)
    measure(expansion, n)


@register_jitable
def move(coefficients, raw, k, amount, weights, n, difference, i):
    """Give the points `amount` times the weights, and the rows to come what that changes."""
    for m in range(n):
        coefficients[k, m] += amount * weights[m]
    for j in range(i + 1, raw.shape[0]):
        raw[j, k] += amount * difference[j]


@register_jitable
def measure(expansion, n):
    """The squared norm of every point's raw coefficients."""
    expansion.size2[:n] = 0.0
    for k in range(expansion.a.shape[0]):
        for m in range(n):
            expansion.size2[m] += expansion.a[k, m] * expansion.a[k, m]


@register_jitable
def insert(expansion, gram, tile, slot, i, alpha, beta, active, n_active):
    """Make row i the point in `slot`, with coefficients alpha and beta."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    line_of_row = tile.n_points + i
    if gram.size > 0:
        for j in range(expansion.n_points[0]):
            gram[slot, j] = tile.k[j, i]
            gram[j, slot] = tile.k[j, i]
        gram[slot, slot] = tile.k[line_of_row, i]
    if q == 0.0:  # every b is zero, so their scale is free
        q = 1.0
        expansion.scale[1] = q
    expansion.size2[slot] = dot_on(active, n_active, alpha, alpha) / (p * p)
    expansion.a[:, slot] = 0.0
    if expansion.b.size > 0:
        expansion.b[:, slot] = 0.0
    for m in range(n_active):
        k = active[m]
        line = k
        if expansion.output.size > 0:
            line = m
            expansion.output[line, slot] = k
        a = alpha[k] / p
        expansion.a[line, slot] = a
        if expansion.p_sum.size > 0:  # what was there is its share of a projected point's sum
            expansion.past[line, slot] -= expansion.p_sum[0] * a
        if a != 0.0:
            add_to_rest(tile.raw_f, k, a, tile.k, line_of_row, i)
        if expansion.b.size > 0:
            b = (beta[k] - r * a) / q
            expansion.b[line, slot] = b
            if b != 0.0:
                add_to_rest(tile.raw_v, k, b, tile.k, line_of_row, i)
    # The line of slot now holds the new point. Where slots are still free, that line is the one of
    # a row of the tile that has had its turn, since a tile has at least as many rows as new points.
    for j in range(i + 1, tile.raw_f.shape[0]):
        tile.k[slot, j] = tile.k[line_of_row, j]


@register_jitable
def add_to_rest(raw, k, coefficient, kernel, line, i):
    """Correct the raw scores of the rows after i."""
    for j in range(i + 1, raw.shape[0]):
        raw[j, k] += coefficient * kernel[line, j]
