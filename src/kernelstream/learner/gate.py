"""Readers and writers of a machine in several threads."""

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kernelstream.threads import no_other_thread

__all__ = ["Gate"]


class Gate:
    """Who reads a machine just now, so that nobody changes it under their eyes.

    Whoever changes a machine in place holds `lock` and has seen that there are no `readers`;
    otherwise a copy is changed. A reader holds the lock only to come and to go.
    """

    __slots__ = ("lock", "readers")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.readers = 0

    def __enter__(self) -> None:
        with self.lock:
            self.readers += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.readers -= 1

    def for_writing(self) -> AbstractContextManager[Any]:
        """Return the lock to hold while a machine learns a block in place.

        Where no other thread exists, nobody can read meanwhile.
        """
        return self.lock if no_other_thread() else nullcontext()

    def is_free(self) -> bool:
        """Return whether a machine may learn in place: nobody reads or could begin to."""
        return no_other_thread() and not self.readers
