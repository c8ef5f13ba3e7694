"""Rows that wait for delayed labels, on the disk, so that they outlive the process.

A file of records beside the log has the rows that came and the ids of rows that left. A row is on
the disk before its prediction is sent. If a crash comes after the log has a row with its target,
and before this file has the row's id, the log tells so at the next start.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from kernelstream.delayed_labels import PendingRows
from kernelstream.files.bytes import check_version, to_bytes
from kernelstream.serve.blocks import Block
from kernelstream.serve.log import RecordFile, records, sync_folder

__all__ = ["DurablePendingRows"]

_NAME = "waiting.ksl"
_VERSION = 1  # of the records
_ROWS_OF_A_RECORD = 10_000  # bounds the memory that writing takes


def _ignore(_: OSError) -> None:
    """Do nothing about a failed write that loses nothing."""


class DurablePendingRows:
    """`PendingRows` in a folder. Any thread may call any method.

    Parameters
    ----------
    folder : Path
        The caller must hold its lock (`files.locks`).
    max_rows : int
        How many rows may wait; beyond that the oldest rows are dropped.
    note_failure : callable, default=None
        Called with the error of a write that failed and loses nothing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from kernelstream.serve.blocks import Block
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = DurablePendingRows(folder, 10)
    >>> rows.add(Block(np.array([[1.0], [2.0]]), ids=["a", "b"]))
    >>> rows.close()
    >>> rows = DurablePendingRows(folder, 10)  # in another process
    >>> waiting, block = rows.found(["c", "b"])
    >>> waiting, block.X
    ([1], array([[2.]]))
    >>> rows.close()
    """

    def __init__(
        self, folder: Path, max_rows: int, note_failure: Callable[[OSError], None] = _ignore
    ):  # fmt: skip
        self._path = folder / _NAME
        self._note_failure = note_failure
        self._lock = threading.Lock()
        self._rows = PendingRows(max_rows)
        self._n_written = 0  # rows in the file
        if self._path.exists():
            for header, arrays in records(self._path, may_be_cut=True):
                if "version" in header:
                    check_version(f"the file {self._path}", header["version"], _VERSION)
                elif "gone" in header:
                    self._rows.remove(header["gone"])
                else:
                    self._take_in(Block.from_record(header, arrays))
        self._file: RecordFile | None = None
        try:
            self._rewrite()
        except OSError as error:  # a full disk: the file that is there goes on
            if not self._path.exists():
                raise
            self._file = RecordFile(self._path)
            self._note_failure(error)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row_id: str) -> bool:
        return row_id in self._rows

    @property
    def ids(self) -> list[str]:
        """Return the ids of the rows that wait, oldest first."""
        return self._rows.ids

    def add(self, block: Block) -> None:
        """Keep rows under their ids; they are on the disk when this returns.

        Parameters
        ----------
        block : Block
            Without targets; all rows have ids.
        """
        with self._lock:
            self._append(block.to_bytes())
            self._take_in(block)
            if self._n_written > 2 * self._rows.max_rows:
                try:
                    self._rewrite()
                except OSError as error:  # a full disk: the file goes on as it is
                    self._note_failure(error)

    def _append(self, content: bytes) -> None:
        assert self._file is not None, "the file is closed"
        self._file.append(content)

    def _take_in(self, block: Block) -> None:
        self._rows.add(block.ids or [], block.X, block.keys)
        self._n_written += len(block.X)

    def found(self, ids: list[str]) -> tuple[list[int], Block | None]:
        """Return which of these ids belong to rows that wait, and these rows, which stay."""
        with self._lock:
            waiting = [i for i, row_id in enumerate(ids) if row_id in self._rows]
            return waiting, self._block_of([ids[i] for i in waiting]) if waiting else None

    def _block_of(self, ids: list[str]) -> Block:
        keys = self._rows.keys_of(ids)
        has_keys = any(key is not None for key in keys)
        return Block(self._rows.rows_of(ids), None, list(ids), 0, keys if has_keys else None)

    def remove(self, ids: Iterable[str | None]) -> None:
        """Remove rows, as far as they wait."""
        with self._lock:
            gone = [row_id for row_id in ids if row_id is not None and row_id in self._rows]
            if gone:
                self._rows.remove(gone)
                try:
                    self._append(to_bytes({"gone": gone}, {}))
                except OSError as error:  # a full disk: the log knows these ids
                    self._note_failure(error)

    def _rewrite(self) -> None:
        """Begin the file again with the rows that still wait; after an error it is as before."""
        temporary, ids = self._path.with_suffix(".new"), self._rows.ids
        try:
            new = RecordFile(temporary, is_new=True)
            try:
                new.append(to_bytes({"version": _VERSION}, {}))
                for start in range(0, len(ids), _ROWS_OF_A_RECORD):
                    block = self._block_of(ids[start : start + _ROWS_OF_A_RECORD])
                    new.append(block.to_bytes())
            finally:
                new.close()
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self.close()
        try:
            temporary.replace(self._path)
            sync_folder(self._path.parent)
            self._n_written = len(ids)
        finally:
            self._file = RecordFile(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
