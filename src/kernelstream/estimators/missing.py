"""Values that are missing: the mean of their column so far, and a feature that says so.

This stands before the machine rather than in a scaling: some members of a committee do not scale
rows, and the others would each have to fill in the same values.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from kernelstream.compile import as_argument, compiled
from kernelstream.parts import one_of

__all__ = ["MISSING", "Means", "new_means"]

MISSING = ("error", "mean", "indicator")
_ONCE = np.ones(1)  # the weight of a row


class Means(NamedTuple):
    """The means of all features over the rows so far. It is never changed, but replaced."""

    n_rows: int
    total: np.ndarray  # the sum of every feature over the rows that have it
    n_missing: np.ndarray  # in how many rows each feature was missing
    marked: np.ndarray  # features that get a second one, which is 1 where the first is missing

    def filled(self, X: np.ndarray) -> np.ndarray:
        """Return rows with the means in place of NaN, for a prediction."""
        missing = np.isnan(X)
        if missing.any():
            X = np.where(missing, self.means().astype(X.dtype), X)
        return self._with_marks(X, missing)

    def including(self, X: np.ndarray, weight: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the means after these rows, and every row with those of the rows before it.

        A row without weight does not count.
        """
        total, n_missing, counts = self.total.copy(), self.n_missing, weight > 0.0
        is_complete = _add_rows(as_argument(X, X.dtype), counts, total)
        if is_complete and not self.marked.size:  # as most rows are
            n_rows = self.n_rows + int(np.count_nonzero(counts))
            return self._replace(n_rows=n_rows, total=total), X
        missing = np.zeros(X.shape, np.bool_) if is_complete else np.isnan(X)
        if not is_complete:
            gaps = np.flatnonzero(missing.any(axis=0))
            there = counts[:, None] & ~missing[:, gaps]
            before = np.where(there, X[:, gaps], 0.0)
            sums = np.cumsum(np.vstack([self.total[gaps], before]), axis=0)
            n_known = self.n_rows - self.n_missing[gaps]
            n_known = np.cumsum(np.vstack([n_known, there]), axis=0)
            X = X.copy()
            X[:, gaps] = np.where(
                missing[:, gaps], sums[:-1] / np.maximum(n_known[:-1], 1), X[:, gaps]
            )
            total[gaps] = sums[-1]
            n_missing = n_missing + (missing & counts[:, None]).sum(axis=0)
        means = self._replace(
            n_rows=self.n_rows + int(counts.sum()), total=total, n_missing=n_missing
        )
        return means, self._with_marks(X, missing)

    def including_row(self, X: np.ndarray) -> tuple["Means", np.ndarray]:
        """Include one row of weight one."""
        if self.marked.size or not math.isfinite(np.vdot(X, X)):  # something may be missing
            return self.including(X, _ONCE)
        return Means(self.n_rows + 1, self.total + X[0], self.n_missing, self.marked), X

    def means(self) -> np.ndarray:
        """Return the mean of every feature, 0 where it has always been missing."""
        return self.total / np.maximum(self.n_rows - self.n_missing, 1)

    def _with_marks(self, X: np.ndarray, missing: np.ndarray) -> np.ndarray:
        if not self.marked.size:
            return X
        return np.hstack([X, missing[:, self.marked].astype(X.dtype)])

    def widened(self, n_features: int) -> Self:
        """Return the same for rows of more features, which have been zero so far; or of fewer."""
        if self.marked.size:
            raise ValueError(
                "missing='indicator': rows cannot get more features. Use missing='mean', or give "
                "every feature in the first row."
            )
        total, n_missing = np.zeros(n_features), np.zeros(n_features, dtype=np.int64)
        both = min(n_features, len(self.total))
        total[:both], n_missing[:both] = self.total[:both], self.n_missing[:both]
        return self._replace(total=total, n_missing=n_missing)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of a file's header."""
        return {
            "n_rows": self.n_rows,
            **{name: getattr(self, name).tolist() for name in ("total", "n_missing", "marked")},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any], n_features: int) -> "Means":
        """Return the means that `to_json` described, checked; `n_features` has a machine's row."""
        n_rows, marked = int(record["n_rows"]), np.array(record["marked"], dtype=np.int64)
        total = np.array(record["total"], dtype=float)
        n_missing = np.array(record["n_missing"], dtype=np.int64)
        width = n_features - len(marked)
        sound = (
            total.shape == n_missing.shape == (width,)
            and bool(np.isfinite(total).all())
            and bool(((n_missing >= 0) & (n_missing <= n_rows)).all())
            and bool(((marked >= 0) & (marked < width)).all())
            and np.unique(marked).size == marked.size
        )
        if not sound:
            raise ValueError(f"the means for missing values make no sense: {record!r}")
        return cls(n_rows, total, n_missing, marked)


@compiled
def _add_rows(X, counts, total):
    """Add rows in their order, so that it does not matter how they were cut into blocks.

    Answers whether nothing is missing.
    """
    is_complete = True
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            is_complete &= X[i, j] == X[i, j]  # which NaN is not
            if counts[i]:
                total[j] += X[i, j]
    return is_complete


def new_means(missing: Any, X: Any, markable: Any = None) -> Means | None:
    """Return the means that fill missing values of rows like X; None: an error.

    In sparse rows they are: what is not there is zero. `markable` are the features of which it is
    worth knowing that they are missing; None: all.
    """
    if one_of("missing", missing, list(MISSING)) == "error" or sparse.issparse(X):
        return None
    n_features = X.shape[1]
    marked = np.arange(n_features) if markable is None else np.array(markable, dtype=np.int64)
    return Means(
        0, np.zeros(n_features), np.zeros(n_features, dtype=np.int64),
        marked if missing == "indicator" else marked[:0],
    )  # fmt: skip
