"""The write-ahead log: blocks of rows that are on the disk before they are acknowledged.

A segment is a file of records. A record is the length of its content, and the content in the format
of `files.bytes`, which has a checksum. A record holds a block of rows as it is learned: a replay
learns the same blocks and gives the same model, bit for bit. A new segment begins at every
checkpoint, with the ids of the last rows. So a checkpoint and the segments from its position on are
all that a restart needs.
"""

import os
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.files.bytes import FileError, check_version, from_bytes, to_bytes
from kernelstream.serve.blocks import Block

__all__ = ["Log", "RecentIds", "RecordFile", "records", "sync_folder"]

_NAME = re.compile(r"log-(\d{20})\.ksl")
_LENGTH = struct.Struct("<Q")
_VERSION = 1  # of the records


class RecentIds:
    """The ids of the last rows that had one, as 64-bit hashes.

    A new id has the hash of one of 100,000 others with a probability of 5e-15.

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
        self._in_order: deque[int] = deque()  # oldest first

    def __contains__(self, row_id: str) -> bool:
        return _hash(row_id) in self._known

    def add(self, ids: Iterable[str | None]) -> None:
        """Remember ids, and forget the oldest beyond the limit."""
        self._add(_hash(row_id) for row_id in ids if row_id is not None)

    def _add(self, hashes: Iterable[int]) -> None:
        for each in hashes:
            if each not in self._known:
                self._known.add(each)
                self._in_order.append(each)
            if len(self._in_order) > self._most:
                self._known.remove(self._in_order.popleft())

    def to_array(self) -> np.ndarray:
        """Return the hashes, oldest first."""
        return np.fromiter(self._in_order, np.int64, len(self._in_order))

    def fill(self, hashes: np.ndarray) -> None:
        """Remember only what `to_array` returned."""
        self._known.clear()
        self._in_order.clear()
        self._add(hashes.tolist())


def _hash(row_id: str) -> int:
    return int.from_bytes(blake2b(row_id.encode(), digest_size=8).digest(), "little", signed=True)


class RecordFile:
    """A file of records. A record is on the disk when `append` returns.

    Parameters
    ----------
    path : Path
    is_new : bool, default=False
        Whether the file begins empty; otherwise it must exist, and records go to its end.
    """

    def __init__(self, path: Path, is_new: bool = False):
        self.path = path
        self._file: Any = path.open("wb" if is_new else "rb+", buffering=0)
        self._end = self._file.seek(0, os.SEEK_END)
        self._is_torn = False  # whether a part of a record lies behind the end

    def append(self, content: bytes) -> None:
        """Write a record as a whole; after an error none of it stays in the file."""
        if self._is_torn:
            self._cut()
        record, n_written = _LENGTH.pack(len(content)) + content, 0
        try:
            while n_written < len(record):
                n_written += self._file.write(record[n_written:])
            os.fsync(self._file.fileno())
        except OSError:  # such as a full disk
            self._is_torn = True
            with suppress(OSError):  # then the next record begins with it
                self._cut()
            raise
        self._end += len(record)

    def _cut(self) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)
        self._is_torn = False

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Log:
    """The segments of a folder. Records go to the last one.

    Parameters
    ----------
    folder : Path
        The caller must hold its lock (`files.locks`).
    recent_ids : RecentIds
        Filled while the log is read, and written at the beginning of every segment.
    """

    def __init__(self, folder: Path, recent_ids: RecentIds):
        self._folder = folder
        self._recent_ids = recent_ids
        self._segment: RecordFile | None = None

    def replay(self, position: int) -> Iterator[Block]:
        """Yield the blocks from a position on; a crash may have cut off the last one.

        Parameters
        ----------
        position : int
            How many rows the checkpoint has.
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
                        f"{path} continues at row {block.position:,}, but the model has "
                        f"{position:,} rows: the segment or the checkpoint between them is "
                        "missing. Put it back, or move the folder away to begin again."
                    )
                yield block
                position += len(block.X)

    def open(self, position: int) -> None:
        """Write to the last segment from now on, or to a first one."""
        for path in self._folder.glob("log-*.new"):  # which a crash left
            with suppress(OSError):
                path.unlink()
        segments = self._segments()
        if segments:
            self._segment = RecordFile(segments[-1][1])
        else:
            self.begin_segment(position)

    def append(self, block: Block) -> None:
        """Write a block; it is on the disk when this returns."""
        self._append(block.to_bytes())

    def append_ids(self) -> None:
        """Write the recent ids once more, which changes nothing but shows that the disk works."""
        self._append(self._ids_record())

    def _append(self, content: bytes) -> None:
        assert self._segment is not None, "the log is not open"
        self._segment.append(content)

    def _ids_record(self) -> bytes:
        return to_bytes({"version": _VERSION}, {"hashes": self._recent_ids.to_array()})

    def begin_segment(self, position: int, oldest_needed: int = 0) -> None:
        """Begin a segment at a checkpoint that was read back, and delete segments before it.

        Parameters
        ----------
        position : int
            How many rows the checkpoint has.
        oldest_needed : int, default=0
            The position of the oldest checkpoint that is kept.
        """
        path = self._folder / f"log-{position:020d}.ksl"
        if self._segment is None or self._segment.path != path:
            segment = self._new_segment(path)
            self.close()
            self._segment = segment
        for (_, old), (end, _) in pairwise(self._segments()):
            if end <= oldest_needed:
                old.unlink(missing_ok=True)

    def _new_segment(self, path: Path) -> RecordFile:
        """Make a segment whole, under another name first; after an error no part of it stays.

        A segment that stayed would be taken for the last one, and blocks would still go to the one
        before it.
        """
        temporary = path.with_suffix(".new")
        try:
            segment = RecordFile(temporary, is_new=True)
            try:
                segment.append(self._ids_record())
            finally:
                segment.close()
            temporary.replace(path)
            sync_folder(self._folder)
            return RecordFile(path)
        except OSError as error:
            try:
                for each in (temporary, path):
                    each.unlink(missing_ok=True)
            except OSError:
                raise RuntimeError(
                    f"{path} could not be written ({error}), and cannot be deleted either: check "
                    "the disk and restart the service."
                ) from None
            raise

    def close(self) -> None:
        """Close the segment."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _segments(self) -> list[tuple[int, Path]]:
        found = [(_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)


def records(path: Path, may_be_cut: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the records of a file, and cut off a record that a crash left unfinished at its end.

    Only the last record can be unfinished: each is on the disk before the next one is written.
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
