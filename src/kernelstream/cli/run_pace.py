"""How fast a run learns, and how Ctrl-C ends it."""

import signal
import time
from collections.abc import Iterator
from typing import Any

from kernelstream.compile import seconds_compiling
from kernelstream.tables import Block, SourceError

__all__ = ["Interrupts", "Pace"]


class Pace:
    """A clock of learned rows, without the time to compile."""

    def __init__(self, resumed: int):
        self.resumed = resumed
        self.begun = False
        self._start()

    def _start(self) -> None:
        self._at, self._compiling = time.perf_counter(), seconds_compiling()

    def begin(self) -> None:
        """Start the clock: the first row to learn has been read."""
        if self.resumed and not self.begun:
            self._start()
        self.begun = True

    @property
    def seconds(self) -> float:
        """Return the whole time."""
        return time.perf_counter() - self._at

    @property
    def compiling(self) -> float:
        """Return the time that was spent compiling."""
        return seconds_compiling() - self._compiling

    def rate(self, n_rows: int) -> float:
        """Return the rows per second."""
        return (n_rows - self.resumed) / max(self.seconds - self.compiling, 1e-9)


class Interrupts:
    """A context in which Ctrl-C stops a run after the current block, and a second one at once.

    While the run waits for the next block, the first Ctrl-C stops it at once, too. A source that
    cannot be read further also ends the run.

    Attributes
    ----------
    asked : bool
        Whether the user asked to stop.
    trouble : SourceError or None
        The error of the source.
    """

    def __init__(self) -> None:
        self.asked = False
        self.trouble: SourceError | None = None
        self._waits = False
        self._before: Any = None

    def __enter__(self) -> "Interrupts":
        self._before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread
            self._before = None
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
        if self._waits:
            raise KeyboardInterrupt

    def until_asked(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield the blocks until there are no more or the user asks to stop."""
        while not self.asked:
            try:
                self._waits = True
                block = next(blocks, None)
            except KeyboardInterrupt:
                return
            except SourceError as trouble:
                self.trouble = trouble
                return
            finally:
                self._waits = False
            if block is None:
                return
            yield block
