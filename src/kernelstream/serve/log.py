"""The write-ahead log: blocks of rows that are on the disk before anybody is told so.

A segment is a file of records, each the length of its bytes and the bytes of `files.bytes`, which
have a checksum. A record is a block of rows as it is learned, so that what is replayed is learned
in the same blocks and gives the same model, bit for bit. A new segment begins at every checkpoint,
with the ids of the last rows, so that a checkpoint and the segments from its position on are all
that is needed to go on.
"""

import os
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream.files.bytes import FileError, check_version, from_bytes, to_bytes
from kernelstream.fleet.keys import with_tuples

__all__ = [
    "Block", "Log", "RecentIds", "as_rows", "joined", "records", "sync_folder", "write_record"
]  # fmt: skip

_NAME = re.compile(r"log-(\d{20})\.ksl")
_LENGTH = struct.Struct("<Q")
_VERSION = 1  # of the records


class Block(NamedTuple):
    """Rows that are learned together.

    Attributes
    ----------
    X : ndarray
        Rows of numbers; or, of shape (n_rows,), dictionaries by column name.
    targets : list or None
    ids : list or None
        None, as a whole or for a row: it has no id.
    position : int
        How many rows came before it.
    keys : list or None
        Of the rows, for a fleet.
    """

    X: np.ndarray
    targets: list[Any] | None = None
    ids: list[str | None] | None = None
    position: int = 0
    keys: list[Any] | None = None

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None where rows go by column names."""
        return None if self.X.ndim == 1 else self.X.shape[1]

    def to_bytes(self) -> bytes:
        """The block as a record."""
        header = {"position": self.position, "targets": self.targets, "ids": self.ids}
        if self.keys is not None:
            header["keys"] = self.keys
        if self.width is None:
            return to_bytes({**header, "rows": self.X.tolist()}, {})
        return to_bytes(header, {"X": self.X})

    @classmethod
    def from_record(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Block":
        """The block of a record."""
        X = as_rows(header["rows"]) if "rows" in header else arrays["X"]
        keys = header.get("keys")
        keys = None if keys is None else [with_tuples(key) for key in keys]
        return cls(X, header["targets"], header["ids"], header["position"], keys)

    def take(self, rows: list[int]) -> "Block":
        """Some of the rows, in this order."""
        if rows == list(range(len(self.X))):
            return self

        def taken(values: list[Any] | None) -> list[Any] | None:
            return None if values is None else [values[i] for i in rows]

        return Block(
            self.X[rows], taken(self.targets), taken(self.ids), self.position, taken(self.keys)
        )

    def slice(self, start: int, stop: int) -> "Block":
        """The rows between two positions."""
        return self.take(list(range(start, min(stop, len(self.X)))))


def joined(blocks: list[Block], position: int) -> Block:
    """Several blocks as one. All have targets, or none; and so with keys."""
    if len(blocks) == 1:
        return blocks[0]._replace(position=position)

    def chained(name: str) -> list[Any] | None:
        lists = [getattr(block, name) for block in blocks]
        return None if lists[0] is None else [value for values in lists for value in values]

    ids = [i for block in blocks for i in (block.ids or [None] * len(block.X))]
    X = np.concatenate([block.X for block in blocks])
    return Block(X, chained("targets"), ids, position, chained("keys"))


def as_rows(rows: list[Any]) -> np.ndarray:
    """Dictionaries as an array of objects, which can be cut and joined as rows of numbers are."""
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found


class RecentIds:
    """The ids of the last rows that had one, as 64-bit hashes.

    Among 100,000 of them a new id meets the hash of another with a probability of 5e-15.

    Examples
    --------
    >>> from kernelstream.serve.log import RecentIds
    >>> ids = RecentIds(2)
    >>> ids.add(["a", "b", None, "c"])
    >>> ["a" in ids, "b" in ids, "c" in ids]
    [False, True, True]
    """

    def __init__(self, most: int):
        self._most = most
        self._known: set[int] = set()
        self._in_order: deque[int] = deque()  # as they came

    def __contains__(self, row_id: str) -> bool:
        return _hash(row_id) in self._known

    def add(self, ids: Iterable[str | None]) -> None:
        """Remember these, and forget the oldest beyond the limit."""
        self._add(_hash(row_id) for row_id in ids if row_id is not None)

    def _add(self, hashes: Iterable[int]) -> None:
        for each in hashes:
            if each not in self._known:
                self._known.add(each)
                self._in_order.append(each)
            if len(self._in_order) > self._most:
                self._known.remove(self._in_order.popleft())

    def to_array(self) -> np.ndarray:
        """The hashes, oldest first."""
        return np.fromiter(self._in_order, np.int64, len(self._in_order))

    def fill(self, hashes: np.ndarray) -> None:
        """Remember what `to_array` gave, and nothing else."""
        self._known.clear()
        self._in_order.clear()
        self._add(hashes.tolist())


def _hash(row_id: str) -> int:
    return int.from_bytes(blake2b(row_id.encode(), digest_size=8).digest(), "little", signed=True)


class Log:
    """The segments of a folder, of which the last one is written to.

    Parameters
    ----------
    folder : Path
        Whoever makes a log must hold the folder (`files.locks`).
    recent_ids : RecentIds
        Filled while the log is read, and written at the beginning of every segment.
    """

    def __init__(self, folder: Path, recent_ids: RecentIds):
        self._folder = folder
        self._recent_ids = recent_ids
        self._file: Any = None

    def replay(self, position: int) -> Iterator[Block]:
        """The blocks from a position on; the end of the last one may have been cut off by a crash.

        Parameters
        ----------
        position : int
            Where the checkpoint stands.
        """
        segments = self._segments()
        last = len(segments) - 1
        for i, (_, path) in enumerate(segments):
            for header, arrays in records(path, may_be_cut=i == last):
                if "hashes" in arrays:
                    check_version(f"the log {path}", header.get("version"), _VERSION)
                    self._recent_ids.fill(arrays["hashes"])
                    continue
                block = Block.from_record(header, arrays)
                self._recent_ids.add(block.ids or [])
                if block.position < position:
                    continue
                if block.position > position:
                    raise FileError(
                        f"{path} goes on at row {block.position:,}, and the model stands at row "
                        f"{position:,}: the segment or the checkpoint between them is gone. Put it "
                        "back, or move the folder away to begin again."
                    )
                yield block
                position += len(block.X)

    def open(self, position: int) -> None:
        """Write to the last segment from now on, or to a first one."""
        segments = self._segments()
        if not segments:
            self.begin_segment(position)
        else:
            self._file = segments[-1][1].open("ab", buffering=0)

    def append(self, block: Block) -> None:
        """Write a block, and return when it is on the disk."""
        write_record(self._file, block.to_bytes())

    def begin_segment(self, position: int, oldest_needed: int = 0) -> None:
        """Begin a segment at a checkpoint, and delete those that no checkpoint needs."""
        path = self._folder / f"log-{position:020d}.ksl"
        new = path.open("wb", buffering=0)
        try:
            write_record(
                new, to_bytes({"version": _VERSION}, {"hashes": self._recent_ids.to_array()})
            )
            sync_folder(self._folder)
        except OSError:  # the present segment goes on
            new.close()
            raise
        self.close()
        self._file = new
        for (_, old), (end, _) in pairwise(self._segments()):
            if end <= oldest_needed:
                old.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the segment."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _segments(self) -> list[tuple[int, Path]]:
        found = [(_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)


def write_record(file: Any, content: bytes) -> None:
    """Write a record at the end of a file without a buffer, and return when it is on the disk."""
    record, n_written = _LENGTH.pack(len(content)) + content, 0
    try:
        while n_written < len(record):
            n_written += file.write(record[n_written:])
        os.fsync(file.fileno())
    except OSError:  # a full disk, say: what was written in part must not stay in the way
        end = file.tell() - n_written
        file.truncate(end)
        file.seek(end)
        raise


def records(path: Path, may_be_cut: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The records of a segment. What a crash left unfinished at its end is cut off.

    Only the last record can be unfinished, since each is on the disk before the next is written.
    """
    size, start = path.stat().st_size, 0
    with path.open("rb+" if may_be_cut else "rb") as file:
        while start < size:
            prefix = file.read(_LENGTH.size)
            length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else size
            is_last = start + _LENGTH.size + length >= size
            try:
                content = file.read(min(length, size))
                record = from_bytes(content)
            except FileError as error:
                if may_be_cut and is_last:
                    file.truncate(start)
                    return
                raise FileError(
                    f"{path} is damaged at byte {start:,} ({error}): restore it from a copy, or "
                    "move the folder away to begin again from the model's file."
                ) from None
            yield record
            start += _LENGTH.size + length


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
