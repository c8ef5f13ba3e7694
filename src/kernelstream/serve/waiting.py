"""Rows that were predicted and wait for their targets, on the disk, so that they outlive a process.

A file of records beside the log: rows that have come, and ids of rows that have gone. A row is on
the disk before its prediction is answered. Should a crash come between the log, which has a row
with its target, and the record that it has gone from here, then the log tells so at the start.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelstream.files.bytes import check_version, to_bytes
from kernelstream.serve.log import Block, records, sync_folder, write_record
from kernelstream.waiting import WaitingRoom

__all__ = ["DurableRoom"]

_NAME = "waiting.ksl"
_VERSION = 1  # of the records
_RECORD = 10_000  # rows that are written together: bounds the memory that this takes


class DurableRoom:
    """A `WaitingRoom` in a folder. Any thread may call any method.

    Parameters
    ----------
    folder : Path
        Whoever makes a room must hold the folder (`files.locks`).
    max_rows : int
        How many rows may wait; beyond that those that have waited longest are given up.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from kernelstream.serve.log import Block
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> room = DurableRoom(folder, 10)
    >>> room.admit(Block(np.array([[1.0], [2.0]]), ids=["a", "b"]))
    >>> room.close()
    >>> room = DurableRoom(folder, 10)  # in another process
    >>> places, block = room.found(["c", "b"])
    >>> places, block.X
    ([1], array([[2.]]))
    >>> room.close()
    """

    def __init__(self, folder: Path, max_rows: int):
        self._path = folder / _NAME
        self._lock = threading.Lock()
        self._room = WaitingRoom(max_rows)
        self._n_written = 0  # rows in the file
        if self._path.exists():
            for header, arrays in records(self._path, may_be_cut=True):
                if "version" in header:
                    check_version(f"the file {self._path}", header["version"], _VERSION)
                elif "gone" in header:
                    self._room.discharge(header["gone"])
                else:
                    self._take_in(Block.from_record(header, arrays))
        self._file: Any = None
        self._rewrite()

    def __len__(self) -> int:
        return len(self._room)

    def __contains__(self, row_id: str) -> bool:
        return row_id in self._room

    @property
    def ids(self) -> list[str]:
        """The ids of the rows that wait."""
        return self._room.ids

    def admit(self, block: Block) -> None:
        """Keep rows under their ids; they are on the disk when this returns.

        Parameters
        ----------
        block : Block
            Without targets; all rows have ids.
        """
        with self._lock:
            write_record(self._file, block.to_bytes())
            self._take_in(block)
            if self._n_written > 2 * self._room.max_rows:
                with suppress(OSError):  # a full disk: the file goes on as it is
                    self._rewrite()

    def _take_in(self, block: Block) -> None:
        self._room.admit(block.ids or [], block.X, block.keys)
        self._n_written += len(block.X)

    def found(self, ids: list[str]) -> tuple[list[int], Block | None]:
        """Which of these ids are those of rows that wait, and these rows, which go on waiting."""
        with self._lock:
            places = [i for i, row_id in enumerate(ids) if row_id in self._room]
            return places, self._block_of([ids[i] for i in places]) if places else None

    def _block_of(self, ids: list[str]) -> Block:
        keys = self._room.keys_of(ids)
        has_keys = any(key is not None for key in keys)
        return Block(self._room.rows_of(ids), None, list(ids), 0, keys if has_keys else None)

    def discharge(self, ids: Iterable[str | None]) -> None:
        """Let rows go, as far as they wait."""
        with self._lock:
            gone = [row_id for row_id in ids if row_id is not None and row_id in self._room]
            if gone:
                self._room.discharge(gone)
                with suppress(OSError):  # a full disk: the log knows these ids
                    write_record(self._file, to_bytes({"gone": gone}, {}))

    def _rewrite(self) -> None:
        """Begin the file again, with the rows that still wait."""
        new, ids = self._path.with_suffix(".new"), self._room.ids
        with new.open("wb", buffering=0) as file:
            write_record(file, to_bytes({"version": _VERSION}, {}))
            for start in range(0, len(ids), _RECORD):
                write_record(file, self._block_of(ids[start : start + _RECORD]).to_bytes())
        self.close()
        try:
            new.replace(self._path)
            sync_folder(self._path.parent)
            self._n_written = len(ids)
        finally:
            self._file = self._path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
