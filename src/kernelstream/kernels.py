"""How alike are two inputs?

A kernel turns blocks of rows into blocks of numbers. `block` writes k(rows, columns) for two sets
of rows; `numbers` are what it needs to know of each row once (squared norms, say), so that the
points of a model need not be looked at again for every tile. Rows are dense arrays, or sparse ones
(`scipy.sparse.csr_array`, sorted and without duplicates).

Where models are many and small, a block is too small to be worth a matrix product. For them a
kernel has a *rule*, which compiled code asks for one column at a time.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from kernelstream.blocks import (
    exp_of_negative,
    inner_products,
    negative_distances,
    powers,
    squared_norms,
    sums_over_common,
    sums_over_rows,
)
from kernelstream.parts import Part, integer_at_least, number, rule

__all__ = [
    "RBF",
    "Custom",
    "Homogenized",
    "Kernel",
    "Laplacian",
    "Linear",
    "Normalized",
    "Polynomial",
    "as_kernel",
    "names",
]


class Kernel(Part):
    """Base of the kernels."""

    gamma: Any = 1.0
    is_bounded_by_numbers = True  # whether `magnitude` tells which rows would overflow
    norm_factor: Any = 1.0  # where rows are merged: their `numbers` over their squared norms

    def resolve(self, n_features: int) -> "Kernel":
        """The same kernel with gamma="auto" turned into 1 / n_features."""
        self.check()
        if isinstance(self.gamma, str):
            return type(self)(**{**self.get_params(), "gamma": 1.0 / n_features})
        return self

    def numbers(self, X: np.ndarray) -> np.ndarray:
        """One number a row, needed by `block`: here the squared norm."""
        return squared_norms(X)

    def block(
        self, P: np.ndarray, X: np.ndarray, p: np.ndarray, x: np.ndarray, out: np.ndarray
    ) -> None:
        """Write k(P, X), a line for every row of P, into `out`; p and x are their `numbers`."""
        raise TypeError(f"{type(self).__name__} must say how to make a block.")

    def diagonal(self, x: np.ndarray) -> np.ndarray | float | None:
        """k(x, x) of each row from its `numbers`, or None where only `block` can tell."""
        raise TypeError(f"{type(self).__name__} must say its diagonal.")

    def to_rule(self) -> Any:
        """The compiled rule, whose `write_column` writes k(rows, x) for the first n rows.

        It is given the rows as `features`, a line for every feature.
        """
        raise ValueError(
            f"kernel={self!r} has no compiled form, which many small models need: use RBF, "
            "Polynomial, Linear, Laplacian or Homogenized."
        )

    def magnitude(self, x: np.ndarray) -> np.ndarray:
        """One number a row, from its `numbers`, that bounds whatever `block` computes."""
        return x

    def __call__(self, X: Any, Z: Any = None) -> np.ndarray:
        """The block k(X, Z) as an array, for looking at a kernel."""
        X = _as_rows(X)
        Z = X if Z is None else _as_rows(Z)
        if sparse.issparse(X) != sparse.issparse(Z):
            X, Z = sparse.csr_array(X), sparse.csr_array(Z)
        kernel = self.resolve(X.shape[1])
        out = np.empty((X.shape[0], Z.shape[0]))
        kernel.block(X, Z, kernel.numbers(X), kernel.numbers(Z), out)
        return out


def _as_rows(X: Any) -> Any:
    if sparse.issparse(X):
        X = sparse.csr_array(X, dtype=float)
        X.sum_duplicates()
        return X
    return np.atleast_2d(np.asarray(X, dtype=float))


def _check_gamma(gamma: Any) -> None:
    if isinstance(gamma, str):
        if gamma != "auto":
            raise ValueError(
                f"gamma={gamma!r} is unknown: give a number greater than 0, or 'auto' for "
                "1 / n_features (an estimator's own gamma may also be 'scale', in fit)."
            )
        return
    number("gamma", gamma, above=0)


@rule
class RBFRule(NamedTuple):
    """Columns of the RBF kernel."""

    gamma: float

    def write_column(self, features, n, x, out):
        out[:n] = 0.0
        for j in range(x.shape[0]):
            for i in range(n):
                out[i] += (features[j, i] - x[j]) ** 2
        for i in range(n):
            out[i] = exp_of_negative(-self.gamma * out[i])


@rule
class PolynomialRule(NamedTuple):
    """Columns of the polynomial kernel; the linear one has degree 1."""

    degree: int
    gamma: float
    coef0: float

    def write_column(self, features, n, x, out):
        out[:n] = 0.0
        for j in range(x.shape[0]):
            for i in range(n):
                out[i] += features[j, i] * x[j]
        for i in range(n):
            out[i] = (self.gamma * out[i] + self.coef0) ** self.degree


@rule
class LaplacianRule(NamedTuple):
    """Columns of the Laplacian kernel."""

    gamma: float

    def write_column(self, features, n, x, out):
        out[:n] = 0.0
        for j in range(x.shape[0]):
            for i in range(n):
                out[i] += abs(features[j, i] - x[j])
        for i in range(n):
            out[i] = exp_of_negative(-self.gamma * out[i])


@rule
class HomogenizedRule(NamedTuple):
    """Columns of another kernel, with a constant."""

    kernel: Any
    constant: float

    def write_column(self, features, n, x, out):
        self.kernel.write_column(features, n, x, out)
        for i in range(n):
            out[i] += self.constant


@rule
class NormalizedRule(NamedTuple):
    """Columns of another kernel between rows of unit length."""

    kernel: Any

    def write_column(self, features, n, x, out):
        length = np.empty(1, out.dtype)
        self.kernel.write_column(x.reshape((-1, 1)), 1, x, length)
        root = math.sqrt(max(length[0], 1e-300))
        for i in range(n):
            self.kernel.write_column(features[:, i : i + 1], 1, features[:, i], length)
            both = math.sqrt(max(length[0], 1e-300)) * root  # the same whichever is x
            self.kernel.write_column(features[:, i : i + 1], 1, x, length)
            out[i] = length[0] / both


# Where gamma |x|^2 is larger, |p|^2 + |x|^2 - 2 <p, x> would lose the digits that matter: rows far
# from zero and close to each other, that is, rows that nobody scaled. Then distances are summed up.
_FAR_OUT = {np.dtype(np.float64): 1e5, np.dtype(np.float32): 1e3}


class RBF(Kernel):
    """``k(x, z) = exp(-gamma ||x - z||^2)``; gamma = 1 / (2 sigma^2) in the papers (60).

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.

    Examples
    --------
    >>> from kernelstream.kernels import RBF
    >>> RBF(gamma=0.5)([[0.0, 0.0]], [[0.0, 2.0]]).round(4)
    array([[0.1353]])
    """

    def __init__(self, gamma: float | str = "auto"):
        self.gamma = gamma
        self.check()

    def check(self) -> None:
        _check_gamma(self.gamma)

    @property
    def norm_factor(self) -> float:
        return float(self.gamma)

    def numbers(self, X):
        return self.gamma * squared_norms(X)

    def block(self, P, X, p, x, out):
        if not sparse.issparse(X) and (x[0] if len(x) == 1 else x.max()) > _FAR_OUT[out.dtype]:
            np.multiply(cdist(P, X, "sqeuclidean"), -self.gamma, out=out)
        else:
            inner_products(P, X, out)
            negative_distances(out, p, x, 2.0 * self.gamma)
        np.exp(out, out=out)

    def diagonal(self, x):
        return 1.0

    def to_rule(self):
        return RBFRule(float(self.gamma))


class Polynomial(Kernel):
    """``k(x, z) = (gamma <x, z> + coef0)^degree``.

    Parameters
    ----------
    degree : int, default=3
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Not negative: the kernel would not be positive definite.

    Examples
    --------
    >>> from kernelstream.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)([[1.0, 1.0]], [[1.0, 2.0]])
    array([[9.]])
    """

    def __init__(self, degree: int = 3, gamma: float | str = "auto", coef0: float = 0.0):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.check()

    def check(self) -> None:
        integer_at_least("degree", self.degree, 1)
        _check_gamma(self.gamma)
        number("coef0", self.coef0, at_least=0)

    def block(self, P, X, p, x, out):
        inner_products(P, X, out)
        powers(out, float(self.gamma), float(self.coef0), int(self.degree))

    def diagonal(self, x):
        return (self.gamma * x + self.coef0) ** self.degree

    def to_rule(self):
        return PolynomialRule(int(self.degree), float(self.gamma), float(self.coef0))

    def magnitude(self, x):
        with np.errstate(over="ignore"):
            return np.maximum(self.gamma * x, 1.0) * (self.gamma * x + self.coef0) ** self.degree


class Linear(Kernel):
    """``k(x, z) = <x, z>``.

    Examples
    --------
    >>> from kernelstream.kernels import Linear
    >>> Linear()([[1.0, 1.0]], [[1.0, 2.0]])
    array([[3.]])
    """

    def block(self, P, X, p, x, out):
        inner_products(P, X, out)

    def diagonal(self, x):
        return x

    def to_rule(self):
        return PolynomialRule(1, 1.0, 0.0)


class Laplacian(Kernel):
    """``k(x, z) = exp(-gamma ||x - z||_1)``.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" is 1 / n_features.

    Examples
    --------
    >>> from kernelstream.kernels import Laplacian
    >>> Laplacian(gamma=1.0)([[0.0, 0.0]], [[1.0, 0.0]]).round(4)
    array([[0.3679]])
    """

    def __init__(self, gamma: float | str = "auto"):
        self.gamma = gamma
        self.check()

    def check(self) -> None:
        _check_gamma(self.gamma)

    def numbers(self, X):
        if sparse.issparse(X):
            return self.gamma * sums_over_rows(X.indptr, X.data, False)
        return self.gamma * np.abs(X).sum(axis=1)

    def block(self, P, X, p, x, out):
        if sparse.issparse(X):
            sums_over_common(P, X, False, out)
            out *= -self.gamma
            out -= p[:, None]
            out -= x
            np.minimum(out, 0.0, out=out)  # where rounding made a distance negative
        else:
            np.multiply(cdist(P, X, "cityblock"), -self.gamma, out=out)
        np.exp(out, out=out)

    def diagonal(self, x):
        return 1.0

    def to_rule(self):
        return LaplacianRule(float(self.gamma))


class Homogenized(Kernel):
    """``k(x, z) + offset^2``: an intercept that is part of f (SOG-SVR, equation 2.7).

    Parameters
    ----------
    kernel : kernel object
    offset : float, default=0.1
        lambda in the paper. The larger, the less the intercept is held down.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, Homogenized
    >>> Homogenized(RBF(1.0), offset=0.5)([[0.0]], [[0.0]])
    array([[1.25]])
    """

    def __init__(self, kernel: Any, offset: float = 0.1):
        self.kernel = kernel
        self.offset = offset
        self.check()

    def check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r} is not a kernel object: give RBF(...), say.")
        number("offset", self.offset, at_least=0)

    @property
    def is_bounded_by_numbers(self) -> bool:  # type: ignore[override]
        return self.kernel.is_bounded_by_numbers

    def resolve(self, n_features: int) -> "Homogenized":
        self.check()
        return Homogenized(self.kernel.resolve(n_features), self.offset)

    def numbers(self, X):
        return self.kernel.numbers(X)

    def block(self, P, X, p, x, out):
        self.kernel.block(P, X, p, x, out)
        out += self.offset**2

    def diagonal(self, x):
        diagonal = self.kernel.diagonal(x)
        return None if diagonal is None else diagonal + self.offset**2

    def to_rule(self):
        return HomogenizedRule(self.kernel.to_rule(), float(self.offset**2))

    def magnitude(self, x):
        return self.kernel.magnitude(x) + self.offset**2


class Normalized(Kernel):
    """``k(x, z) / sqrt(k(x, x) k(z, z))``: every row has unit length in the kernel's space.

    A row with k(x, x) = 0 has the value 0 with all others and with itself.

    Parameters
    ----------
    kernel : kernel object
        Whose diagonal is known: any but `Custom`.

    Examples
    --------
    >>> from kernelstream.kernels import Linear, Normalized
    >>> Normalized(Linear())([[2.0, 0.0]], [[3.0, 3.0]]).round(4)
    array([[0.7071]])
    """

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self.check()

    def check(self) -> None:
        if not isinstance(self.kernel, Kernel) or isinstance(self.kernel, Custom):
            raise TypeError(
                f"kernel={self.kernel!r} is not a kernel object whose diagonal is known: give "
                "Polynomial(...), say."
            )

    def resolve(self, n_features: int) -> "Normalized":
        self.check()
        return Normalized(self.kernel.resolve(n_features))

    def numbers(self, X):
        return self.kernel.numbers(X)

    def _lengths(self, x):
        diagonal = np.broadcast_to(self.kernel.diagonal(x), x.shape)
        return np.sqrt(np.maximum(diagonal, np.finfo(x.dtype).tiny))

    def block(self, P, X, p, x, out):
        self.kernel.block(P, X, p, x, out)
        out /= self._lengths(p)[:, None]
        out /= self._lengths(x)

    def diagonal(self, x):
        return np.where(self.kernel.diagonal(x) > 0, np.ones_like(x), 0.0)

    def magnitude(self, x):
        return self.kernel.magnitude(x)

    def to_rule(self):
        return NormalizedRule(self.kernel.to_rule())


class Custom(Kernel):
    """Any function ``k(X, Z) -> block`` of shape (len(X), len(Z)).

    It must be symmetric and positive semidefinite, and the block must not depend on what else is
    in it: rows that are asked for together must give the numbers that they give alone. Where rows
    are sparse, X and Z are ``scipy.sparse.csr_array``.

    Parameters
    ----------
    function : callable

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import Custom
    >>> Custom(lambda X, Z: np.minimum(X, Z.T))([[1.0]], [[2.0]])
    array([[1.]])
    """

    is_bounded_by_numbers = False

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], Any]):
        self.function = function
        self.check()

    def check(self) -> None:
        if not callable(self.function):
            raise TypeError(f"kernel={self.function!r} is not callable: give a function k(X, Z).")

    def numbers(self, X):
        return 0.0 * np.asarray(X.sum(axis=1))  # zero, or NaN where the row is not finite

    def block(self, P, X, p, x, out):
        if not out.size:
            return  # many a function refuses to look at no rows
        block = self.function(P, X)
        block = block.toarray() if sparse.issparse(block) else np.asarray(block)
        if block.shape != out.shape:
            raise ValueError(
                f"kernel={self.function!r} answered a block of shape {block.shape} for "
                f"{P.shape[0]} and {X.shape[0]} rows: k(X, Z) must have the shape (len(X), len(Z))."
            )
        out[:] = block

    def diagonal(self, x):
        return None


_BY_NAME = {"rbf": RBF, "poly": Polynomial, "polynomial": Polynomial, "linear": Linear,
            "laplacian": Laplacian}  # fmt: skip


def names() -> list[str]:
    """The kernels that have a name."""
    return list(_BY_NAME)


def as_kernel(kernel: Any, given: dict[str, Any]) -> Kernel:
    """A kernel part from what a user may give: a name with its parameters, a part, a function."""
    if isinstance(kernel, str):
        if kernel not in _BY_NAME:
            listed = ", ".join(repr(n) for n in _BY_NAME)
            raise ValueError(
                f"kernel={kernel!r} is unknown: choose one of {listed}, a kernel object, "
                "or a function k(X, Z)."
            )
        accepted = set(_BY_NAME[kernel]().get_params())
        return _BY_NAME[kernel](**{k: v for k, v in given.items() if k in accepted})
    if isinstance(kernel, Kernel) or callable(kernel):
        if given:
            pairs = ", ".join(f"{k}={v!r}" for k, v in given.items())
            raise ValueError(
                f"kernel={kernel!r} is an object and carries its own parameters, but {pairs} was "
                "given as well: set them on the kernel object."
            )
        return kernel if isinstance(kernel, Kernel) else Custom(kernel)
    raise TypeError(
        f"kernel={kernel!r} is not a kernel: give a name, a kernel object or a function k(X, Z)."
    )
