"""A folder that one writer holds at a time."""

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path

__all__ = ["FolderLock"]

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderLock:
    """A lock on a folder, held by the operating system: a crash of any kind releases it.

    It belongs to a file in that folder. The file's being there means nothing, only its lock does.
    """

    def __init__(self, folder: Path, name: str):
        self._path = folder / name
        self._handle: int | None = None
        self._process = 0

    def acquire(self, refusal: str) -> None:
        """Hold the lock from now on; a `BlockingIOError` says `refusal` where somebody else does.

        A child of a process that holds it does not: the lock is its parent's.
        """
        if self._handle is not None and self._process == os.getpid():
            return
        self._forget()
        while self._handle is None:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(handle)
            except (BlockingIOError, PermissionError):
                os.close(handle)
                raise BlockingIOError(refusal) from None
            except OSError as error:
                warnings.warn(
                    f"{self._path.parent} cannot be locked ({error}): nothing keeps a second "
                    "process from writing there.",
                    stacklevel=4,
                )
            if self._is_ours(handle):
                self._handle, self._process = handle, os.getpid()
            else:  # whoever had it took the file away in between
                os.close(handle)

    def release(self) -> None:
        """Let others have it."""
        if self._handle is not None and self._process == os.getpid():
            if sys.platform == "win32":  # where an open file cannot be taken away
                self._forget()
            with suppress(OSError):  # a file without a lock means nothing
                self._path.unlink(missing_ok=True)
        self._forget()

    def _is_ours(self, handle: int) -> bool:
        """Return whether the open file is still the one in the folder."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _forget(self) -> None:
        # Closing is enough. In a child it leaves the parent's lock alone, as unlocking would not.
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_handle": None}  # a copy holds nothing

    def __del__(self) -> None:
        self.release()
