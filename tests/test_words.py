"""What Python hands over arrives in compiled code as it is."""

import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from kernelstream.compiled import compiled


class Nothing(NamedTuple):
    pass


class Inner(NamedTuple):
    row: np.ndarray
    factor: float


class Outer(NamedTuple):
    nothing: Nothing
    inner: Inner
    flag: bool


@compiled
def same(value):
    return value


@compiled
def describe(array, out):
    out[0] = array.size
    for axis in range(array.ndim):
        out[1 + axis] = array.shape[axis]
        out[4 + axis] = array.strides[axis]


@compiled
def element(array, i, j):
    return array[i, j]


@compiled
def total(record, bias, rows):
    if record.flag:
        return -1.0
    return record.inner.factor * record.inner.row[1] + bias + rows[1][0]


NUMBERS = [
    0, -1, 2**63 - 1, -(2**63), True, False, 1.5, -0.0, np.inf, np.float64(0.1), np.float32(0.1),
    np.uint64(2**64 - 1), np.int64(-5), np.int32(-(2**31)), np.uint8(255), np.int8(-128),
    np.bool_(True),
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__}-{n}")
def test_a_number_arrives_as_it_is(number):
    answer = same(number)
    assert answer == number
    assert np.signbit(float(answer)) == np.signbit(float(number))


ARRAYS = {
    "row": np.arange(5.0),
    "none": np.zeros((0, 3)),
    "matrix": np.arange(12, dtype=np.int8).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "every second": np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)[:, ::2, ::-1],
    "read only": np.broadcast_to(np.arange(3.0), (2, 3)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_arrives_as_it_is(name):
    array = ARRAYS[name]
    out = np.zeros(7, np.int64)
    describe(array, out)
    assert out[0] == array.size
    assert tuple(out[1 : 1 + array.ndim]) == array.shape
    assert tuple(out[4 : 4 + array.ndim]) == array.strides
    if array.ndim == 2:
        for i, j in np.ndindex(array.shape):
            assert element(array, i, j) == array[i, j]


def test_records_are_read_to_their_leaves_and_let_go():
    row, column = np.array([1.0, 2.0]), np.array([0.25])
    record = Outer(Nothing(), Inner(row, 10.0), False)
    before = sys.getrefcount(row), sys.getrefcount(column)
    for _ in range(3):
        assert total(record, 3, (row, column)) == 23.25
    assert total(record._replace(flag=True), 3, (row, column)) == -1.0
    assert (sys.getrefcount(row), sys.getrefcount(column)) == before


def machine_code(function, *arguments):
    """What is called once the types of the arguments are known."""
    function(*arguments)
    return function.overloads[tuple(map(numba.typeof, arguments))].entry_point


def test_a_call_with_too_few_arguments_says_so():
    code = machine_code(element, np.zeros((2, 2)), 0, 1)
    with pytest.raises(TypeError, match="3 arguments"):
        code(np.zeros((2, 2)), 0)


@pytest.mark.parametrize("number", [1, 1.5])
def test_what_is_no_number_is_an_error(number):
    with pytest.raises(TypeError):
        machine_code(same, number)("1")
