"""How many threads matrix products take, and work that several threads share."""

import multiprocessing
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kernelstream as ks
from kernelstream import threads
from kernelstream.threads import (
    BlasLimit,
    OneThread,
    between_steps,
    blas_threads,
    cgroup_quota,
    each,
    n_cores,
    no_other_thread,
    pausing,
    rows_of_a_piece,
    sum_of_squares,
    threads_for,
)


class Library:
    """A BLAS that only counts."""

    is_per_thread = False

    def __init__(self, n):
        self.n = n

    def get_num_threads(self):
        return self.n

    def set_num_threads(self, n):
        self.n = n


@pytest.fixture
def libraries(monkeypatch):
    found = [Library(4), Library(1), Library(2)]
    monkeypatch.setattr(threads._blas, "_libraries", found)
    monkeypatch.setattr(threads, "n_cores", lambda: 8)
    return found


def counts(libraries):
    return [library.n for library in libraries]


def on_another_thread(work):
    """Return what `work` returns on a thread that has just started."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(60)


@pytest.fixture
def own_libraries():
    """The libraries of this process, with two threads each."""
    found = threads._blas._kinds()[0][1]
    before = counts_now(found)
    for library in found:
        library.set_num_threads(2)
    yield found
    for library, n in zip(found, before, strict=True):
        library.set_num_threads(n)


def counts_now(libraries):
    return [library.get_num_threads() for library in libraries]


def test_a_limit_holds_on_every_thread_and_not_only_on_the_first_that_set_one(own_libraries):
    """threadpoolctl 3.8 ignores all threads but the first."""

    def limited():
        with OneThread():
            inside = counts_now(own_libraries)
        return inside, counts_now(own_libraries)

    ones, twos = [1] * len(own_libraries), [2] * len(own_libraries)
    assert [limited(), on_another_thread(limited), limited()] == [(ones, twos)] * 3


@pytest.mark.parametrize("run", [lambda work: work(), on_another_thread])
def test_products_of_learning_and_predicting_are_limited_on_every_thread(
    own_libraries, monkeypatch, run
):
    X = np.random.default_rng(0).normal(size=(600, 20))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = ks.make("svmd", "classifier").partial_fit(X, y)
    seen = []

    def noting(method):
        def noted(*arguments):
            seen.append(counts_now(own_libraries))
            return method(*arguments)

        return noted

    store = type(model.machine_.store)
    monkeypatch.setattr(store, "tile", noting(store.tile))
    monkeypatch.setattr(store, "basis", noting(store.basis))
    run(lambda: model.partial_fit(X, y))
    n_learning = len(seen)
    run(lambda: model.predict(X))
    assert 0 < n_learning < len(seen)
    assert seen == [[1] * len(own_libraries)] * len(seen)


class LibraryOfThreads(threading.local):
    """A BLAS with a number of threads for every calling thread, as OpenBLAS with OpenMP."""

    is_per_thread = True

    def __init__(self):
        self.n = 4

    def get_num_threads(self):
        return self.n

    def set_num_threads(self, n):
        self.n = n


def test_each_thread_limits_a_library_that_has_a_number_for_every_thread(monkeypatch):
    library, both, seen = LibraryOfThreads(), threading.Barrier(2), []
    monkeypatch.setattr(threads._blas, "_libraries", [Library(4), library])
    monkeypatch.setattr(threads, "n_cores", lambda: 8)

    def limited():
        both.wait(10)
        with OneThread():
            both.wait(10)
            seen.append(library.n)
            both.wait(10)
        return library.n

    with ThreadPoolExecutor(2) as pool:
        assert [future.result(60) for future in [pool.submit(limited) for _ in range(2)]] == [4, 4]
    assert seen == [1, 1]
    each(lambda item: (both.wait(10), seen.append(library.n)), range(2), 2)
    assert seen == [1] * 4
    assert library.n == 4


def test_the_lowest_limit_is_in_force(libraries):
    with BlasLimit(3):
        assert counts(libraries) == [3, 1, 2]
        with OneThread():
            assert counts(libraries) == [1, 1, 1]
            with BlasLimit(2):
                assert counts(libraries) == [1, 1, 1]
        assert counts(libraries) == [3, 1, 2]
    assert counts(libraries) == [4, 1, 2]


def test_large_products_have_as_many_threads_as_the_process_has_cores(libraries, monkeypatch):
    monkeypatch.setattr(threads, "n_cores", lambda: 3)
    with threads_for(256, 4352, 784):
        assert counts(libraries) == [3, 1, 2]
    assert blas_threads() == 3


def tree(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            },
            4.0,
        ),
        (
            {
                "proc/self/cgroup": "3:memory:/c\n2:cpu,cpuacct:/c\n1:name=systemd:/c\n",
                "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        (  # in a container, of which the path is that of the host
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/0123\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            0.5,
        ),
    ],
)
def test_the_quota_of_a_cgroup_is_read(tmp_path, monkeypatch, files, quota):
    assert cgroup_quota(tree(tmp_path, files)) == quota
    monkeypatch.setattr(threads, "cgroup_quota", lambda: quota)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert n_cores() == {None: 8, 1.5: 2, 4.0: 4, 2.0: 2, 0.5: 1}[quota]


def test_the_last_who_leaves_gives_threads_back(libraries):
    with OneThread():
        with pytest.raises(ValueError, match="within"), OneThread():
            raise ValueError("within")
        assert counts(libraries) == [1, 1, 1]
        inside, go_on = threading.Event(), threading.Event()

        def work():
            with OneThread():
                inside.set()
                go_on.wait(10)

        other = threading.Thread(target=work)
        other.start()
        inside.wait(10)
    assert counts(libraries) == [1, 1, 1]
    go_on.set()
    other.join()
    assert counts(libraries) == [4, 1, 2]


def test_a_long_sum_stays_on_one_thread(libraries, monkeypatch):
    """Which BLAS would share from 10,000 terms on; of fewer nothing is said to it."""
    seen, product = [], np.vdot
    monkeypatch.setattr(np, "vdot", lambda a, b: seen.append(counts(libraries)) or product(a, b))
    X = np.arange(40_000.0).reshape(200, 200)
    assert sum_of_squares(X) == np.einsum("ij,ij", X, X)
    assert sum_of_squares(X[:2]) == np.einsum("ij,ij", X[:2], X[:2])
    assert seen == [[1, 1, 1], [4, 1, 2]]
    assert counts(libraries) == [4, 1, 2]
    X[-1, -1] = np.nan
    assert np.isnan(sum_of_squares(X))


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_an_interrupt_leaves_blas_its_threads(libraries):
    """Wherever it comes, also before the body of the context begins."""
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupts = 0
    try:
        while interrupts < 200:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * random.random() + 1e-6)
                while True:
                    with OneThread():
                        pass
            except KeyboardInterrupt:
                interrupts += 1
            assert counts(libraries) == [4, 1, 2]
            with OneThread():
                assert counts(libraries) == [1, 1, 1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert counts(libraries) == [4, 1, 2]


def test_only_products_of_middling_size_are_kept_together(libraries):
    for shape, n in (((32, 96, 16), 4), ((102, 614, 256), 1), ((1, 512, 64), 1),
                     ((1, 64, 16), 4), ((256, 4352, 784), 4)):  # fmt: skip
        with threads_for(*shape):
            assert libraries[0].n == n, shape


@pytest.mark.parametrize("n_learned", [0, 40, 56, 63])
@pytest.mark.parametrize("n_rows", [1, 3, 500])
def test_blocks_of_the_second_order_have_one_thread_wherever_they_begin(
    libraries, n_learned, n_rows
):
    """What is due after a row takes products of 64 rows, also if that is the next row."""
    X = np.random.default_rng(0).normal(size=(640, 8))
    model = ks.make("sog-svr", "regressor", budget=64, gamma=1.0)
    model.partial_fit(X[:320], X[:320, 0])
    if n_learned:
        model.partial_fit(X[:n_learned], X[:n_learned, 1])
    with model.machine_.threads(n_rows, None, n_new=n_rows):
        assert counts(libraries) == [1, 1, 1]


def test_the_libraries_are_found():
    found = threads._libraries()
    assert all(library.get_num_threads() >= 1 for library in found)
    assert found or "openblas" not in str(np.show_config(mode="dicts")).lower()


def test_only_the_thread_that_was_told_to_pauses():
    told = []
    with pausing(lambda: told.append("outer")):
        with pausing(lambda: told.append("inner")):
            between_steps()
        between_steps()
        other = threading.Thread(target=between_steps)
        other.start()
        other.join()
    between_steps()
    assert told == ["inner", "outer"]


def test_others_help_and_blas_has_one_thread_meanwhile(libraries):
    both, seen, was_alone = threading.Barrier(2), [], no_other_thread()  # not beside a server

    def work(item):
        if item < 2:
            both.wait(10)  # two threads are here
        seen.append(libraries[0].n)
        return -item

    assert each(work, range(20), 2) == [-item for item in range(20)]
    assert seen == [1] * 20
    assert counts(libraries) == [4, 1, 2]
    assert no_other_thread() == was_alone  # those that helped do not count


def test_as_many_share_work_as_blas_has(libraries):
    both = threading.Barrier(2)
    each(lambda item: both.wait(10), range(2))
    with OneThread():  # of BLAS, whose place others take
        each(lambda item: both.wait(10), range(2))
    for library in libraries:
        library.n = 1
    alone = each(lambda item: threading.get_ident(), range(4))
    assert set(alone) == {threading.get_ident()}


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        ((600, 50, 8), 512),
        ((1024, 4096, 784), 256),
        ((100_000, 512, 64), 512),
        ((90, 2**20, 64), 64),
    ],
)
def test_large_products_have_a_piece_for_each_thread(libraries, shape, n):
    assert rows_of_a_piece(*shape, 512) == n


def test_predict_gives_the_same_on_several_threads(libraries):
    X = np.random.default_rng(0).normal(size=(1500, 3))
    model = ks.make("norma", "regressor", budget=40).partial_fit(X[:100], X[:100, 0])
    shared = model.predict(X)
    for library in libraries:
        library.n = 1
    np.testing.assert_array_equal(shared, model.predict(X))
    np.testing.assert_allclose(shared[700:710], model.predict(X[700:710]), rtol=1e-12)


def test_repeatable_work_waits_for_nobody():
    me, begun, go_on = threading.get_ident(), threading.Event(), threading.Event()

    def work(item):
        if threading.get_ident() == me:
            begun.wait(10)
        else:
            begun.set()
            go_on.wait(10)  # as if it had lost its core
        return -item

    assert each(work, range(5), 2, repeatable=True) == [0, -1, -2, -3, -4]
    assert not go_on.is_set()
    go_on.set()


def test_shared_work_is_not_shared_again():
    both = threading.Barrier(2)

    def work(item):
        both.wait(10)
        return set(each(lambda inner: threading.get_ident(), range(5), 4)), threading.get_ident()

    assert all(inner == {own} for inner, own in each(work, range(2), 2))


@pytest.mark.parametrize("by_helper", [False, True])
def test_an_error_in_any_thread_ends_the_work(by_helper):
    me, both, done = threading.get_ident(), threading.Barrier(2), []

    def work(item):
        if item < 2:
            both.wait(10)
            if (threading.get_ident() == me) is not by_helper:
                raise ValueError("a part of the work")
        time.sleep(1e-4)
        done.append(item)

    with pytest.raises(ValueError, match="a part of the work"):
        each(work, range(5000), 2)
    assert len(done) < 4999
    assert each(abs, [-1, -2], 2) == [1, 2]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own():
    each(abs, [-1, -2], 2)
    child = multiprocessing.get_context("fork").Process(target=_share_in_child)
    child.start()
    child.join(30)
    assert child.exitcode == 0


def _share_in_child():
    both = threading.Barrier(2)
    each(lambda item: both.wait(10), range(2), 2)
    assert no_other_thread()
