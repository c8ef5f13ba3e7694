"""Blocks of records, as sources yield them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.tables.text import SourceError

__all__ = ["BLOCK_CHARACTERS", "Block", "same_names"]

BLOCK_CHARACTERS = 2**25  # of the text of a block: it ends earlier if its rows are long


@dataclass
class Block:
    """Consecutive records of a source, as lists of fields, or as an array of numbers.

    Attributes
    ----------
    columns : list of str
        Names of the features.
    rows : list of lists, ndarray or sparse matrix
    target : list or None
    places : list of str
        Where each record is, for messages.
    broken : dict
        Problems of unreadable records, by their index in the block.
    """

    columns: list[str]
    rows: Any
    target: list[Any] | None
    places: list[str]
    broken: dict[int, str]

    def without(self, problems: dict[int, str]) -> np.ndarray:
        """Return the indices of the records that have no problem."""
        return np.array([i for i in range(len(self.places)) if i not in problems], dtype=int)

    def by_column(self) -> list[tuple[str, list[Any]]]:
        """Return every column's name, and what the records that can be read have in it.

        It is an error where there is no column, or no such record.
        """
        if not self.columns:
            raise SourceError("there is no column besides the target, to predict it from.")
        sound = self.without(self.broken).tolist()
        if not sound:
            first = min(self.broken)
            raise SourceError(
                f"none of the first {len(self.rows):,} records can be read; "
                f"{self.places[first]}: {self.broken[first]}."
            )
        return [(name, [self.rows[i][k] for i in sound]) for k, name in enumerate(self.columns)]

    def as_made_with(self, names: list[str], is_sparse: bool) -> "Block":
        """Return records with the columns of the model, in its order.

        Columns are found by their names. It is an error where they are others.
        """
        if is_sparse != sparse.issparse(self.rows):
            made_with, found = ("LIBSVM text", "a table of columns")[:: 1 if is_sparse else -1]
            raise SourceError(f"the source is {found}; the model was made with {made_with}.")
        if self.columns == names:
            return self
        if not same_names(self.columns, names):
            raise SourceError(
                f"the columns are {', '.join(self.columns)}; the model was made with "
                f"{', '.join(names)}."
            )
        order = [self.columns.index(name) for name in names]
        is_array = isinstance(self.rows, np.ndarray)
        rows = self.rows[:, order] if is_array else [[row[k] for k in order] for row in self.rows]
        return Block(names, rows, self.target, self.places, self.broken)

    def since(self, first: int) -> "Block":
        """Return the records from index `first` on."""
        broken = {i - first: problem for i, problem in self.broken.items() if i >= first}
        target = None if self.target is None else self.target[first:]
        return Block(self.columns, self.rows[first:], target, self.places[first:], broken)


def same_names(columns: list[str], names: list[str]) -> bool:
    """Return whether columns have the same names, in any order, and no two of them the same one."""
    return columns == names or (
        len(set(columns)) == len(columns) and sorted(columns) == sorted(names)
    )
