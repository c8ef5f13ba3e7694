"""Blocks of rows as a service queues, logs and learns them."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.files.bytes import to_bytes
from kernelstream.fleet.keys import with_tuples

__all__ = ["Block", "as_rows", "joined"]


class Block(NamedTuple):
    """Rows that are learned together, with their targets, ids and keys.

    Attributes
    ----------
    X : ndarray
        Rows of numbers; or, of shape (n_rows,), dictionaries by column name.
    targets : list or None
    ids : list or None
        None, for the block or for a row, if there is no id.
    position : int
        How many rows came before the block.
    keys : list or None
        The key of each row, for a fleet.
    """

    X: np.ndarray
    targets: list[Any] | None = None
    ids: list[str | None] | None = None
    position: int = 0
    keys: list[Any] | None = None

    @property
    def width(self) -> int | None:
        """Return how many numbers a row has; None if rows are dictionaries."""
        return None if self.X.ndim == 1 else self.X.shape[1]

    def to_bytes(self) -> bytes:
        """Return the block as a record."""
        header = {"position": self.position, "targets": self.targets, "ids": self.ids}
        if self.keys is not None:
            header["keys"] = self.keys
        if self.width is None:
            return to_bytes({**header, "rows": self.X.tolist()}, {})
        return to_bytes(header, {"X": self.X})

    @classmethod
    def from_record(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Block":
        """Return the block of a record."""
        X = as_rows(header["rows"]) if "rows" in header else arrays["X"]
        keys = header.get("keys")
        keys = None if keys is None else [with_tuples(key) for key in keys]
        return cls(X, header["targets"], header["ids"], header["position"], keys)

    def take(self, rows: list[int]) -> "Block":
        """Return some of the rows, in this order."""
        if rows == list(range(len(self.X))):
            return self

        def taken(values: list[Any] | None) -> list[Any] | None:
            return None if values is None else [values[i] for i in rows]

        return Block(
            self.X[rows], taken(self.targets), taken(self.ids), self.position, taken(self.keys)
        )

    def slice(self, start: int, stop: int) -> "Block":
        """Return the rows from `start` to `stop`."""
        return self.take(list(range(start, min(stop, len(self.X)))))


def joined(blocks: list[Block], position: int) -> Block:
    """Join blocks. Either all of them have targets, or none; the same holds for keys."""
    if len(blocks) == 1:
        return blocks[0]._replace(position=position)

    def chained(name: str) -> list[Any] | None:
        lists = [getattr(block, name) for block in blocks]
        return None if lists[0] is None else [value for values in lists for value in values]

    ids = [i for block in blocks for i in (block.ids or [None] * len(block.X))]
    X = np.concatenate([block.X for block in blocks])
    return Block(X, chained("targets"), ids, position, chained("keys"))


def as_rows(rows: list[Any]) -> np.ndarray:
    """Return dictionaries as an array of objects, which is cut and joined like rows of numbers."""
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found
