from collections import Counter

import numpy as np
import pytest

from kernelstream_lab.benchmark import STREAMS, TASKS
from kernelstream_lab.benchmark.shapes import leaf_of, moving
from kernelstream_lab.benchmark.streams import Rows


def test_there_are_enough_streams_in_both_halves():
    found = Counter((stream.task, stream.half) for stream in STREAMS.values())
    assert {task for task, _ in found} == set(TASKS)
    for task, least in (("classify", 12), ("regress", 8), ("novelty", 6)):
        choosing, reporting = found[task, "choosing"], found[task, "reporting"]
        assert choosing + reporting >= least
        assert abs(choosing - reporting) <= 1


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "shuttle"])  # 2 s to read
def test_a_stream_is_the_same_at_every_call(name):
    stream = STREAMS[name]
    X, y = stream.make(np.random.default_rng(stream.seed), stream.n_rows)
    again = stream.rows()
    assert Rows(X, y).checksum() == again.checksum()
    assert again.X.shape[0] == len(again.y) == stream.n_rows
    assert np.isfinite(again.X).all()
    assert np.isfinite(again.y).all()
    if stream.task == "regress":
        assert again.y.std() > 0
    else:
        counts = np.bincount(again.y)
        assert len(counts) > 1
        assert counts.min() > 0
    if stream.task == "novelty":
        assert 0.01 < again.y.mean() < 0.1


def test_the_checksum_sees_every_number():
    X, y = np.zeros((3, 2)), np.array([0, 1, 0])
    other = X.copy()
    other[2, 1] = 1e-9
    assert len({Rows(X, y).checksum(), Rows(other, y).checksum(), Rows(X, 1 - y).checksum()}) == 3


def test_centres_move_straight_and_bounce():
    random = np.random.default_rng(0)
    where = moving(random, np.full((1, 2), 0.5), speed=0.01, n=500)
    places = where(np.zeros(500, dtype=int))
    assert places.min() >= 0
    assert places.max() <= 1
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert np.isclose(steps, 0.01).mean() > 0.95  # all but those that turn within a row


def test_a_leaf_is_a_box():
    random = np.random.default_rng(0)
    X = random.random((2000, 2))
    leaf = leaf_of(random, X, depth=3)
    assert len(np.unique(leaf)) > 4
    for which in np.unique(leaf):
        low, high = X[leaf == which].min(axis=0), X[leaf == which].max(axis=0)
        in_box = ((low <= X) & (high >= X)).all(axis=1)
        assert (leaf[in_box] == which).all()
