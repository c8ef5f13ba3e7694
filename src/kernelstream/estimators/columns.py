"""Tables as rows of numbers, in a way that does not depend on how the stream is cut into blocks.

What a column becomes is decided by its type, before any value is looked at. A number is one
feature. A date is seven: the years since 2000, and where it is in the day, the week and the year,
as sine and cosine. A column of categories has a fixed number of features: the first categories take
one each, in the order in which they come, and those that come later share the rest, two of them
each, by a hash. So the width of a row is known from the first row on.
"""

import datetime
import math
import numbers
import warnings
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least, one_of

__all__ = ["Column", "Columns", "Table", "as_table", "is_date", "is_missing"]

KINDS = ("number", "date", "category")
_OWN, _SHARED = 10, 6  # features of a column whose categories come with the stream
_MOST_TOLD = 64  # categories that a type may tell, to get one feature each
_MISSING_TEXTS = {"", "na", "nan", "nat", "null", "none", "?", "<na>"}
_YEAR = 365.2425  # days
_CYCLES = (1.0, 7.0, _YEAR)  # days
_DATE_WIDTH = 1 + 2 * len(_CYCLES)


class Values(NamedTuple):
    """One column of a table."""

    kind: str
    entries: Any  # an array of floats or of datetime64, or a list of anything
    told: tuple[str, ...] | None = None  # the categories that its type tells


class Table(NamedTuple):
    """Rows as columns with names."""

    names: list[str]
    columns: list[Values]
    n_rows: int


# --- reading tables -------------------------------------------------------------------------------


def as_table(X: Any, names: Sequence[str] | None = None) -> Table | None:
    """A data frame, or rows that are dictionaries, as a table; None for anything else.

    `names` are the columns that are wanted, where they are known. Then an array is a table too,
    and a dictionary need not have all of them.
    """
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        found = [str(name) for name in X.columns]
        if len(set(found)) < len(found):
            raise ValueError(f"X has two columns of the same name: {found!r}.")
        order = range(len(found)) if names is None else _order(found, names)
        get = X.iloc.__getitem__ if hasattr(X, "iloc") else None
        columns = [_of_series(X.to_series(k) if get is None else get((slice(None), k)))
                   for k in order]  # fmt: skip
        return Table([found[k] for k in order], columns, len(X))
    if isinstance(X, list) and X and isinstance(X[0], dict):
        return _of_records(X, names)
    if names is None:
        return None
    block = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    if block.ndim != 2 or block.shape[1] != len(names):
        raise ValueError(
            f"X has the shape {block.shape}, but this model learned from tables with the columns "
            f"{', '.join(names)}: give a data frame, dictionaries, or rows of these entries."
        )
    return Table(list(names), [_of_entries(column) for column in block.T], len(block))


def _order(found: list[str], names: Sequence[str]) -> list[int]:
    absent = [name for name in names if name not in found]
    unknown = [name for name in found if name not in set(names)]
    if absent or unknown:
        what = f"it has no column {absent[0]!r}" if absent else f"its column {unknown[0]!r} is new"
        raise ValueError(
            f"X has other columns than those that this model learned from: {what}. Give a table "
            f"with the columns {', '.join(names)}."
        )
    return [found.index(name) for name in names]


def _of_records(rows: list[dict[Any, Any]], names: Sequence[str] | None) -> Table:
    wanted = [str(name) for name in rows[0]] if names is None else list(names)
    known = set(wanted)
    for i, row in enumerate(rows):
        unknown = [name for name in row if str(name) not in known]
        if unknown:
            raise BadRow(i, f"the column {unknown[0]!r} is not one of {', '.join(wanted)}")
    by_name = [{str(name): value for name, value in row.items()} for row in rows]
    columns = [_of_entries([row.get(name) for row in by_name]) for name in wanted]
    return Table(wanted, columns, len(rows))


def _of_entries(entries: Any) -> Values:
    """A column without a type: that of its first entry counts."""
    if isinstance(entries, np.ndarray) and entries.dtype.kind in "biuf":
        return Values("number", entries.astype(float))
    if isinstance(entries, np.ndarray) and entries.dtype.kind == "M":
        return Values("date", entries)
    entries = list(entries)
    first = entries[0] if entries else None
    if isinstance(first, datetime.date | np.datetime64):  # a datetime is a date
        return Values("date", entries)
    is_number = isinstance(first, numbers.Number | np.bool_)
    return Values("number" if is_number else "category", entries)


def _of_series(series: Any) -> Values:
    if hasattr(series, "iloc"):
        return _of_pandas(series)
    dtype = series.dtype
    if dtype.is_numeric() or str(dtype) == "Boolean":
        return Values("number", series.cast(float).to_numpy())
    if str(dtype) == "Date" or str(dtype).startswith("Datetime"):
        zoned = getattr(dtype, "time_zone", None) is not None
        return Values("date", (series.dt.replace_time_zone(None) if zoned else series).to_numpy())
    if str(dtype).startswith("Duration"):
        return Values("number", series.dt.total_microseconds().cast(float).to_numpy() / 1e6)
    if str(dtype).startswith("Enum"):
        return Values("category", series.to_list(), _told(dtype.categories))
    return Values("category", series.cast(str).to_list())


def _of_pandas(series: Any) -> Values:
    dtype, kind = series.dtype, getattr(series.dtype, "kind", "O")
    told = getattr(dtype, "categories", None)
    if told is not None:
        return Values("category", series.tolist(), _told(told))
    if kind in "biuf":
        return Values("number", series.to_numpy(dtype=float, na_value=np.nan))
    if kind == "M":
        zoned = getattr(dtype, "tz", None) is not None  # the time that the clocks there show
        return Values("date", (series.dt.tz_localize(None) if zoned else series).to_numpy())
    if kind == "m":
        return Values("number", series.dt.total_seconds().to_numpy(dtype=float))
    return _of_entries(series.tolist())


def _told(categories: Iterable[Any]) -> tuple[str, ...] | None:
    names = tuple(str(name) for name in categories)
    return names if 0 < len(names) <= _MOST_TOLD else None


def is_missing(value: Any) -> bool:
    """Whether an entry says that there is nothing."""
    if isinstance(value, str):
        return value.strip().lower() in _MISSING_TEXTS
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN and NaT
    except TypeError:  # pandas' NA
        return True


def is_date(value: Any) -> bool:
    """Whether an entry is a date, or the text of one as ISO 8601 writes it."""
    try:
        return bool(_moment(value) is not None)
    except (TypeError, ValueError):
        return False


# --- encoding -------------------------------------------------------------------------------------


class Column(NamedTuple):
    """What a column of tables becomes. It is never changed, but replaced."""

    name: str
    kind: str
    n_own: int = 0  # how many categories have a feature of their own
    n_shared: int = 0  # features for all the others
    categories: tuple[str, ...] = ()  # those that have one so far
    n_unlisted: int = 0  # rows whose category had none

    @property
    def width(self) -> int:
        """How many features it becomes."""
        if self.kind == "category":
            return self.n_own + self.n_shared
        return 1 if self.kind == "number" else _DATE_WIDTH

    @classmethod
    def of(cls, name: str, values: Values) -> "Column":
        """What a column of the first table becomes."""
        if values.kind != "category":
            return cls(name, values.kind)
        if values.told is not None:
            return cls(name, "category", len(values.told), 1, values.told)
        return cls(name, "category", _OWN, _SHARED)

    def encode(self, entries: Any, weight: np.ndarray, out: np.ndarray) -> "Column":
        """Write the features of entries into `out`, NaN where a number or a date is missing.

        Answers the column after these rows, of which those with weight count.
        """
        if self.kind == "category":
            return self._encode_categories(entries, weight, out)
        if self.kind == "number":
            out[:, 0] = self._converted(entries, np.dtype(float))
        else:
            _write_dates(self._converted(entries, np.dtype("datetime64[us]")), out)
        return self

    def _encode_categories(self, entries: Any, weight: np.ndarray, out: np.ndarray) -> "Column":
        places = {category: k for k, category in enumerate(self.categories)}
        n_unlisted = self.n_unlisted
        for i, value in enumerate(entries):
            place = places.get(value) if type(value) is str else None  # nearly always enough
            if place is None:
                category = "" if is_missing(value) else str(value)
                place = places.get(category)
            if place is not None:
                out[i, place] = 1.0
            elif len(places) < self.n_own:  # where it will be once it has been learned
                if list(places) == [""] and not isinstance(value, str):  # so far all were missing
                    _warn_of_guess(self.name, value)
                out[i, len(places)] = 1.0
                if weight[i] > 0.0:
                    places[category] = len(places)
            else:
                for place in _shared_places(category, self.n_shared):
                    out[i, self.n_own + place] = 1.0
                n_unlisted += weight[i] > 0.0
        return self._replace(categories=tuple(places), n_unlisted=int(n_unlisted))

    def _converted(self, entries: Any, dtype: np.dtype) -> np.ndarray:
        """Entries as numbers or moments; a `BadRow` where one is neither that nor missing."""
        if isinstance(entries, np.ndarray) and entries.dtype.kind == dtype.kind:
            return entries.astype(dtype)
        convert = float if dtype.kind == "f" else _moment
        nothing = np.nan if dtype.kind == "f" else np.datetime64("NaT")
        found = np.empty(len(entries), dtype=dtype)
        for i, value in enumerate(entries):
            try:
                found[i] = nothing if is_missing(value) else convert(value)
            except (TypeError, ValueError, OverflowError):
                raise BadRow(
                    i, f"{self.name} is {_shown(value)}, which is not a {self.kind}"
                ) from None
        return found


class Columns(NamedTuple):
    """What the columns of tables become. It is never changed, but replaced."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, table: Table) -> "Columns":
        """What the columns of the first table become."""
        return cls(tuple(map(Column.of, table.names, table.columns)))

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def width(self) -> int:
        """How many features they become."""
        return sum(column.width for column in self.columns)

    def markable(self) -> list[int]:
        """A feature of every number and date, to tell that it is missing."""
        starts = np.cumsum([0, *(column.width for column in self.columns)]).tolist()
        return [start for start, column in zip(starts, self.columns, strict=False)
                if column.kind != "category"]  # fmt: skip

    def including(self, table: Table, weight: np.ndarray) -> tuple[Self, np.ndarray]:
        """The columns after these rows, and the rows as numbers.

        A row is what it is by the rows before it: a prediction sees the same as learning does.
        """
        X, start, after = np.zeros((table.n_rows, self.width)), 0, []
        for column, values in zip(self.columns, table.columns, strict=True):
            out = X[:, start : start + column.width]
            after.append(column.encode(values.entries, weight, out))
            start += column.width
        return self._replace(columns=tuple(after)), X

    def encoded(self, table: Table) -> np.ndarray:
        """Rows as numbers, for a prediction."""
        return self.including(table, np.zeros(table.n_rows))[1]

    def missing(self, X: np.ndarray) -> tuple[int, str] | None:
        """The first row in which something is missing, and the name of that column."""
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        if not rows.size:
            return None
        feature, start = int(np.flatnonzero(np.isnan(X[rows[0]]))[0]), 0
        for column in self.columns:
            start += column.width
            if feature < start:
                return int(rows[0]), column.name
        raise AssertionError("no column has this feature")

    def n_unlisted(self) -> dict[str, int]:
        """For every column of categories, how many rows had one without a feature of its own."""
        return {
            column.name: column.n_unlisted for column in self.columns if column.kind == "category"
        }

    def to_json(self) -> list[dict[str, Any]]:
        """What a file keeps of the columns."""
        return [column._asdict() for column in self.columns]

    @classmethod
    def from_json(cls, record: list[dict[str, Any]]) -> "Columns":
        """The columns that `to_json` described, checked."""
        columns = tuple(_column_from_json(entry) for entry in record)
        if not columns or len({column.name for column in columns}) < len(columns):
            raise ValueError(f"the columns make no sense: {record!r}")
        return cls(columns)


def _column_from_json(record: dict[str, Any]) -> Column:
    column = Column(**{**record, "categories": tuple(record["categories"])})
    one_of("kind", column.kind, list(KINDS))
    for name in ("n_own", "n_shared", "n_unlisted"):
        integer_at_least(name, getattr(column, name), 0)
    sound = (
        isinstance(column.name, str)
        and all(isinstance(category, str) for category in column.categories)
        and len(set(column.categories)) == len(column.categories) <= column.n_own
        and (column.kind != "category" or column.n_shared > 0)
    )
    if not sound:
        raise ValueError(f"the column {record!r} makes no sense")
    return column


def _warn_of_guess(name: str, value: Any) -> None:
    """Warn that numbers, say, are taken for categories."""
    warnings.warn(
        f"the column {name!r} was missing in the first row, and is therefore taken for categories, "
        f"but now it is {_shown(value)}: begin with a row that has it, or with a table of pandas "
        "or polars, whose columns have types.",
        stacklevel=2,
    )


def _shared_places(category: str, n_shared: int) -> set[int]:
    """Two different places of a category, so that few others have both of them."""
    code = zlib.crc32(category.encode())
    first = code % n_shared
    return {first, (first + 1 + code // n_shared % max(n_shared - 1, 1)) % n_shared}


def _moment(value: Any) -> np.datetime64:
    if isinstance(value, datetime.datetime):  # and pandas' Timestamp
        value = value.replace(tzinfo=None)  # the time that the clocks there show
    elif isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.strip()).replace(tzinfo=None)
    elif not isinstance(value, datetime.date | np.datetime64):
        raise TypeError(f"{value!r} is no date")
    return np.datetime64(value, "us")


def _write_dates(moments: np.ndarray, out: np.ndarray) -> None:
    days = (moments - np.datetime64("2000-01-01", "us")) / np.timedelta64(1, "D")
    out[:, 0] = days / _YEAR
    for k, cycle in enumerate(_CYCLES):
        angle = 2.0 * math.pi * (days % cycle) / cycle
        out[:, 1 + 2 * k], out[:, 2 + 2 * k] = np.sin(angle), np.cos(angle)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"
