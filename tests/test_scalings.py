"""Scalings: what kernels see of a row, from the rows before it, in blocks of any size."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

import kernelstream as ks
from kernelstream.estimators.files import from_bytes
from kernelstream.learner import second_order
from kernelstream.parts import all_parts
from kernelstream.scalings import Running


def seen(scaling, X, weight=None):
    """The rows that a machine keeps, in order: every row of weight becomes a point."""
    model = ks.KernelRegressor(
        "linear", scaling=scaling, budget=None, step_size=0.1, update="implicit",
        regularization=0.0,
    ).partial_fit(X, 100.0 + np.arange(X.shape[0]), sample_weight=weight)  # fmt: skip
    return model.support_vectors_


def plain(X, limit=5.0, outlier=10.0, unit_length=True, centred=True):
    """The formulas, with sums over all earlier rows wherever that is possible."""
    known, lengths, rows = [], [], []
    for x in X:
        a = np.zeros(len(x))
        if known:
            past = np.array(known)
            mean = past.mean(axis=0) if centred else np.zeros(len(x))
            sd = np.sqrt(((past - mean) ** 2).mean(axis=0))
            varies = sd > 1e-12 * abs(mean)
            a[varies] = np.clip(np.arcsinh((x - mean)[varies] / sd[varies]), -limit, limit)
            if len(known) >= 20 and centred:
                low, high = mean - outlier * sd, mean + outlier * sd
                x = np.where(varies, np.clip(x, low, high), x)
        known.append(x)
        with_own = [*lengths, a @ a]
        rows.append(a / np.sqrt(np.mean(with_own)) if unit_length and a.any() else a)
        if a.any():
            lengths = with_own
    return np.array(rows)


def stream(n, seed=0, d=4):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * 10.0 ** random.integers(-6, 7, d) + random.normal(size=d)
    X[:, 0] = 0.1  # constant
    X[n // 2 :: 7, 1] *= 1e6
    return X


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("unit_length", [True, False])
def test_rows_are_scaled_by_the_rows_before_them(unit_length):
    X = stream(60)
    found = seen(Running(unit_length=unit_length), X)
    expected = plain(X, unit_length=unit_length)
    # rows of length zero have k(x, x) = 0, and are no points
    np.testing.assert_allclose(found, expected[expected.any(axis=1)], rtol=1e-9, atol=1e-12)
    assert (abs(found[:, 0]) == 0).all()
    if unit_length:
        assert np.sqrt((found**2).sum(axis=1).mean()) == pytest.approx(1.0, abs=0.15)


@pytest.mark.usefixtures("without_compiler")
def test_sparse_rows_are_scaled_without_centring():
    X = stream(60)
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0.0
    found = seen("running", csr_array(X)).toarray()
    expected = plain(X, centred=False)
    np.testing.assert_allclose(found, expected[expected.any(axis=1)], rtol=1e-9, atol=1e-12)
    assert (found[X[expected.any(axis=1)] == 0] == 0).all()


UNFIT = r"NaN|infinity|beyond 1e\+100"
PARTS = [entry.cls() for entry in all_parts("scaling")]
# those that are renewed go with the second order alone: tests/learner/test_renewal.py
PARTS = [scaling for scaling in PARTS if not scaling.renews]
MODELS = {
    "classifier": lambda scaling: ks.KernelClassifier(scaling=scaling, budget=12),
    "dictionary": lambda scaling: ks.make("sog-svr", "regressor", scaling=scaling, budget=12),
    "novelty": lambda scaling: ks.NoveltyDetector(scaling=scaling, budget=12),
}


def learn(model, X, y, weight=None):
    if isinstance(model, ks.NoveltyDetector):
        return model.partial_fit(X, sample_weight=weight)
    return model.partial_fit(X, y, sample_weight=weight)


def numbers(model):
    return second_order.closed(model.machine_).to_arrays()


def assert_same(found, expected):
    assert numbers(found).keys() == numbers(expected).keys()
    for name, array in numbers(expected).items():
        if name == "budget.weights":  # of a row that the dictionary expresses: rounding
            continue
        size = np.abs(array).max(initial=1e-3)
        np.testing.assert_allclose(
            numbers(found)[name], array, rtol=1e-9, atol=1e-9 * size, err_msg=name
        )


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("scaling", PARTS, ids=repr)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("sparse", [False, True])
@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(1, 59), max_size=6), seed=st.integers(0, 99))
def test_any_split_into_blocks_gives_the_same_model(scaling, kind, sparse, cuts, seed):
    X, weight = stream(60, seed), np.random.default_rng(seed).choice([0.0, 1.0, 2.0], 60)
    X[:, 2] = np.round(X[:, 2] / X[:, 2].std())
    y = (X[:, 2] > 0).astype(float)
    X = csr_array(X) if sparse else X
    whole, pieces = (MODELS[kind](scaling) for _ in range(2))
    learn(whole, X, y, weight)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        learn(pieces, X[start:stop], y[start:stop], weight[start:stop])
    assert_same(pieces, whole)


@pytest.mark.usefixtures("without_compiler")
def test_a_row_without_weight_is_as_good_as_absent():
    X = stream(60)
    y, weight = (X[:, 2] > 0).astype(int), np.random.default_rng(0).choice([0.0, 1.0], 60)
    weight[:2] = 1.0
    some, without = (ks.KernelClassifier(scaling="running") for _ in range(2))
    some.partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    without.partial_fit(X[weight > 0], y[weight > 0], classes=[0, 1])
    assert_same(some, without)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("scaling", PARTS, ids=repr)
def test_a_refused_block_leaves_no_trace_and_skipped_rows_neither(scaling):
    X, y = stream(60), np.arange(60) % 3
    model = ks.KernelClassifier(scaling=scaling).partial_fit(X, y)
    before = model.to_bytes()
    for bad in (np.nan, np.inf, 1e101):
        refused = X.copy()
        refused[30, 3] = bad
        with pytest.raises(ValueError, match=UNFIT):
            model.partial_fit(refused, y)
        with pytest.raises(ValueError, match=UNFIT):
            model.learn_one(refused[30], 0)
        with pytest.raises(ValueError, match=UNFIT):
            model.predict(refused)
        assert model.to_bytes() == before
    model.set_params(on_bad_row="skip").partial_fit(refused, y)
    good = np.arange(60) != 30
    twin = from_bytes(before).partial_fit(X[good], y[good])
    assert_same(model, twin)
    assert model.n_skipped_ == 1


@pytest.mark.usefixtures("without_compiler")
def test_single_rows_files_copies_and_clones(tmp_path):
    X, y = stream(60), np.arange(60) % 3
    blocks, rows = (ks.KernelClassifier(scaling="running") for _ in range(2))
    blocks.partial_fit(X, y)
    for x, label in zip(X, y, strict=True):
        rows.learn_one(x, label)
    assert_same(rows, blocks)
    assert [rows.predict_one(x) for x in X] == blocks.predict(X).tolist()
    blocks.save(tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks")
    assert loaded.scaling == "running"
    for twin in (loaded, pickle.loads(pickle.dumps(blocks))):
        assert twin.to_bytes() == blocks.to_bytes()
        again = from_bytes(blocks.to_bytes()).partial_fit(X, y)
        assert twin.partial_fit(X, y).to_bytes() == again.to_bytes()
    part = Running(limit=3.0)
    assert clone(ks.KernelClassifier(scaling=part)).scaling == part
    model = ks.KernelClassifier(scaling=Running()).set_params(scaling__unit_length=False)
    assert model.partial_fit(X, y).kernel_.gamma == 0.25
    assert loaded.kernel_.gamma == 4


@pytest.mark.usefixtures("without_compiler")
def test_more_features_are_as_if_they_had_been_zero():
    X, y = stream(60), np.arange(60) % 3
    X[:30, 3] = 0.0
    model = ks.KernelClassifier(scaling="running", gamma=0.5).partial_fit(X[:30, :3], y[:30])
    model.widen(4)
    model.partial_fit(X[30:], y[30:])
    whole = ks.KernelClassifier(scaling="running", gamma=0.5).partial_fit(X, y)
    assert_same(model, whole)
    model.widen(6)
    model.widen(4)
    assert_same(model, whole)


def test_compiled_blocks_fleets_and_single_precision():
    X, y = stream(90), np.sin(np.arange(90))
    model = ks.make("norma", "regressor", scaling="running", budget=16).partial_fit(X, y)
    twin = ks.make("norma", "regressor", scaling="running", budget=16)
    for start in range(0, 90, 7):
        twin.partial_fit(X[start : start + 7], y[start : start + 7])
    assert_same(twin, model)
    fleet = ks.Fleet("norma", "regressor", 2, 4, scaling="running", target_scaling=None, budget=16)
    scores = fleet.learn(
        np.repeat(X, 2, axis=0), np.repeat(y, 2), models=np.tile([0, 1], 90),
        sample_weight=np.tile([1.0, 0.0], 90),
    )  # fmt: skip
    assert fleet.n_seen_.tolist() == [90, 0]
    np.testing.assert_allclose(fleet.model(0).predict(X), model.predict(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fleet.score_samples(X[:1], models=[0]), model.predict(X[:1]))
    block = ks.prequential(ks.make("norma", "regressor", scaling="running", budget=16), X, y)
    np.testing.assert_allclose(scores[::2], block.predictions, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="infinity"):
        fleet.learn(np.full((2, 4), np.inf), [0.0, 0.0])
    single = ks.make("norma", "regressor", scaling="running", budget=16)
    rounded = X.astype(np.float32)
    single.partial_fit(rounded, y)
    assert single.support_vectors_.dtype == np.float32
    double = ks.make("norma", "regressor", scaling="running", budget=16).partial_fit(
        rounded.astype(float), y
    )
    np.testing.assert_allclose(
        single.predict(rounded), double.predict(rounded.astype(float)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("preset", ["norma", "sog-svr"])
def test_targets_are_scaled_by_those_before_them(preset):
    X = np.random.default_rng(2).normal(size=(60, 3))
    y = 1e4 + 1e3 * np.cumsum(np.random.default_rng(0).normal(size=60))
    y[40] = 1e9
    weight = np.random.default_rng(1).choice([0.0, 1.0, 2.0], 60)
    known, expected = [], []
    plain, model = (ks.make(preset, "regressor", target_scaling=t) for t in (None, "running"))
    for x, target, w in zip(X, y, weight, strict=True):
        mean, sd = (np.mean(known), np.std(known)) if known else (0.0, 0.0)
        scaled = np.clip((target - mean) / sd, -10, 10) if sd > 0 else 0.0
        expected.append(mean + sd * (plain.predict_one(x) if known else 0.0))
        plain.partial_fit(x[None], [scaled], sample_weight=[w])
        if w > 0:
            known.append(np.clip(target, mean - 10 * sd, mean + 10 * sd)
                         if len(known) >= 20 else target)  # fmt: skip
    (trail,) = model.learn_block(X, y, None, weight).trails
    ahead, size = np.mean(known) + np.std(known) * plain.predict(X), 1e-9 * np.std(known)
    np.testing.assert_allclose(trail.scores[:, 0], expected, rtol=1e-9, atol=size)
    np.testing.assert_allclose(model.predict(X), ahead, rtol=1e-9, atol=size)
    np.testing.assert_allclose(model.predict_one(X[0]), ahead[0], rtol=1e-9, atol=size)
    rows = ks.make(preset, "regressor", target_scaling="running")
    for i in range(60):
        rows.partial_fit(X[i : i + 1], y[i : i + 1], sample_weight=weight[i : i + 1])
    assert_same(rows, model)
    assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    before = model.to_bytes()
    with pytest.raises(ValueError, match="too large"):
        model.partial_fit(X[:2], [0.0, 1e31])
    assert model.to_bytes() == before


def test_the_units_of_the_target_do_not_matter():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    made = lambda: ks.KernelRegressor(scaling="running", target_scaling="running")  # noqa: E731
    one, other = ks.prequential(made(), X, y), ks.prequential(made(), X, 1e6 + 1e3 * y)
    np.testing.assert_allclose(other.predictions[2:], 1e6 + 1e3 * one.predictions[2:], rtol=1e-6)
    assert one.errors.mean() < 0.3 * y.var()
    fitted = ks.make("svrseq", "regressor", scaling="running", target_scaling="running", C=10.0)
    fitted.set_params(margin=0.05, n_epochs=200).fit(X[:200], 1e6 + 1e3 * y[:200])
    assert fitted.score(X[:200], 1e6 + 1e3 * y[:200]) > 0.9


def test_what_does_not_go_together():
    X = stream(60)
    with pytest.raises(ValueError, match="gamma='scale' looks at rows as they come"):
        ks.KernelRegressor(gamma="scale", scaling="running").fit(X, X[:, 1])
    with pytest.raises(
        ValueError, match="scaling='runing' is unknown: choose one of 'renewed', 'running'"
    ):
        ks.KernelRegressor(scaling="runing").fit(X, X[:, 1])
    with pytest.raises(ValueError, match="target_scaling='running'"):
        ks.Fleet("norma", "regressor", 2, 4, target_scaling="renewed")
    for wrong in ({"limit": 0.0}, {"outlier": 0.5}, {"unit_length": "yes"}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            Running(**wrong)


def test_units_do_not_matter():
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 3))
    y = X[:, 0] * X[:, 1] > 0
    units = X * [1e-6, 1e6, 1.0] + [0.0, 1e8, 5.0]
    one, other = (
        ks.prequential(ks.KernelClassifier(scaling="running"), rows, y) for rows in (X, units)
    )
    assert abs(one.errors.mean() - other.errors.mean()) < 0.01
    assert one.errors.mean() < 0.25
