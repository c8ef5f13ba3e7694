"""How records become numbers."""

import math
import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.tables.sources import Block, SourceError

__all__ = ["Encoder", "as_float"]

_MISSING = {"", "na", "nan", "null", "none", "?"}


@dataclass
class Column:
    """One column of the source: a number, or a category."""

    name: str
    mean: float = 0.0
    deviation: float = 1.0
    categories: list[str] | None = None  # None: a number
    n_hashed: int = 0  # where categories are hashed: into how many features


@dataclass
class Encoder:
    """Turns blocks of records into rows of numbers, always the same way.

    Made from the first block of a stream: a column is a number where nine in ten of its entries
    are, and a category otherwise. Numbers are centred and scaled by what the first block shows. A
    category becomes one of the features that its column has: one for every value that the first
    block shows and one for all others, or, hashed, one of a fixed number.

    Sparse rows are left as they are.
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
        """An encoder from the first block."""
        if sparse.issparse(block.rows):
            return cls([], block.rows.shape[1], True, fill_missing)
        sound = [i for i in range(len(block.rows)) if i not in block.broken]
        if not sound:
            raise SourceError("none of the first records can be read.")
        columns = []
        for k, name in enumerate(block.columns):
            values = [block.rows[i][k] for i in sound]
            known = [value for value in values if not _is_missing(value)]
            numbers = [value for value in map(_number, known) if value is not None]
            if len(numbers) >= 0.9 * len(known):
                column = Column(name)
                if scale and numbers:
                    column.mean = float(np.mean(numbers))
                    column.deviation = float(np.std(numbers)) or 1.0
            else:
                found = [] if hashed else sorted({str(value) for value in known})
                column = Column(name, categories=found, n_hashed=n_hashed if hashed else 0)
            columns.append(column)
        return cls(columns, sum(map(_width, columns)), False, fill_missing)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Encoder":
        """The encoder that `to_json` described."""
        return cls(**{**record, "columns": [Column(**column) for column in record["columns"]]})

    def encode(self, block: Block) -> tuple[Any, dict[int, str]]:
        """Rows of numbers, and what is wrong with the records that could not be encoded."""
        problems = dict(block.broken)
        if self.is_sparse:
            return block.rows, problems
        if block.columns != [column.name for column in self.columns]:
            expected = ", ".join(column.name for column in self.columns)
            raise SourceError(
                f"the columns are {', '.join(block.columns)}; the model was made with {expected}."
            )
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
        try:
            numbers = np.array(values, dtype=float)  # at once, where every entry is a number
        except (TypeError, ValueError):
            numbers = np.array([as_float(value) for value in values])
        for i in np.flatnonzero(~np.isfinite(numbers)).tolist():
            if not (self.fill_missing and _is_missing(values[i])):
                problems.setdefault(i, f"{column.name} is {values[i]!r}, which is not a number")
            numbers[i] = column.mean
        return (numbers - column.mean) / column.deviation


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(value: Any) -> float | None:
    number = as_float(value)
    return number if math.isfinite(number) else None


def as_float(value: Any) -> float:
    """A number, or NaN where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _width(column: Column) -> int:
    if column.categories is None:
        return 1
    return column.n_hashed or len(column.categories) + 1


def _category(value: Any, column: Column, places: dict[str, int]) -> int:
    text = "" if value is None else str(value)
    if column.n_hashed:
        return zlib.crc32(text.encode()) % column.n_hashed
    return places.get(text, len(places))
