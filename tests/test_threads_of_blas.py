"""How many threads matrix products take."""

import threading

import numpy as np
import pytest

from kernelstream import threads
from kernelstream.threads import between_steps, one_thread, pausing, threads_for


class Library:
    """A BLAS that only counts."""

    def __init__(self, n):
        self.n = n

    def get_num_threads(self):
        return self.n

    def set_num_threads(self, n):
        self.n = n


@pytest.fixture
def libraries(monkeypatch):
    found = [Library(4), Library(1), Library(2)]
    monkeypatch.setattr(one_thread, "_libraries", found)
    return found


def counts(libraries):
    return [library.n for library in libraries]


def test_the_last_who_leaves_gives_threads_back(libraries):
    with one_thread:
        with pytest.raises(ValueError, match="within"), one_thread:
            raise ValueError("within")
        assert counts(libraries) == [1, 1, 1]
        inside, go_on = threading.Event(), threading.Event()

        def work():
            with one_thread:
                inside.set()
                go_on.wait(10)

        other = threading.Thread(target=work)
        other.start()
        inside.wait(10)
    assert counts(libraries) == [1, 1, 1]
    go_on.set()
    other.join()
    assert counts(libraries) == [4, 1, 2]


def test_only_products_of_middling_size_are_kept_together(libraries):
    for shape, n in (((32, 96, 16), 4), ((102, 614, 256), 1), ((1, 512, 64), 1),
                     ((1, 64, 16), 4), ((256, 4352, 784), 4)):  # fmt: skip
        with threads_for(*shape):
            assert libraries[0].n == n, shape


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
