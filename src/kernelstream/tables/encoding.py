"""Encodes records as numbers."""

import math
import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.tables.sources import Block

__all__ = ["Encoder", "as_float", "shortened"]

_MISSING = {"", "na", "nan", "null", "none", "?"}
_LARGEST = 1e100  # larger numbers are not used for scaling: their squares could overflow
_ROUNDING = 1e-12  # relative; a column that varies by less counts as constant
_ENOUGH = 20  # number of rows needed to scale a column, from the first that differs


@dataclass
class Column:
    """One column of the source, numeric or categorical."""

    name: str
    mean: float = 0.0
    deviation: float = 1.0
    categories: list[str] | None = None  # None: numeric
    n_hashed: int = 0  # the number of features if categories are hashed, else 0
    unscaled: list[float] | None = None  # values of a column that is not scaled yet: see `settle`


@dataclass
class Encoder:
    """Encodes blocks of records as rows of numbers, always in the same way.

    Runs of earlier versions were begun with it, and are resumed with it; new ones have a
    `TableEncoder`. It is made from the first block of a stream. A column is numeric if nine in ten
    of its entries are numbers, and categorical otherwise. Numeric columns are centred and scaled by
    the values of the first block; a column that is constant there counts as zero until it varies
    (`settle`). A categorical column is one-hot encoded, with one feature for every value in the
    first block and one for all other values; or its values are hashed into a fixed number of
    features.

    Sparse rows are not changed.

    Attributes
    ----------
    columns : list of Column
    n_features : int
        Of an encoded row.
    is_sparse : bool
        Whether rows come as sparse ones.
    fill_missing : bool
        Whether a missing number counts as the mean; otherwise its record is bad.
    """

    columns: list[Column]
    n_features: int
    is_sparse: bool = False
    fill_missing: bool = False

    @classmethod
    def from_block(
        cls, block: Block, scale: bool = True, hashed: bool = False, n_hashed: int = 32,
        fill_missing: bool = False,
    ) -> "Encoder":  # fmt: skip
        """Make an encoder from the first block."""
        if sparse.issparse(block.rows):
            return cls([], block.rows.shape[1], True, fill_missing)
        columns = []
        for name, values in block.by_column():
            known = [value for value in values if not _is_missing(value)]
            numbers = [value for value in map(_number, known) if value is not None]
            if len(numbers) >= 0.9 * len(known):
                column = Column(name)
                if scale:
                    measured = np.array(numbers)
                    _scale(column, measured[np.abs(measured) <= _LARGEST])
            else:
                found = [] if hashed else sorted({str(value) for value in known})
                column = Column(name, categories=found, n_hashed=n_hashed if hashed else 0)
            columns.append(column)
        return cls(columns, sum(map(_width, columns)), False, fill_missing)

    def unlisted(self) -> dict[str, int]:
        """Nothing: it does not count rows whose category has no feature of its own."""
        return {}

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def to_json(self) -> dict[str, Any]:
        """The encoder as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Encoder":
        """The encoder that `to_json` described."""
        return cls(**{**record, "columns": [Column(**column) for column in record["columns"]]})

    def settle(self, block: Block) -> None:
        """Scale columns that were constant so far, by the rows from the first that differs.

        A column needs at least twenty such rows. Call this before a block is encoded, for every
        block but the first.
        """
        block = block.as_made_with([column.name for column in self.columns], self.is_sparse)
        for k, column in enumerate(self.columns):
            if column.unscaled is not None:
                numbers = np.delete(_as_numbers([row[k] for row in block.rows]), [*block.broken])
                _wait(column, numbers[np.abs(numbers) <= _LARGEST])  # not NaN

    def encode(self, block: Block) -> tuple[Any, dict[int, str]]:
        """The rows as numbers, and the problems of the records that could not be encoded."""
        problems = dict(block.broken)
        block = block.as_made_with([column.name for column in self.columns], self.is_sparse)
        if self.is_sparse:
            return block.rows, problems
        X = np.zeros((len(block.rows), self.n_features))
        first = 0
        for k, column in enumerate(self.columns):
            values = [row[k] for row in block.rows]
            if column.categories is None:
                X[:, first] = self._numbers(values, column, problems)
            else:
                places = {value: m for m, value in enumerate(column.categories)}
                for i, value in enumerate(values):
                    X[i, first + _category(value, column, places)] = 1.0
            first += _width(column)
        return X, problems

    def _numbers(self, values: list[Any], column: Column, problems: dict[int, str]) -> Any:
        numbers = _as_numbers(values)
        for i in np.flatnonzero(~np.isfinite(numbers)).tolist():
            if not (self.fill_missing and _is_missing(values[i])):
                value = shortened(values[i])
                problems.setdefault(i, f"{column.name} is {value}, which is not a number")
            numbers[i] = column.mean
        if column.unscaled is not None:
            return np.zeros(len(numbers))
        return (numbers - column.mean) / column.deviation


def _as_numbers(values: list[Any]) -> np.ndarray:
    """Entries as floats; NaN if an entry is not a number."""
    try:
        return np.array(values, dtype=float)  # at once, where every entry is a number
    except (TypeError, ValueError):
        return np.array([as_float(value) for value in values])


def _differ(numbers: Any, other: Any) -> Any:
    """Whether numbers differ by more than rounding, relative to their size."""
    return np.abs(numbers - other) > _ROUNDING * np.maximum(np.abs(numbers), np.abs(other))


def _scale(column: Column, numbers: np.ndarray) -> None:
    """Centre and scale a column by some of its values; a constant column waits."""
    if numbers.size:
        column.mean = float(np.mean(numbers))
    if numbers.size and _differ(numbers.min(), numbers.max()):
        column.deviation, column.unscaled = float(np.std(numbers)), None
    else:
        column.unscaled = []


def _wait(column: Column, numbers: np.ndarray) -> None:
    """Add values of a column that is not scaled yet, and scale it if there are enough."""
    waited = column.unscaled or []
    if not waited:  # does it begin to vary here?
        changes = np.flatnonzero(_differ(numbers, column.mean))
        numbers = numbers[changes[0] :] if changes.size else numbers[:0]
    column.unscaled = waited + numbers.tolist()
    if len(column.unscaled) < _ENOUGH:
        return
    constant, known = column.mean, np.array(column.unscaled)
    _scale(column, known)
    if column.unscaled is not None:  # a step, from one constant to another
        column.mean, column.deviation = constant, float(abs(known[0] - constant))
        column.unscaled = None


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(value: Any) -> float | None:
    number = as_float(value)
    return number if math.isfinite(number) else None


def as_float(value: Any) -> float:
    """The value as a float, or NaN if it is not a number.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> from kernelstream.tables import as_float
    >>> as_float("2.5"), as_float("red")
    (2.5, nan)
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def shortened(value: Any) -> str:
    """A value as text for a message, shortened if it is long.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> from kernelstream.tables import shortened
    >>> shortened("red")
    "'red'"
    """
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"


def _width(column: Column) -> int:
    if column.categories is None:
        return 1
    return column.n_hashed or len(column.categories) + 1


def _category(value: Any, column: Column, places: dict[str, int]) -> int:
    text = "" if value is None else str(value)
    if column.n_hashed:
        return zlib.crc32(text.encode()) % column.n_hashed
    return places.get(text, len(places))
