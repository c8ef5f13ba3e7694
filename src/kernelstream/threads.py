"""How many threads BLAS takes for our matrix products, and whether a thread lets others go first.

OpenBLAS shares any product of more than 2^18 multiplications among all cores, and one of a matrix
and a vector much earlier. Its threads wait for each other, so that a product that takes less than a
millisecond may wait for twenty as soon as another process, or another thread of ours, has one of
the cores. So products of that size are left to the thread that asks for them; larger ones are
shared as BLAS likes (docs/benchmarks.md has the figures).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["between_steps", "one_thread", "pausing", "threads_for"]

# Multiplications, up to which BLAS takes one thread anyway: for matrices, and for a vector
_SHARED, _SHARED_VECTOR = 2**18, 9216
_WORTH_SHARING = 2**25  # from here on threads are worth their waiting for each other


class _OneThread:
    """A context in which BLAS has one thread, for whoever is inside, and for others meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._libraries: list[Any] | None = None
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            if self._libraries is None:
                self._libraries = _libraries()
            counts = [(library, library.get_num_threads()) for library in self._libraries]
            self._before = [(library, n) for library, n in counts if n > 1]
            for library, _ in self._before:
                library.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for library, n in self._before:
                    library.set_num_threads(n)


class _AsTheyAre:
    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        return


def _libraries() -> list[Any]:
    """NumPy and SciPy have a BLAS each."""
    import scipy.linalg  # noqa: F401 (which loads the second)
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


one_thread = _OneThread()
_as_they_are = _AsTheyAre()


def threads_for(n_rows: int, n_points: int, n_terms: int) -> _OneThread | _AsTheyAre:
    """A context for matrix products of so many rows and points, each a sum of so many terms."""
    n_multiplications = n_rows * n_points * n_terms
    least = _SHARED_VECTOR if n_rows == 1 else _SHARED
    return one_thread if least < n_multiplications <= _WORTH_SHARING else _as_they_are


# --- letting others go first ----------------------------------------------------------------------
# Threads of Python take turns. One that learns would give up its turn to one that answers only at
# long intervals, or at every matrix product, after which both want it back again and again.


class _Manners(threading.local):
    pause: Callable[[], None] | None = None


_manners = _Manners()


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """What this thread learns meanwhile calls `pause` between its steps, of a fraction of a ms."""
    before, _manners.pause = _manners.pause, pause
    try:
        yield
    finally:
        _manners.pause = before


def between_steps() -> None:
    """Let others go first, where this thread was told to (`pausing`)."""
    if _manners.pause is not None:
        _manners.pause()
