"""Explicit features whose landmarks are the first rows of the stream."""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kernelstream.kernels import Kernel, grow_factor
from kernelstream.stores.base import CheckedCache, Values
from kernelstream.stores.dense import DenseStore
from kernelstream.stores.folded import FoldedStore
from kernelstream.stores.sparse import SparseStore

__all__ = ["LandmarkStore", "SparseLandmarkStore"]


class LandmarkStore(FoldedStore):
    """Kernel values with landmarks, times the inverse of Cholesky's factor of their own.

    The landmarks are points in a store of their own. A new one adds a feature, of which rows before
    it have none; so it does not matter how the stream is cut into blocks.
    """

    point_store: Any = DenseStore

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        super().__init__(kernel, n_slots, n_features, dtype)
        self.points = self.point_store(kernel.kernel, n_slots, n_features, dtype)
        self.factor = np.zeros((n_slots, n_slots))
        self._n_points = 0  # as it was when a tile was made last

    @classmethod
    def n_bytes(cls, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """Return how much memory the landmarks take, and their factor."""
        return cls.point_store.n_bytes(kernel, n_slots, n_features, dtype) + 8 * n_slots**2

    @property
    def n_first(self) -> int:
        """Return zero: there are no features before there are rows."""
        return 0

    @property
    def writes_in_loop(self) -> bool:  # type: ignore[override]
        """Return whether learning a row changes nothing here: there are all landmarks."""
        return self._n_points == self.n_slots

    def basis(self, n_points: int, X: Any, x: np.ndarray) -> np.ndarray:
        """Return the features of rows, a line each."""
        between = self.points.basis(n_points, X, x)
        if not n_points:
            return between
        factor = self.factor[:n_points, :n_points]
        phi = solve_triangular(factor, between, lower=True, check_finite=False)
        return phi.astype(self.dtype, copy=False)

    def features(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """Return the features of rows that are to be learned; some become landmarks on the way."""
        if n_points == self.n_slots:
            phi = np.ascontiguousarray(self.basis(n_points, X, x).T)
        else:
            values = self.points.tile(n_points, X, x, y, weight, None)
            k = values.k.astype(np.float64)
            found, joined = grow_factor(
                self.factor, n_points, k[:n_points], k[n_points:], weight > 0.0
            )
            self.points.replace(n_points + np.arange(len(joined)), X[joined], x[joined])
            phi = np.ascontiguousarray(found, self.dtype)
        self._n_points = phi.shape[1]
        return phi

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return kernel values among the rows, and their features."""
        return self.values_of(self.features(n_points, X, x, y, weight), None, coef)

    def begin(self) -> None:
        """Remember from now on which rows are overwritten."""
        self.points.begin()

    def end(self) -> None:
        """Forget what was kept for undoing."""
        self.points.end()

    def undo(self) -> None:
        """Take back the landmarks that came since `begin`."""
        self.points.undo()
        self._n_points = 0

    def widen(self, n_features: int) -> None:
        """Give rows more features, which are zero in every landmark, or take such away."""
        self.points.widen(n_features)
        self.n_features = n_features

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return the landmarks and their factor."""
        return {**self.points.to_arrays(n_points), "factor": self.factor[:n_points, :n_points]}

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: CheckedCache) -> None:
        """Take over what `to_arrays` gave."""
        self.points.fill(arrays, checked_cache)
        factor, n = arrays["factor"], len(arrays["factor"])
        is_sound = factor.shape == (n, n) and n <= self.n_slots and np.isfinite(factor).all()
        if not (is_sound and (np.diag(factor) > 0).all()):
            raise ValueError("the factor of the landmarks makes no sense")
        self.factor[:n, :n] = factor

    def copy(self, n_points: int) -> "LandmarkStore":
        """Return a copy with the first n landmarks."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.points, copy.factor = self.points.copy(n_points), np.array(self.factor)
        return copy


class SparseLandmarkStore(LandmarkStore):
    """The same for sparse rows."""

    is_sparse = True
    point_store = SparseStore
