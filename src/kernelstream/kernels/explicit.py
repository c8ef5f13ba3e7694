"""What kernels have in common that are made of a map to explicit features."""

from typing import Any

import numpy as np

from kernelstream.kernels.base import Kernel
from kernelstream.kernels.sums import squared_norms

__all__ = ["FeatureMap"]


class FeatureMap(Kernel):
    """A kernel that is the inner product of explicit features, found by a matrix of its own.

    The matrix follows from the parameters and the number of inputs. It is made when it is first
    needed, and is no parameter: a copy makes its own.
    """

    has_features = True
    may_widen = False  # the matrix belongs to the number of inputs

    def new_projection(self, n_inputs: int) -> np.ndarray:
        """Return the matrix with which rows are multiplied."""
        raise TypeError(f"{type(self).__name__} must say its matrix.")

    def projection(self, n_inputs: int, dtype: Any) -> np.ndarray:
        """Return `new_projection` in a precision, made once."""
        made = self.__dict__.setdefault("_projections", {})
        key = n_inputs, np.dtype(dtype)
        if key not in made:
            made[key] = np.ascontiguousarray(self.new_projection(n_inputs), dtype)
        return made[key]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_projections", None)
        return state

    def row_cache(self, X):
        return squared_norms(X)

    def block(self, P, X, p, x, out):
        np.matmul(self.features(P, p), self.features(X, x).T, out=out)

    def compiles(self) -> bool:
        return False
