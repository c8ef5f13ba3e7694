"""Threads: limit those of BLAS, share work among our own, and let readers go first.

OpenBLAS shares any product of more than 2^18 multiplications among all cores, and a product of a
matrix and a vector much earlier. Its threads wait for each other: as soon as another process or
thread has one of the cores, a product that takes less than a millisecond waits for twenty. So
products of that size run on the calling thread alone; larger ones run on as many threads as the
process has cores (docs/benchmarks.md has the measurements).
"""

import ctypes
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "BlasLimit", "OneThread", "between_steps", "blas_threads", "cgroup_quota", "each", "n_cores",
    "no_other_thread", "pausing", "rows_of_a_piece", "sum_of_squares", "threads_for",
]  # fmt: skip

# Multiplications up to which BLAS uses one thread anyway: of two matrices, and of a vector
_SHARED, _SHARED_VECTOR = 2**18, 9216
_WORTH_SHARING = 2**25  # from here on a product gains more from threads than it waits for them
_FEW_ROWS = 64  # BLAS is slow for matrices with fewer rows


# --- cores ----------------------------------------------------------------------------------------


def n_cores() -> int:
    """Return how many cores this process may use: those it may run on, within its cgroup's quota.

    A quota of one and a half cores counts as two, as in Go and Java.
    """
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return n if quota is None else max(1, min(n, math.ceil(quota)))


@cache
def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Return how many cores the cgroup of this process may use; None without a quota.

    Parameters
    ----------
    root : Path, default=Path("/")
        Where ``proc`` and ``sys`` are.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux, or not mounted
        return None
    quotas = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        mounted = root / "sys/fs/cgroup"
        if controllers:  # version 1: a tree for each controller
            if "cpu" not in controllers.split(","):
                continue
            trees = [mounted / name for name in dict.fromkeys((controllers, "cpu"))]
        else:
            trees = [mounted]
        # A quota of a parent binds its children. In a container the path may be the host's, of
        # which only the end, or nothing, exists below the mount: the mount itself counts as well.
        names = [name for name in path.split("/") if name not in ("", "..")]
        for tree in trees:
            for depth in range(len(names) + 1):
                quota = _quota_of(tree.joinpath(*names[:depth]))
                quotas += [] if quota is None else [quota]
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    """Return the quota that a folder of cgroups declares, in cores."""
    try:
        if (folder / "cpu.max").exists():
            limit, period = (folder / "cpu.max").read_text().split()
        else:
            limit = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(limit) / int(period) if int(limit) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # none here, or "max"
        return None


# --- threads of BLAS ------------------------------------------------------------------------------


class _Library:
    """A BLAS library: read and set the number of its threads, from any thread.

    OpenBLAS has one number for the process, or, where it is built with OpenMP, one for every
    calling thread. Since version 3.8 threadpoolctl lets only one thread of the process set the
    former, the first that ever did, and ignores all others. So OpenBLAS is called directly.

    Parameters
    ----------
    controller : threadpoolctl.LibController
    """

    def __init__(self, controller: Any):
        is_openblas = controller.internal_api == "openblas"
        self.is_per_thread = is_openblas and controller.threading_layer == "openmp"
        self.get_num_threads: Callable[[], int] = controller.get_num_threads
        self.set_num_threads: Callable[[int], Any] = controller.set_num_threads
        if is_openblas and not self.is_per_thread:
            own = _openblas_setter(controller.filepath)
            self.set_num_threads = controller.set_num_threads if own is None else own


def _openblas_setter(path: str) -> Callable[[int], Any] | None:
    """Return ``openblas_set_num_threads`` of a library, whose builds differ in the name."""
    library = ctypes.CDLL(path)
    for prefix, suffix in product(("scipy_", ""), ("64_", "_64", "")):
        setter = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
        if setter is not None:
            setter.argtypes, setter.restype = [ctypes.c_int], None
            found: Callable[[int], Any] = setter
            return found
    return None


class _Limits:
    """The limits in force for some libraries, and the numbers of threads without them."""

    def __init__(self) -> None:
        self.limits: dict[int, tuple[weakref.ref[BlasLimit], int]] = {}
        self.before: list[tuple[Any, int]] = []

    def enter(self, limit: "BlasLimit", libraries: list[Any]) -> None:
        key = id(limit)
        if not self.limits:
            self.before = _counts(libraries)
        # An interrupt may come before the context begins or while it is left: then the limit ends
        # together with the object.
        gone = weakref.ref(limit, lambda _: self.leave(key))
        others = self._lowest_but(key)
        self.limits[key] = gone, limit.n_threads
        if others is None or limit.n_threads < others:
            self._set(limit.n_threads)

    def leave(self, key: int) -> None:
        with _blas.lock:
            own, others = self.limits.get(key), self._lowest_but(key)
            if own is not None and (others is None or own[1] < others):
                self._set(others)
            self.limits.pop(key, None)

    def _lowest_but(self, key: int) -> int | None:
        """Return the lowest of the other limits."""
        return min((n for k, (_, n) in self.limits.items() if k != key), default=None)

    def _set(self, most: int | None) -> None:
        for library, n in self.before:
            library.set_num_threads(n if most is None else min(n, most))


class _OfThread(threading.local):
    """Limits of libraries that have a number of threads for every calling thread."""

    def __init__(self) -> None:
        self.limits = _Limits()


class _Blas:
    """The BLAS libraries of this process, and the limits in force."""

    def __init__(self) -> None:
        # Re-entrant, since the garbage collector may end a limit while another begins or ends
        self.lock = threading.RLock()
        self._of_process, self._of_thread = _Limits(), _OfThread()
        self._libraries: list[Any] | None = None

    def enter(self, limit: "BlasLimit") -> None:
        with self.lock:
            for limits, libraries in self._kinds():
                limits.enter(limit, libraries)

    def leave(self, limit: "BlasLimit") -> None:
        for limits, _ in self._kinds():
            limits.leave(id(limit))

    def n_threads(self) -> int:
        """Return how many threads BLAS has without our limits."""
        with self.lock:
            counts = []
            for limits, libraries in self._kinds():
                counts += limits.before if limits.limits else _counts(libraries)
            return max((n for _, n in counts), default=1)

    def _kinds(self) -> list[tuple[_Limits, list[Any]]]:
        """Return the limits of the process and of this thread, with their libraries."""
        if self._libraries is None:
            self._libraries = _libraries()
        of_thread = [library for library in self._libraries if library.is_per_thread]
        if not of_thread:
            return [(self._of_process, self._libraries)]
        of_process = [library for library in self._libraries if not library.is_per_thread]
        return [(self._of_process, of_process), (self._of_thread.limits, of_thread)]


def _counts(libraries: list[Any]) -> list[tuple[Any, int]]:
    """Return the libraries that have several threads, and how many."""
    counts = [(library, library.get_num_threads()) for library in libraries]
    return [(library, n) for library, n in counts if n > 1]


def _libraries() -> list[Any]:
    """Return the BLAS libraries: NumPy and SciPy have one each."""
    import scipy.linalg  # noqa: F401 (which loads the second)
    from threadpoolctl import ThreadpoolController

    controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_Library(controller) for controller in controllers]


class BlasLimit:
    """A context in which BLAS has at most so many threads, on any thread that enters it.

    Most libraries have one number of threads for the process: then the lowest limit of all threads
    is in force.

    Parameters
    ----------
    n_threads : int
    """

    __slots__ = ("__weakref__", "n_threads")

    def __init__(self, n_threads: int):
        self.n_threads = n_threads

    def __enter__(self) -> None:
        _blas.enter(self)

    def __exit__(self, *error: object) -> None:
        _blas.leave(self)


class OneThread(BlasLimit):
    """A context in which BLAS has one thread."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(1)


class _NoLimit:
    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        return


_blas = _Blas()
_no_limit = _NoLimit()


def blas_threads() -> int:
    """Return how many threads a large product has: those of BLAS, but no more than cores."""
    return min(_blas.n_threads(), n_cores())


def threads_for(n_rows: int, n_points: int, n_terms: int) -> BlasLimit | _NoLimit:
    """Return a context for products of so many rows and points, each a sum of so many terms."""
    n_multiplications = n_rows * n_points * n_terms
    if n_multiplications <= (_SHARED_VECTOR if n_rows == 1 else _SHARED):
        return _no_limit
    return OneThread() if n_multiplications <= _WORTH_SHARING else BlasLimit(n_cores())


def sum_of_squares(array: np.ndarray) -> float:
    """Return the sum of all squares, which is finite only if every number is.

    BLAS would share a sum of more than ten thousand terms among threads, too.
    """
    if array.size <= _SHARED_VECTOR:
        return float(np.vdot(array, array))
    with OneThread():
        return float(np.vdot(array, array))


# --- readers go first -----------------------------------------------------------------------------
# Threads of Python take turns. Without pauses, a thread that learns would hand over its turn only
# at long intervals, or at every matrix product, after which both threads compete for it again.


class _Pausing(threading.local):
    pause: Callable[[], None] | None = None


_pausing = _Pausing()


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """Call `pause` between the steps of what this thread learns, each of a fraction of a ms."""
    before, _pausing.pause = _pausing.pause, pause
    try:
        yield
    finally:
        _pausing.pause = before


def between_steps() -> None:
    """Pause if this thread was told to (`pausing`)."""
    if _pausing.pause is not None:
        _pausing.pause()


# --- work that is shared --------------------------------------------------------------------------


class _Helpers:
    """Threads that are kept: starting one takes longer than a small piece of work."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again in a forked process, which has no threads of its parent."""
        self._pool = ThreadPoolExecutor(max(1, n_cores() - 1), "kernelstream", self._count)
        self.n_alive = 0

    def asked(self, work: Callable[[], None], n: int) -> list[Future[None]]:
        """Let n threads run `work`; none does while the program ends."""
        try:
            return [self._pool.submit(work) for _ in range(n)]
        except RuntimeError:
            return []

    def _count(self) -> None:
        self.n_alive += 1
        _sharing.is_on = True


class _Sharing(threading.local):
    """Whether this thread works on a share of something already, and should not share that."""

    is_on = False


_sharing = _Sharing()
_helpers = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def no_other_thread() -> bool:
    """Return whether no other thread runs, apart from those that help in `each`."""
    return threading.active_count() - _helpers.n_alive == 1


def rows_of_a_piece(n_rows: int, n_points: int, n_terms: int, most: int) -> int:
    """Return how many rows make a piece of work, so that each thread gets a piece.

    Products that are not worth sharing make pieces of `most` rows.
    """
    if n_rows * n_points * n_terms <= _WORTH_SHARING:
        return most
    return max(_FEW_ROWS, min(most, -(-n_rows // blas_threads())))


def each(
    work: Callable[[Any], Any], items: Sequence[Any], n_threads: int | None = None,
    repeatable: bool = False,
) -> list[Any]:  # fmt: skip
    """Return the results of `work` for every item, in order.

    The calling thread takes one item after the other, and so do up to ``n_threads - 1`` kept
    threads, if there are as many cores (None: as many as large products have). BLAS has one thread
    meanwhile. The calling thread does not wait for a kept thread that finds no core on a busy
    machine. Work within shared work is not shared again.

    `repeatable` work changes nothing, and may be done twice. Then the calling thread waits for
    nobody: it repeats an item that another thread began and has not finished.

    Examples
    --------
    >>> from kernelstream.threads import each
    >>> each(abs, [-1, 2, -3], n_threads=2)
    [1, 2, 3]
    """
    n_threads = 1 if _sharing.is_on or len(items) < 2 else n_threads or blas_threads()
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

    def help_out() -> None:
        with OneThread():  # also in this thread, and until its last item is done
            take()

    with OneThread():  # its threads would compete with these
        asked = _helpers.asked(help_out, min(n_threads, len(items)) - 1)
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
