"""Checkpoints: killed at any moment, a run goes on bit for bit as if it had never stopped."""

import os
import pickle
import signal
import subprocess
import sys
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
    return model.to_bytes()


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
@pytest.mark.parametrize("most", [60, pytest.param(500, marks=pytest.mark.nightly)])
def test_a_run_that_is_killed_many_times_ends_as_one_that_is_not(tmp_path, unbroken, most):
    """SIGKILL at random moments, also in the middle of a save (every block is saved)."""
    kills = 0
    for seed in range(1000):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills += kill_until_done(folder, 50, seed)
        assert (folder / "done").read_bytes() == unbroken
        if kills >= most:
            break
    assert kills >= most


def test_resuming_is_going_on(tmp_path, unbroken):
    run(tmp_path, stop=1000)
    assert ks.Checkpointer(tmp_path).positions() == [750, 900]
    assert run(tmp_path) == unbroken


def test_a_damaged_checkpoint_is_passed_over(tmp_path, unbroken):
    run(tmp_path, stop=1000)
    newest = max(tmp_path.glob("*.ks"))
    newest.write_bytes(newest.read_bytes()[:-7])
    with pytest.warns(UserWarning, match=r"cannot be used .*trying an older one"):
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


def a_model():
    return new_model().partial_fit(X[:50], Y[:50])


def test_a_second_writer_is_refused_and_deletes_nothing(tmp_path):
    first, second = (ks.Checkpointer(tmp_path, keep=1) for _ in range(2))
    model = a_model()
    first.save(model, 100)
    for use in (lambda: second.save(model, 50), lambda: second.resume(new_model), second.clear):
        with pytest.raises(BlockingIOError, match=r"held by another.*folder of its own.*close\(\)"):
            use()
        assert first.positions() == [100]
    assert second.resume()[1] == 100  # to read is allowed
    first.close()
    second.save(model, 50)
    assert second.positions() == [50]
    with pytest.raises(BlockingIOError, match=str(tmp_path)):
        first.save(model, 100)
    second.close()
    with first:
        first.save(model, 100)
    assert not (tmp_path / "checkpoints.lock").exists()


HOLD = """
import sys, time
import kernelstream as ks
from kernelstream.files.locks import FolderLock
checkpoints = ks.Checkpointer(sys.argv[1])
checkpoints.resume(lambda: None)
print("held", flush=True)
time.sleep(600)
"""


def test_the_lock_of_a_process_that_was_killed_is_taken_over(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "held\n"
        checkpoints = ks.Checkpointer(tmp_path)
        with pytest.raises(BlockingIOError, match="still running"):
            checkpoints.save(a_model(), 50)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert (tmp_path / "checkpoints.lock").exists()  # which means nothing any more
    checkpoints.save(a_model(), 50)
    assert checkpoints.positions() == [50]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_does_not_share_its_parents_folder(tmp_path):
    checkpoints, model = ks.Checkpointer(tmp_path), a_model()
    checkpoints.save(model, 50)
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            checkpoints.save(model, 10)
            os._exit(1)
        except BlockingIOError:
            checkpoints.close()
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    other = ks.Checkpointer(tmp_path)
    with pytest.raises(BlockingIOError):  # the child's end released nothing
        other.save(model, 60)
    checkpoints.save(model, 70)
    assert checkpoints.positions() == [50, 70]


def test_a_copy_of_a_checkpointer_holds_nothing(tmp_path):
    checkpoints, model = ks.Checkpointer(tmp_path), a_model()
    checkpoints.save(model, 50)
    twin = pickle.loads(pickle.dumps(checkpoints))
    with pytest.raises(BlockingIOError):
        twin.save(model, 60)
    del twin
    checkpoints.save(model, 60)


def test_a_folder_that_cannot_be_locked_is_warned_of(tmp_path, monkeypatch):
    from kernelstream.files import locks

    def no_locks(handle):
        raise OSError("no locks available")

    monkeypatch.setattr(locks, "_lock", no_locks)
    with pytest.warns(UserWarning, match=r"cannot be locked .no locks available"):
        ks.Checkpointer(tmp_path).save(a_model(), 50)


def test_the_position_is_the_headers(tmp_path):
    checkpoints, model = ks.Checkpointer(tmp_path, keep=2), a_model()
    path = checkpoints.save(model, 50)
    path.rename(tmp_path / "checkpoint-00000000000000000900.ks")
    assert checkpoints.positions() == [50]
    assert checkpoints.resume()[1] == 50
    checkpoints.save(model, 100)  # the file is not one of a run that was overtaken
    assert checkpoints.positions() == [50, 100]
    assert checkpoints.resume()[1] == 100
    model.save(tmp_path / "checkpoint-00000000000000000990.ks")  # a model, but no checkpoint
    with pytest.warns(UserWarning, match="None, which is no position"):
        assert checkpoints.resume()[1] == 100


def test_a_position_of_any_length(tmp_path):
    checkpoints = ks.Checkpointer(tmp_path)
    checkpoints.save(a_model(), 10**25)
    assert checkpoints.positions() == [10**25]
    assert checkpoints.resume()[1] == 10**25


def test_folders_with_a_checkpoints_name_are_let_be(tmp_path):
    for position in (50, 60):
        (tmp_path / f"checkpoint-{position:020d}.ks").mkdir()
    (tmp_path / ".checkpoint-00000000000000000050.ks.abc").mkdir()
    os.utime(tmp_path / ".checkpoint-00000000000000000050.ks.abc", (0, 0))
    checkpoints, model = ks.Checkpointer(tmp_path, keep=1), a_model()
    assert checkpoints.resume(new_model)[1] == 0
    for position in (50, 55, 60):
        checkpoints.save(model, position)
        assert checkpoints.positions() == [position]
    assert checkpoints.resume()[1] == 60
    checkpoints.clear()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    ("preset", "task", "params"),
    [("silk", "novelty", {}), ("svmd", "classifier", {"classes": ["a", "b", "c"]}),
     ("norma", "regressor", {"on_bad_row": print})],
)  # fmt: skip
def test_a_fleet_resumes_bit_for_bit(tmp_path, preset, task, params):
    def new_fleet():
        return ks.Fleet(preset, task, 20, 3, budget=5, **params)

    def learn(fleet, start, stop, checkpoints=None):
        for t in range(start, stop):
            rows = X[20 * t : 20 * t + 20]
            if task == "novelty":
                fleet.learn(rows)
            else:
                y = np.array(["a", "b", "c"])[Y] if task == "classifier" else X[:, 0]
                fleet.learn(rows, y[20 * t : 20 * t + 20])
            if checkpoints is not None:
                checkpoints.step(fleet, t + 1, {"at": t})
        return fleet

    unbroken = learn(new_fleet(), 0, 30).to_bytes()
    with ks.Checkpointer(tmp_path, every_rows=7, keep=2) as checkpoints:
        learn(checkpoints.resume(new_fleet)[0], 0, 18, checkpoints)
    checkpoints = ks.Checkpointer(tmp_path, every_rows=7, keep=2)
    fleet, position, extra = checkpoints.resume_with_extra(new_fleet)
    assert (position, extra) == (14, {"at": 13})
    assert isinstance(fleet, ks.Fleet)
    assert learn(fleet, position, 30, checkpoints).to_bytes() == unbroken
