"""River's own checks, and what they do not look at."""

import copy
import datetime
import inspect
import itertools
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import checks, datasets, evaluate, metrics, preprocessing
from river import compose as river_compose

import kernelstream as ks
from kernelstream import river
from kernelstream.river import KernelClassifier, KernelRegressor, NoveltyDetector

MODELS = [
    KernelClassifier(),
    KernelClassifier(loss="log_loss", kernel="linear", update="implicit", step_size=0.5),
    KernelRegressor(),
    KernelRegressor(loss="huber", budget=20),
    NoveltyDetector(),
]


def anomalies(scale):
    """A stream with rare outliers: River's own choice needs a download."""
    random = np.random.default_rng(0)
    for i in range(300 * scale):
        outlier = i % 50 == 49
        row = random.normal(size=4) + 6 * outlier
        yield {f"x{k}": float(value) for k, value in enumerate(row)}, int(outlier)


def every_check():
    original = checks._yield_datasets

    def yield_datasets(model, scale=1):
        if isinstance(model, NoveltyDetector):
            yield list(anomalies(scale))
        else:
            yield from original(model, scale)

    checks._yield_datasets = yield_datasets
    try:
        for number, model in enumerate(MODELS):
            assert not model._unit_test_skips()
            for k, check in enumerate(checks.yield_checks(model)):
                yield pytest.param(model, check, id=f"{number}-{k}-{check.__name__}")
    finally:
        checks._yield_datasets = original


@pytest.mark.parametrize(("model", "check"), list(every_check()))
def test_river_checks(model, check):
    check(model.clone())


def test_blocks_of_a_frame_give_the_model_that_rows_give():
    stream = list(datasets.TrumpApproval().take(300))
    frame = pd.DataFrame([x for x, _ in stream])
    y = np.array([target for _, target in stream])
    one, pandas, polars = (KernelRegressor(gamma=1e-4) for _ in range(3))
    for x, target in stream:
        one.learn_one(x, target)
    for start in range(0, 300, 77):
        rows = slice(start, start + 77)
        pandas.learn_many(frame[rows], pd.Series(y[rows]))
        polars.learn_many(pl.from_pandas(frame[rows]), pl.Series(y[rows]))
    found = [one.predict_one(x) for x, _ in stream]
    predicted = pandas.predict_many(frame)
    assert predicted.index.equals(frame.index)
    np.testing.assert_allclose(predicted, found, rtol=1e-8)
    np.testing.assert_allclose(polars.predict_many(pl.from_pandas(frame)), found, rtol=1e-8)


def test_features_that_come_and_go_count_as_zero_elsewhere():
    rows = [
        {"a": 1.0, "b": 2.0},
        {"b": -1.0},
        {"c": 0.5, "a": -1.0},
        {"a": 2.0, "d": 1.0, "e": 2.0},
    ]
    y = [1.0, -1.0, 0.5, 2.0]
    model = KernelRegressor(gamma=0.5)
    for x, target in zip(rows, y, strict=True):
        model.learn_one(x, target)
    names = sorted({name for x in rows for name in x})
    dense = np.array([[x.get(name, 0.0) for name in names] for x in rows])
    expected = ks.KernelRegressor(gamma=0.5).partial_fit(dense, y)
    np.testing.assert_allclose([model.predict_one(x) for x in rows], expected.predict(dense))
    assert model.predict_one({**rows[0], "new": 100.0}) == model.predict_one(rows[0])
    assert "new" not in model._columns


def test_in_a_pipeline_and_in_progressive_validation():
    model = preprocessing.StandardScaler() | KernelClassifier(gamma=0.1)
    found = evaluate.progressive_val_score(
        datasets.ImageSegments().take(1500), model, metrics.Accuracy()
    )
    assert found.get() > 0.85
    encode = river_compose.SelectType(str) | preprocessing.OneHotEncoder()
    numbers = river_compose.SelectType(float) | preprocessing.StandardScaler()
    mixed = (numbers + encode) | KernelRegressor()
    for i in range(50):
        x = {"price": float(i), "colour": ["red", "green"][i % 2]}
        mixed.predict_one(x)
        mixed.learn_one(x, float(i % 2))
    assert mixed.predict_one({"price": 49.0, "colour": "green"}) > 0.5


def test_bad_values_are_named_and_change_nothing():
    model = KernelClassifier()
    for x, y in itertools.islice(datasets.Phishing(), 20):
        model.learn_one(x, y)
    before = model.model.to_bytes()
    for value, message in (("red", "'red', which is not a number"), (np.nan, "nan: leave")):
        with pytest.raises(ValueError, match=f"feature 'colour' is {message}"):
            model.learn_one({"colour": value}, True)
    with pytest.raises(ValueError, match="NaN"):
        model.learn_many(pd.DataFrame({"colour": [np.nan]}), pd.Series([True]))
    assert model.model.to_bytes() == before
    assert "colour" not in model._columns


def test_before_the_first_row():
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    assert KernelClassifier().predict_one({"a": 1.0}) is None
    assert KernelClassifier().predict_proba_one({"a": 1.0}) == {}
    assert KernelClassifier().predict_many(frame).isna().all()
    assert KernelRegressor().predict_many(frame).tolist() == [0.0, 0.0]
    assert NoveltyDetector().score_many(frame).tolist() == [0.0, 0.0]


def test_alarms_are_as_many_as_nu_says():
    model = NoveltyDetector(nu=0.1, gamma=0.3)
    rows = [x for x, _ in anomalies(7)]
    alarms = []
    for x in rows:
        alarms.append(model.score_one(x) > 0)
        model.learn_one(x)
    assert 0.07 < np.mean(alarms[1000:]) < 0.14
    frame = pd.DataFrame(rows[:5])
    np.testing.assert_allclose(model.score_many(frame), [model.score_one(x) for x in rows[:5]])
    learned = NoveltyDetector(nu=0.1, gamma=0.3)
    learned.learn_many(pd.DataFrame(rows))
    np.testing.assert_allclose(learned.score_many(frame), model.score_many(frame), rtol=1e-7)


BAD_ROWS = [
    ({"a": 1.0, "new": 2.0}, None), ({"a": 1.0, "new": 2.0}, float("nan")),
    ({"new": float("inf")}, "yes"), ({"a": 1.0, "new": 1e200}, "yes"), ({"new": "red"}, "yes"),
    ({"a": 1.0, "new": 2.0}, 7),
]  # fmt: skip


def taught(**params):
    model = KernelClassifier(kernel="linear", **params)
    for x, y in [({"a": 0.0}, "no"), ({"a": 3.0}, "yes")] * 5:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize(("x", "y"), BAD_ROWS)
def test_a_refused_row_leaves_no_trace(x, y):
    model = taught()
    before, columns = model.model.to_bytes(), dict(model._columns)
    with pytest.raises(ValueError, match=r"label|NaN|not a number|leave|large|string"):
        model.learn_one(x, y)
    with pytest.raises(ValueError, match=r"label|NaN|not a number|convert|infinity|large|string"):
        model.learn_many(pd.DataFrame([x]), pd.Series([y], dtype=object))
    assert model.model.to_bytes() == before
    assert (model._columns, model.model.n_features_in_) == (columns, 1)
    model.learn_one({"a": 1.0, "b": 2.0}, "yes")
    assert model._columns == {"a": 0, "b": 1}


@pytest.mark.parametrize(("x", "y"), BAD_ROWS)
def test_a_bad_row_is_left_out_and_counted_where_asked(x, y):
    model, alone = taught(on_bad_row="skip"), taught()
    model.learn_one(x, y)
    assert model.n_skipped_ == 1
    assert model.model.to_bytes() == alone.model.to_bytes()
    if not isinstance(x["new"], str):
        model.learn_many(pd.DataFrame([x]), pd.Series([y], dtype=object))
        assert sum(model.skipped_.values()) == model.n_skipped_ == 2
    assert model.model.to_bytes() == alone.model.to_bytes()
    assert model._columns == {"a": 0}
    assert set(model.predict_proba_one({"a": 1.0})) == {"no", "yes"}


def test_good_rows_of_a_frame_are_learned_without_the_bad_ones():
    frame = pd.DataFrame({"a": [0.0, 3.0, np.nan, 3.0], "b": [1.0, 0.0, 1.0, 2.0]})
    told = []
    model = KernelClassifier(on_bad_row=told.append, gamma=0.5)
    model.learn_many(frame, pd.Series(["no", None, "no", "yes"], dtype=object))
    assert [bad.row for bad in told] == [1, 2]
    alone = KernelClassifier(gamma=0.5)
    alone.learn_many(frame.iloc[[0, 3]], pd.Series(["no", "yes"]))
    assert model.model.classes_.tolist() == alone.model.classes_.tolist()
    np.testing.assert_array_equal(model.model.dual_coef_, alone.model.dual_coef_)


def test_a_first_row_that_is_bad_is_forgotten():
    for model in (KernelClassifier(), KernelClassifier(on_bad_row="skip")):
        if model.on_bad_row == "skip":
            model.learn_one({"a": 1.0, "b": 2.0}, None)
        else:
            with pytest.raises(ValueError, match="None"):
                model.learn_one({"a": 1.0, "b": 2.0}, None)
        assert (model.model, model._columns) == (None, {})
        model.learn_one({"c": 1.0}, "yes")
        assert model.model.kernel_.gamma == 1.0


def test_bad_targets_of_a_regressor_and_bad_rows_of_a_detector():
    model = KernelRegressor(on_bad_row="skip")
    for y in (1.0, None, float("nan"), "x", 1e50):
        model.learn_one({"a": 1.0, **({} if y == 1.0 else {"b": 1.0})}, y)
    assert (model.n_skipped_, model.model.n_seen_, model._columns) == (4, 1, {"a": 0})
    detector = NoveltyDetector(on_bad_row="skip")
    detector.learn_one({"a": 1.0})
    detector.learn_one({"b": float("nan")})
    assert (detector.n_skipped_, detector._columns) == (1, {"a": 0})


def test_without_river_the_extra_is_named():
    code = (
        "import sys; sys.modules['river'] = None\n"
        "try:\n    import kernelstream.river\n"
        "except ModuleNotFoundError as error:\n    print(error, error.name)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        found.stdout == "kernelstream.river needs River: pip install 'kernelstream[river]' river\n"
    )


def test_auto_detector():
    model, rows = river.AutoDetector(nu=0.1), [x for x, _ in anomalies(1)]
    for x in rows[:200]:
        model.learn_one(x)
    model.learn_many(pd.DataFrame(rows[200:]))
    frame = pd.DataFrame(rows)
    same = ks.AutoDetector(nu=0.1).partial_fit(frame.to_numpy())
    np.testing.assert_array_equal(
        model.score_many(frame), -same.decision_function(frame.to_numpy())
    )
    with pytest.warns(UserWarning, match="'new' is left out"):
        model.learn_one({**rows[0], "new": 1.0})
    same.learn_one(frame.to_numpy()[0])
    assert model.score_one(rows[0]) == -same.decision_function(frame.to_numpy()[:1])[0]


def test_a_committee_says_what_to_do_about_features_that_come_late():
    model = river.AutoClassifier()
    for i in range(10):
        model.learn_one({"a": float(i), "b": None}, i % 2)
    same = copy.deepcopy(model.model)
    with pytest.warns(UserWarning, match=r"'late' is left out.*every feature") as told:
        model.learn_one({"a": 1.0, "late": 1.0}, 1)
    assert told[0].filename == __file__
    model.learn_one({"a": 1.0, "late": 1.0}, 1)  # it is told once
    same.partial_fit([[1.0, 0.0]] * 2, [1, 1])
    assert model.predict_proba_one({"a": 1.0}) == pytest.approx(
        dict(enumerate(same.predict_proba([[1.0, 0.0]])[0]))
    )
    model.learn_one({"a": 1.0, "b": 3.0}, 1)
    assert model.predict_one({"a": 1.0}) in (0, 1)


def test_texts_and_dates_are_taken_as_tables_are():
    first = datetime.date(2026, 1, 1)
    rows = [
        {"city": "Rome" if i % 2 else "Oslo", "day": first + datetime.timedelta(i), "n": i}
        for i in range(30)
    ]
    frame, labels = pd.DataFrame(rows), ["hot" if i % 2 else "cold" for i in range(30)]
    model, whole = river.AutoClassifier(), river.AutoClassifier()
    for x, y in zip(rows, labels, strict=True):
        model.learn_one(x, y)
    whole.learn_many(frame, pd.Series(labels))
    unseen = {"city": "Rome", "day": datetime.date(2026, 2, 1), "n": 3, "never": "seen"}
    assert model.predict_one(unseen) == "hot"
    assert model.predict_proba_one(unseen) == pytest.approx(whole.predict_proba_one(unseen))
    assert whole.predict_many(frame).tolist() == labels
    with pytest.warns(UserWarning, match="'late' is left out"):
        model.learn_one({**rows[0], "late": 1.0}, "hot")
    assert model.model.n_seen_ == 31
    skips = river.AutoClassifier(on_bad_row="skip")
    skips.learn_many(frame, pd.Series(labels))
    skips.learn_one(rows[0], None)
    assert skips.n_skipped_ == 1
    assert skips.model.n_seen_ == 30
    assert river.AutoClassifier()._are_table({"a": "3.5", "b": None}) is False
    with pytest.raises(ValueError, match="OneHotEncoder"):
        KernelClassifier().learn_one({"city": "Rome"}, "hot")


def test_missing_values_are_filled_in():
    rows = [x for x, _ in anomalies(1)][:60]
    for i in range(5, 60, 7):
        rows[i] = dict.fromkeys(rows[i], None if i % 2 else math.nan)
    model = river.AutoDetector(nu=0.1)
    for x in rows:
        model.learn_one(x)
    many = river.AutoDetector(nu=0.1)
    many.learn_many(pd.DataFrame(rows, dtype=float))
    same = ks.AutoDetector(nu=0.1).partial_fit(pd.DataFrame(rows, dtype=float).to_numpy())
    asked = dict.fromkeys(rows[0])
    assert model.score_one(asked) == pytest.approx(many.score_one(asked))
    assert many.model.score_one(np.full(len(asked), np.nan)) == pytest.approx(
        same.score_one(np.full(len(asked), np.nan))
    )
    with pytest.raises(ValueError, match="leave this row out or fill it in"):
        river.AutoDetector(missing="error").learn_one({"a": math.nan})


@pytest.mark.parametrize("name", ["AutoClassifier", "AutoRegressor", "AutoDetector"])
def test_a_committee_does_not_begin_with_an_empty_row(name):
    model, target = getattr(river, name)(), () if name == "AutoDetector" else (1,)
    with pytest.raises(ValueError, match="the first row has no features"):
        model.learn_one({}, *target)
    model.learn_one({"a": 1.0, "b": 2.0}, *target)
    model.learn_one({}, *target)  # all features are zero
    assert model.model.n_seen_ == 2


def test_the_last_target_and_the_size_of_a_committee():
    """In River the target of a row is usually learned before the next row is predicted."""
    random = np.random.default_rng(0)
    y = np.cumsum(random.normal(size=300))
    rows = [{"a": a, "b": b} for a, b in random.normal(size=(300, 2)).tolist()]

    def error(**params):
        model = river.AutoRegressor(budget=32, **params)
        return evaluate.progressive_val_score(zip(rows, y, strict=True), model, metrics.MAE()).get()

    assert error(prompt_targets=True) < 0.8 * error()
    classifier = river.AutoClassifier(budget=64, prompt_targets=True)
    classifier.learn_one(rows[0], "low")
    assert classifier.model.get_params()["budget"] == 64
    assert "last" in classifier.model.weights_
    detector = river.AutoDetector(budget=40)
    for x in rows:
        detector.learn_one(x)
    assert detector.model.machine_.n_points == 40


def test_the_area_under_the_curve_of_a_detector():
    random = np.random.default_rng(1)
    odd = random.random(400) < 0.05
    values = np.where(odd, 6.0, 0.0) + random.normal(size=400)
    rows = [({"a": value}, bool(is_odd)) for value, is_odd in zip(values, odd, strict=True)]
    area = metrics.RollingROCAUC(window_size=400)
    evaluate.progressive_val_score(rows, river.AutoDetector(), area)
    assert area.get() > 0.9


@pytest.mark.parametrize("name", [name for name in river.__all__ if name != "make"])
def test_parameters_are_those_of_the_estimator(name):
    cls, estimator = getattr(river, name), getattr(ks, name)
    own, behind = (inspect.signature(c).parameters for c in (cls, estimator))
    missing = {"missing"} if name.startswith(("Kernel", "Novelty")) else set()
    left_out = {"random_state", "waiting_rows", "n_epochs", *missing} & set(behind)
    if name == "AutoDetector":
        left_out.remove("random_state")  # of its projections
    assert set(own) == set(behind) - left_out
    assert all(own[p].default == behind[p].default and own[p].kind == behind[p].kind for p in own)
    model = cls(on_bad_row="skip")
    assert model._get_params() == {p: own[p].default for p in own} | {"on_bad_row": "skip"}
    assert model.clone()._get_params() == model._get_params()
    with pytest.raises(TypeError, match="unheard"):
        cls(unheard=1)
    with pytest.raises(TypeError, match="positional"):
        cls(1, 2)
