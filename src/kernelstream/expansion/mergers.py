"""Merging two points of an expansion into one."""

import math

import numpy as np

from kernelstream.compile import helper
from kernelstream.elementary import exp_of_negative, log_of_share

__all__ = ["blend", "correct_for_merger", "merge", "raw_at_merger"]


@helper(apart=True)
def merge(expansion, tile, gram, between, slot, partner, share, i, point):
    """Make one point of `partner` and of the point in `slot`, or of row i where slot is -1.

    The new point lies a `share` of the way from the partner to the other. `gram` has the kernel
    values between points; those of the merged one are written into it. `between` is memory.
    """
    n, n_rows, n_functions = expansion.n_points[0], tile.raw.shape[2], expansion.coef.shape[1]
    line = tile.n_points + i if slot < 0 else slot
    kappa = np.float64(tile.k[partner, i]) if slot < 0 else gram[slot, partner]
    log_kappa = math.log(max(kappa, 1e-300))
    w1 = math.exp(log_kappa * (1.0 - share) * (1.0 - share))
    w2 = math.exp(log_kappa * share * share)
    expansion.average.merge_sum(expansion, slot, partner, w1, w2, point)
    for m in range(n):
        between[m] = np.float64(tile.k[m, i]) if slot < 0 else gram[slot, m]
    for m in range(n):
        between[m] = blend(between[m], gram[partner, m], share, log_kappa)
    k_new = blend(np.float64(tile.k[line, i]), np.float64(tile.k[partner, i]), share, log_kappa)
    for k in range(expansion.coef.shape[0]):
        correct_for_merger(
            expansion, tile, gram, between, slot, partner, i, point, k, w1, w2, kappa, k_new
        )
    for j in range(i + 1, n_rows):
        k_goes, k_stays = np.float64(tile.k[line, j]), np.float64(tile.k[partner, j])
        k_merged = blend(k_goes, k_stays, share, log_kappa)
        for k in range(expansion.coef.shape[0]):
            for s in range(n_functions):
                stays = expansion.coef[k, s, partner]
                goes = point.coef[k, s] if slot < 0 else expansion.coef[k, s, slot]
                change = (w1 * goes + w2 * stays) * k_merged - stays * k_stays
                if slot >= 0:
                    change -= goes * k_goes
                tile.raw[k, s, j] += change
        tile.k[partner, j] = k_merged
    expansion.size2[partner] = 0.0
    for k in range(expansion.coef.shape[0]):
        for s in range(n_functions):
            goes = point.coef[k, s] if slot < 0 else expansion.coef[k, s, slot]
            expansion.coef[k, s, partner] = w1 * goes + w2 * expansion.coef[k, s, partner]
            if slot >= 0:
                expansion.coef[k, s, slot] = 0.0
        expansion.size2[partner] += expansion.coef[k, 0, partner] * expansion.coef[k, 0, partner]
    expansion.norm2[0] = max(expansion.norm2[0], 0.0)
    tile.k[partner, i] = k_new
    for m in range(n):
        gram[partner, m] = between[m]
        gram[m, partner] = between[m]
    gram[partner, partner] = 1.0
    tile.changes.mark(partner)


@helper(inlines=True)
def blend(k_goes, k_stays, h, log_kappa):
    """Return the RBF kernel value of the point z a share h of the way from one point to another.

    ``|z - x|^2 = h |g - x|^2 + (1 - h) |j - x|^2 - h (1 - h) |g - j|^2``.
    """
    exponent = h * log_of_share(k_goes) + (1.0 - h) * log_of_share(k_stays)
    value = exp_of_negative(min(exponent - h * (1.0 - h) * log_kappa, 0.0))
    return value if min(k_goes, k_stays) > 0.0 else 0.0


@helper
def correct_for_merger(
    expansion, tile, gram, between, slot, partner, i, point, k, w1, w2, kappa, k_new
):
    """Return ||f||^2 and <f, v> of output k after a merger that is not written yet.

    With r = alpha_g k_g + alpha_j k_j - alpha_z k_z, f becomes f - r_f and v becomes v - r_v.
    """
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    traced = expansion.coef.shape[1] > 1
    a_j, a_g = expansion.coef[k, 0, partner], point.coef[k, 0]
    if slot >= 0:
        a_g = expansion.coef[k, 0, slot]
    b_j, b_g = 0.0, 0.0
    if traced:
        b_j = expansion.coef[k, 1, partner]
        b_g = point.coef[k, 1] if slot < 0 else expansion.coef[k, 1, slot]
    if a_g == 0.0 and b_g == 0.0 and a_j == 0.0 and b_j == 0.0:
        return
    a_z, b_z = w1 * a_g + w2 * a_j, w1 * b_g + w2 * b_j
    # raw f and v (without the new point) at the point that goes, at its partner and between them
    f_g, f_j, f_z = raw_at_merger(expansion, tile, gram, between, slot, partner, i, k, 0)
    v_g, v_j, v_z = 0.0, 0.0, 0.0
    if traced:
        v_g, v_j, v_z = raw_at_merger(expansion, tile, gram, between, slot, partner, i, k, 1)
    v_g, v_j, v_z = q * v_g + r * f_g, q * v_j + r * f_j, q * v_z + r * f_z
    # with the new point, whose kernel values with the three are these
    new_g = 1.0 if slot < 0 else np.float64(tile.k[slot, i])
    new_j = np.float64(tile.k[partner, i])
    alpha, beta = point.alpha[k], point.beta[k] if traced else 0.0
    f_g, f_j, f_z = p * f_g + alpha * new_g, p * f_j + alpha * new_j, p * f_z + alpha * k_new
    v_g, v_j, v_z = v_g + beta * new_g, v_j + beta * new_j, v_z + beta * k_new
    alpha_g, alpha_j, alpha_z = p * a_g, p * a_j, p * a_z
    beta_g, beta_j, beta_z = q * b_g + r * a_g, q * b_j + r * a_j, q * b_z + r * a_z
    f_rf = alpha_g * f_g + alpha_j * f_j - alpha_z * f_z
    rf_rf = alpha_g * alpha_g + alpha_j * alpha_j + 2.0 * kappa * alpha_g * alpha_j
    rf_rf -= alpha_z * alpha_z
    expansion.norm2[0] = expansion.norm2[0] + rf_rf - 2.0 * f_rf
    if traced:
        f_rv = beta_g * f_g + beta_j * f_j - beta_z * f_z
        v_rf = alpha_g * v_g + alpha_j * v_j - alpha_z * v_z
        rf_rv = alpha_g * beta_g + alpha_j * beta_j - alpha_z * beta_z
        rf_rv += kappa * (alpha_g * beta_j + alpha_j * beta_g)
        expansion.pi[0] += rf_rv - f_rv - v_rf


@helper(apart=True, any_order=True)
def raw_at_merger(expansion, tile, gram, between, slot, partner, i, k, function):
    """Return raw f or v of output k at the point that goes, at its partner, and between them."""
    at_goes, at_stays, at_merged = 0.0, 0.0, 0.0
    for m in range(expansion.n_points[0]):
        coef = expansion.coef[k, function, m]
        at_goes += coef * (np.float64(tile.k[m, i]) if slot < 0 else gram[slot, m])
        at_stays += coef * gram[partner, m]
        at_merged += coef * between[m]
    return at_goes, at_stays, at_merged
