"""Checkpoints: killed at any moment, a run goes on bit for bit as if it had never stopped."""

import os
import signal
import time
import warnings

import numpy as np
import pytest

import kernelstream as ks

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3000, 3))
Y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
BLOCK = 50


def new_model():
    return ks.KernelClassifier(budget=64)


def run(folder, stop=None, every_rows=150):
    """Learn the stream from the last checkpoint on; the final model's bytes."""
    checkpoints = ks.Checkpointer(folder, every_rows=every_rows, keep=2)
    model, position = checkpoints.resume(new_model)
    for start in range(position, len(X) if stop is None else stop, BLOCK):
        model.partial_fit(X[start : start + BLOCK], Y[start : start + BLOCK])
        checkpoints.step(model, start + BLOCK)
    return model._to_bytes()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return run(tmp_path_factory.mktemp("unbroken"))


def kill_until_done(folder, n_kills, seed):
    """Run in children that are killed after a random time, until one comes to its end."""
    random = np.random.default_rng(seed)
    kills = 0
    while True:
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                (folder / "done").write_bytes(run(folder, every_rows=BLOCK))
            finally:
                os._exit(0)
        if kills < n_kills:
            time.sleep(random.exponential(0.004))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif kills >= n_kills:
            return kills
        else:  # it was done before it could be killed: once more
            for path in folder.iterdir():
                path.unlink()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_run_that_is_killed_five_hundred_times_ends_as_one_that_is_not(tmp_path, unbroken):
    """SIGKILL at random moments, also in the middle of a save (every block is saved)."""
    kills = 0
    for seed in range(1000):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills += kill_until_done(folder, 50, seed)
        assert (folder / "done").read_bytes() == unbroken
        if kills >= 500:
            break
    assert kills >= 500


def test_resuming_is_going_on(tmp_path, unbroken):
    run(tmp_path, stop=1000)
    assert ks.Checkpointer(tmp_path).positions() == [750, 900]
    assert run(tmp_path) == unbroken


def test_a_damaged_checkpoint_is_passed_over(tmp_path, unbroken):
    run(tmp_path, stop=1000)
    newest = max(tmp_path.glob("*.ks"))
    newest.write_bytes(newest.read_bytes()[:-7])
    with pytest.warns(UserWarning, match="cannot be used .*trying an older one"):
        model, position = ks.Checkpointer(tmp_path).resume(new_model)
    assert (position, model.n_seen_) == (750, 750)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(tmp_path) == unbroken


def test_the_last_few_are_kept_and_nothing_else_is_touched(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "checkpoint-old.ks").write_text("mine too")
    model = new_model().partial_fit(X[:50], Y[:50])
    checkpoints = ks.Checkpointer(tmp_path, every_rows=None, keep=2)
    for position in (50, 100, 150):
        assert not checkpoints.step(model, position)
        checkpoints.save(model, position)
    assert checkpoints.positions() == [100, 150]
    checkpoints.save(model, 120)  # a run that began again from an older one
    assert checkpoints.positions() == [100, 120]
    checkpoints.clear()
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-old.ks", "notes.txt"]


def test_what_a_crash_left_behind_is_cleared_away(tmp_path):
    left = tmp_path / ".checkpoint-00000000000000000050.ks.abc"
    left.write_text("half")
    model = new_model().partial_fit(X[:50], Y[:50])
    ks.Checkpointer(tmp_path).save(model, 50)
    assert left.exists()  # somebody may be writing it
    os.utime(left, (0, 0))
    ks.Checkpointer(tmp_path).save(model, 100)
    assert not left.exists()


def test_time_can_be_the_measure(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    checkpoints = ks.Checkpointer(tmp_path, every_rows=None, every_seconds=10)
    model = new_model().partial_fit(X[:50], Y[:50])
    assert not checkpoints.step(model, 50)
    now[0] = 10.5
    assert checkpoints.step(model, 100)
    assert not checkpoints.step(model, 150)


def test_anything_json_can_be_kept_beside_the_model(tmp_path):
    model = new_model().partial_fit(X[:50], Y[:50])
    ks.Checkpointer(tmp_path).save(model, 50, extra={"offset": 123, "errors": [0.5, 1.0]})
    _, position, extra = ks.Checkpointer(tmp_path).resume_with_extra()
    assert (position, extra) == (50, {"offset": 123, "errors": [0.5, 1.0]})
    assert ks.load(max(tmp_path.glob("*.ks"))).n_seen_ == 50  # a checkpoint is a model's file


def test_without_a_checkpoint_there_is_a_new_model(tmp_path):
    assert ks.Checkpointer(tmp_path / "none").resume() == (None, 0)
    model, position = ks.Checkpointer(tmp_path / "none").resume(new_model)
    assert position == 0
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("params", "message"),
    [({"every_rows": 0}, "every_rows=0"), ({"keep": 0}, "keep=0"),
     ({"every_seconds": -1}, "every_seconds=-1")],
)  # fmt: skip
def test_parameters_are_checked(tmp_path, params, message):
    with pytest.raises(ValueError, match=message):
        ks.Checkpointer(tmp_path, **params)
