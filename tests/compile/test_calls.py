"""Calls of compiled code with arguments that stay the same."""

from typing import NamedTuple

import numpy as np
import pytest

from kernelstream.compile import Call, compiled, in_one_call, one_by_one


class Numbers(NamedTuple):
    whole: int
    fraction: float
    rows: np.ndarray


@compiled
def note(numbers, narrow, flag, unsigned, out):
    out[0], out[1], out[2] = numbers.whole, numbers.fraction, numbers.rows[1, 2]
    out[3], out[4], out[5] = narrow, 1.0 if flag else 0.0, unsigned


@compiled
def count_down(n):
    n[0] -= 1
    return n[0] >= 0


@compiled
def ignore(anything):
    return True


def arguments():
    rows = np.arange(12.0, dtype=np.float32).reshape(4, 3)[::2]  # which is not contiguous
    return Numbers(-3, 0.1, rows), np.float32(2.5), True, np.uint64(2**63), np.zeros(6)


EXPECTED = [-3.0, 0.1, 8.0, 2.5, 1.0, 2.0**63]


@pytest.mark.parametrize("run_of", [in_one_call, lambda calls: lambda: one_by_one(calls)])
def test_arguments_arrive_and_a_no_ends_it(run_of):
    given, n = arguments(), np.array([2])
    call = Call(note, *given)
    run = run_of([Call(count_down, n), call, Call(count_down, n)])
    assert run() == 3
    assert given[-1].tolist() == EXPECTED
    given[0].rows[1, 2] = 77.0  # what lies in an array may change
    call.replace(1, np.float32(-1.0))
    n[0] = 1
    assert run() == 2
    assert given[-1].tolist() == [-3.0, 0.1, 77.0, -1.0, 1.0, 2.0**63]


def test_an_argument_of_another_type_is_refused():
    call = Call(count_down, np.array([1]))
    in_one_call([call])()
    with pytest.raises(TypeError, match="cannot become"):
        call.replace(0, np.zeros(1))
    with pytest.raises(TypeError, match="cannot be an argument"):
        in_one_call([Call(ignore, "a word")])


def test_arguments_stay_alive():
    runs = []
    for i in range(50):
        given = arguments()
        runs.append((in_one_call([Call(note, *given)]), given[-1], i))
        del given
    for run, out, _ in runs:
        assert run() == 1
        assert out.tolist() == EXPECTED
