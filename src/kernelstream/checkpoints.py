"""Checkpoints: a model and its place in the stream, saved together. A crash then loses little."""

import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelstream import persistence
from kernelstream.estimators.files import with_header
from kernelstream.parts import integer_at_least, number

__all__ = ["Checkpointer"]

_NAME = re.compile(r"checkpoint-(\d{20})\.ks")


class Checkpointer:
    """Save a model with its place in the stream now and then; resume where the last one stands.

    A checkpoint is one file, written beside its place, flushed to the disk and renamed, so that
    it is there whole or not at all. After a crash at any moment the newest one that is sound is
    taken up. Given the rows from its position on, in the same blocks, the model goes on bit for
    bit as if it had never stopped (same machine, same number of threads).

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

    def positions(self) -> list[int]:
        """Where the checkpoints in the folder stand, in order."""
        return sorted(position for position, _ in self._files())

    def resume(
        self, new_model: Callable[[], Any] | None = None, kernel: Any = None
    ) -> tuple[Any, int]:
        """The newest sound checkpoint's model and position, or a new model and 0.

        Parameters
        ----------
        new_model : callable, default=None
            Makes the model where there is no checkpoint. None: the answer is then (None, 0).
        kernel : callable, default=None
            The kernel function, for a model that was saved with one.

        Returns
        -------
        model, position
        """
        model, position, _ = self.resume_with_extra(new_model, kernel)
        return model, position

    def resume_with_extra(
        self, new_model: Callable[[], Any] | None = None, kernel: Any = None
    ) -> tuple[Any, int, Any]:
        """`resume`, and what was given to `save` as `extra` (None where there is nothing)."""
        for position, path in sorted(self._files(), reverse=True):
            try:
                model, header = with_header(persistence.read(path), kernel, name=str(path))
            except (OSError, persistence.FileError) as error:
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
        model : KernelClassifier, KernelRegressor or NoveltyDetector
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
        """Save now, and delete checkpoints beyond the last `keep`.

        Parameters
        ----------
        model, position, extra
            As in `step`.

        Returns
        -------
        Path
            The file.
        """
        integer_at_least("position", position, 0)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"checkpoint-{position:020d}.ks"
        persistence.write(path, model._to_bytes({"position": position, "extra": extra}))
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

    def clear(self) -> None:
        """Delete every checkpoint."""
        for _, path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[int, Path]]:
        if not self.folder.is_dir():
            return []
        matches = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return [(int(match[1]), path) for match, path in matches if match]


def _is_old(path: Path) -> bool:
    """Whether a temporary file is not one that somebody is just writing."""
    try:
        return time.time() - path.stat().st_mtime > 60
    except OSError:
        return False
