"""The rows of a request, encoded as the model learns them."""

from typing import Any

import numpy as np

from kernelstream.serve.blocks import as_rows
from kernelstream.serve.limits import Limits
from kernelstream.serve.problems import Problem
from kernelstream.tables import Block, TableEncoder, shortened

__all__ = ["RowReader", "encoder_of"]


class RowReader:
    """Encodes rows, which are lists or objects, in the same way as the model learned them.

    Parameters
    ----------
    columns : list of str or None
        The names of the model's features, if it knows them.
    encoder : TableEncoder or None
        How a fleet that `kernelstream run --key` made encodes columns.
    limits : Limits
    takes_tables : bool, default=False
        Whether the model itself encodes rows, which it takes as dictionaries by column name.
    """

    def __init__(
        self, columns: list[str] | None, encoder: TableEncoder | None, limits: Limits,
        takes_tables: bool = False,
    ):  # fmt: skip
        self._takes_tables = takes_tables
        self._encoder = encoder
        self.columns = columns if encoder is None else encoder.names
        self._limits = limits

    @classmethod
    def of_model(cls, model: Any) -> "RowReader":
        """Return the reader for a `ServedModel`."""
        encoder = encoder_of(model.extra)
        return cls(model.served.columns, encoder, model.limits, model.served.takes_tables)

    def read(
        self, rows: list[Any], n_features: int | None, all_numbers: bool
    ) -> tuple[np.ndarray, dict[int, str]]:
        """Return the rows as numbers, and why rows cannot be encoded, by row (these are zero).

        A missing number (null) becomes NaN; the model decides whether it can learn such a row.

        Parameters
        ----------
        rows : list of lists or dicts
        n_features : int or None
            How many numbers a row must have, if that is known.
        all_numbers : bool
            Whether it is known that all rows are lists of numbers.
        """
        problems: dict[int, str] = {}
        if self._takes_tables:
            return self._as_dictionaries(rows, problems), problems
        if self._encoder is None and all_numbers:
            fast = _as_array(rows, n_features)
            if fast is not None:
                self._check_width(fast.shape[1])
                return fast, problems
        lists = self._as_lists(rows, problems)
        if self._encoder is not None:
            width = len(self._encoder.names)
            self._check_lengths(lists, width, problems)
            sound = [row if i not in problems else [None] * width for i, row in enumerate(lists)]
            assert self.columns is not None
            block = Block(self.columns, sound, None, [""] * len(sound), problems)
            X, found = self._encoder.encode(block)
            return np.asarray(X), found | problems
        if n_features is None:
            n_features = next((len(row) for i, row in enumerate(lists) if i not in problems), 0)
        self._check_width(n_features)
        self._check_lengths(lists, n_features, problems)
        X = np.zeros((len(lists), n_features))
        for i, row in enumerate(lists):
            bad = next((entry for entry in row if not _is_number(entry)), None)
            if bad is not None:
                problems.setdefault(i, f"it contains {shortened(bad)}, which is not a number")
            if i not in problems:
                X[i] = [np.nan if entry is None else entry for entry in row]
        return X, problems

    def _as_dictionaries(self, rows: list[Any], problems: dict[int, str]) -> np.ndarray:
        """Return rows as dictionaries; a column that an object leaves out is missing."""
        columns, found = self.columns or [], []
        for i, row in enumerate(rows):
            by_name = row if isinstance(row, dict) else dict(zip(columns, row, strict=False))
            unknown = [name for name in by_name if name not in columns]
            if isinstance(row, list) and len(row) != len(columns):
                problems[i] = f"it has {len(row):,} columns, and this model has {len(columns):,}"
            elif unknown:
                problems[i] = f"the column {shortened(unknown[0])} is unknown"
            found.append(
                {} if i in problems else {name: _plain(value) for name, value in by_name.items()}
            )
        return as_rows(found)

    def _as_lists(self, rows: list[Any], problems: dict[int, str]) -> list[list[Any]]:
        """Return rows as lists in the order of the columns."""
        found = []
        for i, row in enumerate(rows):
            if isinstance(row, list):
                found.append(row)
                continue
            if self.columns is None:
                raise _without_columns(row)
            columns = self.columns or []
            missing = [name for name in columns if name not in row]
            unknown = [name for name in row if name not in columns]
            if missing:
                problems[i] = f"the column {shortened(missing[0])} is missing"
            elif unknown:
                problems[i] = f"the column {shortened(unknown[0])} is unknown"
            found.append([row.get(name) for name in columns])
        return found

    def _check_lengths(self, rows: list[list[Any]], width: int, problems: dict[int, str]) -> None:
        for i, row in enumerate(rows):
            if len(row) != width:
                problems.setdefault(
                    i, f"it has {len(row):,} features, and this model learns from {width:,}"
                )

    def _check_width(self, width: int) -> None:
        if not 0 < width <= self._limits.features:
            raise Problem(
                422, "too-many-features", "The number of features is out of range",
                f"The rows have {width:,} features, of 1 to {self._limits.features:,} that this "
                "service takes: send fewer columns, or start it with --limit features=...",
                limit=self._limits.features,
            )  # fmt: skip


def encoder_of(extra: dict[str, Any]) -> TableEncoder | None:
    """Return how columns are encoded, of the file of a fleet that `kernelstream run` made."""
    saved = extra.get("encoder")
    return None if saved is None else TableEncoder.from_json(saved)


def _as_array(rows: list[Any], n_features: int | None) -> np.ndarray | None:
    """Convert lists of numbers at once; None if one has another length."""
    try:
        X = np.array(rows, dtype=np.float64)
    except ValueError:  # of different lengths
        return None
    return X if n_features is None or X.shape[1] == n_features else None


def _without_columns(row: dict[str, Any]) -> Problem:
    return Problem(
        422, "no-columns", "The model has no column names",
        "This model learned from rows without column names: give each row as a list of numbers, or "
        "fit the model on a table with named columns.", given=sorted(row)[:20],
    )  # fmt: skip


def _plain(entry: Any) -> Any:
    """Return an entry of a table; 3.0 becomes 3, since a category has no decimals."""
    if isinstance(entry, float) and entry.is_integer():
        return int(entry)
    return None if entry != entry else entry  # NaN is missing


def _is_number(entry: Any) -> bool:
    """Return whether an entry is a number or missing."""
    return entry is None or (isinstance(entry, float | int) and not isinstance(entry, bool))
