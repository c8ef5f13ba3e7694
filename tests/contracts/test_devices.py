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
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.stores import Device, device, devices

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


@pytest.mark.usefixtures("without_compiler")
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
def test_rows_may_be_on_the_device_already(where):
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
    bad = where.open().to_device(bad, X.dtype)
    with pytest.raises(ks.BadRow, match="row 70 was refused: it contains NaN"):
        model.partial_fit(bad, y)
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
