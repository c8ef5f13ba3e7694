"""Checkpoints: a model and its place in the stream, saved together. A crash then loses little."""

import os
import re
import time
import warnings
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from typing import Any

from kernelstream.files.bytes import FileError, read_header
from kernelstream.files.loading import load_with_header
from kernelstream.files.locks import FolderLock
from kernelstream.parts import integer_at_least, number

__all__ = ["Checkpointer"]

_NAME = re.compile(r"checkpoint-(\d{20,})(-\d+)?\.ks")
_LOCK = "checkpoints.lock"


class Checkpointer:
    """Save a model with its place in the stream now and then; resume where the last one stands.

    A checkpoint is one file, written beside its place, flushed to the disk and renamed, so that
    it is there whole or not at all. After a crash at any moment the newest one that is sound is
    taken up. Given the rows from its position on, in the same blocks, the model goes on bit for
    bit as if it had never stopped (same machine, same number of threads). A model is an estimator,
    a `Fleet` or a `KeyedFleet`.

    A folder has one writer at a time: from its first `save`, `clear`, or `resume` with a new model
    on, a checkpointer holds the folder until `close`, or until it is gone, as after a crash.

    Parameters
    ----------
    folder : str or path-like
        Where checkpoints are; it is made if it is not there. Only files of this class's own names
        are touched.
    every_rows : int or None, default=10_000
        Save when this many rows have come since the last time.
    every_seconds : float or None, default=None
        Save when this much time has passed since the last time.
    keep : int, default=3
        How many checkpoints are kept; older ones are deleted.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> folder = tempfile.mkdtemp()
    >>> def learn(last):
    ...     checkpoints = ks.Checkpointer(folder, every_rows=200)
    ...     model, position = checkpoints.resume(ks.KernelRegressor)
    ...     for start in range(position, last, 100):
    ...         model.partial_fit(X[start : start + 100], y[start : start + 100])
    ...         checkpoints.step(model, start + 100)
    ...     return position, model.n_seen_
    >>> learn(500)
    (0, 500)
    >>> learn(1000)  # the last checkpoint stands at row 400
    (400, 1000)
    """

    def __init__(
        self, folder: Any, every_rows: int | None = 10_000, every_seconds: float | None = None,
        keep: int = 3,
    ):  # fmt: skip
        self.folder = Path(folder)
        self.every_rows = (
            None if every_rows is None else integer_at_least("every_rows", every_rows, 1)
        )
        self.every_seconds = (
            None if every_seconds is None else number("every_seconds", every_seconds, above=0)
        )
        self.keep = integer_at_least("keep", keep, 1)
        self._last_position = 0
        self._last_time = time.monotonic()
        self._lock = FolderLock(self.folder, _LOCK)

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Let another checkpointer write into the folder. (A later `save` holds it again.)"""
        self._lock.release()

    def _hold(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire(
            f"{self.folder} is held by another checkpointer, of this process or of one that is "
            "still running: give this run a folder of its own, stop the other, or call its "
            "close(). To read only, call resume() without a new model."
        )

    def positions(self) -> list[int]:
        """Return where the checkpoints in the folder stand, in order."""
        return sorted(position for position, _ in self._files())

    def resume(
        self, new_model: Callable[[], Any] | None = None, kernel: Any = None, device: Any = None
    ) -> tuple[Any, int]:
        """Return the newest sound checkpoint's model and position, or a new model and 0.

        Parameters
        ----------
        new_model : callable, default=None
            Makes the model where there is no checkpoint. The folder is then held, as it will be
            written to. None: only to read; without a checkpoint the answer is (None, 0).
        kernel : callable, default=None
            The kernel function, for a model that was saved with one.
        device : str, `Device` or None, default=None
            Where the points of a model that was saved shall live, as in `load`.

        Returns
        -------
        model, position
        """
        model, position, _ = self.resume_with_extra(new_model, kernel, device)
        return model, position

    def resume_with_extra(
        self, new_model: Callable[[], Any] | None = None, kernel: Any = None, device: Any = None
    ) -> tuple[Any, int, Any]:
        """Resume, and return what was given to `save` as `extra`, or None."""
        if new_model is not None:
            try:
                self._hold()
            except BlockingIOError:
                raise
            except OSError:  # a folder that cannot be written can be read; `save` will say so
                pass
        for _, path in sorted(self._files(), reverse=True):
            try:
                model, header = load_with_header(path, kernel, max_bytes=None, device=device)
                position = _position(header)
            except (OSError, FileError) as error:
                warnings.warn(
                    f"the checkpoint {path} cannot be used ({error}); trying an older one.",
                    stacklevel=3,
                )
                continue
            self._last_position, self._last_time = position, time.monotonic()
            return model, position, header.get("extra")
        self._last_position, self._last_time = 0, time.monotonic()
        return (None if new_model is None else new_model()), 0, None

    def step(self, model: Any, position: int, extra: Any = None) -> bool:
        """Save if it is time to; call this after every block.

        Parameters
        ----------
        model : KernelClassifier, KernelRegressor, NoveltyDetector, Fleet or KeyedFleet
        position : int
            How many rows of the stream the model has been given.
        extra : default=None
            Anything that JSON can hold, to be kept beside the model.

        Returns
        -------
        bool
            Whether it saved.
        """
        rows = self.every_rows is not None and position - self._last_position >= self.every_rows
        waited = time.monotonic() - self._last_time
        if rows or (self.every_seconds is not None and waited >= self.every_seconds):
            self.save(model, position, extra)
            return True
        return False

    def save(self, model: Any, position: int, extra: Any = None) -> Path:
        """Save now, and delete checkpoints beyond the last `keep` once the new one can be read.

        Parameters
        ----------
        model, position, extra
            As in `step`.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        BlockingIOError
            If another checkpointer holds the folder.
        """
        position = integer_at_least("position", position, 0)
        self._hold()
        path = self._path(position)
        beside = {"position": position, "extra": extra}
        model.write_to(path, beside, lambda: self._read_back(path, model))
        self._last_position, self._last_time = position, time.monotonic()
        # A position beyond this one belongs to a run that this one has overtaken.
        files = sorted(self._files(), reverse=True)
        earlier = [file for at, file in files if at <= position]
        for old in [file for at, file in files if at > position] + earlier[self.keep :]:
            old.unlink(missing_ok=True)
        for name in os.listdir(self.folder):  # what a crash left in the middle of a save
            if name.startswith(".checkpoint-") and _is_old(self.folder / name):
                (self.folder / name).unlink(missing_ok=True)
        return path

    @staticmethod
    def _read_back(path: Path, model: Any) -> None:
        """Read a checkpoint, before any older one is deleted; delete it if it cannot be read."""
        params = model.get_params(deep=False) if hasattr(model, "get_params") else {}
        kernel = params.get("kernel")
        try:
            load_with_header(path, kernel if callable(kernel) else None, max_bytes=None)
        except FileError as error:
            path.unlink(missing_ok=True)
            raise FileError(
                f"the checkpoint {path} was written but cannot be read ({error}): it is deleted, "
                "and the older ones are kept."
            ) from error

    def clear(self) -> None:
        """Delete every checkpoint, and let another checkpointer write into the folder."""
        if not self.folder.is_dir():
            return
        self._hold()
        for _, path in self._files():
            path.unlink(missing_ok=True)
        self.close()

    def _path(self, position: int) -> Path:
        """Return a name for a checkpoint, which no folder has."""
        ends = chain([""], (f"-{k}" for k in count(1)))
        names = (f"checkpoint-{position:020d}{end}.ks" for end in ends)
        return next(path for path in map(self.folder.joinpath, names) if not path.is_dir())

    def _files(self) -> list[tuple[int, Path]]:
        """Return every checkpoint's position and file."""
        if not self.folder.is_dir():
            return []
        found = []
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match and path.is_file():
                try:
                    position = _position(read_header(path))
                except (OSError, FileError):  # its name is all that is left
                    position = int(match[1])
                found.append((position, path))
        return found


def _position(header: dict[str, Any]) -> int:
    """Return the position of a checkpoint, from its content, since files are renamed."""
    position = header.get("position")
    if type(position) is not int or position < 0:
        raise FileError(f"it stands at {position!r}, which is no position in a stream.")
    return position


def _is_old(path: Path) -> bool:
    """Return whether a temporary file is not one that somebody is just writing."""
    try:
        return path.is_file() and time.time() - path.stat().st_mtime > 60
    except OSError:
        return False
