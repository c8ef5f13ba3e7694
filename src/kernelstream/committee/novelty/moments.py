"""Running moments of the rows, and what follows from them: scales, bends and whitening."""

import math

from kernelstream.compile import helper

__all__ = [
    "CONSTANT", "bend_of", "bent", "clipped", "count", "inverse_root", "length2", "log_length2",
    "multiply",
]  # fmt: skip

CONSTANT = 1e-12  # standard deviations below this part of the mean are rounding errors
_N_FOR_TAILS = 33  # points, from which on heavy tails can be told from chance
_TRUSTED_ROWS = 20
_OUTLIER = 10.0  # standard deviations to which the moments clip a value from row 20 on


@helper
def clipped(value, limit):
    """Return a value between ``-limit`` and ``limit``."""
    return min(max(value, -limit), limit)


@helper
def bent(z, bend):
    """Compress a value: beyond some standard deviations it grows like its logarithm."""
    return math.asinh(bend * z) / bend if bend > 0.0 else z


@helper(apart=True)
def bend_of(values, n):
    """Return ``c = 0.3 sqrt(kappa - 1)`` where the excess kurtosis kappa of n values is above 1."""
    mean, second, fourth = 0.0, 0.0, 0.0
    for s in range(n):
        mean += values[s] / n
    for s in range(n):
        square = (values[s] - mean) ** 2
        second += square / n
        fourth += square * square / n
    if n < _N_FOR_TAILS or fourth <= 4.0 * second * second:
        return 0.0
    return 0.3 * math.sqrt(fourth / (second * second) - 4.0)


@helper(apart=True, any_order=True)
def length2(z):
    """Return the sum of squares."""
    total = 0.0
    for j in range(z.shape[0]):
        total += z[j] * z[j]
    return total


@helper
def log_length2(squares, n_features):
    """Return the logarithm of a squared length per feature, which stays finite at zero."""
    return math.log(squares / n_features + 0.1)


@helper(apart=True, any_order=True)
def multiply(root, x, out):
    """Write a lower triangular matrix times x; return the squared length of the product."""
    squares = 0.0
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(i + 1):
            total += root[i, j] * x[j]
        out[i] = total
        squares += total * total
    return squares


@helper(apart=True)
def inverse_root(square, products, ridge, factor, out):
    """Write chol((C + ridge I) / (1 + ridge))^-1, where C are the correlations.

    The division keeps the variance of every feature at one, whatever the ridge. So lengths do not
    grow with the number of rows where features are uncorrelated.
    """
    n, diagonal = out.shape[0], 1.0 + ridge
    for i in range(n):
        for j in range(i + 1):
            total = 1.0
            if i != j:
                sizes = math.sqrt(square[i]) * math.sqrt(square[j])
                total = products[i, j] / (sizes * diagonal) if sizes > 0.0 else 0.0
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(max(total, ridge / diagonal))
            else:
                factor[i, j] = total / factor[j, j]
    for j in range(n):
        for i in range(j, n):
            total = 1.0 if i == j else 0.0
            for k in range(j, i):
                total -= factor[i, k] * out[k, j]
            out[i, j] = total / factor[i, i]


@helper(apart=True)
def count(x, weight, n_rows, total, mean, square, products, away):
    """Update means, squares and products by Welford's rule, with a weight.

    After twenty rows a value counts as if it were within ten standard deviations: otherwise a few
    outliers would hide all others. A feature that was constant may take any value.
    """
    share = weight / (total + weight)
    for j in range(x.shape[0]):
        away[j] = x[j] - mean[j]
        if n_rows >= _TRUSTED_ROWS:
            sd = math.sqrt(square[j] / total)
            if sd > CONSTANT * abs(mean[j]):
                away[j] = clipped(away[j], _OUTLIER * sd)
        mean[j] += share * away[j]
        square[j] += share * total * away[j] * away[j]
    for i in range(products.shape[0]):
        factor = share * total * away[i]
        for j in range(i):
            products[i, j] += factor * away[j]
