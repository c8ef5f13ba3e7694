"""How much code a row passes: a reader of a stack trace has to know all of it."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import kernelstream as ks
from kernelstream import committee, threads

SOURCE = str(Path(ks.__file__).parent)
ESTIMATORS = [
    ks.KernelClassifier, ks.KernelRegressor, ks.NoveltyDetector, ks.AutoClassifier,
    ks.AutoRegressor, ks.AutoDetector, committee.CommitteeClassifier,
    committee.CommitteeRegressor, committee.CommitteeDetector,
]  # fmt: skip
random = np.random.default_rng(0)
X = random.normal(size=(1200, 4))
y = (X[:, 0] > 0.0).astype(int)


def functions_of(work):
    """Count the calls of each function of this package, by file and name."""
    calls = Counter()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            calls[code.co_filename, code.co_qualname, code.co_firstlineno] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def fewest(model, size, blocks):
    """Return the functions of the block that passes fewest.

    Now and then a row has more to do: the stream is looked at (`Health`), or a budget grows.
    """
    found = []
    for start in range(1000, 1000 + blocks * size, size):
        rows = slice(start, start + size)
        found.append(functions_of(lambda rows=rows: model.partial_fit(X[rows], y[rows])))
    return min(found, key=len)


def files_of(functions):
    return {file for file, *_ in functions}


@pytest.mark.parametrize(
    ("size", "most_functions", "most_files"),
    [(1, 50, 15), (10, 130, 40)],
    ids=["one-row", "ten-rows"],
)
def test_a_block_passes_few_functions(size, most_functions, most_files):
    model = ks.KernelClassifier().partial_fit(X[:1000], y[:1000])
    functions = fewest(model, size, 100 if size == 1 else 15)
    assert len(functions) <= most_functions, sorted(functions)
    assert len(files_of(functions)) <= most_files, sorted(files_of(functions))


@pytest.mark.parametrize("size", [1, 10])
def test_rows_are_checked_once_for_being_finite(size, monkeypatch):
    """Machines bound the norms of rows besides, by which kernel values could overflow."""
    model = ks.KernelClassifier().partial_fit(X[:1000], y[:1000])
    block, seen = X[1000 : 1000 + size].copy(), []
    original = threads.sum_of_squares
    for name, module in list(sys.modules.items()):
        if name.startswith("kernelstream.") and hasattr(module, "sum_of_squares"):
            monkeypatch.setattr(
                module, "sum_of_squares", lambda array: seen.append(array) or original(array)
            )
    isfinite = np.isfinite
    monkeypatch.setattr(np, "isfinite", lambda a, *args: seen.append(a) or isfinite(a, *args))
    model.partial_fit(block, y[1000 : 1000 + size])
    assert sum(np.shares_memory(array, block) for array in seen if np.ndim(array) == 2) == 1


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_estimators_inherit_from_few_classes(cls):
    ours = [base.__name__ for base in cls.__mro__ if base.__module__.startswith("kernelstream")]
    assert len(ours) <= 6, ours
