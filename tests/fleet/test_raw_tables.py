"""Tables as they come: any units, gaps, columns in any order."""

import pickle
import warnings

import numpy as np
import pytest

import kernelstream as ks

pytestmark = pytest.mark.usefixtures("without_compiler")

N = 240
PARAMS = {"budget": 8}


def table(task, seed=0, n=N):
    """Rows in units of 1e-3 to 1e5, and the key of each."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) * [1e-3, 1.0, 1e5] + [5.0, 0.0, -3e5]
    signal = (X[:, 0] - 5.0) * 1e3 + 0.5 * X[:, 1]
    keys = random.integers(0, 2, n)
    if task == "classifier":
        return keys, X, np.digitize(signal, [-0.4, 0.4])
    return keys, X, 150.0 + 20.0 * signal


def options(task, **more):
    return {**PARAMS, **more, **({"classes": [0, 1, 2]} if task == "classifier" else {})}


@pytest.mark.parametrize("sizes", [(1,), (7, 60), (1000,)])
@pytest.mark.parametrize("missing", ["error", "mean", "indicator"])
@pytest.mark.parametrize("task", ["regressor", "classifier"])
def test_a_scaled_model_is_the_estimator_of_its_rows(task, missing, sizes):
    keys, X, y = table(task, n=120)
    weight = np.where(np.arange(120) % 11 == 3, 0.0, 1.0)
    if missing != "error":
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        X[:9, 2] = np.nan
    fleet = ks.KeyedFleet("svmd", task, missing=missing, **options(task))
    assert fleet.params["scaling"] == "running"
    start, found = 0, []
    while start < len(X):
        rows = slice(start, start + sizes[len(found) % len(sizes)])
        found.append(fleet.learn(keys[rows], X[rows], y[rows], sample_weight=weight[rows]))
        start = rows.stop
    scores = np.concatenate(found)
    for key in (0, 1):
        mine = keys == key
        single = ks.make("svmd", task, **fleet.params)
        block = single.learn_block(
            X[mine], y[mine], [0, 1, 2] if task == "classifier" else None, weight[mine]
        )
        expected = single.per_label(np.concatenate([trail.scores for trail in block.trails]))
        np.testing.assert_allclose(
            scores[mine].reshape(len(expected), -1), expected, rtol=1e-9, atol=1e-8
        )
        np.testing.assert_allclose(
            fleet.predict([key] * 9, X[:9]).astype(float), single.predict(X[:9]), rtol=1e-9
        )
        alone = fleet.model(key)
        alone.partial_fit(X[:9], y[:9])
        single.partial_fit(X[:9], y[:9])
        np.testing.assert_allclose(alone.predict(X), single.predict(X), rtol=1e-9)
    twins = [ks.KeyedFleet.from_bytes(fleet.to_bytes()), pickle.loads(pickle.dumps(fleet))]
    for one in (fleet, *twins):
        one.learn(keys, X, y)
    assert {one.to_bytes() for one in twins} == {fleet.to_bytes()}


@pytest.mark.parametrize("preset", ["svmd", "norma", "silk", "pa", "sog-svr"])
def test_raw_units_are_learned(preset):
    keys, X, y = table("regressor", n=800)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = ks.KeyedFleet(preset, "regressor", budget=32).learn(keys, X, y)
    assert np.sqrt(np.mean((scores - y)[400:] ** 2)) < 0.8 * y.std()


def test_whoever_knows_the_units_is_not_scaled():
    fleet = ks.Fleet("svmd", "regressor", 1, 2, gamma=0.5, margin=0.1, loss="huber", budget=4)
    assert fleet.params["scaling"] is None
    assert fleet.params["target_scaling"] is None
    kernel = ks.kernels.Laplacian(1.0)
    assert ks.Fleet("svmd", "novelty", 1, 2, kernel=kernel, budget=4).params["scaling"] is None
    named = ks.Fleet("svmd", "novelty", 1, 2, kernel="laplacian", budget=4)
    assert named.params["scaling"] == "running"


@pytest.mark.parametrize("task", ["regressor", "classifier"])
def test_a_fleet_that_learns_nothing_warns_once(task):
    keys, X, y = table(task, n=2600)
    if task == "classifier":
        y = (y > 0).astype(int) + (y > 1)
    plain = {"scaling": None} if task == "classifier" else {"scaling": None, "target_scaling": None}
    fleet = ks.KeyedFleet("svmd", task, **options(task, **plain))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for start in range(0, 2600, 400):
            rows = slice(start, start + 400)
            fleet.learn(keys[rows], X[rows], y[rows])
    (only,) = told
    assert "learned nothing" in str(only.message)
    assert "scaling='running'" in str(only.message)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_the_estimator(n_classes, tmp_path):
    keys, X, y = table("classifier")
    y, classes = np.minimum(y, n_classes - 1), list(range(n_classes))
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet(
        "svmd", "classifier", loss="log_loss", classes=classes, max_models=1, store=store, **PARAMS
    )
    fleet.learn(keys, X, y)
    found = fleet.predict_proba([0, 1, 0], X[:3])
    assert found.shape == (3, n_classes)
    for row, key in enumerate([0, 1, 0]):
        np.testing.assert_allclose(found[row], fleet.model(key).predict_proba(X[[row]])[0])
    plain = ks.Fleet(
        "svmd", "classifier", 2, 3, loss="log_loss", classes=classes, missing="mean", **PARAMS
    )
    plain.learn(X, y, models=keys)
    np.testing.assert_allclose(plain.predict_proba(X[:3], models=[0, 1, 0]), found, rtol=1e-9)
    hinge = ks.KeyedFleet("svmd", "classifier", **PARAMS)
    hinge.learn(keys, X, y)
    with pytest.raises(ValueError, match="loss='log_loss'"):
        hinge.predict_proba([0], X[:1])
    with pytest.raises(ValueError, match="classifiers"):
        ks.KeyedFleet("svmd", "regressor").predict_proba([0], X[:1])


def test_committees_fill_gaps_and_give_probabilities():
    keys, X, y = table("classifier", n=60)
    X[::5, 1] = np.nan
    committee = ks.Committee(["linear-pa"], "classifier", missing="mean")
    fleet = ks.KeyedFleet(committee, "classifier", classes=[0, 1, 2])
    assert not np.isnan(fleet.learn(keys, X, y)).any()
    expected = fleet.model(0).predict_proba(X[:3])
    np.testing.assert_allclose(fleet.predict_proba([0, 0, 0], X[:3]), expected)
    assert fleet.n_skipped_ == 0


def test_a_row_with_a_gap_waits_for_its_target():
    fleet = ks.KeyedFleet("svmd", "regressor", missing="mean", **PARAMS)
    fleet.predict(["a"], [[1.0, np.nan]], ids=[1])
    twin = ks.KeyedFleet.from_bytes(fleet.to_bytes())
    twin.learn_labels([1], [2.0])
    assert twin.model("a").n_seen_ == 1


# --- columns by name ------------------------------------------------------------------------------


def test_columns_are_matched_by_name(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    keys, X, y = table("regressor")
    frame = pandas.DataFrame(X, columns=["u", "v", "w"])
    turned = frame[["w", "u", "v"]]
    fleets = [ks.KeyedFleet("svmd", "regressor", **PARAMS) for _ in range(3)]
    fleets[0].learn(keys, frame, y)
    for start in (0, 100):
        rows = slice(start, start + 100 if start == 0 else None)
        fleets[1].learn(keys[rows], [frame, turned][start > 0][rows], y[rows])
    fleets[2].learn(keys, X, y)
    expected = fleets[2].predict(keys, X)
    fleets[0].save(tmp_path / "fleet.ks")
    for fleet in (*fleets[:2], ks.load(tmp_path / "fleet.ks")):
        assert fleet.feature_names_ == ["u", "v", "w"]
        for form in (
            frame, turned, X, polars.from_pandas(turned), turned.to_dict("records"),
        ):  # fmt: skip
            np.testing.assert_array_equal(fleet.predict(keys, form), expected)
        with pytest.raises(ValueError, match="no column 'w'"):
            fleet.predict(keys, frame[["u", "v"]])
        with pytest.raises(ValueError, match="'z' is new"):
            fleet.learn(keys, frame.assign(z=1.0), y)
        alone = fleet.model(1)
        assert alone.feature_names_in_.tolist() == ["u", "v", "w"]
        np.testing.assert_allclose(alone.predict(frame), fleet.predict([1] * N, turned), rtol=1e-9)
    other = ks.KeyedFleet("svmd", "regressor", **PARAMS)
    other.learn(keys + 10, turned, y)
    with pytest.raises(ValueError, match="u, v, w"):
        fleets[0].join(other)


def test_a_fleet_matches_columns_by_name():
    pandas = pytest.importorskip("pandas")
    keys, X, y = table("regressor")
    frame = pandas.DataFrame(X, columns=["u", "v", "w"])
    fleet, plain = (ks.Fleet("svmd", "regressor", 2, 3, **PARAMS) for _ in range(2))
    fleet.learn(frame, y, models=keys)
    plain.learn(X, y, models=keys)
    turned = fleet.predict(frame[["v", "w", "u"]], models=keys)
    np.testing.assert_array_equal(turned, plain.predict(X, models=keys))
    other = ks.Fleet("svmd", "regressor", 2, 3, **PARAMS)
    other.learn(frame[["v", "w", "u"]], y, models=keys)
    with pytest.raises(ValueError, match="same order"):
        fleet.add(other)


def test_a_table_with_text_names_the_row():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"u": [1.0, 2.0], "v": ["3", "x"]})
    fleet = ks.KeyedFleet("svmd", "regressor", **PARAMS)
    with pytest.raises(ValueError, match="'x'"):
        fleet.learn([1, 1], frame, [1.0, 2.0])
    skipping = ks.KeyedFleet("svmd", "regressor", on_bad_row="skip", **PARAMS)
    assert np.isnan(skipping.learn([1, 1], frame, [1.0, 2.0])).tolist() == [False, True]


# --- keys -----------------------------------------------------------------------------------------


def test_the_same_key_in_every_representation_is_the_same_key(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    one = np.zeros((1, 1))
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet("norma", "regressor", budget=4, max_models=1, store=store)
    forms = [
        [7], (7,), np.array([7]), np.array([7], np.uint64), np.array([7], object), np.array([7.0]),
        [np.int8(7)], pandas.Series([7]), pandas.Series([7.0]), pandas.Series([7], dtype="Int64"),
        pandas.Index([7]), pandas.Categorical([7]), pandas.DataFrame({"key": [7]}),
        polars.Series([7]), polars.DataFrame({"key": [7]}),
    ]  # fmt: skip
    for form in forms:
        fleet.learn(form, one, [1.0])
    assert list(fleet) == [7]
    texts = [
        ["a\0"], pandas.Series(["a\0"]), polars.Series(["a\0"]), np.array(["a\0"], object),
        pandas.Series(["a\0"], dtype="string"), pandas.Categorical(["a\0"]),
    ]  # fmt: skip
    for form in texts:
        fleet.learn(form, one, [1.0])
    fleet.learn(["a"], one, [1.0])
    large = [2**63, -(2**63) - 1, 2**64 + 1, 2**63 - 1]
    for key in large:
        fleet.learn([key], one, [1.0])
    fleet.learn(np.array([2**63], np.uint64), one, [1.0])
    everything = [7, "a\0", "a", *large]
    assert set(fleet) == set(everything)
    counts = {key: fleet.model(key).n_seen_ for key in everything}
    assert counts == {7: len(forms), "a\0": len(texts), "a": 1, **dict.fromkeys(large, 1), 2**63: 2}
    fleet.save(tmp_path / "fleet.ks")
    twin = ks.load(tmp_path / "fleet.ks").attach(store)
    assert set(twin) == set(everything)
    parts = twin.split(3)
    assert set().union(*map(set, parts)) == set(everything)


def test_an_integer_column_with_a_gap_loses_only_the_gap():
    pandas = pytest.importorskip("pandas")
    X, y = np.zeros((3, 1)), [1.0, 2.0, 3.0]
    for dtype in ("Int64", "float64", object):
        keys = pandas.Series([1, None, 3], dtype=dtype)
        fleet = ks.KeyedFleet("norma", "regressor", budget=4, on_bad_row="skip")
        fleet.learn(keys, X, y)
        assert list(fleet) == [1, 3]
        assert fleet.n_skipped_ == 1


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_dates_are_refused_as_keys(unit):
    dates = np.array(["2020-01-01", "2020-01-02"], f"datetime64[{unit}]")
    for keys in (dates, list(dates), dates - dates[0], np.column_stack([dates, dates])):
        fleet = ks.KeyedFleet("norma", "regressor", budget=4)
        with pytest.raises(ks.BadRow, match=r"(?s)row 0.*as text, by astype\(str\)"):
            fleet.learn(keys, np.zeros((2, 1)), [1.0, 2.0])
