"""Explicit features from the kernel values with a few rows."""

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from kernelstream.kernels.base import Kernel
from kernelstream.kernels.explicit import FeatureMap
from kernelstream.parts import integer_at_least, parameters, part

__all__ = ["Nystroem", "grow_factor"]

# A landmark whose remainder beside those before it is less than this share of k(z, z) adds no
# feature: the remainder is rounding.
_SMALLEST_REMAINDER = 1e-8


def grow_factor(
    factor: np.ndarray, n: int, between: np.ndarray, own: np.ndarray, may_join: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return features of rows, some of which become landmarks on the way.

    Parameters
    ----------
    factor : ndarray of shape (most landmarks, most landmarks)
        Cholesky's factor of the first n landmarks; the lines of new ones are written into it.
    n : int
    between : ndarray of shape (n, rows)
        Kernel values of the landmarks with the rows.
    own : ndarray of shape (rows, rows)
        Kernel values among the rows.
    may_join : ndarray of bool, of shape (rows,)

    Returns
    -------
    phi : ndarray of shape (rows, n and new landmarks)
        A row has no feature of landmarks that came after it.
    joined : ndarray
        The rows that became landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.kernels import grow_factor
    >>> own = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> factor = np.zeros((2, 2))
    >>> phi, joined = grow_factor(factor, 0, np.zeros((0, 2)), own, np.array([True, True]))
    >>> phi @ phi.T
    array([[1. , 0.6],
           [0.6, 1. ]])
    """
    n_rows, most = len(own), len(factor)
    phi = np.zeros((n_rows, min(most, n + n_rows)))
    if n:
        phi[:, :n] = solve_triangular(factor[:n, :n], between, lower=True).T
    remainder = own - phi @ phi.T  # what the landmarks cannot tell of the rows
    joined = []
    for i in range(n_rows):
        left = remainder[i, i]
        if n == most or not may_join[i] or left <= _SMALLEST_REMAINDER * own[i, i]:
            continue
        phi[i:, n] = remainder[i, i:] / np.sqrt(left)
        factor[n, : n + 1] = phi[i, : n + 1]
        remainder[i:, i:] -= np.outer(phi[i:, n], phi[i:, n])
        joined.append(i)
        n += 1
    return phi[:, :n], np.array(joined, dtype=np.int64)


@part("kernel")
@parameters
class Nystroem(FeatureMap):
    """The kernel values of a row with landmarks, as explicit features.

    ``phi(x) = L^-1 k(landmarks, x)`` with ``L L^T = k(landmarks, landmarks)``, so that
    ``<phi(x), phi(z)>`` is the kernel between x and z as far as the landmarks can tell (Williams
    and Seeger, 2001). With L from Cholesky's factorization, a further landmark adds a feature and
    leaves the others as they are. The model is one weight per landmark.

    Parameters
    ----------
    kernel : kernel object
        The kernel.
    landmarks : int or array-like of shape (n_landmarks, n_features), default=256
        Rows that stand for the others. A number: that many of the first rows of the stream, those
        that are (nearly) combinations of earlier ones left out. The kernel is then not known
        beforehand, and goes with ``budget="auto"`` only.

    Examples
    --------
    >>> import kernelstream as ks
    >>> kernel = ks.kernels.Nystroem(ks.kernels.RBF(1.0), [[0.0], [1.0], [2.0]])
    >>> kernel([[1.0]], [[2.0]]).round(4)  # between landmarks it is exact
    array([[0.3679]])
    >>> model = ks.KernelRegressor(ks.kernels.Nystroem(ks.kernels.RBF(1.0), 64))
    >>> model.partial_fit([[0.5], [1.5]], [0.0, 1.0]).coef_.shape
    (2,)
    """

    kernel: Any
    landmarks: Any = 256

    knows_diagonal = False

    @property
    def feature_store(self) -> str:  # type: ignore[override]
        return "landmarks" if isinstance(self.landmarks, Integral) else "fixed"

    @property
    def may_widen(self) -> bool:  # type: ignore[override]
        return isinstance(self.landmarks, Integral) and self.kernel.may_widen

    @property
    def is_bounded_by_cache(self) -> bool:  # type: ignore[override]
        return self.kernel.is_bounded_by_cache

    def check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r} is not a kernel object: give RBF(...), say.")
        if isinstance(self.landmarks, Integral):
            integer_at_least("landmarks", self.landmarks, 1)
            return
        rows = np.asarray(self.landmarks, dtype=float)
        if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
            raise ValueError(
                f"landmarks of shape {rows.shape} are not rows of finite numbers: give an array of "
                "shape (n_landmarks, n_features), or how many rows of the stream to take."
            )

    def check_with(self, choice):
        self.kernel.check_with(choice)
        if isinstance(self.landmarks, Integral) and not choice.budget.is_folded:
            raise ValueError(
                f"kernel={self!r} takes its landmarks from the stream, and so goes with "
                f"budget='auto' only, not with budget={choice.budget!r}. Give landmarks as an "
                "array to use another."
            )

    def resolve(self, n_features: int, fineness: float | None = None) -> "Nystroem":
        self.check()
        return Nystroem(self.kernel.resolve(n_features, fineness), self.landmarks)

    def n_explicit(self, n_features):
        if isinstance(self.landmarks, Integral):
            return int(self.landmarks)
        return len(self._independent(np.dtype(float))[0])

    def _independent(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the independent landmarks, their row cache, and L."""
        made = self.__dict__.setdefault("_projections", {})
        if dtype not in made:
            if isinstance(self.landmarks, Integral):
                raise ValueError(
                    f"{self!r} has no landmarks yet: they are the first rows of a stream. Give "
                    "them as an array to compute with it."
                )
            rows = np.asarray(self.landmarks, dtype=float)
            own = self.kernel(rows)
            factor, may_join = np.zeros_like(own), np.ones(len(own), bool)
            _, kept = grow_factor(factor, 0, np.zeros((0, len(own))), own, may_join)
            rows, n = np.ascontiguousarray(rows[kept], dtype), len(kept)
            made[dtype] = rows, self.kernel.row_cache(rows), factor[:n, :n]
        return made[dtype]

    def row_cache(self, X):
        return self.kernel.row_cache(X)

    def magnitude(self, x):
        return self.kernel.magnitude(x)

    def diagonal(self, x):
        return None

    def features(self, X, x):
        landmarks, z, factor = self._independent(X.dtype)
        if landmarks.shape[1] != X.shape[1]:
            raise ValueError(
                f"landmarks have {landmarks.shape[1]} features, but rows have {X.shape[1]}: give "
                "landmarks of the same kind."
            )
        if sparse.issparse(X):
            landmarks = sparse.csr_array(landmarks)
        between = np.empty((len(z), X.shape[0]), X.dtype)
        self.kernel.block(landmarks, X, z, x, between)
        phi = solve_triangular(factor, between, lower=True).T
        return np.ascontiguousarray(phi, X.dtype)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Nystroem)
        return self.kernel == other.kernel and np.array_equal(self.landmarks, other.landmarks)

    def __hash__(self) -> int:
        return hash((type(self), self.kernel, np.shape(self.landmarks)))
