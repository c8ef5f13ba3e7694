"""The engine: one writer, readers that never wait, and nothing acknowledged that is lost."""

import json
import os
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.files.bytes import FileError, to_bytes
from kernelstream.serve import (
    Accepted,
    Block,
    Closed,
    Limits,
    QueueFull,
    ServedModel,
    reader_priority,
)
from kernelstream.serve.estimator import Outcome
from kernelstream.serve.log import Log, RecentIds, RecordFile, records
from kernelstream.serve.statistics import BASELINES, History, Statistics
from tests.serve.folders import copy_as_after_a_crash

from .streams import IDS, Y, learned_at_once, new_model, rows, same_model
from .streams import X as ROWS


@pytest.fixture
def serve(tmp_path):
    """Make served models in one folder; those still open are closed at the end."""
    made = []

    def make(model=None, **options):
        model = new_model() if model is None else model
        made.append(ServedModel("test", model, tmp_path / "folder", **options))
        return made[-1]

    yield make
    for served in made:
        served.close()


def learn(served, *blocks):
    return [served.learn(block).result(30) for block in blocks]


def after_a_crash(served, tmp_path, **options):
    """What a process would find that starts now, while this one still runs."""
    copy = tmp_path / f"copy-{time.monotonic_ns()}"
    copy_as_after_a_crash(served._checkpoints.folder, copy)
    return ServedModel("test", new_model(), copy, **options)


@pytest.mark.usefixtures("without_compiler")
def test_rows_are_learned_once_in_order(serve):
    served = serve()
    answers = learn(served, rows(0, 100), rows(50, 200), rows(200, 300, ids=False))
    assert [answer.accepted for answer in answers] == [(100, 0), (100, 50), (100, 0)]
    assert same_model(served.served.model, learned_at_once(300))
    state = served.state(history=True)
    assert (state["n_seen"], state["position"], state["n_learned"]) == (300, 300, 300)
    assert state["n_repeated"] == 50
    assert state["history"][-1]["row"] == 300


@pytest.mark.usefixtures("without_compiler")
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, 59), max_size=8))
def test_however_rows_are_cut_into_requests_the_model_is_the_same(tmp_path_factory, cuts):
    served = ServedModel("test", new_model(), tmp_path_factory.mktemp("cut"), checkpoint_rows=25)
    ends = [0, *sorted(cuts), 60]
    waiting = [served.learn(rows(a, b)) for a, b in pairwise(ends)]
    assert sum(future.result(30).accepted.n_accepted for future in waiting) == 60
    assert same_model(served.served.model, learned_at_once(60))
    served.close()


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    "model",
    [ks.KernelRegressor(budget=8), ks.make("silk", "novelty", budget=8),
     ks.Committee(["linear-pa", "pa"], "classifier")],
    ids=["regressor", "novelty", "committee"],
)  # fmt: skip
def test_every_task_is_saved_and_taken_up_again(tmp_path, model):
    targets = {"regression": ROWS[:, 0].tolist(), "classification": Y, "novelty": None}[model.task]
    states = []
    for start in (0, 30):
        served = ServedModel("test", model, tmp_path, checkpoint_rows=20)
        for i in range(start, start + 30, 10):
            part = slice(i, i + 10)
            learn(served, Block(ROWS[part], None if targets is None else targets[part]))
        states.append(served.state(history=True))
        json.dumps(served.state(history=True), allow_nan=False)
        served.close()
    assert [state["n_learned"] for state in states] == [30, 60]
    assert [state["history"][-1]["row"] for state in states] == [30, 60]


@pytest.mark.usefixtures("without_compiler")
def test_step_answers_what_was_predicted_before_each_row_was_learned(serve):
    served = serve()
    expected = ks.prequential(new_model(), ROWS[:300], Y[:300], declare_classes=False)
    answers = learn(served, rows(0, 120), rows(120, 300))
    said = answers[0].predictions + answers[1].predictions
    assert said == expected.predictions.tolist()
    assert served.state()["error"] == pytest.approx(expected.error_rate)
    (again,) = learn(served, rows(290, 300))  # they are known: the model says what it says now
    assert again.predictions == served.predict(ROWS[290:300])


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("checkpoint_rows", [10_000, 50])
def test_what_was_acknowledged_is_there_after_a_crash(serve, tmp_path, checkpoint_rows):
    served = serve(checkpoint_rows=checkpoint_rows)
    for start in range(0, 300, 30):
        assert served.submit(rows(start, start + 30)).logged.result(30) == Accepted(30, 0)
    found = after_a_crash(served, tmp_path, checkpoint_rows=checkpoint_rows)
    learn(served, rows(299, 300))  # waits until all is learned
    model = served.served.model
    assert found.served.model.n_seen_ == model.n_seen_ == 300
    assert (found.served.model.coef_ == model.coef_).all()  # bit for bit
    assert learn(found, rows(0, 310))[0].accepted == Accepted(10, 300)
    kept = ("n_learned", "error", "recent_error", "baselines", "events")
    now, then = found.state(), learn(served, rows(0, 310)) and served.state()
    assert [now[name] for name in kept] == [then[name] for name in kept]
    found.close()


@pytest.mark.usefixtures("without_compiler")
def test_a_graceful_stop_learns_what_waits_and_saves(serve, tmp_path):
    served = serve()
    waiting = [served.learn(rows(i, i + 10)) for i in range(0, 200, 10)]
    served.close()
    assert all(future.result(0).accepted.n_accepted == 10 for future in waiting)
    assert ks.Checkpointer(tmp_path / "folder").positions() == [200]
    with pytest.raises(Closed, match="stopping"):
        served.submit(rows(0, 1))
    again = serve()
    assert again.position == 200
    assert learn(again, rows(190, 210))[0].accepted == Accepted(10, 10)


@pytest.mark.usefixtures("without_compiler")
def test_a_damaged_checkpoint_falls_back_to_the_log(serve, tmp_path):
    served = serve(checkpoint_rows=40)
    for start in range(0, 200, 20):
        learn(served, rows(start, start + 20))
    served.close()
    newest = max((tmp_path / "folder").glob("*.ks"))
    newest.write_bytes(newest.read_bytes()[:-3])
    with pytest.warns(UserWarning, match="trying an older one"):
        again = serve(checkpoint_rows=40)
    assert again.position == 200
    assert same_model(again.served.model, learned_at_once(200))


@pytest.mark.usefixtures("without_compiler")
def test_predictions_do_not_wait_for_learning(serve):
    served = serve()
    learn(served, rows(0, 50))
    before, go = served.predict(ROWS), threading.Event()
    learn_block = served.served.learn
    served.served.learn = lambda block: go.wait(30) and learn_block(block)
    waiting = served.submit(rows(50, 300))
    waiting.logged.result(30)
    assert served.predict(ROWS) == before
    assert not waiting.learned.done()
    go.set()
    waiting.learned.result(30)
    assert served.predict(ROWS) != before


@pytest.mark.usefixtures("without_compiler")
def test_a_full_queue_says_when_to_come_back(serve):
    served = serve(limits=Limits(rows=20, queued_rows=40))
    go = threading.Event()
    learn_block = served.served.learn
    served.served.learn = lambda block: go.wait(30) and learn_block(block)
    served.submit(rows(0, 20)).logged.result(30)  # the writer has it
    waiting = [served.learn(rows(i, i + 20)) for i in (20, 40)]
    with pytest.raises(QueueFull, match="40 rows wait") as full:
        served.submit(rows(60, 61))
    assert 1 <= full.value.retry_after <= 60
    go.set()
    assert [future.result(30).accepted.n_accepted for future in waiting] == [20, 20]
    assert learn(served, rows(60, 61))[0].accepted == Accepted(1, 0)


@pytest.mark.usefixtures("without_compiler")
def test_rows_that_were_turned_away_take_no_room(serve):
    """Neither their labels nor their width count."""
    served = serve(limits=Limits(rows=20, queued_rows=20, classes=3))
    go = threading.Event()
    learn_block = served.served.learn
    served.served.learn = lambda block: go.wait(30) and learn_block(block)
    served.submit(rows(0, 20)).logged.result(30)
    last = served.learn(rows(20, 40))
    with pytest.raises(QueueFull):
        served.submit(Block(ROWS[:1], [7]))
    assert not served.admission.target_problems([8])
    go.set()
    last.result(30)
    assert learn(served, Block(ROWS[:1], [8]))[0].accepted == Accepted(1, 0)
    assert "which is the limit" in served.admission.target_problems([7])[0]
    with pytest.raises(ValueError, match="3 classes, which is the limit"):
        served.submit(Block(ROWS[:1], [7]))  # checked before the other came


@pytest.mark.usefixtures("without_compiler")
def test_what_is_shown_has_another_version_when_it_changes(serve, monkeypatch):
    served = serve()
    learn(served, rows(0, 100))
    seen = [served.version]
    served.wait_for_targets(Block(ROWS[:1], ids=["a"]))
    seen.append(served.version)
    served.refuse(["it is bad"])
    seen.append(served.version)
    later = time.monotonic() + 20.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    seen.append(served.version)  # no row came for ten seconds
    assert served.state()["rows_per_second"] == 0
    assert len(set(seen)) == 4


class Cut:
    """A file whose disk takes a few bytes at a time, and is full after some."""

    def __init__(self, file, most, cuts=True):
        self.file, self.left, self.cuts = file, most, cuts

    def write(self, content):
        if self.left == 0:
            raise OSError(28, "No space left on device")
        n = self.file.write(content[: min(self.left, 7)])
        self.left -= n
        return n

    def truncate(self, end):
        if not self.cuts:
            raise OSError(5, "Input/output error")
        self.file.truncate(end)

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("cuts", [True, False])
def test_a_record_is_written_as_a_whole_or_not_at_all(tmp_path, cuts):
    """Also if what was written of it cannot be cut off at once."""
    written = [to_bytes({"n": n}, {}) for n in range(3)]
    file = RecordFile(tmp_path / "file", is_new=True)
    own = file._file
    file._file = Cut(own, 10**6)
    file.append(written[0])
    file._file = Cut(own, 20, cuts)
    with pytest.raises(OSError, match="No space"):
        file.append(written[1])
    assert (os.path.getsize(file.path) > len(written[0]) + 8) == (not cuts)
    file._file = own
    file.append(written[2])
    file.close()
    assert [header["n"] for header, _ in records(file.path, may_be_cut=False)] == [0, 2]


@pytest.mark.usefixtures("without_compiler")
def test_a_full_disk_refuses_rows_and_forgets_nothing(serve, tmp_path, monkeypatch):
    served = serve()
    learn(served, rows(0, 50))

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    pending = served.submit(rows(50, 60))
    with pytest.raises(Closed, match="No space left"):
        pending.logged.result(30)
    monkeypatch.undo()
    assert served.position == 50
    learn(served, rows(50, 70))
    assert served.position == 70


@pytest.mark.usefixtures("without_compiler")
def test_a_checkpoint_that_cannot_be_saved_is_made_up_for_by_the_log(serve, caplog, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    served = serve(checkpoint_rows=30)
    with monkeypatch.context() as patch:
        patch.setattr(served._log, "begin_segment", full)
        learn(served, rows(0, 50))
        patch.setattr(served._checkpoints, "save", full)
        learn(served, rows(50, 100), rows(100, 110))
        served.close()
    assert "No space left" in caplog.text
    again = serve(checkpoint_rows=30)
    assert again.position == 110
    learn(again, rows(100, 150))
    assert same_model(again.served.model, learned_at_once(150))


def test_a_writer_that_fails_says_so(serve):
    served = serve()
    served.served.learn = lambda block: 1 / 0
    with pytest.raises(Closed, match="ZeroDivisionError"):
        served.learn(rows(0, 5)).result(30)
    with pytest.raises(Closed, match="restart"):
        served.submit(rows(5, 6))
    assert "ZeroDivisionError" in served.state()["failure"]


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("preset", ["linear-pa", "averaged-perceptron"])
def test_rows_that_only_learning_refuses_are_left_out_and_told(serve, tmp_path, preset):
    served = serve(ks.make(preset, "classifier", kernel="linear"))
    X = ROWS[:20].copy()
    X[7] = 1e200  # finite, and too large for its kernel
    (answer,) = learn(served, Block(X, Y[:20], IDS[:20]))
    assert [bad["row"] for bad in answer.skipped] == [7]
    assert answer.predictions[7] is None
    state = served.state()
    assert (state["n_learned"], state["position"], state["n_skipped"]) == (19, 20, 1)
    assert served.served.model.n_seen_ == 19  # none of them twice
    assert state["bad_rows"][0]["row"] == 8
    found = after_a_crash(served, tmp_path)
    assert found.served.model.n_seen_ == 19
    found.close()


@pytest.mark.usefixtures("without_compiler")
def test_requests_can_be_written_one_by_one(serve, monkeypatch):
    served = serve(sync="request")
    go, sizes = threading.Event(), []
    learn_block = served.served.learn

    def watched(block):
        sizes.append(len(block.X))
        return go.wait(30) and learn_block(block)

    served.served.learn = watched
    waiting = [served.learn(rows(i, i + 5)) for i in range(0, 50, 5)]
    go.set()
    for future in waiting:
        future.result(30)
    assert sizes == [5] * 10


def test_a_folder_has_one_writer(serve):
    serve()
    with pytest.raises(BlockingIOError, match="held by another"):
        serve()


# --- the log -------------------------------------------------------------------------------------


def new_log(folder, most=1000):
    log = Log(folder, RecentIds(most))
    blocks = list(log.replay(0))
    log.open(sum(len(block.X) for block in blocks))
    return log, blocks


def same_blocks(found, expected):
    assert [block[1:] for block in found] == [block[1:] for block in expected]
    assert all((a.X == b.X).all() for a, b in zip(found, expected, strict=True))


def test_a_log_that_is_cut_anywhere_has_every_whole_record(tmp_path):
    written = [rows(0, 5), rows(5, 7)._replace(position=5), rows(7, 9)._replace(position=7)]
    log, _ = new_log(tmp_path)
    ends = []
    (path,) = tmp_path.iterdir()
    for block in written:
        log.append(block)
        ends.append(path.stat().st_size)
    log.close()
    content = path.read_bytes()
    for cut in [*range(ends[1], ends[2], 7), ends[2]]:
        path.write_bytes(content[:cut])
        log, found = new_log(tmp_path)
        same_blocks(found, written if cut == ends[2] else written[:2])
        if cut < ends[2]:
            log.append(written[2])
        log.close()
        assert path.read_bytes() == content
    path.write_bytes(content[: ends[2] - 1] + b"?")  # a last page that never reached the disk
    log, found = new_log(tmp_path)
    log.close()
    same_blocks(found, written[:2])


def test_damage_before_the_end_is_an_error(tmp_path):
    log, _ = new_log(tmp_path)
    for start in range(0, 30, 10):
        log.append(rows(start, start + 10)._replace(position=start))
    log.close()
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(FileError, match="is damaged at byte"):
        new_log(tmp_path)


def test_a_gap_in_the_log_is_an_error(tmp_path):
    log, _ = new_log(tmp_path)
    log.append(rows(10, 20)._replace(position=10))
    log.close()
    with pytest.raises(FileError, match="continues at row 10"):
        new_log(tmp_path)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 20))
def test_recent_ids_are_the_last_ones(numbers, most):
    recent, expected = RecentIds(most), {}
    for number in numbers:
        recent.add([str(number)])
        expected.setdefault(number)
        expected = dict.fromkeys(list(expected)[-most:])
    assert {n for n in range(31) if str(n) in recent} == set(expected)
    copy = RecentIds(most)
    copy.fill(recent.to_array())
    assert (copy.to_array() == recent.to_array()).all()


# --- statistics ----------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=300), min_size=1, max_size=40))
def test_a_history_keeps_the_mean_of_all_rows(blocks):
    history = History()
    for block in blocks:
        history.add({"error": block}, {"n_support": len(block)})
    points, everything = history.points, [value for block in blocks for value in block]
    assert len(points) <= 240
    assert sum(point["n"] for point in points) == points[-1]["row"] == len(everything)
    total = sum(point["n"] * point["error"] for point in points)
    assert total == pytest.approx(sum(everything), abs=1e-9)
    assert points[-1]["n_support"] == len(blocks[-1])


def test_a_history_may_lack_a_number_for_a_while():
    history = History()
    for i in range(300):
        history.add({"error": [1.0] * 16, **({"step_size": [0.5] * 16} if i % 3 else {})}, {})
    assert len(history.points) <= 240
    assert {point.get("step_size", 0.5) for point in history.points} == {0.5}


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_baselines_are_those_of_their_definition(cut):
    labels = np.random.default_rng(1).integers(0, 3, 60).tolist()
    numbers = np.random.default_rng(2).normal(size=60).tolist()
    found = {name: made() for task in BASELINES.values() for name, made in task.items()}
    said = {name: [] for name in found}
    for start in range(0, 60, cut):
        for name in found:
            values = labels if "label" in name else numbers
            found[name] = type(found[name])(found[name].to_json())
            said[name] += found[name].errors(values[start : start + cut])
    assert said["mean so far"] == pytest.approx(
        [(numbers[i] - (np.mean(numbers[:i]) if i else 0.0)) ** 2 for i in range(60)]
    )
    before = [0.0, *numbers[:-1]]
    assert said["target of the row before"] == pytest.approx((np.subtract(before, numbers)) ** 2)
    assert said["label of the row before"] == [1.0] + [
        float(labels[i] != labels[i - 1]) for i in range(1, 60)
    ]
    for i in range(60):
        counts = np.bincount(labels[:i], minlength=3)
        if not said["most frequent label"][i]:
            assert counts[labels[i]] == counts.max() > 0
        elif i:
            assert counts[labels[i]] < counts.max() or (counts == counts.max()).sum() > 1


def test_reasons_are_bounded():
    statistics = Statistics("novelty")
    for i in range(1000):
        statistics.note_refused(f"reason {chr(1000 + i)}" + "x" * 1000, i)
    assert len(statistics.skipped) <= 51
    assert max(map(len, statistics.skipped)) <= 300
    assert statistics.summary()["n_skipped"] == 1000
    assert Statistics("novelty", statistics.to_json()).summary()["n_skipped"] == 1000


def test_rows_per_second_are_those_of_the_last_ten(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    statistics = Statistics("novelty")
    one = np.zeros(1, dtype=int)
    for _ in range(400):  # twenty seconds
        now[0] += 0.05
        statistics.note(Outcome(one, [1], np.zeros(1), one[:0], [], {}), None, 0, {})
    assert statistics.rows_per_second == pytest.approx(20.0, rel=0.1)
    assert len(statistics._pace) < 30
    now[0] += 5.0
    assert statistics.rows_per_second == pytest.approx(10.0, rel=0.1)
    now[0] += 6.0
    assert statistics.rows_per_second == 0.0


# --- kill -9 -------------------------------------------------------------------------------------


def feed(folder, start, tell):
    """Send rows from `start` on, five at a time, and tell how far they are acknowledged."""
    served = ServedModel("test", new_model(), folder, checkpoint_rows=35)
    for i in range(start, len(ROWS), 5):
        served.submit(rows(i, i + 5)).logged.result()
        os.write(tell, (i + 5).to_bytes(4, "little"))
    served.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_any_moment_no_acknowledged_row_is_lost_or_learned_twice(tmp_path):
    """Rows without an acknowledgement are sent again, with their ids, as a client does."""
    expected = learned_at_once()
    random = np.random.default_rng(3)
    acknowledged = kills = 0
    for _ in range(50):
        hear, tell = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                feed(tmp_path, acknowledged, tell)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(tell)
        if kills < 30:
            time.sleep(random.exponential(0.02))
            os.kill(child, signal.SIGKILL)
            kills += 1
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL)
        with os.fdopen(hear, "rb") as heard:
            said = heard.read()
        acknowledged = int.from_bytes(said[-4:], "little") if said else acknowledged
        if acknowledged == len(ROWS):
            break
    served = ServedModel("test", new_model(), tmp_path)
    assert served.position == len(ROWS)
    assert same_model(served.served.model, expected)
    served.close()
    assert kills >= 10


@pytest.mark.usefixtures("without_compiler")
def test_learning_pauses_while_predictions_are_asked_for(serve, monkeypatch):
    """Several times in a block, and the model is the same."""
    clock, slept = [100.0], []
    monkeypatch.setattr(reader_priority, "monotonic", lambda: clock[0])
    monkeypatch.setattr(reader_priority, "sleep", slept.append)
    served = serve()
    learn(served, rows(0, 100))
    assert not slept
    reader_priority.note_prediction()
    learn(served, rows(100, 200))
    assert len(slept) >= 5
    clock[0] += 1.0
    learn(served, rows(200, 300))
    assert len(slept) <= 10
    assert same_model(served.served.model, learned_at_once(300))
