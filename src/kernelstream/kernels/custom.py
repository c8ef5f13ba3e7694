"""A kernel that is any function."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.arrays import is_elsewhere, namespace_of
from kernelstream.kernels.base import Kernel
from kernelstream.parts import parameters, part

__all__ = ["Custom"]


@part("kernel")
@parameters
class Custom(Kernel):
    """Any function ``k(X, Z) -> block`` of shape (len(X), len(Z)).

    It must be symmetric and positive semidefinite, and the block must not depend on what else is
    in it: rows that are asked for together must give the numbers that they give alone. Where rows
    are sparse, X and Z are ``scipy.sparse.csr_array``; where points live on a device, they are
    arrays of its library, such as PyTorch's tensors, and so must the block be.

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

    function: Callable[[np.ndarray, np.ndarray], Any]

    is_bounded_by_cache = False
    knows_diagonal = False

    def check(self) -> None:
        if not callable(self.function):
            raise TypeError(f"kernel={self.function!r} is not callable: give a function k(X, Z).")

    def row_cache(self, X):
        # zero, or NaN where the row is not finite
        if is_elsewhere(X):
            return 0.0 * namespace_of(X).sum(X, axis=1)
        return 0.0 * np.asarray(X.sum(axis=1))

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

    def values(self, P, X, p, x, summed):
        return self.function(P, X)

    def diagonal(self, x):
        return None

    def compiles(self) -> bool:
        return False
