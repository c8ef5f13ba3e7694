"""What the columns of a table become, however the stream is cut into blocks.

A column is of one kind for the life of a model: numbers, dates or categories. Its type declares the
kind, or its first entry that is not missing decides (docs/design/tables.md). The number of its
features is fixed by the first row.
"""

import math
import warnings
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least, one_of
from kernelstream.tables.frames import Table, Values, as_table, has_columns
from kernelstream.tables.values import (
    as_category,
    as_moment,
    as_moments,
    as_number,
    is_missing,
    kind_of,
    shortened,
)

__all__ = ["FILL_IN", "Column", "Columns", "numbers_in_order", "warn_of_text"]

KINDS = ("number", "date", "category", "undecided")
_YEAR = 365.2425  # days
_CYCLES = (1.0, 7.0, _YEAR)  # days
_DATE_WIDTH = 1 + 2 * len(_CYCLES)
_PLAIN = {float, int, bool, str, type(None), np.float64, np.int64}  # types NumPy converts at once
FILL_IN = "leave this row out, or fill it in by missing='mean'"
_DECLARE = "give it the type category (in pandas, astype('category')) from the first row on"


class Column(NamedTuple):
    """What a column of tables becomes. It is never changed, but replaced.

    A column that is missing in the first row is undecided, and has the features of a category. Its
    first entry decides; as a number or a date it then uses the first of these features.
    """

    name: str
    kind: str
    n_own: int = 0  # how many categories have a feature of their own
    n_shared: int = 0  # features for all the others
    categories: tuple[str, ...] = ()  # those that have one so far
    n_unlisted: int = 0  # rows whose category had none

    @property
    def width(self) -> int:
        """Return how many features it becomes."""
        own = 1 if self.kind == "number" else _DATE_WIDTH
        return self.n_own + self.n_shared or own

    @classmethod
    def of(cls, name: str, values: Values) -> "Column":
        """Return what a column of the first table becomes."""
        kind = values.decided() or "undecided"
        if kind in ("number", "date"):
            return cls(name, kind)
        if kind == "category" and values.told is not None:
            return cls(name, kind, len(values.told), 1, values.told)
        return cls(name, kind, values.n_own, values.n_shared)

    def encode(self, entries: Any, weight: np.ndarray, out: np.ndarray) -> "Column":
        """Write the features of entries into `out`, NaN where a number or a date is missing.

        Returns the column after these rows. Only rows with weight change it.
        """
        if self.kind == "undecided":
            return self._decide(entries, weight, out)
        if self.kind == "category":
            return self._encode_categories(entries, weight, out)
        numbers, problems = self._converted(entries)
        if problems:
            raise BadRow(*min(problems.items()))
        self._write(numbers, out)
        return self

    def problems(self, entries: Any, may_miss: bool = True) -> dict[int, str]:
        """Return what is wrong with entries, by row: another kind, infinity, or a gap."""
        if self.kind == "category":
            return {}
        if self.kind == "undecided":
            first = (i for i, value in enumerate(entries) if not is_missing(value))
            i = next(first, None)
            if i is None:
                return {}
            found = self._replace(kind=str(kind_of(entries[i]))).problems(entries[i:])
            return {i + row: problem for row, problem in found.items()}
        numbers, found = self._converted(entries)
        if self.kind == "number":
            for i in np.flatnonzero(np.isinf(numbers)).tolist():
                found[i] = f"{self.name} is infinite: leave this row out"
        if not may_miss:
            for i in np.flatnonzero(np.isnan(numbers)).tolist():
                found.setdefault(i, f"{self.name} is missing (NaN): {FILL_IN}")
        return found

    def _write(self, numbers: np.ndarray, out: np.ndarray) -> None:
        if self.kind == "number":
            out[:, 0] = numbers
        else:
            _write_dates(numbers, out)

    def _decide(self, entries: Any, weight: np.ndarray, out: np.ndarray) -> "Column":
        """Encode rows up to the first that decides the kind, and those after it by that kind.

        Missing entries before it say nothing, and their features are zero.
        """
        for i, value in enumerate(entries):
            if is_missing(value):
                continue
            column = self._replace(kind=str(kind_of(value)))
            if weight[i] > 0.0:
                try:
                    return column.encode(entries[i:], weight[i:], out[i:])
                except BadRow as bad:
                    raise BadRow(i + bad.row, bad.reason) from None
            column.encode(entries[i : i + 1], weight[i : i + 1], out[i : i + 1])
        return self

    def _encode_categories(self, entries: Any, weight: np.ndarray, out: np.ndarray) -> "Column":
        places = {category: k for k, category in enumerate(self.categories)}
        n_unlisted = self.n_unlisted
        for i, value in enumerate(entries):
            place = places.get(value) if type(value) is str else None  # nearly always enough
            if place is None:
                category = as_category(value)
                place = places.get(category)
            if place is not None:
                out[i, place] = 1.0
            elif len(places) < self.n_own:  # where it will be once it has been learned
                out[i, len(places)] = 1.0
                if weight[i] > 0.0:
                    places[category] = len(places)
            else:
                for place in _shared_places(category, self.n_shared):
                    out[i, self.n_own + place] = 1.0
                n_unlisted += weight[i] > 0.0
        return self._replace(categories=tuple(places), n_unlisted=int(n_unlisted))

    def _converted(self, entries: Any) -> tuple[np.ndarray, dict[int, str]]:
        """Return entries as numbers or moments, and what is wrong with those that are neither."""
        is_number = self.kind == "number"
        if isinstance(entries, np.ndarray) and entries.dtype.kind in ("biuf" if is_number else "M"):
            try:
                return (entries.astype(float) if is_number else as_moments(entries)), {}
            except OverflowError:
                entries = list(entries)
        elif is_number and set(map(type, entries)) <= _PLAIN:
            try:
                found = np.array(entries, dtype=float)
                if not any("_" in value for value in entries if type(value) is str):
                    return found, {}
            except (TypeError, ValueError, OverflowError):
                pass
        found = np.empty(len(entries), dtype=float if is_number else "datetime64[us]")
        nothing, convert = (np.nan, as_number) if is_number else (np.datetime64("NaT"), as_moment)
        problems = {}
        for i, value in enumerate(entries):
            try:
                found[i] = nothing if is_missing(value) else convert(value)
            except (TypeError, ValueError, OverflowError) as error:
                found[i] = nothing
                problems[i] = self._problem(value, error)
        return found, problems

    def _problem(self, value: Any, error: Exception) -> str:
        if isinstance(error, OverflowError) and self.kind == "date":
            return f"{self.name} is {shortened(value)}: {error}"
        return (
            f"{self.name} is {shortened(value)}, which is not a {self.kind}: leave this row out, "
            "or learn the column as categories (docs/tables.md)"
        )


class Columns(NamedTuple):
    """What the columns of tables become. It is never changed, but replaced."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, table: Table) -> "Columns":
        """Return what the columns of the first table become."""
        return cls(tuple(map(Column.of, table.names, table.columns)))

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> "Columns":
        """Return columns that are all numbers."""
        return cls(tuple(Column(name, "number") for name in names))

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    @property
    def width(self) -> int:
        """Return how many features they become."""
        return sum(column.width for column in self.columns)

    def markable(self) -> list[int]:
        """Return a feature of every number and date, to tell that it is missing."""
        starts = np.cumsum([0, *(column.width for column in self.columns)]).tolist()
        return [start for start, column in zip(starts, self.columns, strict=False)
                if column.kind in ("number", "date")]  # fmt: skip

    def including(self, table: Table, weight: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the columns after these rows, and the rows as numbers.

        A row is encoded by the rows before it: a prediction sees the same as learning does.
        """
        X, start, after = np.zeros((table.n_rows, self.width)), 0, []
        for column, values in zip(self.columns, table.columns, strict=True):
            out = X[:, start : start + column.width]
            after.append(column.encode(values.entries, weight, out))
            start += column.width
        return self._replace(columns=tuple(after)), X

    def encoded(self, table: Table) -> np.ndarray:
        """Return rows as numbers, for a prediction."""
        return self.including(table, np.zeros(table.n_rows))[1]

    def problems(self, table: Table, may_miss: bool = True) -> dict[int, str]:
        """Return what is wrong with rows, by row: entries of another kind, infinity, gaps."""
        found: dict[int, str] = {}
        for column, values in zip(self.columns, table.columns, strict=True):
            for i, problem in column.problems(values.entries, may_miss).items():
                found.setdefault(i, problem)
        return found

    def missing(self, X: np.ndarray) -> tuple[int, str] | None:
        """Return the first row in which something is missing, and the name of that column."""
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        if not rows.size:
            return None
        feature, start = int(np.flatnonzero(np.isnan(X[rows[0]]))[0]), 0
        for column in self.columns:
            start += column.width
            if feature < start:
                return int(rows[0]), column.name
        raise AssertionError("no column has this feature")

    def kinds(self) -> dict[str, str]:
        """Return what every column holds."""
        return {column.name: column.kind for column in self.columns}

    def n_unlisted(self) -> dict[str, int]:
        """Return how many rows had a category without a feature of its own, by column."""
        return {
            column.name: column.n_unlisted for column in self.columns if column.kind == "category"
        }

    def to_json(self) -> list[dict[str, Any]]:
        """Return what a file keeps of the columns."""
        return [column._asdict() for column in self.columns]

    @classmethod
    def from_json(cls, record: list[dict[str, Any]]) -> "Columns":
        """Return the columns that `to_json` described, checked."""
        columns = tuple(_column_from_json(entry) for entry in record)
        if not columns or len({column.name for column in columns}) < len(columns):
            raise ValueError(f"the columns make no sense: {record!r}")
        return cls(columns)


def numbers_in_order(X: Any, names: Sequence[str] | None) -> Any:
    """Return rows as an array of numbers, with named columns in the order of `names`.

    Rows without names, such as an array, are returned as they are.

    Parameters
    ----------
    X : data frame, list of dictionaries, or array-like
    names : list of str or None
        The columns that the model learned from. None: it has no names yet, and the columns keep
        their order.

    Raises
    ------
    ValueError
        If X has other columns.
    BadRow
        If an entry is no number.

    Examples
    --------
    >>> from kernelstream.tables import numbers_in_order
    >>> numbers_in_order([{"v": 2.0, "u": 1.0}], ["u", "v"]).tolist()
    [[1.0, 2.0]]
    """
    table = as_table(X, names) if has_columns(X) else None
    return X if table is None else Columns.of_numbers(table.names).encoded(table)


def warn_of_text(table: Table, columns: Columns) -> None:
    """Say once which columns of text are taken for numbers or dates."""
    found: dict[str, list[str]] = {}
    for column, values in zip(columns.columns, table.columns, strict=True):
        first = next(iter(values.entries), None) if values.kind is None else None
        if isinstance(first, str) and column.kind in ("number", "date"):
            found.setdefault(column.kind, []).append(column.name)
    if found:
        taken = "; ".join(f"{', '.join(names)} for {kind}s" for kind, names in found.items())
        warnings.warn(
            f"columns of text are taken for what their first row holds: {taken}. If one holds "
            f"categories, {_DECLARE}.",
            stacklevel=2,
        )


def _column_from_json(record: dict[str, Any]) -> Column:
    column = Column(**{**record, "categories": tuple(record["categories"])})
    one_of("kind", column.kind, list(KINDS))
    for name in ("n_own", "n_shared", "n_unlisted"):
        integer_at_least(name, getattr(column, name), 0)
    least = _DATE_WIDTH if column.n_own + column.n_shared and column.kind == "date" else 1
    sound = (
        isinstance(column.name, str)
        and all(isinstance(category, str) for category in column.categories)
        and len(set(column.categories)) == len(column.categories) <= column.n_own
        and (column.kind not in ("category", "undecided") or column.n_shared > 0)
        and column.width >= least
    )
    if not sound:
        raise ValueError(f"the column {record!r} makes no sense")
    return column


def _shared_places(category: str, n_shared: int) -> set[int]:
    """Return two different places of a category, so that few others have both of them."""
    code = zlib.crc32(category.encode())
    first = code % n_shared
    return {first, (first + 1 + code // n_shared % max(n_shared - 1, 1)) % n_shared}


def _write_dates(moments: np.ndarray, out: np.ndarray) -> None:
    days = (moments - np.datetime64("2000-01-01", "us")) / np.timedelta64(1, "D")
    out[:, 0] = days / _YEAR
    for k, cycle in enumerate(_CYCLES):
        angle = 2.0 * math.pi * (days % cycle) / cycle
        out[:, 1 + 2 * k], out[:, 2 + 2 * k] = np.sin(angle), np.cos(angle)
