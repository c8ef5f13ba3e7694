"""A fault, or a crash, at every single write: nothing acknowledged is lost or learned twice.

Every writer is tried: model files, checkpoints, stores, the log and the waiting rows of a service,
and the outputs of commands. The default run tries every ninth moment, the nightly run all of them.
"""

import atexit
import contextlib
import functools
import itertools
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app
from kernelstream.files.bytes import FileError
from kernelstream.serve import Block, ServedModel
from kernelstream.serve.model import Closed

from .conftest import interpret
from .faults import copying, failing, watched

X = np.round(np.random.default_rng(1).normal(size=(96, 2)), 3)
Y = np.round(np.sin(X[:, 0]) + X[:, 1], 3)
KEYS = [f"key {i % 7}" for i in range(96)]
BLOCK = 8
STEP = [
    pytest.param(9, id="some"),
    pytest.param(1, id="all", marks=pytest.mark.nightly),
]


@pytest.fixture(autouse=True)
def _interpreted():
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpret(patch)
        yield


def moments(run, folder, step):
    """The moments of a run at which something is done to a folder, or some of them."""
    with watched(folder, lambda number, what: None) as disk:
        run(folder)
    return range(0, disk.n_done, step)


def blocks(first=0):
    return [slice(start, start + BLOCK) for start in range(first, len(X), BLOCK)]


# --- a model file --------------------------------------------------------------------------------


def test_a_model_file_is_the_old_one_or_the_new_one(tmp_path):
    old, new = ks.KernelRegressor(budget=5), ks.KernelRegressor(budget=6)
    old.partial_fit(X[:9], Y[:9])
    new.partial_fit(X[:9], Y[:9])
    path = tmp_path / "m.ks"
    for number in itertools.count():
        old.save(path)
        with watched(tmp_path, failing(number)) as disk, contextlib.suppress(OSError):
            new.save(path)
        assert ks.load(path).to_bytes() in (old.to_bytes(), new.to_bytes())
        assert list(tmp_path.iterdir()) == [path]
        if disk.n_done <= number:
            break
    assert number >= 4
    assert ks.load(path).to_bytes() == new.to_bytes()


# --- checkpoints, with and without a store -------------------------------------------------------


def model_run(folder):
    """Go on with a model from its last checkpoint until it has learned all rows."""
    checkpoints = ks.Checkpointer(folder, every_rows=2 * BLOCK, keep=2)
    model, position = checkpoints.resume(lambda: ks.make("pa", "regressor", budget=5))
    for rows in blocks(position):
        model.partial_fit(X[rows], Y[rows])
        with contextlib.suppress(OSError, FileError):
            checkpoints.step(model, rows.stop)
    checkpoints.close()
    return model.to_bytes()


def fleet_run(folder):
    """The same with a keyed fleet and a store; a block that fails is given once more."""
    folder.mkdir(exist_ok=True)
    checkpoints = ks.Checkpointer(folder / "checkpoints", every_rows=2 * BLOCK, keep=2)
    store = ks.ModelStore(folder / "models.db", keep=3)

    def new():
        return ks.KeyedFleet("svmd", "regressor", budget=4, max_models=2, store=store.clear())

    try:
        fleet, position = checkpoints.resume(new)
        if fleet.store is None:
            fleet.attach(store)
        for rows in blocks(position):
            try:
                fleet.learn(KEYS[rows], X[rows], Y[rows])
            except (OSError, FileError):
                fleet.learn(KEYS[rows], X[rows], Y[rows])
            with contextlib.suppress(OSError, FileError):
                checkpoints.step(fleet, rows.stop)
        assert fleet.n_rows_ == len(X)
        return sorted(pair for chunk in fleet.chunks() for pair in zip(*chunk, strict=True))
    finally:
        checkpoints.close()
        store.close()


RUNS = {"model": model_run, "fleet": fleet_run}


@pytest.mark.parametrize("step", STEP)
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("n_faults", [1, 40])
def test_a_run_goes_on_after_a_fault(name, n_faults, step, tmp_path):
    run = RUNS[name]
    expected = run(tmp_path / "expected")
    for number in moments(run, tmp_path / "moments", step):
        folder = tmp_path / str(number)
        with watched(folder, failing(number, n_faults)):
            try:
                found = run(folder)
            except (OSError, FileError):  # it cannot begin, or the store fails twice: it stops
                found = None
        assert found in (None, expected), number
        assert run(folder) == expected, number  # and begins again from what there is


@pytest.mark.parametrize("step", STEP)
@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_resumed_after_a_crash(name, step, tmp_path):
    run, folder = RUNS[name], tmp_path / "folder"
    folder.mkdir()
    copies = copying(folder, tmp_path / "copies")
    with watched(folder, copies) as disk:
        expected = run(folder)
    for number in range(0, disk.n_done, step):
        assert run(tmp_path / "copies" / str(number)) == expected, number


def test_files_that_are_never_written_use_up_no_way_back(tmp_path):
    """Eight of them made the last good checkpoint useless, and then the process was killed."""
    checkpoints = ks.Checkpointer(tmp_path / "checkpoints", every_rows=BLOCK, keep=2)
    store = ks.ModelStore(tmp_path / "models.db", keep=8)
    fleet = ks.KeyedFleet("svmd", "regressor", budget=4, max_models=2, store=store)
    whole = ks.KeyedFleet("svmd", "regressor", budget=4)
    for number, rows in enumerate(blocks()):
        fleet.learn(KEYS[rows], X[rows], Y[rows])
        whole.learn(KEYS[rows], X[rows], Y[rows])
        if number == 1:
            checkpoints.save(fleet, rows.stop)
        elif number > 1:
            with watched(checkpoints.folder, failing(0)), pytest.raises(OSError, match="no space"):
                checkpoints.save(fleet, rows.stop)
    assert number >= 10
    shutil.copytree(tmp_path, tmp_path / "after", ignore=shutil.ignore_patterns("after", "*.lock"))
    store.close()
    checkpoints.close()
    store = ks.ModelStore(tmp_path / "after" / "models.db")
    fleet, position = ks.Checkpointer(tmp_path / "after" / "checkpoints").resume()
    assert position == 2 * BLOCK
    fleet.attach(store)
    for rows in blocks(position):
        fleet.learn(KEYS[rows], X[rows], Y[rows])
    asked = KEYS[:7], X[:7]
    np.testing.assert_array_equal(fleet.predict(*asked), whole.predict(*asked))
    store.close()


def test_a_checkpoint_that_cannot_be_read_does_not_replace_one_that_can(tmp_path, monkeypatch):
    checkpoints = ks.Checkpointer(tmp_path, keep=1)
    model = ks.KernelRegressor(budget=5).partial_fit(X[:9], Y[:9])
    checkpoints.save(model, 9)
    model.partial_fit(X[9:12], Y[9:12])
    model.machine_.state.expansion.coef[0, 0, 0] = np.inf  # as by an error of this library
    with pytest.raises(FileError, match=r"cannot be read.*the older ones are kept"):
        checkpoints.save(model, 12)
    assert checkpoints.positions() == [9]
    assert checkpoints.resume()[1] == 9


# --- a store that fails --------------------------------------------------------------------------


def test_rows_are_learned_once_where_the_store_fails(tmp_path):
    fleet_run(tmp_path / "moments")
    for number in range(0, 60, 2):
        store = ks.ModelStore(tmp_path / f"{number}.db")
        fleet = ks.KeyedFleet("svmd", "regressor", budget=4, max_models=2, store=store)
        plain = ks.KeyedFleet("svmd", "regressor", budget=4)
        store.close()
        with watched(tmp_path, failing(number, 2)):
            fleet.store._connection = fleet.store._opened()
            for rows in blocks():
                plain.learn(KEYS[rows], X[rows], Y[rows])
                while True:  # until it does not raise: then it has counted the rows
                    before = fleet.n_rows_
                    try:
                        fleet.learn(KEYS[rows], X[rows], Y[rows])
                        break
                    except FileError:
                        assert fleet.n_rows_ == before
            assert fleet.n_rows_ == plain.n_rows_ == len(X)
            np.testing.assert_array_equal(
                fleet.predict(KEYS[:7], X[:7]), plain.predict(KEYS[:7], X[:7])
            )
            store.close()


def test_a_transaction_that_cannot_be_undone_at_once_is_undone_later(tmp_path):
    store = ks.ModelStore(tmp_path / "models.db")
    store.exchange([], {"a": b"first", "b": b"second"}, "kind")
    store.close()
    for number in range(1, 8):
        with watched(tmp_path, failing(number, 20 - number)) as disk:
            store._connection = store._opened()
            with pytest.raises(FileError, match="no space"):  # the ROLLBACK fails, too
                store.exchange(["a"], {"c": b"third"}, "kind")
            disk.n_done = 20
            assert store.read(["a", "b", "c"]) == {"a": b"first", "b": b"second"}
            store.close()


@pytest.mark.parametrize("on_bad_row", ["raise", "skip"])
def test_a_refused_first_block_leaves_no_trace(on_bad_row, tmp_path):
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet(
        "svmd", "classifier", budget=4, max_models=1, store=store, on_bad_row=on_bad_row
    )
    with contextlib.suppress(ValueError):
        fleet.learn(["a", "b"], np.full((2, 3), np.nan), ["x", "y"])
    assert fleet.fleet_ is None
    assert store._about.kind is None
    labels = np.where(Y[:20] > 0, "good", "bad")
    fleet.learn(KEYS[:20], X[:20], labels)  # other labels, and another width
    assert sorted(fleet.classes_.tolist()) == ["bad", "good"]
    store.close()


# --- a service -----------------------------------------------------------------------------------


def new_served(folder, kind):
    store = None
    if kind == "stored fleet":
        file, store = stored_fleet()
        model = ks.load(file)
    elif kind == "fleet":
        model = ks.KeyedFleet("svmd", "regressor", budget=4)
    else:
        model = ks.make("linear-pa", "regressor")
    return ServedModel("m", model, folder, checkpoint_rows=3 * BLOCK, store=store)


@functools.cache
def stored_fleet():
    """The file and the store of a fleet that keeps two models in memory."""
    folder = Path(tempfile.mkdtemp(prefix="kernelstream-"))
    atexit.register(shutil.rmtree, folder)
    file, store = folder / "stored.ks", folder / "stored.db"
    with contextlib.closing(ks.ModelStore(store)) as models:
        fleet = ks.KeyedFleet("svmd", "regressor", budget=4, max_models=2, store=models)
        fleet.learn(KEYS[:8], X[:8], Y[:8])
        fleet.save(file)
    return file, store


def sent(rows, kind):
    ids = [f"row {i}" for i in range(rows.start, rows.stop)]
    keys = None if kind == "estimator" else KEYS[rows]
    return Block(X[rows], Y[rows].tolist(), ids, keys=keys)


def send_all(served, kind, acknowledged=None, again=lambda: None):
    """Send all rows in order, each block until it is acknowledged; where that stops, restart."""
    for rows in blocks():
        for attempt in range(60):
            try:
                served.learn(sent(rows, kind)).result(10)
                break
            except (Closed, OSError):
                assert attempt < 50
                if served.failure is not None:
                    served = again(served)
        if acknowledged is not None:
            acknowledged.append(rows.stop)
    return served


def knowledge(served, kind):
    model = served.served.model
    if kind == "stored fleet":  # whose file names a moment of its store
        return sorted(pair for chunk in model.chunks() for pair in zip(*chunk, strict=True))
    return model.to_bytes()


def close(served):
    with contextlib.suppress(OSError, FileError):
        served.close()
    served._log.close()
    served._checkpoints.close()
    served.served.close()  # its store


KINDS = ["estimator", "fleet", "stored fleet"]


@pytest.mark.parametrize("step", STEP)
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_loses_nothing_and_learns_nothing_twice_after_a_crash(kind, step, tmp_path):
    folder, acknowledged = tmp_path / "m", [0]
    folder.mkdir()
    copies = copying(folder, tmp_path / "copies", lambda: acknowledged[-1])
    with watched(folder, copies) as disk:
        served = new_served(folder, kind)
        send_all(served, kind, acknowledged)
        expected = knowledge(served, kind)
        close(served)
    for number in range(0, disk.n_done, step):
        after = new_served(tmp_path / "copies" / str(number), kind)
        assert after.position >= copies.notes[number], number  # nothing acknowledged is lost
        send_all(after, kind)  # a client that did not hear: all rows once more
        assert after.position == len(X), number  # nothing is learned twice
        assert knowledge(after, kind) == expected, number
        close(after)


@pytest.mark.parametrize("step", STEP)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_faults", [1, 25])
def test_a_service_goes_on_after_a_fault(kind, n_faults, step, tmp_path):
    def run(folder):
        served = new_served(folder, kind)
        served = send_all(served, kind)
        found = knowledge(served, kind)
        close(served)
        return found

    folder = tmp_path / "expected"
    expected = run(folder)
    for number in moments(run, tmp_path / "moments", step):
        folder = tmp_path / str(number)
        with watched(folder, failing(number, n_faults)) as disk:

            def again(failed=None, folder=folder):
                if failed is not None:
                    close(failed)
                for _ in range(60):  # it starts when the disk has space again
                    with contextlib.suppress(OSError, FileError, RuntimeError):
                        return new_served(folder, kind)
                raise AssertionError("the service does not start")

            served = send_all(again(), kind, again=again)
            disk.n_done = max(disk.n_done, number + n_faults)  # the disk works again
            assert served.position == len(X)
            assert knowledge(served, kind) == expected, number
            close(served)
        after = new_served(folder, kind)
        assert knowledge(after, kind) == expected, number
        close(after)


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_starts_again_after_many_failed_checkpoints_and_a_kill(kind, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    served = new_served(folder, kind)
    for rows in blocks()[:4]:
        served.learn(sent(rows, kind)).result(10)
    fails = failing(0, 10**6)

    def checkpoints_fail(number, what):
        if what in ("make", "rename"):
            fails(number, what)

    with watched(folder, checkpoints_fail):
        for rows in blocks()[4:]:
            served.learn(sent(rows, kind)).result(10)
            served._save()
        shutil.copytree(folder, tmp_path / "after", ignore=shutil.ignore_patterns("*.lock"))
    expected = knowledge(served, kind)
    close(served)
    after = new_served(tmp_path / "after", kind)
    assert after.position == len(X)
    assert knowledge(after, kind) == expected
    close(after)


# --- commands ------------------------------------------------------------------------------------


def write_table(path):
    lines = [f"{a},{b},{y}" for (a, b), y in zip(X, Y, strict=True)]
    path.write_text("\n".join(["a,b,y", *lines[:50], "1,2,?", *lines[50:]]) + "\n")
    return path


def command(folder, table):
    """A run with all of its outputs, and a prediction; what they write."""
    names = {"--model": "m.ks", "--metrics": "m.jsonl", "--bad-rows": "bad.jsonl"}
    outputs = [str(part) for name, file in names.items() for part in (name, folder / file)]
    source = [str(table), "--target", "y", "--task", "regress", "--block", "16"]
    how = ["--algorithm", "linear-pa", "--checkpoint", str(folder / "checkpoints")]
    done = CliRunner().invoke(app, ["run", *source, *how, "--checkpoint-rows", "32", *outputs])
    if done.exit_code:
        raise OSError(done.output)
    asked = ["predict", str(folder / "m.ks"), str(table), "--out", str(folder / "out.csv")]
    done = CliRunner().invoke(app, asked)
    if done.exit_code:
        raise OSError(done.output)
    model = ks.load(folder / "m.ks")
    texts = [(folder / name).read_text() for name in ("m.jsonl", "bad.jsonl", "out.csv")]
    return model.n_seen_, model.coef_.tolist(), texts


@pytest.mark.parametrize("step", STEP)
def test_a_command_is_given_again_after_a_fault_or_a_crash(step, tmp_path):
    folder, table = tmp_path / "m", write_table(tmp_path / "t.csv")
    folder.mkdir()
    copies = copying(folder, tmp_path / "copies")
    with watched(folder, copies) as disk:
        expected = command(folder, table)
    for number in range(0, disk.n_done, 2 * step):
        assert command(tmp_path / "copies" / str(number), table) == expected, number
        folder = tmp_path / f"fault {number}"
        folder.mkdir()
        with watched(folder, failing(number)), contextlib.suppress(OSError):
            command(folder, table)
        assert command(folder, table) == expected, number
