"""Missing values of a fleet: the mean of the column so far, of the model that the row is for.

The rule works inside the compiled loop, row by row; `kernelstream.estimators.missing.Means` does
the same for a single model, block by block.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.estimators.missing import Means
from kernelstream.parts import Field, rule

__all__ = ["ColumnMeans", "FillMeans", "KeepRow", "as_means", "filling_of", "without_gaps"]


class ColumnMeans(NamedTuple):
    """What a model knows of its columns. The axis `given` counts columns as users give them."""

    total: Any  # the sum of the known values of each column
    n_known: Any  # how many values were known


@rule
class KeepRow(NamedTuple):
    """Rows without missing values: rule and record in one."""

    def fill_row(self, means, x, out):
        """Return the row without gaps: x itself, or written into `out`."""
        return x

    def note_values(self, means, x):
        """Count the known values of a row that was learned."""
        return


@rule
class FillMeans(NamedTuple):
    """Replace NaN by the mean of its column; zero while no value of the column is known."""

    marks: bool  # whether a second feature for every column is 1 where a value was missing

    def fill_row(self, means, x, out):
        """Return the row without gaps: x itself, or written into `out`."""
        n = x.shape[0]
        for j in range(n):
            is_missing = x[j] != x[j]
            if is_missing:
                out[j] = means.total[j] / max(means.n_known[j], 1)
            else:
                out[j] = x[j]
            if self.marks:
                out[n + j] = 1.0 if is_missing else 0.0
        return out

    def note_values(self, means, x):
        """Count the known values of a row that was learned."""
        for j in range(x.shape[0]):
            if x[j] == x[j]:
                means.total[j] += x[j]
                means.n_known[j] += 1


def filling_of(missing: str) -> tuple[Any, Any]:
    """Return the rule for a parameter `missing`, and the fields of what it remembers."""
    if missing == "error":
        return KeepRow(), KeepRow()
    fields = ColumnMeans(total=Field(("given",), 0.0), n_known=Field(("given",), 0, int))
    return FillMeans(missing == "indicator"), fields


def without_gaps(filling: Any, X: np.ndarray) -> np.ndarray:
    """Return rows with zero in place of the values that will be filled in, to be checked."""
    if isinstance(filling, KeepRow) or not np.isnan(X).any():
        return X
    return np.where(np.isnan(X), X.dtype.type(0), X)


def as_means(filling: Any, means: Any, n_rows: int) -> Means | None:
    """Return the means of one model as a single estimator keeps them."""
    if isinstance(filling, KeepRow):
        return None
    marked = np.arange(len(means.total) if filling.marks else 0)
    return Means(n_rows, means.total.copy(), n_rows - means.n_known, marked)
