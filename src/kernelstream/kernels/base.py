"""What kernels share.

A kernel turns blocks of rows into blocks of numbers. `block` writes k(rows, columns) for two sets
of rows; `row_cache` is what it needs to know of each row once (squared norms, say), so that the
points of a model need not be looked at again for every tile. Rows are dense arrays, or sparse ones
(`scipy.sparse.csr_array`, sorted and without duplicates).

Most kernels are a quantity of two rows and a scalar map (`MappedKernel`): the map is written once,
and dense blocks, sparse ones and single columns are computed with it.

Kernels add up and can be scaled: ``Bias() + 0.1 * Linear() + RBF(2.0)``. Squared norms serve inner
products and squared distances, so that one matrix product and one pass over it make the block of
such a sum (`of_products`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.compile import compiled, entry_point
from kernelstream.kernels.quantities import Quantity
from kernelstream.parts import Part, make, number, rule

__all__ = ["Kernel", "KernelRule", "MappedKernel", "check_gamma", "complete_products", "number_of"]


class Kernel(Part):
    """Base of the kernels."""

    gamma: Any = 1.0
    is_bounded_by_cache = True  # whether `magnitude` tells which rows would overflow
    knows_diagonal = True  # whether `diagonal` tells k(x, x)
    has_unit_diagonal = False  # k(x, x) = 1
    has_constant = False  # an intercept is part of it
    interpolates = False  # the point between two points is known to every other point
    has_features = False  # k(x, z) = <phi(x), phi(z)>, where `features` gives phi
    may_widen = True  # whether rows may get more features, which are zero in all earlier rows
    feature_store = "fixed"  # what makes them: `features`, or a store that learns how
    falls_with_distance = False  # from 1 to 0, so that rows have to be on the scale of gamma
    from_products = False  # whether the rule's `of_products` makes k(p, x) of <p, x> and the norms
    is_smooth = False  # whether `gradients` knows how kernel values change with a row
    adds_up = True  # whether `block` makes do with squared norms as row cache, or with none

    def resolve(self, n_features: int, fineness: float | None = None) -> "Kernel":
        """Return the same kernel with a number in place of gamma="auto": 1 / n_features.

        `fineness` is given where rows have unit length, and 1 / n_features would make all of them
        alike: the gamma that an RBF kernel should then have.
        """
        self.check()
        if isinstance(self.gamma, str):
            gamma = self.auto_gamma(n_features, fineness)
            return type(self)(**{**self.get_params(), "gamma": gamma})
        return self

    def auto_gamma(self, n_features: int, fineness: float | None) -> float:
        """Return the number that gamma="auto" stands for, see `resolve`."""
        return 1.0 / n_features if fineness is None else 1.0

    def for_task(self, task: str) -> "Kernel":
        """Return the same kernel with what only the task can tell."""
        return self

    def n_explicit(self, n_features: int) -> int:
        """Return how many explicit features phi(x) of rows with so many features has."""
        raise TypeError(f"{type(self).__name__} has no explicit features.")

    def features(self, X: Any, x: np.ndarray) -> Any:
        """Return phi(x) of every row, dense in C order or sparse; x is their `row_cache`."""
        raise TypeError(f"{type(self).__name__} has no explicit features.")

    def row_cache(self, X: Any) -> np.ndarray:
        """Return one number per row, needed by `block`."""
        raise TypeError(f"{type(self).__name__} must say what it needs to know of a row.")

    def block(self, P: Any, X: Any, p: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        """Write k(P, X), a line for every row of P, into `out`; p and x are their `row_cache`."""
        raise TypeError(f"{type(self).__name__} must say how to make a block.")

    def prepared(self, dtype: Any) -> Callable[..., None]:
        """Return `block` for rows of one precision, with all preparations made."""
        return self.block

    def values(self, P: Any, X: Any, p: Any, x: Any, summed: bool) -> Any:
        """Return k(P, X) as an array of the library of P and X, which may be on a device.

        The numbers that `block` writes. `summed`: distances are summed up feature by feature, as
        where `loses_digits`.
        """
        raise TypeError(
            f"{type(self).__name__} has no form for devices: leave device out, or use RBF, say."
        )

    def diagonal(self, x: np.ndarray) -> np.ndarray | float | None:
        """Return k(x, x) of each row from its `row_cache`, or None where only `block` can tell."""
        raise TypeError(f"{type(self).__name__} must say its diagonal.")

    def loses_digits(self, x: np.ndarray, dtype: np.dtype) -> bool:
        """Return whether `of_products` would lose significant digits for these squared norms."""
        return False

    def gradients(self, P: np.ndarray, X: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return the gradients of f = sum_i coef_i k(P_i, .) at the rows X.

        `coef` has a line for every output; answers (outputs, rows, features).
        """
        raise TypeError(f"{type(self).__name__} has no gradients.")

    def compiles(self) -> bool:
        """Return whether there is a compiled rule."""
        return True

    def to_rule(self, dtype: Any = np.float64) -> Any:
        """Return the compiled rule, whose `write_column` writes k(rows, x) for the first n rows.

        It is given the rows as `features`, a line for every feature.
        """
        raise ValueError(
            f"kernel={self!r} has no compiled form, which many small models need: use RBF, "
            "Polynomial, Linear, Laplacian or Homogenized."
        )

    def magnitude(self, x: np.ndarray) -> np.ndarray:
        """Return one number per row, from its `row_cache`, that bounds every value of `block`."""
        return x

    def __add__(self, other: Any) -> "Kernel":
        return make("Sum", kernels=(self, other))

    def __mul__(self, factor: Any) -> "Kernel":
        return make("Scaled", kernel=self, factor=factor)

    __rmul__ = __mul__

    def __call__(self, X: Any, Z: Any = None) -> np.ndarray:
        """Return the block k(X, Z) as an array, for looking at a kernel."""
        X = _as_rows(X)
        Z = X if Z is None else _as_rows(Z)
        if sparse.issparse(X) != sparse.issparse(Z):
            X, Z = sparse.csr_array(X), sparse.csr_array(Z)
        kernel = self.resolve(X.shape[1])
        out = np.empty((X.shape[0], Z.shape[0]))
        kernel.block(X, Z, kernel.row_cache(X), kernel.row_cache(Z), out)
        return out


class MappedKernel(Kernel):
    """A kernel that is a scalar map of a quantity of two rows.

    A subclass says the quantity, and its map: a rule whose `map_value` is the kernel of a quantity.
    """

    quantity: ClassVar[Quantity]
    maps = True  # whether the map is anything but the quantity itself

    def to_map(self, number_type: Any) -> Any:
        """Return the map as a rule; `number_type` is float or numpy.float32."""
        raise TypeError(f"{type(self).__name__} must say its map.")

    @property
    def from_products(self) -> bool:  # type: ignore[override]
        """Return whether the quantity is made of inner products and squared norms."""
        return self.quantity.from_products

    def loses_digits(self, x: np.ndarray, dtype: np.dtype) -> bool:
        return self.quantity.loses_digits(x, dtype, self.steepness())

    def slope(self, q: np.ndarray) -> np.ndarray:
        """Return the derivative of the map, where `is_smooth`."""
        raise TypeError(f"{type(self).__name__} must say the derivative of its map.")

    def gradients(self, P, X, coef):
        return self.quantity.gradients(P, X, coef, self.slope)

    def steepness(self) -> float:
        """Return how much the map makes of a small difference of the quantity."""
        return 1.0

    def row_cache(self, X):
        return self.quantity.row_cache(X)

    def block(self, P, X, p, x, out):
        self.prepared(out.dtype)(P, X, p, x, out)

    def prepared(self, dtype: Any) -> Callable[..., None]:
        raw, steepness, maps = self.quantity.raw, self.steepness(), self.maps
        lowered, finish = self.to_rule(dtype), None

        def block(P, X, p, x, out):
            nonlocal finish
            is_whole = raw(P, X, p, x, out, steepness)
            if maps or not is_whole:
                if finish is None:
                    finish = entry_point(_finish, lowered, out, p, x, is_whole)
                finish(lowered, out, p, x, is_whole)

        return block

    def values(self, P, X, p, x, summed):
        return self.to_map(float).map_value(self.quantity.of_arrays(P, X, p, x, summed))

    def diagonal(self, x):
        with np.errstate(over="ignore"):  # squares that a power does not need
            return self.to_map(float).map_value(self.quantity.own(x))

    def to_rule(self, dtype: Any = np.float64) -> Any:
        return KernelRule(self.quantity.rule, self.to_map(number_of(dtype)))


@rule
class KernelRule(NamedTuple):
    """A kernel in compiled code: a quantity, and the map of it."""

    quantity: Any
    map: Any

    def write_column(self, features, n, x, out):
        """Write k(rows, x) for the first n rows; `features` has a line for every feature."""
        out[:n] = 0.0
        self.quantity.add_column(features, n, x, out)
        for i in range(n):
            out[i] = self.map.map_value(out[i])

    def value_at(self, features, i, x):
        """Return k(row i, x), one value of `write_column`, for sums of kernels."""
        return self.map.map_value(self.quantity.between(features, i, x))

    def of_products(self, product, p, x):
        """Return k(p, x) of two rows from their inner product and their squared norms."""
        return self.map.map_value(self.quantity.complete(product, p, x))


@partial(compiled, fused=True, nogil=True)
def _finish(kernel, out, p, x, is_whole):
    """Make quantities whole and map them, in one pass over the memory."""
    for i in range(out.shape[0]):
        line = out[i]
        if is_whole:
            for j in range(line.shape[0]):
                line[j] = kernel.map.map_value(line[j])
        else:
            for j in range(line.shape[0]):
                line[j] = kernel.of_products(line[j], p[i], x[j])


@partial(compiled, fused=True, nogil=True)
def complete_products(kernel, out, p, x):
    """Make kernel values of inner products, in one pass over the memory."""
    for i in range(out.shape[0]):
        line = out[i]
        for j in range(line.shape[0]):
            line[j] = kernel.of_products(line[j], p[i], x[j])


def _as_rows(X: Any) -> Any:
    if sparse.issparse(X):
        X = sparse.csr_array(X, dtype=float)
        X.sum_duplicates()
        return X
    return np.atleast_2d(np.asarray(X, dtype=float))


def number_of(dtype: Any) -> Any:
    """Return the type of the numbers in a rule for rows of a precision."""
    return np.float32 if np.dtype(dtype) == np.float32 else float


def check_gamma(gamma: Any, name: str = "gamma") -> None:
    """Refuse what is neither a positive number nor "auto"."""
    if isinstance(gamma, str):
        if gamma != "auto":
            own = " (an estimator's own gamma may also be 'scale', in fit)" * (name == "gamma")
            raise ValueError(
                f"{name}={gamma!r} is unknown: give a number greater than 0, or 'auto' for "
                f"1 / n_features{own}."
            )
        return
    number(name, gamma, above=0)
