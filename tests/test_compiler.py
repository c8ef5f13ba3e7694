"""What our compiler makes of a function does what the function does."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelstream.compiled import compiled, helper
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
    return largest, total, first - last_of(record), shift.moved(tail[0]), float(n) / 3


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
def outermost(x):
    least, most = x[0], x[0]
    for i in range(x.shape[0]):
        least, most = min(least, x[i]), max(most, x[i])
    return least, most, max(x[0], x[1], x[2]), min(x[0], x[1], x[2])


@pytest.mark.parametrize("values", [(1.0, math.nan, 2.0), (math.nan, 1.0, 2.0), (-0.0, 0.0, -0.0)])
def test_numbers_that_are_none_pass_as_in_python(values):
    """Where numbers are equal, or none, max() and min() answer the one that came first."""
    found = np.array(outermost(np.array(values)))
    assert found.tobytes() == np.array(outermost.py_func(np.array(values))).tobytes()


def powers(x, n):
    """Squares, which are one product, and powers that are not known when it is compiled."""
    return x**2, -(x**2), x**3, x**n, n**2


@pytest.mark.parametrize("x", [0.1, -1e-170, 1e160, -0.0, float("nan"), float("-inf"), 3])
def test_powers_are_those_of_python(x):
    x, n = (x, 2) if isinstance(x, int) else (np.float64(x), 2)
    with np.errstate(all="ignore"):
        squares, cube = (x * x, -(x * x), x * x, n * n), x * x * x
    found = compiled(powers)(x, n)
    np.testing.assert_array_equal(np.array(found)[[0, 1, 3, 4]], squares)
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
