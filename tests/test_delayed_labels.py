"""Rows that wait for their targets."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kernelstream as ks
from kernelstream.delayed_labels import PendingRows


def as_dense(X):
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_come_back_in_the_order_of_the_ids(kind):
    X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    room = PendingRows()
    room.add(["a", 7, "c"], kind(X), keys=["k", "l", "m"])
    X[:] = -1.0  # the room has copies
    np.testing.assert_array_equal(
        as_dense(room.rows_of(["c", 7, "a"])), [[0, 3, 0], [0, 0, 0], [1, 0, 2]]
    )
    assert room.keys_of([7, "a"]) == ["l", "k"]
    assert len(room) == 3  # reading removes nothing


def as_dictionaries(X):
    rows = np.empty(len(X), dtype=object)
    rows[:] = [{"a": row[0], "b": row[1]} for row in X]
    return rows


KINDS = {
    "dense": (np.asarray, lambda rows: rows[:, 0]),
    "sparse": (sparse.csr_array, lambda rows: rows.toarray()[:, 0]),
    "tables": (as_dictionaries, lambda rows: [row["a"] for row in rows]),
}


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 9), unique=True)), max_size=30),
    st.integers(1, 6),
)
def test_a_room_is_a_dict_that_gives_up_its_oldest(kind, steps, max_rows):
    made, firsts = KINDS[kind]
    room, expected, expired = PendingRows(max_rows), {}, 0
    for n, (arrives, ids) in enumerate(steps):
        if arrives:
            values = n + np.arange(len(ids)) / 100 + 1.0
            room.add(ids, made(np.stack([values, -values], axis=1)), [f"k{id}" for id in ids])
            for id in ids:
                expected.pop(id, None)
            expected |= dict(zip(ids, values, strict=True))
            while len(expected) > max_rows:
                del expected[next(iter(expected))]
                expired += 1
        else:
            room.remove(ids)
            for id in ids:
                expected.pop(id, None)
        assert room.ids == list(expected)
        assert room.n_expired == expired
        if expected:
            np.testing.assert_array_equal(firsts(room.rows_of(expected)), list(expected.values()))
            assert room.keys_of(expected) == [f"k{id}" for id in expected]


def test_rows_of_another_kind_are_refused_unless_none_waits():
    room = PendingRows(3)
    room.add(["a"], np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"shape \(2,\) and type float64 cannot wait beside"):
        room.add(["a", "b"], np.ones((2, 2)))
    assert room.ids == ["a"]
    room.remove(["a"])
    room.add(["b"], np.ones((1, 2)))
    assert room.rows_of(["b"]).shape == (1, 2)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("keys", [None, ["k", 3]])
def test_a_file_brings_it_back(kind, keys):
    room = PendingRows(2)
    room.add(["z"], kind(np.ones((1, 3))))
    room.add(["a", np.int64(2)], kind(np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]])), keys)
    header, arrays = room.to_parts()
    again = PendingRows.from_parts(json.loads(json.dumps(header)), arrays, 3)
    assert again.ids == ["a", 2]
    assert again.n_expired == 1
    assert again.keys_of(["a", 2]) == (keys or [None, None])
    np.testing.assert_array_equal(as_dense(again.rows_of([2])), [[2, 0, 0]])


def test_an_empty_room_is_saved_too():
    header, arrays = PendingRows(5).to_parts()
    assert len(PendingRows.from_parts(header, arrays, 3)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_rows": 1}, "with room for 1"),
        ({"ids": ["a", "a"]}, "given twice"),
        ({"keys": ["k"]}, "2 rows wait"),
        ({"n_expired": -1}, "n_expired"),
    ],
)
def test_a_changed_file_is_refused(change, message):
    room = PendingRows(5)
    room.add(["a", "b"], np.ones((2, 3)))
    header, arrays = room.to_parts()
    with pytest.raises(ValueError, match=message):
        PendingRows.from_parts({**header, **change}, arrays, 3)


@pytest.mark.parametrize("wrong", [True, 0, 2.5, "many"])
def test_how_many_may_wait_is_checked_when_a_model_begins(wrong):
    with pytest.raises((TypeError, ValueError), match="waiting_rows="):
        ks.KernelRegressor(waiting_rows=wrong).partial_fit([[0.0]], [1.0])
    model = ks.KernelRegressor().partial_fit([[0.0]], [1.0])
    model.waiting_rows = wrong
    with pytest.raises((TypeError, ValueError), match="waiting_rows="):
        model.predict([[0.0]], ids=[1])


def test_rows_of_a_file_are_checked():
    room = PendingRows(5)
    room.add(["a"], np.ones((1, 3)))
    header, arrays = room.to_parts()
    with pytest.raises(ValueError, match="shape"):
        PendingRows.from_parts(header, arrays, 4)
    arrays["waiting.rows"][0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        PendingRows.from_parts(header, arrays, 3)


def test_bad_ids_are_named():
    room = PendingRows(3)
    with pytest.raises(ValueError, match="'a' is given twice"):
        room.add(["a", "a"], np.ones((2, 1)))
    with pytest.raises(TypeError, match=r"id=1\.5"):
        room.add([1.5], np.ones((1, 1)))
    with pytest.raises(ValueError, match="2 entries, but X has 1 rows"):
        room.add(["a", "b"], np.ones((1, 1)))
    with pytest.raises(ValueError, match="no row waits under the id 'q'"):
        room.rows_of(["q"])
    with pytest.raises(ValueError, match="ids is empty"):
        room.rows_of([])
    assert len(room) == 0
