"""A compiled function does what the function does."""

import math
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelstream.compile import compiled, helper
from kernelstream.parts import rule


class Numbers(NamedTuple):
    matrix: np.ndarray
    row: np.ndarray
    counts: np.ndarray
    flags: np.ndarray


@rule
class Shift(NamedTuple):
    amount: float

    def moved(self, x):
        if math.isnan(x):
            raise ValueError("There is no number.")
        return x + self.amount


@helper
def last_of(record):
    return record.row[-1] if record.row.shape[0] > 0 else 0.0


def walk(record, shift, n):
    """Variables that are made once and read in other blocks, in loops, after loops and before."""
    matrix, row = record.matrix, record.row
    first, total, found = row[0], 0.0, -1
    largest = max(first, row[1])
    for i in range(n):
        step = row[i] * first  # made once, in every turn anew
        if step > 0.0:
            before = total
            total += step
            kept = 2.0 * step  # made once, and not in every turn
        else:
            before = -1.0
        if step > 1.0:
            total -= kept
        for k in range(matrix.shape[1]):
            matrix[i, k] = before + matrix[-1 - i, k]
            if matrix[i, k] > 1.0 and found < 0:
                found = k
        record.counts[i] = int(total)
        record.flags[i] = before < total
        largest = max(largest, min(step, total))
        while largest > 4.0:
            largest *= 0.5
    record.counts[-1] += int(first > 0.0) + found
    record.flags[0] = True
    matrix[0, -1] = 7
    tail = matrix[n - 1, 1:]
    row[0], row[1], row[2] = total, first - last_of(record), shift.moved(tail[0])
    row[3] = float(n) / 3
    return largest


compiled_walk = compiled(walk)
numbers = st.lists(st.floats(-3, 3), min_size=6, max_size=6)


def copies(values):
    row = np.array(values)
    matrix = np.sin(np.arange(12.0)).reshape(6, 2) * row[:, None]
    return Numbers(matrix, row, np.zeros(6, np.int64), np.zeros(6, np.bool_))


@settings(max_examples=50, deadline=None)
@given(numbers, st.integers(1, 6))
def test_a_compiled_function_does_what_the_function_does(values, n):
    plain, quick = copies(values), copies(values)
    assert compiled_walk(quick, Shift(0.5), n) == walk(plain, Shift(0.5), n)
    for wanted, found in zip(plain, quick, strict=True):
        assert wanted.tobytes() == found.tobytes()


def test_errors_of_a_part_from_outside_come_through():
    record = copies([1.0] * 6)
    record.matrix[:] = np.nan
    with pytest.raises(ValueError, match="There is no number"):
        compiled_walk(record, Shift(0.5), 3)


@compiled
def outermost(x, out):
    least, most = x[0], x[0]
    for i in range(x.shape[0]):
        least, most = min(least, x[i]), max(most, x[i])
    out[0], out[1] = least, most
    out[2], out[3] = max(x[0], x[1], x[2]), min(x[0], x[1], x[2])


@pytest.mark.parametrize("values", [(1.0, math.nan, 2.0), (math.nan, 1.0, 2.0), (-0.0, 0.0, -0.0)])
def test_numbers_that_are_none_pass_as_in_python(values):
    """Where numbers are equal, or none, max() and min() answer the one that came first."""
    found, wanted = np.empty(4), np.empty(4)
    outermost(np.array(values), found)
    outermost.py_func(np.array(values), wanted)
    assert found.tobytes() == wanted.tobytes()


def powers(x, n, out):
    """Squares, which are one product, and powers that are not known when it is compiled."""
    out[0], out[1], out[2], out[3], out[4] = x**2, -(x**2), x**3, x**n, n**2


@pytest.mark.parametrize("x", [0.1, -1e-170, 1e160, -0.0, float("nan"), float("-inf"), 3])
def test_powers_are_those_of_python(x):
    x, n = (x, 2) if isinstance(x, int) else (np.float64(x), 2)
    with np.errstate(all="ignore"):
        squares, cube = (x * x, -(x * x), x * x, n * n), x * x * x
    found = np.empty(5)
    compiled(powers)(x, n, found)
    np.testing.assert_array_equal(found[[0, 1, 3, 4]], squares)
    np.testing.assert_allclose(found[2], cube, rtol=1e-15)


def pick(pairs, numbers):
    """Items at constant places, of tuples whose items differ in type, and a loop that goes on."""
    total, (count, row) = 0.0, pairs
    for i in range(len(numbers)):
        if i == numbers[0]:
            continue
        if i > pairs[0]:
            total += row[0]
            continue
        total += pairs[1][-1] * numbers[i] + count
    return total


def test_tuples_of_different_items_and_loops_with_several_ways_back():
    given = (3, np.array([0.5, 2.0])), (1, 2, 5, 7, 9, 11)
    assert compiled(pick)(*given) == pick(*given)


READ_OUTSIDE = """
import numpy as np
from kernelstream.compile import compiled

@compiled
def element(x, i):
    return x[i]

x = np.arange(8.0)
try:
    element(x[:4], 6)
    print("read")
except IndexError as error:
    print(error)
"""


@pytest.mark.parametrize("is_checked", [True, False])
def test_indices_are_checked_where_that_is_asked_for(is_checked):
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": str(int(is_checked))}
    ran = subprocess.run(
        [sys.executable, "-c", READ_OUTSIDE], env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert ("out of bounds" in ran.stdout) == is_checked


@pytest.mark.nightly
def test_models_learn_within_bounds(tmp_path):
    code = (
        "import numpy as np, kernelstream as ks\n"
        "X = np.random.default_rng(0).normal(size=(140, 4)); y = X[:, 0] * X[:, 1] > 0\n"
        "for model in (ks.AutoClassifier(), ks.KernelClassifier(budget=16)):\n"
        "    model.partial_fit(X[:100], y[:100], classes=[False, True]).predict(X)\n"
        "    for i in range(100, 140): model.learn_one(X[i], y[i]); model.predict_one(X[i])\n"
        "ks.AutoRegressor().partial_fit(X, X[:, 0]).predict(X)\n"
        "ks.AutoDetector().partial_fit(X).predict(X)\n"
    )
    environment = {
        **os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path),
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


INTERRUPT = """
import _thread, logging, threading, time
import numpy as np, kernelstream as ks

X = np.random.default_rng(0).normal(size=(60, 3)); y = X[:, 0] > 0
model, n = ks.KernelClassifier(budget=8), 0
for i in range(25):
    timer = threading.Timer(0.02 * i, _thread.interrupt_main)
    try:
        timer.start()
        model.partial_fit(X, y, classes=[False, True])
        model.learn_one(X[0], y[0])
    except KeyboardInterrupt:
        n += 1
    try:
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        n += 1
for kernel in ("rbf", "laplacian"):
    ks.KernelClassifier(kernel=kernel).partial_fit(X, y, classes=[False, True])
print(n > 0)
"""


def test_interrupts_while_compiling_leave_nothing_behind(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPT], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "True\n"
