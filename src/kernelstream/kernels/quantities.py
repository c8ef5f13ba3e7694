"""What kernels are functions of: a quantity of two rows.

A quantity is an inner product, a squared distance or an L1 distance. It knows how to be computed
for blocks of dense rows and of sparse ones, and, as a rule, for one column at a time.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from kernelstream.arrays import namespace_of
from kernelstream.elementary import not_negative
from kernelstream.kernels.sums import (
    inner_products,
    squared_norms,
    sums_over_common,
    sums_over_rows,
)
from kernelstream.parts import rule

__all__ = ["INNER_PRODUCT", "L1_DISTANCE", "SQUARED_DISTANCE", "Quantity"]


class Quantity(Protocol):
    """What a quantity answers. `row_cache` is one number per row that is needed again and again."""

    rule: Any  # with `complete`, `add_column` and `between`
    from_products: bool  # whether `complete` makes it of <p, x> and the squared norms

    def row_cache(self, X: Any) -> np.ndarray:
        """Return one number per row."""
        ...

    def loses_digits(self, x: np.ndarray, dtype: np.dtype, steepness: float) -> bool:
        """Return whether `complete` would lose the digits that matter, for rows of these norms."""
        ...

    def own(self, x: Any) -> Any:
        """Return the quantity of each row with itself, from its row cache."""
        ...

    def raw(self, P: Any, X: Any, p: Any, x: Any, out: np.ndarray, steepness: float) -> bool:
        """Write the quantity for all pairs, or what `complete` makes it of; whether it is whole.

        p and x are the row caches; `steepness` is how much a map makes of a small difference.
        """
        ...

    def of_arrays(self, P: Any, X: Any, p: Any, x: Any, summed: bool) -> Any:
        """Compute the quantity for all pairs, for arrays of any library; `summed`: by feature."""
        ...

    def gradients(self, P: np.ndarray, X: np.ndarray, coef: np.ndarray, slope: Any) -> np.ndarray:
        """Compute `Kernel.gradients`, for a map with this derivative."""
        ...


@rule
class InnerProductRule(NamedTuple):
    """The inner product in compiled code."""

    def complete(self, raw, p, x):
        return raw

    def add_column(self, features, n, x, out):
        for j in range(x.shape[0]):
            for i in range(n):
                out[i] += features[j, i] * x[j]

    def between(self, features, i, x):
        total = 0.0
        for j in range(x.shape[0]):
            total += features[j, i] * x[j]
        return total


@rule
class SquaredDistanceRule(NamedTuple):
    """The squared distance in compiled code."""

    def complete(self, raw, p, x):
        """Return |p - x|^2 from the inner product and the squared norms."""
        return not_negative(p + x - (raw + raw))  # rounding may make a distance negative

    def add_column(self, features, n, x, out):
        for j in range(x.shape[0]):
            for i in range(n):
                out[i] += (features[j, i] - x[j]) ** 2

    def between(self, features, i, x):
        total = 0.0
        for j in range(x.shape[0]):
            total += (features[j, i] - x[j]) ** 2
        return total


@rule
class L1DistanceRule(NamedTuple):
    """The L1 distance in compiled code."""

    def complete(self, raw, p, x):
        return raw

    def add_column(self, features, n, x, out):
        for j in range(x.shape[0]):
            for i in range(n):
                out[i] += abs(features[j, i] - x[j])

    def between(self, features, i, x):
        total = 0.0
        for j in range(x.shape[0]):
            total += abs(features[j, i] - x[j])
        return total


class _InnerProduct:
    rule = InnerProductRule()
    from_products = True

    def loses_digits(self, x: np.ndarray, dtype: np.dtype, steepness: float) -> bool:
        return False

    def row_cache(self, X: Any) -> np.ndarray:
        return squared_norms(X)

    def own(self, x: Any) -> Any:
        return x

    def raw(self, P: Any, X: Any, p: Any, x: Any, out: np.ndarray, steepness: float) -> bool:
        inner_products(P, X, out)
        return True

    def of_arrays(self, P: Any, X: Any, p: Any, x: Any, summed: bool) -> Any:
        return P @ X.T

    def gradients(self, P: np.ndarray, X: np.ndarray, coef: np.ndarray, slope: Any) -> np.ndarray:
        return _weighted_sums(slope(P @ X.T), coef, P)


# Where steepness |x|^2 is larger, |p|^2 + |x|^2 - 2 <p, x> would lose the digits that matter: rows
# far from zero and close to each other, that is, rows that nobody scaled. Then distances are
# summed up.
_FAR_OUT = {np.dtype(np.float64): 1e5, np.dtype(np.float32): 1e3}
_DIFFERENCES = 2**25  # numbers that are held at once where distances are summed up on a device


class _SquaredDistance:
    rule = SquaredDistanceRule()
    from_products = True

    def loses_digits(self, x: np.ndarray, dtype: np.dtype, steepness: float) -> bool:
        farthest = x[0] if len(x) == 1 else np.maximum.reduce(x, initial=0.0)
        return bool(steepness * farthest > _FAR_OUT[dtype])

    def row_cache(self, X: Any) -> np.ndarray:
        return squared_norms(X)

    def own(self, x: Any) -> Any:
        return 0.0 * x

    def raw(self, P: Any, X: Any, p: Any, x: Any, out: np.ndarray, steepness: float) -> bool:
        if self.loses_digits(x, out.dtype, steepness) and not sparse.issparse(X):
            out[:] = cdist(P, X, "sqeuclidean")
            return True
        inner_products(P, X, out)
        return False

    def of_arrays(self, P: Any, X: Any, p: Any, x: Any, summed: bool) -> Any:
        if summed:
            return _sum_of_differences(P, X, lambda difference: difference * difference)
        return self.rule.complete(P @ X.T, p[:, None], x[None, :])

    def gradients(self, P: np.ndarray, X: np.ndarray, coef: np.ndarray, slope: Any) -> np.ndarray:
        slopes = slope(cdist(P, X, "sqeuclidean"))
        return 2.0 * ((coef @ slopes)[:, :, None] * X - _weighted_sums(slopes, coef, P))


class _L1Distance:
    rule = L1DistanceRule()
    from_products = False

    def loses_digits(self, x: np.ndarray, dtype: np.dtype, steepness: float) -> bool:
        return False

    def row_cache(self, X: Any) -> np.ndarray:
        if sparse.issparse(X):
            return sums_over_rows(X, squared=False)
        return namespace_of(X).sum(abs(X), axis=1)

    def own(self, x: Any) -> Any:
        return 0.0 * x

    def raw(self, P: Any, X: Any, p: Any, x: Any, out: np.ndarray, steepness: float) -> bool:
        if not sparse.issparse(X):
            out[:] = cdist(P, X, "cityblock")
            return True
        # |p - x|_1 from a sum over common features and the norms, which are made here: in a sum
        # of kernels p and x are squared norms
        sums_over_common(P, X, False, out)
        out += self.row_cache(P)[:, None]
        out += self.row_cache(X)
        np.maximum(out, 0.0, out=out)  # rounding may make a distance negative
        return True

    def of_arrays(self, P: Any, X: Any, p: Any, x: Any, summed: bool) -> Any:
        return _sum_of_differences(P, X, abs)

    def gradients(self, P: np.ndarray, X: np.ndarray, coef: np.ndarray, slope: Any) -> np.ndarray:
        raise TypeError("the L1 distance has no gradient where two rows share a value.")


def _weighted_sums(slopes: np.ndarray, coef: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return ``sum_i coef_ki slopes_ij P_i`` of all outputs k and rows j, by a matrix product."""
    n_outputs, n_features = len(coef), P.shape[1]
    weighted = (coef.T[:, :, None] * P[:, None, :]).reshape(len(P), n_outputs * n_features)
    sums = (slopes.T @ weighted).reshape(slopes.shape[1], n_outputs, n_features)
    return sums.transpose(1, 0, 2)


def _sum_of_differences(P: Any, X: Any, function: Any) -> Any:
    """Sum a function of p - x over the features, for all pairs, some rows at a time."""
    xp, n = namespace_of(P), P.shape[0]
    n_lines = max(1, _DIFFERENCES // max(1, X.shape[0] * X.shape[1]))
    pieces = [P[i : min(i + n_lines, n), :] for i in range(0, max(n, 1), n_lines)]
    return xp.concat(
        [xp.sum(function(piece[:, None, :] - X[None, :, :]), axis=2) for piece in pieces], axis=0
    )


INNER_PRODUCT, SQUARED_DISTANCE = _InnerProduct(), _SquaredDistance()
L1_DISTANCE = _L1Distance()
