"""Points on a device give the model that points on the host give.

The standard's own library stands in for a GPU: its second device takes no array of the host, and it
refuses whatever the standard does not say. PyTorch and CuPy are tried too, on the CPU and on a GPU,
where they are.
"""

import pickle
import threading
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets.dropping import Ring
from kernelstream.files.bytes import read
from kernelstream.learner.algebra import algebra_of
from kernelstream.learner.growth import resize_slots
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.stores import Device, DeviceMatrix, device, devices

from ..conftest import interpret
from .combinations import Combination, problem
from .test_tiles import assert_same, combinations, everything

strict = pytest.importorskip("array_api_strict")
STRICT = Device("device1", "float64", "array_api_strict")
HOSTED = Device("cpu", "float64", "array_api_strict")


def installed():
    """Devices that there are here."""
    yield STRICT
    for library, name in (("torch", "cpu"), ("torch", "cuda"), ("cupy", "cuda")):
        found = Device(name, "float64", library)
        if find_spec(library):
            try:
                found.open()
            except (ImportError, ValueError):  # no such device
                continue
            yield found


DEVICES = list(installed())


def learned(combination, X, y, weight, tile_rows, where):
    parts = replace(combination.parts(), device=where)
    machine = Machine(parts, X.shape[1], combination.n_outputs, np.dtype(float))
    machine.scratch["learn"] = learn_tile.py_func
    return machine, machine.learn(X, y, weight, tile_rows=tile_rows)[0]


def digits(n):
    random = np.random.default_rng(3)
    y = random.integers(0, 3, n)
    return random.normal(size=(3, 4))[y] + 0.7 * random.normal(size=(n, 4)), y


@pytest.fixture
def poisoned(monkeypatch):
    """Whatever was not brought to the host is no number; stretches are short."""

    def lend(self, name, shape, dtype=np.float64):
        return np.full(shape, np.nan, dtype)

    monkeypatch.setattr(devices.HostMemory, "lend", lend)
    monkeypatch.setattr(device, "_STRETCH", 40)
    monkeypatch.setattr(device, "_TILE", 10)


@settings(max_examples=50)
@given(combinations, st.integers(0, 10**6), st.sampled_from([1, 7, 64]), st.sampled_from(DEVICES))
def test_a_device_gives_the_model_of_the_host(combination, seed, tile_rows, where):
    assume(combination.kernel != "custom")
    X, y, weight = problem(combination, 60, seed)
    host, expected = learned(combination, X, y, weight, tile_rows, None)
    machine, trail = learned(combination, X, y, weight, tile_rows, where)
    np.testing.assert_allclose(trail.scores, expected.scores, rtol=1e-9, atol=1e-9)
    assert_same(everything(machine), everything(host), 1e-9)
    np.testing.assert_allclose(machine.scores(X), host.scores(X), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(
    "budget",
    ["unbounded", "oldest", "oldest-exact", "oldest-by-error", "smallest", "merge", "least-loss"],
)
def test_the_loop_reads_only_lines_that_it_asked_for(budget):
    combination = Combination(("classification", "hinge", "many"), budget=budget)
    X, y, weight = problem(combination, 90, seed=1)
    host, _ = learned(combination, X, y, weight, 10, None)
    for tile_rows in (None, 1, 7, 30):
        machine, trail = learned(combination, X, y, weight, tile_rows, STRICT)
        assert np.isfinite(trail.scores).all()
        assert_same(everything(machine), everything(host), 1e-9)


def test_fewer_lines_are_read_than_there_are():
    ring = ks.budgets.OldestOut(100, exact=False)
    state = Ring(np.array([95]))
    assert ring.lines_read(state, 100, 10) == [slice(95, 100), slice(0, 5)]
    assert ks.budgets.Unbounded().lines_read(state, 100, 10) == []
    assert ks.budgets.SmallestOut(100).lines_read(state, 100, 10) == [slice(0, 100)]


@settings(max_examples=20)
@given(combinations, st.integers(0, 10**6), st.integers(1, 30))
def test_a_block_on_a_device_can_be_undone(combination, seed, n_rows):
    assume(combination.kernel != "custom")
    X, y, weight = problem(combination, 60 + n_rows, seed)
    machine, _ = learned(combination, X[:60], y[:60], weight[:60], None, STRICT)
    before = machine.to_arrays()
    before = {name: array.copy() for name, array in before.items()}
    machine.begin()
    machine.learn(X[60:], y[60:], weight[60:])
    assert machine.roll_back()
    for name, array in machine.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    twin, _ = learned(combination, X[:60], y[:60], weight[:60], None, STRICT)
    for one in (machine, twin):
        one.learn(X[60:], y[60:], weight[60:])
    for name, array in machine.to_arrays().items():
        np.testing.assert_array_equal(array, twin.to_arrays()[name], err_msg=name)


def test_kernels_far_from_zero_keep_their_digits():
    random = np.random.default_rng(0)
    P, X = (1e4 + random.normal(size=(n, 3)) for n in (9, 4))
    for kernel in (ks.kernels.RBF(0.5), ks.kernels.RBF(0.5) + ks.kernels.Matern(0.2)):
        p, x = kernel.row_cache(P), kernel.row_cache(X)
        assert kernel.loses_digits(x, X.dtype)
        found = kernel.values(*map(strict.asarray, (P, X, p, x)), summed=True)
        np.testing.assert_allclose(np.asarray(found), kernel(P, X), rtol=1e-12)


@pytest.mark.usefixtures("without_compiler")
def test_a_function_as_kernel_gets_arrays_of_the_device():
    def kernel(X, Z):
        return 1.0 / (1.0 + (X @ Z.T) ** 2)

    X, y = digits(60)
    one = ks.KernelClassifier(kernel, budget=20).partial_fit(X, y)
    other = ks.KernelClassifier(kernel, budget=20, device=STRICT).partial_fit(X, y)
    np.testing.assert_allclose(other.dual_coef_, one.dual_coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    ("preset", "params"),
    [
        ("svmd", {"scaling": "running"}),
        ("svmd", {"predictor": "averaged", "budget": None}),
        ("voted-perceptron", {}),
        ("sog-svc", {"gamma": 0.1}),
    ],
)
def test_blocks_rows_and_late_classes(preset, params):
    """On a device as on the host, whatever the blocks; classes come inside them."""
    X, y = digits(150)
    host = ks.make(preset, "classifier", **params).partial_fit(X, y)
    model = ks.make(preset, "classifier", device=STRICT, **params)
    for rows in np.split(np.arange(140), [1, 2, 50, 51, 120]):
        model.partial_fit(X[rows], y[rows])
    for i in range(140, 150):
        model.learn_one(X[i], y[i])
    assert model.classes_.tolist() == host.classes_.tolist()
    expected = host.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-8, atol=1e-9)
    assert model.predict_one(X[3]) == host.predict_one(X[3])


@pytest.fixture
def pairs_there(monkeypatch):
    """Matrices over pairs of points are on the device, however few points there are."""
    monkeypatch.setattr(device, "_MANY_PAIRS", 1)


FEW = ks.budgets.Independent(1e-3, 30, ridge=1e-6, worth=2.0)


def second_order(where, budget=FEW):
    update = ks.updates.Dual(forgetting=0.999)
    return ks.make(
        "sog-svc", "classifier", gamma=0.3, budget=budget, update=update, device=where
    )  # fmt: skip


def assert_equal_machines(one, other, rtol=1e-9):
    """All that two machines know, but for what rounding makes of it."""
    expected = other.to_arrays()
    for name, found in one.to_arrays().items():
        if name not in ("budget.weights", "budget.column", "budget.pivots"):  # memory
            unit = max(np.abs(expected[name]).max(initial=0), 1e-30)
            np.testing.assert_allclose(found / unit, expected[name] / unit, atol=rtol, err_msg=name)


@pytest.mark.usefixtures("without_compiler", "pairs_there")
@pytest.mark.parametrize("where", DEVICES, ids=str)
def test_matrices_of_the_second_order_are_on_the_device(where, tmp_path):
    """Blocks, rows, late classes, pruning, forgetting, undoing, copies and files."""
    X, y = digits(170)
    host, model = second_order(None).partial_fit(X[:150], y[:150]), second_order(where)
    for rows in np.split(np.arange(140), [1, 2, 50, 51, 120]):
        model.partial_fit(X[rows], y[rows])
    for i in range(140, 150):
        model.learn_one(X[i], y[i])
    machine = model.machine_
    assert isinstance(machine.state.update.covariance, DeviceMatrix)
    assert_equal_machines(machine, host.machine_)
    expected = host.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-8, atol=1e-9)

    before, bad = model.to_bytes(), X.copy()
    bad[160, 1] = 1e100
    with pytest.raises(ks.BadRow, match="row 160 was refused"):
        model.partial_fit(bad, y)
    draft = machine.copy()
    for one in (machine, draft):
        one.begin()
        one.learn(X, y.astype(float), np.ones(170))
    assert machine.roll_back()
    assert model.to_bytes() == before
    assert draft.n_seen == 320
    model.save(tmp_path / "model.ks")
    models = [host, model, pickle.loads(pickle.dumps(model))]
    models += [ks.load(tmp_path / "model.ks", device=there) for there in (None, where)]
    for one in models:
        assert_equal_machines(one.partial_fit(X[150:], y[150:]).machine_, host.machine_, 1e-8)


@pytest.mark.usefixtures("without_compiler")
def test_matrices_go_to_the_device_when_there_are_many_points(monkeypatch):
    monkeypatch.setattr(device, "_MANY_PAIRS", 300)
    X, y = digits(100)
    budget = ks.budgets.Independent(1e-3)
    host, model = second_order(None, budget), second_order(STRICT, budget)
    for one in (host, model):
        machine = one.partial_fit(X[:70], y[:70]).machine_
        assert isinstance(machine.state.budget.inverse, np.ndarray)
        resize_slots(machine, 400)
        one.partial_fit(X[70:], y[70:])
    assert isinstance(model.machine_.state.budget.inverse, DeviceMatrix)
    assert_equal_machines(model.machine_, host.machine_)


@pytest.mark.parametrize("where", DEVICES, ids=str)
def test_algebra_on_a_device_is_that_of_the_host(where):
    random, library = np.random.default_rng(0), where.open()
    root, lines = random.normal(size=(9, 9)), random.normal(size=(3, 7))
    square = root @ root.T
    there = DeviceMatrix(library, library.to_device(square, square.dtype), square.dtype).copy()
    for matrix in (square, there):
        at = algebra_of(matrix)
        raw = at.there(matrix)
        at.subtract_square(raw, 7, at.there(lines), 0.1)
        at.move(raw, 9, np.array([1, 4]), np.array([8, 7]))
    np.testing.assert_allclose(np.asarray(there[:7, :7]), square[:7, :7], rtol=1e-13)
    assert (np.asarray(there[:7, :7]) == np.asarray(there[:7, :7]).T).all()
    for scale, is_positive in ((1.0, True), (-1.0, False)):
        for matrix in (square, there):
            at, out = algebra_of(matrix), matrix.copy()
            positive = at.there(scale * np.asarray(matrix)[:5, :5] + scale * np.eye(5))
            assert at.invert(positive, at.there(out)) == is_positive
            if is_positive:
                product = np.asarray(out)[:5, :5] @ at.here(positive)
                np.testing.assert_allclose(product, np.eye(5), atol=1e-9)


@pytest.mark.usefixtures("without_compiler", "pairs_there")
def test_second_order_knows_how_certain_it_is():
    X, _ = digits(200)
    models = [
        ks.make("sog-svr", "regressor", device=where, scaling=scaling).partial_fit(X, X[:, 0])
        for scaling in (None, ks.scalings.Renewed())
        for where in (None, STRICT)
    ]
    for host, model in zip(models[::2], models[1::2], strict=True):
        for expected, found in zip(
            host.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.usefixtures("without_compiler")
def test_files_do_not_say_where_a_model_was(tmp_path):
    X, y = digits(120)
    host = ks.KernelClassifier(budget=30).partial_fit(X, y)
    path = tmp_path / "model.ks"
    host.save(path)
    model = ks.load(path, device=STRICT)
    assert model.device == STRICT
    assert model.machine_.store.device == STRICT
    assert model.to_bytes() == read(path)
    assert ks.load(path).device is None
    copy = pickle.loads(pickle.dumps(model))
    for one in (host, model, copy):
        one.partial_fit(X, y)
    np.testing.assert_allclose(model.dual_coef_, host.dual_coef_, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(copy.dual_coef_, model.dual_coef_)
    with pytest.raises(TypeError, match="device=3 is not a name"):
        ks.load(path, device=3)


def test_float32_is_the_default_and_agrees(monkeypatch):
    X, y = digits(600)
    with monkeypatch.context() as patched:  # compiling takes longer than learning so few rows
        interpret(patched)
        host = ks.KernelClassifier(budget=64).partial_fit(X.astype(np.float32), y)
    model = ks.KernelClassifier(budget=64, device=Device("cpu", library="array_api_strict"))
    model.partial_fit(X, y)  # compiled: as users run it
    assert model.support_vectors_.dtype == np.float32
    expected = host.decision_function(X)
    np.testing.assert_allclose(
        model.decision_function(X), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
    )


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("where", DEVICES, ids=str)
def test_rows_may_be_on_the_device_already(where, monkeypatch):
    monkeypatch.setattr(devices, "_PIECE", 1000)  # bytes: many go one after the other
    X, y = digits(100)
    rows = where.open().to_device(X, X.dtype)
    model = ks.KernelClassifier(budget=30, device=where).partial_fit(rows, y)
    host = ks.KernelClassifier(budget=30).partial_fit(X, y)
    expected = host.decision_function(X)
    np.testing.assert_allclose(model.decision_function(rows), expected, rtol=1e-9, atol=1e-9)
    fitted = ks.KernelRegressor(budget=30, device=where, gamma="scale").fit(rows, X[:, 0])
    wanted = ks.KernelRegressor(budget=30, gamma="scale").fit(X, X[:, 0])
    np.testing.assert_allclose(fitted.predict(rows), wanted.predict(X), rtol=1e-9, atol=1e-9)

    before, bad = model.to_bytes(), X.copy()
    bad[70, 1] = np.nan
    for wrong in (bad, where.open().to_device(bad, X.dtype)):
        with pytest.raises(ks.BadRow, match="row 70 was refused: it contains NaN"):
            model.partial_fit(wrong, y)
        filled = ks.KernelClassifier(budget=30, device=where, missing="mean").partial_fit(wrong, y)
        expected = ks.KernelClassifier(budget=30, missing="mean").partial_fit(bad, y)
        np.testing.assert_allclose(filled.dual_coef_, expected.dual_coef_, rtol=1e-9, atol=1e-9)
    assert model.to_bytes() == before
    with pytest.raises(ValueError, match="X has 3 features, but KernelClassifier is expecting 4"):
        model.predict(rows[:, :3])
    with pytest.raises(ValueError, match="give an array of rows and features"):
        model.predict(rows[0, :])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(rows, y[:-1])


@pytest.mark.usefixtures("without_compiler")
def test_bad_rows_are_left_out():
    X, y = digits(90)
    bad = np.insert(X, 40, np.nan, axis=0)
    labels = np.insert(y, 40, 0)
    host = ks.KernelClassifier(budget=30).partial_fit(X, y)
    model = ks.KernelClassifier(budget=30, device=HOSTED, on_bad_row="skip")
    model.partial_fit(bad, labels)
    assert model.n_skipped_ == 1
    np.testing.assert_allclose(model.dual_coef_, host.dual_coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("without_compiler")
def test_nothing_changes_under_the_eyes_of_a_reader():
    X, y = digits(120)
    model = ks.KernelClassifier(budget=20, device=STRICT).partial_fit(X[:60], y[:60])
    seen, done = model.machine_, threading.Event()
    before = {name: array.copy() for name, array in seen.to_arrays().items()}
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        model.partial_fit(X[60:], y[60:])
    finally:
        done.set()
        thread.join()
    for name, array in seen.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    host = ks.KernelClassifier(budget=20).partial_fit(X, y)
    np.testing.assert_allclose(model.dual_coef_, host.dual_coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("without_compiler")
def test_more_features_than_before():
    X, y = digits(60)
    model = ks.KernelClassifier(budget=20, device=STRICT).partial_fit(X, y)
    expected = model.decision_function(X)
    model.widen(6)
    wide = np.hstack([X, np.zeros((60, 2))])
    np.testing.assert_allclose(model.decision_function(wide), expected, rtol=1e-12)
    assert model.partial_fit(wide, y).support_vectors_.shape == (20, 6)


def test_what_does_not_go_with_a_device_is_refused(monkeypatch):
    X, y = digits(20)
    monkeypatch.setitem(devices._LIBRARIES, "cupy", ("no such module", None))
    for params, wanted in (
        ({"kernel": "linear"}, "there are none: leave device out, or give budget=512"),
        (
            {"update": ks.updates.LASVM(), "budget": None, "fit_intercept": True},
            "choose another update",
        ),
        ({"device": "no such device"}, "'no such device'"),
        ({"device": Device("cuda:99", library="cupy")}, r"install kernelstream\[gpu\]"),
    ):
        with pytest.raises((ValueError, ImportError), match=wanted):
            ks.KernelClassifier(**{"device": STRICT, **params}).fit(X, y)
    with pytest.raises(ValueError, match="X is sparse: leave device out"):
        ks.KernelClassifier(device=STRICT).fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="the models of a fleet are small"):
        ks.Fleet("svmd", "classifier", n_models=2, n_features=3, device=STRICT)
    for wrong, wanted in (({"dtype": "int8"}, "dtype='int8'"), ({"library": "x"}, "library='x'")):
        with pytest.raises(ValueError, match=wanted):
            Device("cuda", **wrong)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"install kernelstream\[gpu\] and PyTorch or CuPy"):
        ks.KernelClassifier(device="cuda").fit(X, y)


@pytest.mark.usefixtures("without_compiler")
def test_members_of_a_committee_that_gain_use_the_device(tmp_path):
    X, y = digits(120)
    members = {"large": ks.KernelClassifier(budget=2000), "small": "svmd", "linear": "linear-pa"}
    host = ks.Committee(members, "classifier").partial_fit(X, y)
    model = ks.Committee(members, "classifier", device=Device("cpu", library="array_api_strict"))
    model.partial_fit(X, y)
    assert [member.dtype for member in model.machine_.members] == ["f4", "f8", "f8"]
    expected = host.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-3, atol=1e-4)
    model.save(tmp_path / "committee.ks")
    for where in (None, HOSTED):
        again = ks.load(tmp_path / "committee.ks", device=where)
        assert again.device == where
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-5)


@pytest.mark.usefixtures("without_compiler")
def test_committees_take_rows_that_are_on_the_device():
    X, y = digits(40)
    rows = STRICT.open().to_device(X, X.dtype)
    large = {"large": ks.KernelClassifier(budget=2000), "linear": "linear-pa"}
    for members in (large, None):  # those of AutoClassifier are small, and stay on the host
        host = ks.AutoClassifier(members).partial_fit(X, y)
        model = ks.AutoClassifier(members, device=STRICT).partial_fit(rows, y)
        there = [isinstance(m.store, device.DeviceStore) for m in model.machine_.members]
        assert there == ([True, False] if members else [False] * len(there))
        expected = host.predict_proba(X)
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("without_compiler")
def test_river(monkeypatch):
    river = pytest.importorskip("kernelstream.river")
    pandas = pytest.importorskip("pandas")
    X, y = digits(80)
    frame, models = pandas.DataFrame(X, columns=list("abcd")), []
    for where in (None, STRICT):
        model = river.KernelClassifier(budget=20, device=where).clone()
        model.learn_many(frame[:60], pandas.Series(y[:60]))
        for i in range(60, 80):
            model.learn_one(dict(frame.iloc[i]), y[i])
        models.append(model)
    assert models[1].model.machine_.store.device == STRICT
    found, expected = (model.predict_proba_many(frame) for model in models[::-1])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for model in (river.KernelRegressor, river.NoveltyDetector, river.AutoRegressor):
        assert model(device=STRICT)._new_model().device == STRICT
    assert river.make("pa", "classifier", device=STRICT).device == STRICT
    assert river.AutoClassifier(device=STRICT)._new_model().device == STRICT
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"install kernelstream\[gpu\]"):
        river.KernelClassifier(device="cuda").learn_one({"a": 1.0}, "yes")


@pytest.mark.usefixtures("without_compiler")
def test_command_line(tmp_path, monkeypatch):
    app = pytest.importorskip("kernelstream.cli.app").app
    testing = pytest.importorskip("typer.testing")
    X, y = digits(60)
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,y", *lines]))

    def call(command, *arguments, code=0, where=("--device", "cuda")):
        words = [command, *arguments, *where]
        if command == "run":
            words += ["--target", "y", "--algorithm", "svmd", "--budget", 20, "--block", 30]
        result = testing.CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return result

    opened, library = [], STRICT.open()
    with monkeypatch.context() as patched:
        patched.setattr(Device, "open", lambda self: opened.append(self) or library)
        call("run", tmp_path / "t.csv", "--model", tmp_path / "m.ks")
        said = call("predict", tmp_path / "m.ks", tmp_path / "t.csv").stdout.splitlines()
        assert {one.name for one in opened} == {"cuda"}
        folder = ("--checkpoint", tmp_path / "folder", "--checkpoint-rows", 30)
        call("run", tmp_path / "t.csv", *folder)
        # a run that began on a device goes on on the host
        assert "resuming" in call("run", tmp_path / "t.csv", *folder, where=()).stderr
    here = call("predict", tmp_path / "m.ks", tmp_path / "t.csv", where=()).stdout.splitlines()
    for one, other in zip(said, here, strict=True):
        assert one.split(",")[:2] == other.split(",")[:2]
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    for words in (("run", tmp_path / "t.csv"), ("predict", tmp_path / "m.ks", tmp_path / "t.csv")):
        assert "install kernelstream[gpu]" in call(*words, code=1).stderr


@pytest.mark.usefixtures("without_compiler")
def test_a_checkpoint_goes_on_where_it_is_told_to(tmp_path):
    X, y = digits(120)
    model = ks.KernelClassifier(budget=30, device=STRICT).partial_fit(X[:60], y[:60])
    with ks.Checkpointer(tmp_path, every_rows=10) as checkpoints:
        checkpoints.step(model, 60)
    for where in (None, STRICT):
        again, position = ks.Checkpointer(tmp_path, every_rows=10).resume(device=where)
        assert (again.device, position) == (where, 60)
        again.partial_fit(X[60:], y[60:])
        expected = ks.KernelClassifier(budget=30).partial_fit(X, y).dual_coef_
        np.testing.assert_allclose(again.dual_coef_, expected, rtol=1e-9, atol=1e-9)
