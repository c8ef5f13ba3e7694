"""Kernels that add up."""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import entry_point
from kernelstream.kernels.base import Kernel, complete_products
from kernelstream.kernels.sums import inner_products, squared_norms
from kernelstream.parts import part, rule

__all__ = ["Sum"]


@rule
class SumRule(NamedTuple):
    """The values of two kernels, either of which may be a sum itself."""

    first: Any
    second: Any

    def write_column(self, features, n, x, out):
        for i in range(n):
            out[i] = self.value_at(features, i, x)

    def value_at(self, features, i, x):
        return self.first.value_at(features, i, x) + self.second.value_at(features, i, x)

    def of_products(self, product, p, x):
        return self.first.of_products(product, p, x) + self.second.of_products(product, p, x)


@part("kernel")
class Sum(Kernel):
    """``k(x, z) = k_1(x, z) + k_2(x, z) + ...``: f is a sum of functions, one for each kernel.

    ``Bias() + Linear() + RBF(1.0)`` is short for ``Sum(Bias(), Linear(), RBF(1.0))``. The block of
    kernels that are functions of inner products and distances takes one matrix product.

    Parameters
    ----------
    kernels : sequence of kernel objects
        Or the kernels themselves, one argument each. The parameters of the first are
        ``kernels_0__...`` in `set_params`, and so on.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, Bias, Linear, Scaled, Sum
    >>> kernel = Sum(Bias(), Scaled(Linear(), 0.5), RBF(1.0))
    >>> kernel([[1.0, 1.0]], [[1.0, 1.0]])
    array([[3.]])
    """

    def __init__(self, kernels: Any = (), *more: Any):
        self.kernels = (kernels, *more) if isinstance(kernels, Kernel) or more else kernels
        self.check()

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return ["kernels"]  # scikit-learn refuses to look at `more`

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = {"kernels": self.kernels}
        for i, kernel in enumerate(self.kernels if deep else ()):
            params[f"kernels_{i}"] = kernel
            params.update({f"kernels_{i}__{k}": v for k, v in kernel.get_params().items()})
        return params

    def set_params(self, **params: Any) -> "Sum":
        kernels = list(params.pop("kernels", self.kernels))
        for i in range(len(kernels)):
            kernels[i] = params.pop(f"kernels_{i}", kernels[i])
        self.kernels = tuple(kernels)
        super().set_params(**params)
        return self

    def check(self) -> None:
        if not isinstance(self.kernels, tuple | list) or not self.kernels:
            raise TypeError(f"kernels={self.kernels!r} is not a sequence of kernel objects.")
        for kernel in self.kernels:
            if not isinstance(kernel, Kernel) or not kernel.adds_up:
                raise TypeError(
                    f"{kernel!r} in kernels={self.kernels!r} is not a kernel object that adds up: "
                    "give RBF(...), say, or Custom(function)."
                )

    @property
    def is_bounded_by_cache(self) -> bool:  # type: ignore[override]
        return all(kernel.is_bounded_by_cache for kernel in self.kernels)

    @property
    def knows_diagonal(self) -> bool:  # type: ignore[override]
        return all(kernel.knows_diagonal for kernel in self.kernels)

    @property
    def has_constant(self) -> bool:  # type: ignore[override]
        return any(kernel.has_constant for kernel in self.kernels)

    @property
    def from_products(self) -> bool:  # type: ignore[override]
        return all(kernel.from_products for kernel in self.kernels)

    def loses_digits(self, x: np.ndarray, dtype: np.dtype) -> bool:
        return any(kernel.loses_digits(x, dtype) for kernel in self.kernels)

    def resolve(self, n_features: int, fineness: float | None = None) -> "Sum":
        self.check()
        return Sum(tuple(kernel.resolve(n_features, fineness) for kernel in self.kernels))

    def row_cache(self, X):
        return squared_norms(X)

    def block(self, P, X, p, x, out):
        self.prepared(out.dtype)(P, X, p, x, out)

    def prepared(self, dtype: Any) -> Callable[..., None]:
        together = self.to_rule(dtype) if self.from_products else None
        blocks, finish = [kernel.prepared(dtype) for kernel in self.kernels], None

        def block(P, X, p, x, out):
            nonlocal finish
            if together is not None and not self.loses_digits(x, out.dtype):
                inner_products(P, X, out)
                if finish is None:
                    finish = entry_point(complete_products, together, out, p, x)
                finish(together, out, p, x)
                return
            own = np.empty_like(out)
            blocks[0](P, X, p, x, out)
            for write in blocks[1:]:
                write(P, X, p, x, own)
                out += own

        return block

    def values(self, P, X, p, x, summed):
        if self.from_products and not summed:
            return self.to_rule().of_products(P @ X.T, p[:, None], x[None, :])
        first, *others = (kernel.values(P, X, p, x, summed) for kernel in self.kernels)
        return sum(others, first)

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        return all(kernel.is_smooth for kernel in self.kernels)

    def gradients(self, P, X, coef):
        return sum(kernel.gradients(P, X, coef) for kernel in self.kernels)

    def diagonal(self, x):
        diagonals = [kernel.diagonal(x) for kernel in self.kernels]
        if any(diagonal is None for diagonal in diagonals):
            return None
        return sum(diagonals[1:], diagonals[0])

    def compiles(self) -> bool:
        return all(kernel.compiles() for kernel in self.kernels)

    def to_rule(self, dtype: Any = np.float64) -> Any:
        return reduce(SumRule, [kernel.to_rule(dtype) for kernel in self.kernels])

    def magnitude(self, x):
        return sum(kernel.magnitude(x) for kernel in self.kernels)

    def __add__(self, other: Any) -> "Sum":
        return Sum((*self.kernels, other))

    def __hash__(self) -> int:
        return hash((Sum, tuple(self.kernels)))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Sum:
            return NotImplemented
        return tuple(self.kernels) == tuple(other.kernels)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Sum({', '.join(map(repr, self.kernels))})"
