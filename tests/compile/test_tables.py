"""What Python hands over arrives in compiled code as it is."""

import ctypes
import sys
from typing import NamedTuple

import numpy as np
import pytest

from kernelstream.compile import compiled
from kernelstream.compile.tables import OtherTypesError, Table, kind_of


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
    np.int64(-5), np.int32(-(2**31)), np.uint8(255), np.int8(-128), np.bool_(True),
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__}-{n}")
def test_a_number_arrives_as_it_is(number):
    answer = same(number)
    assert answer == number
    assert np.signbit(float(answer)) == np.signbit(float(number))


def test_a_number_above_the_largest_signed_one_arrives():
    @compiled
    def note(number, out):
        out[0] = number

    out = np.zeros(1, np.uint64)
    note(np.uint64(2**64 - 1), out)
    assert out[0] == 2**64 - 1


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
    assert tuple(out[4 : 4 + array.ndim]) == array.strides or array.size == 0
    if array.ndim == 2:
        for i, j in np.ndindex(array.shape):
            assert element(array, i, j) == array[i, j]


def test_records_are_read_to_their_leaves():
    row, column = np.array([1.0, 2.0]), np.array([0.25])
    record = Outer(Nothing(), Inner(row, 10.0), False)
    for _ in range(3):
        assert total(record, 3, (row, column)) == 23.25
    assert total(record._replace(flag=True), 3, (row, column)) == -1.0
    row[1] = 3.0
    assert total(record, 3, (row, column)) == 33.25


def test_a_table_keeps_its_arrays_alive_and_no_others():
    first, second = np.arange(3.0), np.arange(3.0)
    before = sys.getrefcount(first)
    table = Table([kind_of(first)])
    table.fill([first])
    assert sys.getrefcount(first) == before + 1
    table.fill([second])
    assert sys.getrefcount(first) == before


def test_a_table_refuses_other_types():
    table = Table([kind_of((1.0, 2))])
    for wrong in [(1.0, 2.0), (1.0,), [1.0, 2], (1.0, 2, 3), 1.0]:
        with pytest.raises(OtherTypesError):
            table.fill([wrong])
    with pytest.raises(OtherTypesError, match="2 arguments instead of 1"):
        table.fill([(1.0, 2), 1])


@pytest.mark.parametrize("value", ["1", None, np.array(["a"]), np.ma.masked_array([1.0]), [1.0]])
def test_what_is_no_number_and_no_array_is_an_error(value):
    with pytest.raises(TypeError, match="cannot be an argument"):
        same(value)


def test_an_array_without_elements_has_an_address():
    table = Table([kind_of(np.zeros((0, 3)))])
    table.fill([np.zeros((0, 3))])
    words = np.frombuffer((ctypes.c_int64 * 5).from_address(table.address), np.int64)
    assert words[2] != 0
    assert words[3:].tolist() == [0, 3]
