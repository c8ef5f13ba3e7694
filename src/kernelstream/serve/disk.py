"""The state of the disk that a model writes to: failed writes are logged, counted and shown."""

import logging
import threading
import time
from collections import Counter

__all__ = ["DiskState"]

_LOGGER = logging.getLogger("kernelstream.serve")
_SECONDS_BETWEEN_LINES = 60.0
_FIRST_RETRY, _LONGEST_RETRY = 1.0, 60.0  # seconds


class DiskState:
    """Counts the writes that failed, logs them, and says which of them have not succeeded since.

    Any thread may call any method. A failing disk is logged at once, and then once a minute:
    hundreds of requests per second may be refused meanwhile.

    Parameters
    ----------
    name : str
        The model's name.

    Attributes
    ----------
    failed_writes : Counter
        How many writes failed, by kind: "log", "checkpoint" or "delayed rows".

    Examples
    --------
    >>> from kernelstream.serve.disk import DiskState
    >>> disk = DiskState("sensors")
    >>> disk.problem is None
    True
    >>> disk.note_failure("log", OSError(28, "No space left on device"))
    >>> disk.problem
    'the log cannot be written: [Errno 28] No space left on device'
    >>> disk.note_success("log")
    >>> disk.problem is None, disk.failed_writes["log"]
    (True, 1)
    """

    def __init__(self, name: str):
        self._name = name
        self.failed_writes: Counter[str] = Counter()
        self._problems: dict[str, str] = {}
        self._n_since = 0  # failed writes since the last line of the log
        self._last_line = self._next_retry = 0.0
        self._wait = _FIRST_RETRY
        self._lock = threading.Lock()

    @property
    def problem(self) -> str | None:
        """Return what cannot be written; None if every kind of write works."""
        return "; ".join(self._problems.values()) or None

    def fails(self, kind: str) -> bool:
        """Return whether the last write of a kind failed."""
        return kind in self._problems

    def is_retry_due(self) -> bool:
        """Return whether a failed write should be tried again now; the waits double up to 60 s."""
        with self._lock:
            now = time.monotonic()
            if now < self._next_retry:
                return False
            self._next_retry = now + self._wait
            self._wait = min(2 * self._wait, _LONGEST_RETRY)
            return True

    def note_failure(self, kind: str, error: Exception) -> None:
        """Count a failed write, and log it if the last line is old."""
        with self._lock:
            now = time.monotonic()
            is_new = kind not in self._problems
            if not self._problems:
                self._wait = _FIRST_RETRY
                self._next_retry = now + self._wait
            self.failed_writes[kind] += 1
            self._n_since += 1
            self._problems[kind] = f"the {kind} cannot be written: {error}"
            if not is_new and now - self._last_line < _SECONDS_BETWEEN_LINES:
                return
            n, self._n_since, self._last_line = self._n_since, 0, now
        _LOGGER.error(
            "model %s: the %s cannot be written: %s (failed writes since the last message: %d). "
            "Nothing that was acknowledged is lost. /readyz answers 503 until a write succeeds; "
            "writes are tried again by themselves.",
            self._name, kind, error, n,
        )  # fmt: skip

    def note_success(self, kind: str) -> None:
        """End the problems that a successful write disproves.

        A checkpoint begins a new segment of the log. A record of the log is in the same folder as
        the delayed rows.
        """
        if not self._problems:
            return
        ended = {
            "checkpoint": ["checkpoint", "log", "delayed rows"],
            "log": ["log", "delayed rows"],
        }.get(kind, [kind])
        with self._lock:
            found = [each for each in ended if self._problems.pop(each, None) is not None]
            works = not self._problems
        if found:
            _LOGGER.warning(
                "model %s: the %s can be written again%s", self._name, " and the ".join(found),
                "." if works else f", but {self.problem}.",
            )  # fmt: skip
