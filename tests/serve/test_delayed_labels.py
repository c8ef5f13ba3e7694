"""Rows that wait for their targets outlive the process."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.delayed_labels import PendingRows
from kernelstream.serve import Accepted, Block, Closed, Limits, ServedModel
from kernelstream.serve.delayed_labels import DurablePendingRows
from tests.serve.folders import copy_as_after_a_crash

from .streams import (
    IDS,
    X,
    Y,
    learn_targets,
    learned_at_once,
    new_model,
    rows,
    same_model,
    where,
)

pytestmark = pytest.mark.usefixtures("interpreted")


def asked(start, stop, keys=None):
    return Block(X[start:stop], ids=IDS[start:stop], keys=keys)


def after_a_crash(folder, tmp_path):
    copy = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
    copy_as_after_a_crash(folder, copy)
    return ServedModel("test", new_model(), copy)


def test_targets_that_come_after_a_crash(tmp_path):
    folder = tmp_path / "folder"
    served = ServedModel("test", new_model(), folder, checkpoint_rows=25)
    served.learn(rows(0, 20)).result(30)
    served.wait_for_targets(asked(20, 40))
    found = after_a_crash(folder, tmp_path)
    assert found.state()["n_without_target"] == 20
    assert where(found, IDS[:21]) == ([20], list(range(20)))
    assert learn_targets(found, IDS[20:40], Y[20:40]).learned.result(30).accepted == Accepted(20, 0)
    assert same_model(found.served.model, learned_at_once(40))
    assert found.state()["n_without_target"] == 0
    later = after_a_crash(found._checkpoints.folder, tmp_path)
    assert where(later, IDS[20:40]) == ([], list(range(20)))
    for each in (served, found, later):
        each.close()


def test_a_row_that_was_learned_does_not_wait_even_if_the_room_was_not_told(tmp_path):
    """The crash came between the log and the waiting room."""
    folder = tmp_path / "folder"
    served = ServedModel("test", new_model(), folder)
    served.wait_for_targets(asked(0, 5))
    before = (folder / "waiting.ksl").read_bytes()
    learn_targets(served, IDS[:2], Y[:2]).learned.result(30)
    served.close()
    (folder / "waiting.ksl").write_bytes(before + b"half a record")
    again = ServedModel("test", new_model(), folder)
    assert where(again, IDS[:5]) == ([2, 3, 4], [0, 1])
    again.close()


def test_two_requests_with_the_same_target(tmp_path):
    """The second finds the row still waiting, and comes when it has been learned."""
    served = ServedModel("test", new_model(), tmp_path)
    served.learn(rows(0, 20)).result(30)
    served.wait_for_targets(asked(20, 21))
    _, block, _ = served.waiting(IDS[20:21])
    assert learn_targets(served, IDS[20:21], [1]).learned.result(30).accepted == Accepted(1, 0)
    late = served.submit(block._replace(targets=[1]))
    assert late.learned.result(30).accepted == Accepted(0, 1)
    served.wait_for_targets(asked(20, 21))  # though it has been learned
    assert learn_targets(served, IDS[20:21], [1]).learned.result(30).accepted == Accepted(0, 1)
    assert served.state()["n_without_target"] == 0
    served.close()


def test_a_full_disk_is_told_before_an_answer(tmp_path, monkeypatch):
    served = ServedModel("test", new_model(), tmp_path)

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Closed, match="No space left"):
            served.wait_for_targets(asked(0, 5))
    assert where(served, IDS[:5]) == ([], [])
    served.wait_for_targets(asked(3, 5))
    served.close()
    again = ServedModel("test", new_model(), tmp_path)
    assert where(again, IDS[:5]) == ([3, 4], [])
    again.close()


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 9), min_size=1)), max_size=12),
    st.integers(1, 6),
)
def test_the_room_on_the_disk_is_the_room_in_memory(tmp_path_factory, moves, most):
    folder = tmp_path_factory.mktemp("room")
    room, expected = DurablePendingRows(folder, most), PendingRows(most)
    for comes, numbers in moves:
        ids = [str(n) for n in sorted(numbers)]
        if comes:
            block = Block(X[sorted(numbers)], ids=ids, keys=[(n, "a") for n in sorted(numbers)])
            room.add(block)
            expected.add(ids, block.X, block.keys)
        else:
            room.remove([*ids, None])
            expected.remove(ids)
    room.close()
    for _ in range(2):
        again = DurablePendingRows(folder, most)
        assert again.ids == expected.ids
        if len(again):
            _, block = again.found(again.ids)
            assert (expected.rows_of(expected.ids) == block.X).all()
            assert block.keys == expected.keys_of(expected.ids)
        again.close()
    assert not list(folder.glob("*.new"))


def test_the_file_does_not_grow_for_ever(tmp_path):
    room = DurablePendingRows(tmp_path, 10)
    sizes = []
    for start in range(0, 200, 5):
        room.add(asked(start, start + 5))
        sizes.append((tmp_path / "waiting.ksl").stat().st_size)
    assert max(sizes) < 2 * max(sizes[:8])
    room.close()


def test_a_fleet_s_rows_wait_with_their_keys(tmp_path):
    def new():
        fleet = ks.KeyedFleet("pa", "regressor", budget=4)
        fleet.learn(["a", "b"], X[:2], [1.0, 2.0])
        return ServedModel("test", fleet, tmp_path, limits=Limits(waiting_rows=3))

    served = new()
    served.wait_for_targets(asked(10, 14, ["a", ("c", 1), 5, "a"]))
    served.close()
    again = new()
    learn_targets(again, [IDS[11], IDS[13]], [3.0, 4.0]).learned.result(30)
    assert list(again.served.model) == ["a", "b", ("c", 1)]
    assert where(again, IDS[10:14]) == ([2], [1, 3])
    again.close()
