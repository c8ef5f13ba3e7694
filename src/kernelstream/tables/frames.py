"""Rows with column names, in any container, as one kind of table."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelstream.learner.rows import BadRow
from kernelstream.tables.values import as_category, as_seconds, kind_of

__all__ = ["Table", "Values", "as_record", "as_table", "has_columns", "names_of"]

OWN, SHARED = 10, 6  # features of a column whose categories come with the stream
_MOST_TOLD = 64  # categories that a type may list, to get one feature each
_MOST_EXACT = 2**53  # integers up to here are exact as floats


class Values(NamedTuple):
    """The entries of one column."""

    entries: Any  # an array of numbers or of datetime64, or a list of anything
    kind: str | None = None  # what its type declares; None: its values decide
    told: tuple[str, ...] | None = None  # the categories that its type lists
    n_own: int = OWN  # categories with a feature of their own, where no type lists them
    n_shared: int = SHARED

    def decided(self) -> str | None:
        """Return the kind of the column by its type, or else by its first entry."""
        return self.kind or kind_of(next(iter(self.entries), None))

    def take(self, rows: Any) -> "Values":
        """Return some rows of the column."""
        entries = self.entries
        if isinstance(entries, np.ndarray) or isinstance(rows, slice):
            return self._replace(entries=entries[rows])
        return self._replace(entries=[entries[i] for i in rows])


class Table:
    """Rows as columns with names.

    Parameters
    ----------
    names : list of str
    columns : list of Values
    n_rows : int
    is_named : bool, default=True
        Whether the names are those of the data, and not positions.
    """

    def __init__(
        self, names: list[str], columns: list[Values], n_rows: int, is_named: bool = True
    ):  # fmt: skip
        self.names, self.columns, self.n_rows = names, columns, n_rows
        self.is_named = is_named

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of rows and of columns."""
        return self.n_rows, len(self.names)

    def __getitem__(self, rows: Any) -> "Table":
        rows = rows[0] if isinstance(rows, tuple) else rows
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        n_rows = len(range(self.n_rows)[rows]) if isinstance(rows, slice) else len(rows)
        columns = [values.take(rows) for values in self.columns]
        return Table(self.names, columns, n_rows, self.is_named)

    def kinds(self) -> list[str | None]:
        """Return the kind of every column; None where nothing decides yet."""
        return [values.decided() for values in self.columns]

    def ordered(self, names: Sequence[str]) -> "Table":
        """Return the table with its columns in the order of `names`, which must be the same."""
        if self.names == list(names):
            return self
        order = _order(self.names, names)
        return Table(list(names), [self.columns[k] for k in order], self.n_rows)


def has_columns(X: Any) -> bool:
    """Return whether X is a data frame, a `Table` or a list of dictionaries."""
    if isinstance(X, list):
        return bool(X) and as_record(X[0]) is not None
    return isinstance(X, Table) or hasattr(X, "columns")


def names_of(X: Any) -> list[str] | None:
    """Return the column names of rows, or None if these have none.

    Parameters
    ----------
    X : data frame, list of dictionaries, dictionary, pandas.Series, or an array

    Examples
    --------
    >>> from kernelstream.tables import names_of
    >>> names_of([{"u": 1.0, "v": 2.0}]), names_of([[1.0, 2.0]])
    (['u', 'v'], None)
    """
    record = as_record(X)
    if record is not None:
        return [str(name) for name in record]
    if isinstance(X, Table):
        return X.names if X.is_named else None
    if isinstance(X, list):
        return names_of(X[0]) if X else None
    frame = _frame(X) if hasattr(X, "columns") else None
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return list(frame.columns)


def as_record(x: Any) -> dict[str, Any] | None:
    """Return one row by column name: of a dictionary, or of a pandas.Series with names."""
    if isinstance(x, Mapping):
        return dict(x)
    index = getattr(x, "index", None)
    if index is None or not hasattr(x, "to_dict") or hasattr(x, "columns"):
        return None
    named = len(index) > 0 and all(isinstance(name, str) for name in index)
    return x.to_dict() if named else None


def as_table(
    X: Any, names: Sequence[str] | None = None, problems: dict[int, str] | None = None
) -> Table | None:
    """Return a data frame, a list of dictionaries or a `Table` as a `Table`, or None.

    `names` are the columns that are wanted, where they are known. Then an array is a table too,
    and a dictionary need not have all of them. What is wrong with dictionaries is raised, or
    written into `problems`, by row.
    """
    if isinstance(X, Table):
        return X if names is None else X.ordered(names)
    if isinstance(X, list) and X and as_record(X[0]) is not None:
        return _of_records(X, names, problems)
    if hasattr(X, "columns"):
        table = _of_frame(X)
        if table is not None:
            return table if names is None else table.ordered(names)
    if names is None:
        return None
    block = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    if block.ndim != 2 or block.shape[1] != len(names):
        raise ValueError(
            f"X has the shape {block.shape}, but this model learned from tables with the columns "
            f"{', '.join(names)}: give a data frame, dictionaries, or rows of these entries."
        )
    return Table(list(names), [_of_array(column) for column in block.T], len(block))


def _order(found: list[str], names: Sequence[str]) -> list[int]:
    absent = [name for name in names if name not in found]
    unknown = [name for name in found if name not in set(names)]
    if absent or unknown or len(found) != len(names):
        what = f"it has no column {absent[0]!r}" if absent else f"its column {unknown[0]!r} is new"
        raise ValueError(
            f"X has other columns than those that this model learned from: {what}. Give a table "
            f"with the columns {', '.join(names)}."
        )
    place = {name: k for k, name in enumerate(found)}
    return [place[name] for name in names]


def _of_records(
    rows: list[Any], names: Sequence[str] | None, problems: dict[int, str] | None
) -> Table:
    first = as_record(rows[0])
    assert first is not None
    wanted = [str(name) for name in first] if names is None else list(names)
    known, by_name = set(wanted), []
    for i, row in enumerate(rows):
        record = as_record(row)
        problem = _problem(record, known, wanted)
        if problem is not None and problems is None:
            raise BadRow(i, problem)
        if problem is not None or record is None:
            assert problems is not None
            problems[i], record = str(problem), {}
        by_name.append({str(name): value for name, value in record.items()})
    columns = [Values([row.get(name) for row in by_name]) for name in wanted]
    return Table(wanted, columns, len(rows))


def _problem(record: dict[str, Any] | None, known: set[str], wanted: list[str]) -> str | None:
    if record is None:
        return f"it has no column names: give {', '.join(wanted)} by name"
    unknown = [name for name in record if str(name) not in known]
    return f"the column {unknown[0]!r} is not one of {', '.join(wanted)}" if unknown else None


def _of_array(entries: np.ndarray) -> Values:
    """Return a column of an array, by the type of the array."""
    if entries.dtype.kind in "biuf":
        return Values(entries, "number")
    if entries.dtype.kind == "M":
        return Values(entries, "date")
    if entries.dtype.kind == "m":
        return Values(as_seconds(entries), "number")
    return Values(list(entries))


def _frame(X: Any) -> Any:
    """Return a data frame of pandas, polars, pyarrow, ... as narwhals reads it, or None."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError:
        raise ValueError(
            f"X has two columns of the same name: {[str(name) for name in X.columns]!r}."
        ) from None
    except TypeError:
        raise TypeError(
            f"X is a {type(X).__name__}, whose rows are not in memory: give X.collect(), or its "
            "rows in blocks."
        ) from None
    return frame if isinstance(frame, nw.DataFrame) else None


def _of_frame(X: Any) -> Table | None:
    frame = _frame(X)
    if frame is None:
        return None
    given = frame.columns
    names = [str(name) for name in given]
    if len(set(names)) < len(names):
        raise ValueError(f"X has two columns of the same name: {names!r}.")
    lists_categories = frame.implementation.is_pandas_like()
    columns = [_of_series(frame[:, k], lists_categories, names[k]) for k in range(len(names))]
    return Table(names, columns, len(frame), all(isinstance(name, str) for name in given))


def _of_series(series: Any, lists_categories: bool, name: str) -> Values:
    """Return a column of a data frame, by its type."""
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if isinstance(dtype, nw.Categorical | nw.Enum):
        told: Any = ()  # polars and pyarrow list no more than the categories of these rows
        if isinstance(dtype, nw.Enum):
            told = dtype.categories
        elif lists_categories:
            told = series.cat.get_categories().to_list()
        named = tuple(dict.fromkeys(map(as_category, told)))
        is_told = 0 < len(named) <= _MOST_TOLD
        return Values(series.to_list(), "category", named if is_told else None)
    if dtype.is_float():
        return Values(series.to_numpy(), "number")
    if dtype.is_integer():
        if series.null_count() == 0:
            return Values(series.to_numpy(), "number")
        numbers = series.to_numpy()
        largest = np.nanmax(np.abs(numbers), initial=0.0) if numbers.dtype.kind == "f" else np.inf
        return Values(numbers if largest < _MOST_EXACT else series.to_list(), "number")
    if isinstance(dtype, nw.Boolean | nw.Decimal):
        entries = series.to_numpy()
        return Values(entries if entries.dtype.kind == "b" else series.to_list(), "number")
    if isinstance(dtype, nw.Datetime | nw.Date):
        zoned = getattr(dtype, "time_zone", None) is not None
        series = series.dt.replace_time_zone(None) if zoned else series  # the local time counts
        return Values(series.to_numpy(), "date")
    if isinstance(dtype, nw.Duration):
        return Values(as_seconds(series.to_numpy()), "number")
    if dtype.is_nested() or isinstance(dtype, nw.Binary):
        raise TypeError(
            f"the column {name!r} is of type {dtype}: give columns of numbers, truth values, text, "
            "categories, dates or durations."
        )
    entries = series.to_list()  # in which a NaN does not mean a column of numbers
    return Values([None if isinstance(value, float) and value != value else value
                   for value in entries])  # fmt: skip
