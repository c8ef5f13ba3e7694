"""What becomes of rows that cannot be learned: an error, or they are left out and counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from kernelstream.arrays import on_host
from kernelstream.learner.rows import NOT_FINITE, BadRow
from kernelstream.parts import one_of
from kernelstream.tables.frames import Table

__all__ = ["BadRowPolicy", "Sifted", "problems_of_rows", "unmasked", "with_reasons"]

_MOST_REASONS = 50  # why rows were left out, each counted by itself
_OTHER_REASONS = "other reasons"


class Sifted:
    """Rows of which some cannot be learned.

    Attributes
    ----------
    kept : ndarray of int
        The positions of the rows that may be learned.
    bad : list of BadRow
        The others.
    """

    def __init__(
        self, X: Any, y: Any, sample_weight: Any,
        row_problems: Callable[[Any], tuple[Any, list[str | None]]],
        target_problem: Callable[[Any], str | None],
    ):  # fmt: skip
        self._X, self._y, self.kept, self.bad = _sift(
            unmasked(on_host(X)), unmasked(y), row_problems, target_problem
        )
        self._weight = None if sample_weight is None else np.asarray(sample_weight)

    def sound(self) -> tuple[Any, Any, Any]:
        """Return the rows, targets and weights that may be learned."""
        return _take(self._X, self.kept), _take(self._y, self.kept), _take(self._weight, self.kept)

    def leave_out(self, refused: BadRow) -> None:
        """Leave out a refused row of those that `sound` returned."""
        self.bad.append(BadRow(int(self.kept[refused.row]), refused.reason))
        self.bad.sort(key=lambda bad: bad.row)
        self.kept = np.delete(self.kept, refused.row)


class BadRowPolicy:
    """What happens to rows that cannot be learned, as the parameter `on_bad_row` says.

    Parameters
    ----------
    on_bad_row : {"raise", "skip"} or callable
    """

    __slots__ = ("on_bad_row", "skips")

    def __init__(self, on_bad_row: Any) -> None:
        self.on_bad_row = on_bad_row
        self.skips = on_bad_row != "raise"
        if self.skips and not callable(on_bad_row):
            one_of("on_bad_row", on_bad_row, ["raise", "skip"])

    def refused(self, error: Exception) -> BadRow:
        """Return a single row that could not be learned, or raise the error."""
        if not self.skips:
            raise error
        return BadRow(0, error.reason if isinstance(error, BadRow) else str(error))

    def tell(self, bad: list[BadRow]) -> None:
        """Call `on_bad_row` with each row that was left out, if it is a function."""
        if callable(self.on_bad_row):
            for refused in bad:
                self.on_bad_row(refused)


def with_reasons(counts: dict[str, int], bad: list[BadRow]) -> dict[str, int]:
    """Return the counts of reasons after further rows were left out.

    A reason may quote a value, of which there may be any number. So the first reasons are counted
    by themselves, and all further ones together.
    """
    counts = dict(counts)
    for refused in bad:
        known = refused.reason in counts or len(counts) < _MOST_REASONS
        reason = refused.reason if known else _OTHER_REASONS
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def unmasked(values: Any) -> Any:
    """Return `values`, or for a masked array a plain one with NaN or None."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    is_number = values.ndim == 2 or values.dtype.kind == "f"
    filled = np.array(values.data, dtype=np.float64 if is_number else object)
    filled[np.ma.getmaskarray(values)] = np.nan if is_number else None
    return filled


def _sift(
    X: Any, y: Any, row_problems: Callable[[Any], tuple[Any, list[str | None]]],
    target_problem: Callable[[Any], str | None],
) -> tuple[Any, Any, np.ndarray, list[BadRow]]:  # fmt: skip
    """Return X and y, the positions of valid rows, and the problems of the others.

    `row_problems` and `target_problem` tell what is wrong with rows and with an entry of y.
    """
    X, problems = row_problems(X)
    if y is not None:
        y = y if isinstance(y, np.ndarray) else np.asarray(_as_list(y), dtype=object)
        if len(y) != len(problems):
            raise ValueError(f"X has {len(problems)} rows, y has {len(y)}: they must match.")
        for i, target in enumerate(y.tolist()):
            problems[i] = problems[i] or target_problem(target)
    kept = np.array([i for i, problem in enumerate(problems) if problem is None], dtype=np.int64)
    bad = [BadRow(i, problem) for i, problem in enumerate(problems) if problem is not None]
    return X, y, kept, bad


def _take(values: Any, kept: np.ndarray) -> Any:
    """Return the rows of an array, a frame or a list at some positions."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        return np.asarray(values[kept].tolist())  # targets, of the type that the sound ones have
    if values is None or isinstance(values, Table):
        return values[kept] if values is not None else None
    return _safe_indexing(values, kept)


def _as_list(y: Any) -> list[Any]:
    return y.tolist() if hasattr(y, "tolist") else list(y)


def problems_of_rows(
    X: Any, n_features: int | None, allow_nan: bool = False
) -> tuple[Any, list[str | None]]:  # fmt: skip
    """Return X, and the problem of each of its rows.

    `n_features` is how long a row must be; None: the first sound row says.
    """
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        finite = np.ones(X.shape[0], dtype=bool)
        entries_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        finite[entries_of[~np.isfinite(X.data)]] = False
        return X, _judged(finite, X.shape[1], n_features)
    try:
        numbers = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return _row_by_row(X, n_features, allow_nan)
    if numbers.ndim != 2:
        return X, [None] * len(numbers) if numbers.ndim else []  # not rows at all: an error later
    finite = np.asarray((~np.isinf(numbers) if allow_nan else np.isfinite(numbers)).all(axis=1))
    return X, _judged(finite, numbers.shape[1], n_features)


def _judged(finite: np.ndarray, width: int, n_features: int | None) -> list[str | None]:
    if n_features is not None and width != n_features:
        return [_wrong_width(width, n_features)] * len(finite)
    return [None if sound else NOT_FINITE for sound in finite.tolist()]


def _wrong_width(width: int, n_features: int) -> str:
    return f"it has {width} features, and this model learns from {n_features}"


def _row_by_row(
    X: Any, n_features: int | None, allow_nan: bool
) -> tuple[np.ndarray, list[str | None]]:  # fmt: skip
    """Check rows of different lengths, and entries that are not numbers."""
    rows: list[np.ndarray] = []
    problems: list[str | None] = []
    for row in np.asarray(X, dtype=object).tolist() if hasattr(X, "dtypes") else list(X):
        numbers, problem = np.zeros(0), None
        try:
            numbers = np.asarray(row, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            problem = f"it is no row of numbers: {error}"
        else:
            n_features = len(numbers) if n_features is None else n_features
            if len(numbers) != n_features:
                problem = _wrong_width(len(numbers), n_features)
            elif (np.isinf(numbers) if allow_nan else ~np.isfinite(numbers)).any():
                problem = NOT_FINITE
        rows.append(numbers)
        problems.append(problem)
    block = np.zeros((len(rows), n_features or 0))
    for i, problem in enumerate(problems):
        if problem is None:
            block[i] = rows[i]
    return block, problems
