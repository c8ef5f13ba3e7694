"""Encodes records as numbers, by the columns that estimators know of tables."""

from typing import Any, Self

import numpy as np
from scipy import sparse

from kernelstream.estimators.columns import Column, Columns, is_date, is_missing
from kernelstream.files.bytes import check_version
from kernelstream.learner.rows import BadRow
from kernelstream.tables.sources import Block
from kernelstream.tables.values import as_float

__all__ = ["TableEncoder"]

_MOST_CATEGORIES = 64  # of a column, to get a feature each
_N_HASHED = 32  # features of a column that has more
_SHARE = 0.9  # of the entries of a column that are numbers, or dates, if it is one of these


class TableEncoder:
    """Encodes blocks of records as rows of numbers, always in the same way.

    It is made from the first block of a stream. A column holds numbers or dates if nine in ten of
    its entries are such, and categories otherwise. A category of the first block has a feature of
    its own, and all others share one, unless there are more than 64: then each sets two of 32
    features, by a hash. Nothing is scaled: models do that, by the rows that came before. Sparse
    rows are not changed.

    Parameters
    ----------
    columns : Columns or None
        None: rows are sparse.
    skips_missing : bool
        Whether a record without one of its numbers or dates is bad. Otherwise that is NaN.

    Examples
    --------
    >>> from kernelstream.tables import Block, TableEncoder
    >>> rows = [["1.5", "red"], ["2.0", "blue"]]
    >>> block = Block(["width", "colour"], rows, None, ["line 1", "line 2"], {})
    >>> encoder = TableEncoder.from_block(block)
    >>> X, problems = encoder.encode(block)
    >>> len(X), problems
    (2, {})
    """

    version = 1  # of what a file keeps of it

    def __init__(self, columns: Columns | None, skips_missing: bool):
        self.columns = columns
        self.skips_missing = skips_missing

    @classmethod
    def from_block(
        cls, block: Block, hashed: bool = False, skips_missing: bool = False
    ) -> "TableEncoder":
        """Make an encoder from the first block."""
        if sparse.issparse(block.rows):
            return cls(None, skips_missing)
        columns = tuple(_column(name, values, hashed) for name, values in block.by_column())
        return cls(Columns(columns), skips_missing)

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse."""
        return self.columns is None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [] if self.columns is None else self.columns.names

    def unlisted(self) -> dict[str, int]:
        """By column, how many rows had a category without a feature of its own, if any."""
        counts = {} if self.columns is None else self.columns.n_unlisted()
        return {name: count for name, count in counts.items() if count}

    def encode(self, block: Block) -> tuple[Any, dict[int, str]]:
        """The rows as numbers, and the problems of the records that could not be encoded.

        Categories without a feature of their own are counted.
        """
        problems = dict(block.broken)
        block = block.as_made_with(self.names, self.is_sparse)
        if self.columns is None:
            return block.rows, problems
        X, start, after = np.zeros((len(block.rows), self.columns.width)), 0, []
        entries = [[row[k] for row in block.rows] for k in range(len(self.columns.columns))]
        for column, values in zip(self.columns.columns, entries, strict=True):
            if column.kind != "category":
                self._find_problems(column, values, problems)
        weight = np.ones(len(block.rows))
        weight[[*problems]] = 0.0
        for column, values in zip(self.columns.columns, entries, strict=True):
            after.append(column.encode(values, weight, X[:, start : start + column.width]))
            start += column.width
        self.columns = Columns(tuple(after))
        return X, problems

    def _find_problems(self, column: Column, values: list[Any], problems: dict[int, str]) -> None:
        """Note entries that are no numbers or dates, and put None in their places."""
        if self.skips_missing:
            for i, value in enumerate(values):
                if is_missing(value):
                    problems.setdefault(i, f"{column.name} is missing")
        while True:
            try:
                column.encode(values, np.ones(len(values)), np.empty((len(values), column.width)))
            except BadRow as bad:
                problems.setdefault(bad.row, bad.reason)
                values[bad.row] = None
            else:
                return

    def to_json(self) -> dict[str, Any]:
        """The encoder as plain data."""
        columns = None if self.columns is None else self.columns.to_json()
        return {"version": self.version, "columns": columns, "skips_missing": self.skips_missing}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """The encoder that `to_json` described."""
        check_version("the encoder of tables", record["version"], cls.version)
        columns = record["columns"]
        columns = None if columns is None else Columns.from_json(columns)
        return cls(columns, bool(record["skips_missing"]))


def _column(name: str, values: list[Any], hashed: bool) -> Column:
    known = [value for value in values if not is_missing(value)]
    if np.isfinite([as_float(value) for value in known]).sum() >= _SHARE * len(known):
        return Column(name, "number")
    if sum(map(is_date, known)) >= _SHARE * len(known):
        return Column(name, "date")
    categories = tuple(sorted({str(value) for value in known}))
    if hashed or len(categories) > _MOST_CATEGORIES:
        return Column(name, "category", 0, _N_HASHED)
    return Column(name, "category", len(categories), 1, categories)
