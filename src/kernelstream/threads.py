"""Threads: how many BLAS takes, work that is shared among our own, and letting others go first.

OpenBLAS shares any product of more than 2^18 multiplications among all cores, and one of a matrix
and a vector much earlier. Its threads wait for each other, so that a product that takes less than a
millisecond may wait for twenty as soon as another process, or another thread of ours, has one of
the cores. So products of that size are left to the thread that asks for them; larger ones are
shared as BLAS likes (docs/benchmarks.md has the figures).
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = [
    "OneThread", "between_steps", "each", "n_cores", "no_other_thread", "pausing",
    "rows_of_a_piece", "sum_of_squares", "threads_for",
]  # fmt: skip

# Multiplications, up to which BLAS takes one thread anyway: for matrices, and for a vector
_SHARED, _SHARED_VECTOR = 2**18, 9216
_WORTH_SHARING = 2**25  # from here on threads are worth their waiting for each other
_FEW_ROWS = 64  # of a matrix product, with fewer than which BLAS is slow


class _Blas:
    """The libraries of matrix products, and who wants them to have one thread."""

    def __init__(self) -> None:
        # Re-entrant, since the garbage collector may end a visit while another begins or ends
        self._lock = threading.RLock()
        self._visits: dict[int, weakref.ref[OneThread]] = {}
        self._libraries: list[Any] | None = None
        self._before: list[tuple[Any, int]] = []

    def n_threads(self) -> int:
        """How many threads BLAS has where nobody wants it to have one."""
        with self._lock:
            counts = self._before if self._visits else self._counts()
            return max((n for _, n in counts), default=1)

    def _counts(self) -> list[tuple[Any, int]]:
        """Those libraries that have several threads, and how many."""
        if self._libraries is None:
            self._libraries = _libraries()
        counts = [(library, library.get_num_threads()) for library in self._libraries]
        return [(library, n) for library, n in counts if n > 1]

    def enter(self, visit: "OneThread") -> None:
        key = id(visit)
        with self._lock:
            if not self._visits:
                self._before = self._counts()
            self._visits[key] = weakref.ref(visit, lambda _: self.leave(key))
            if len(self._visits) == 1:
                for library, _ in self._before:
                    library.set_num_threads(1)

    def leave(self, key: int) -> None:
        with self._lock:
            if self._visits.keys() == {key}:
                for library, n in self._before:
                    library.set_num_threads(n)
            self._visits.pop(key, None)


class OneThread:
    """A context in which BLAS has one thread, for whoever is inside, and for others meanwhile.

    An interrupt may come just before the body of the context begins, or while it is left. Then the
    context ends when the exception is dropped, and this object with it.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None:
        _blas.enter(self)

    def __exit__(self, *error: object) -> None:
        _blas.leave(id(self))


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


_blas = _Blas()
_as_they_are = _AsTheyAre()


def threads_for(n_rows: int, n_points: int, n_terms: int) -> OneThread | _AsTheyAre:
    """A context for matrix products of so many rows and points, each a sum of so many terms."""
    n_multiplications = n_rows * n_points * n_terms
    least = _SHARED_VECTOR if n_rows == 1 else _SHARED
    return OneThread() if least < n_multiplications <= _WORTH_SHARING else _as_they_are


def sum_of_squares(array: np.ndarray) -> float:
    """Of all numbers of an array. It is finite only if each of them is.

    BLAS would share a sum of more than ten thousand terms among threads, too.
    """
    if array.size <= _SHARED_VECTOR:
        return float(np.vdot(array, array))
    with OneThread():
        return float(np.vdot(array, array))


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


# --- work that is shared --------------------------------------------------------------------------


def n_cores() -> int:
    """How many threads there is room for."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Helpers:
    """Threads that are kept, since to start one takes longer than a small piece of work."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, in a process that was forked: threads stay behind."""
        self._pool = ThreadPoolExecutor(max(1, n_cores() - 1), "kernelstream", self._count)
        self.n_alive = 0

    def asked(self, work: Callable[[], None], n: int) -> list[Future[None]]:
        """Ask n of them to do the same; none comes while the program ends."""
        try:
            return [self._pool.submit(work) for _ in range(n)]
        except RuntimeError:
            return []

    def _count(self) -> None:
        self.n_alive += 1
        _sharing.is_on = True


class _Sharing(threading.local):
    """Whether the present thread has its share of some work already, and should not share that."""

    is_on = False


_sharing = _Sharing()
_helpers = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def no_other_thread() -> bool:
    """Whether the calling thread is the only one, but for those that help in `each`."""
    return threading.active_count() - _helpers.n_alive == 1


def rows_of_a_piece(n_rows: int, n_points: int, n_terms: int, most: int) -> int:
    """How many rows of matrix products make a piece of work, so that each thread gets one.

    Where the products are not worth sharing, as many as there may be.
    """
    if n_rows * n_points * n_terms <= _WORTH_SHARING:
        return most
    return max(_FEW_ROWS, min(most, -(-n_rows // _blas.n_threads())))


def each(
    work: Callable[[Any], Any], items: Sequence[Any], n_threads: int | None = None,
    repeatable: bool = False,
) -> list[Any]:  # fmt: skip
    """What `work` gives for every item, in their order.

    The calling thread takes one item after the other, and so do up to ``n_threads - 1`` others, if
    there are as many cores (None: as many as BLAS has, which has only one meanwhile). Those that
    find no time, on a busy machine, are not waited for. Work that is part of such work is not
    shared again.

    `repeatable` work changes nothing, and may be done twice. Then nobody is waited for at all: what
    another has begun and not finished, since it lost its core, say, is done once more.

    Examples
    --------
    >>> from kernelstream.threads import each
    >>> each(abs, [-1, 2, -3], n_threads=2)
    [1, 2, 3]
    """
    n_threads = 1 if _sharing.is_on or len(items) < 2 else n_threads or _blas.n_threads()
    if n_threads == 1:
        return [work(item) for item in items]
    done: dict[int, Any] = {}
    left = deque(range(len(items)))

    def take() -> None:
        while left:
            try:
                i = left.popleft()
            except IndexError:  # another was faster
                return
            try:
                done[i] = work(items[i])
            except BaseException:
                left.clear()
                raise

    with OneThread():  # threads of BLAS would be in the way of these
        asked = _helpers.asked(take, min(n_threads, len(items)) - 1)
        _sharing.is_on = True
        try:
            take()
            for i in range(len(items)) if repeatable else ():
                if i not in done:
                    done[i] = work(items[i])
        finally:
            _sharing.is_on = False
            left.clear()  # where this thread was interrupted
            running = [future for future in asked if not future.cancel()]
            wait([] if repeatable else running)
    for future in running if not repeatable else ():
        future.result()
    return [done[i] for i in range(len(items))]
