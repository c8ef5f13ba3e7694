"""Blocks of a source as tables: with the kinds that the first rows declare, or as numbers."""

from typing import Any, Self

import numpy as np
from scipy import sparse

from kernelstream.files.bytes import check_version
from kernelstream.tables.columns import Columns
from kernelstream.tables.frames import Table, Values
from kernelstream.tables.sources import Block
from kernelstream.tables.values import as_category, is_missing, kind_of

__all__ = ["TableEncoder", "declared", "sound_rows"]

_MOST_CATEGORIES = 64  # of a column, to get a feature each
_N_HASHED = 32  # features of a column whose categories are hashed
_SHARE = 0.9  # of the entries of a column that are numbers, or dates, if it is one of these


def declared(block: Block, hashed: bool = False) -> dict[str, Values]:
    """Return the kinds that the first rows of a source declare, by column.

    A column holds numbers or dates if nine in ten of its entries are such, and categories
    otherwise. Up to 64 categories get a feature each, and one feature is for all others.

    Parameters
    ----------
    block : Block
        The first rows of a source.
    hashed : bool, default=False
        Whether all categories share 32 features, two for each by a hash.

    Examples
    --------
    >>> from kernelstream.tables import Block, declared
    >>> rows = [["1.5", "red"], ["2.0", "blue"]]
    >>> found = declared(Block(["width", "colour"], rows, None, ["line 1", "line 2"], {}))
    >>> {name: values.kind for name, values in found.items()}
    {'width': 'number', 'colour': 'category'}
    """
    if sparse.issparse(block.rows):
        return {}
    if isinstance(block.rows, np.ndarray) and block.columns:  # of numbers
        return {name: Values([], "number") for name in block.columns}
    return {name: _declared(entries, hashed) for name, entries in block.by_column()}


def sound_rows(block: Block, rows: Any, kinds: dict[str, Values] | None = None) -> Any:
    """Return some rows of a block as a table, or as sparse rows.

    Parameters
    ----------
    block : Block
    rows : sequence of int
    kinds : dict, default=None
        What `declared` gave, for the first rows that a model sees.

    Examples
    --------
    >>> from kernelstream.tables import Block, sound_rows
    >>> block = Block(["width"], [["1.5"], ["oops"]], None, ["line 1", "line 2"], {})
    >>> len(sound_rows(block, [0]))
    1
    """
    if sparse.issparse(block.rows):
        return block.rows[np.asarray(rows, dtype=int)]
    if isinstance(block.rows, np.ndarray):
        found = block.rows[np.asarray(rows, dtype=int)]
        columns = [Values(found[:, k], "number") for k in range(found.shape[1])]
    else:
        kept = [block.rows[i] for i in rows]
        columns = [Values([row[k] for row in kept]) for k in range(len(block.columns))]
        if kinds is not None:
            columns = [
                kinds[name]._replace(entries=values.entries)
                for name, values in zip(block.columns, columns, strict=True)
            ]
    return Table(list(block.columns), columns, len(rows))


def _declared(entries: list[Any], hashed: bool) -> Values:
    known = [value for value in entries if not is_missing(value)]
    kinds = [kind_of(value) for value in known]
    for kind in ("number", "date"):
        if kinds.count(kind) >= _SHARE * len(kinds):
            return Values([], kind)
    if hashed:
        return Values([], "category", n_own=0, n_shared=_N_HASHED)
    categories = tuple(sorted(set(map(as_category, known))))
    told = categories if len(categories) <= _MOST_CATEGORIES else None
    return Values([], "category", told)


class TableEncoder:
    """Encodes blocks of a source as rows of numbers, for models that take nothing else.

    Keyed fleets need it; other models encode tables themselves, by the same `Columns`.

    Parameters
    ----------
    columns : Columns or None
        None: rows are sparse.
    skips_missing : bool, default=True
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

    def __init__(self, columns: Columns | None, skips_missing: bool = True):
        self.columns, self.skips_missing = columns, skips_missing

    @classmethod
    def from_block(
        cls, block: Block, hashed: bool = False, skips_missing: bool = True
    ) -> "TableEncoder":
        """Return an encoder made from the first block."""
        if sparse.issparse(block.rows):
            return cls(None, skips_missing)
        columns = Columns.of(sound_rows(block, [], declared(block, hashed)))
        return cls(columns, skips_missing)

    @property
    def is_sparse(self) -> bool:
        """Return whether rows are sparse."""
        return self.columns is None

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [] if self.columns is None else self.columns.names

    @property
    def unlisted_(self) -> dict[str, int]:
        """Return how many rows had a category without a feature of its own, by column."""
        return {} if self.columns is None else self.columns.n_unlisted()

    def encode(self, block: Block) -> tuple[Any, dict[int, str]]:
        """Return the rows as numbers, and the problems of the records that could not be encoded.

        Their rows are zero. Categories without a feature of their own are counted.
        """
        problems = dict(block.broken)
        block = block.as_made_with(self.names, self.is_sparse)
        if self.columns is None:
            return block.rows, problems
        table = sound_rows(block, range(len(block.rows)))
        problems = self.columns.problems(table, may_miss=not self.skips_missing) | problems
        sound = np.array([i for i in range(table.n_rows) if i not in problems], dtype=int)
        X = np.zeros((table.n_rows, self.columns.width))
        self.columns, X[sound] = self.columns.including(table[sound], np.ones(len(sound)))
        return X, problems

    def to_json(self) -> dict[str, Any]:
        """Return the encoder as plain data."""
        columns = None if self.columns is None else self.columns.to_json()
        return {"version": self.version, "columns": columns, "skips_missing": self.skips_missing}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Return the encoder that `to_json` described."""
        check_version("the encoder of tables", record["version"], cls.version)
        columns = record["columns"]
        columns = None if columns is None else Columns.from_json(columns)
        return cls(columns, bool(record["skips_missing"]))
