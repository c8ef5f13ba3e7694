"""The Auto estimators in the hands of people who know scikit-learn."""

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelstream as ks

RANDOM = np.random.default_rng(0)
ROWS, LABELS = load_iris(return_X_y=True)
ORDER = RANDOM.permutation(len(ROWS))
ROWS, LABELS = ROWS[ORDER], LABELS[ORDER]
AUTO = [ks.AutoClassifier, ks.AutoRegressor, ks.AutoDetector]


@parametrize_with_checks(
    [ks.AutoClassifier(), ks.AutoRegressor()],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": (
            "learning a row twice is not learning it once with twice the weight, as in any SGD"
        )
        for kind in ("dense", "sparse")
    },
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def one_by_one(model, rows):
    for i in rows:
        model.learn_one(ROWS[i], *([] if model.task == "novelty" else [LABELS[i]]))


@pytest.mark.parametrize("estimator", AUTO)
def test_it_goes_on_from_a_memory_map(estimator, tmp_path):
    """What joblib maps into memory is read-only, and so is what it hands to other processes."""
    model = estimator().partial_fit(ROWS[:100], LABELS[:100])
    joblib.dump(model, tmp_path / "model.joblib")
    twin = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    for one in (model, twin):
        one.partial_fit(ROWS[100:140], LABELS[100:140])
        one_by_one(one, range(140, 150))
        for _ in range(3):  # scales are renewed, and budgets grow
            one.partial_fit(ROWS, LABELS)
    assert twin.to_bytes() == model.to_bytes()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("estimator", AUTO)
def test_large_numbers_of_float32_come_one_by_one(estimator):
    model = estimator().partial_fit(ROWS.astype(np.float32), LABELS)
    twin, far = clone(model).partial_fit(ROWS.astype(np.float32), LABELS), np.full(4, 3e29, "f")
    model.learn_one(far, *([] if model.task == "novelty" else [LABELS[0]]))
    twin.partial_fit(far[None], LABELS[:1])
    read = "predict" if model.task == "regression" else "decision_function"
    rows = ROWS.astype(np.float32)
    np.testing.assert_allclose(getattr(model, read)(rows), getattr(twin, read)(rows), atol=1e-4)


@pytest.mark.parametrize("estimator", AUTO)
def test_text_in_an_array_belongs_into_a_table(estimator):
    with pytest.raises(ValueError, match=r"X contains 'red'.*table of pandas or polars"):
        estimator().partial_fit(np.array([[1.0, "red"], [2.0, "blue"]], dtype=object), [0, 1])


def test_targets_that_are_no_numbers():
    model = ks.AutoRegressor()
    with pytest.raises(ValueError, match=r"y contains 'a'.*AutoClassifier"):
        model.partial_fit(ROWS[:2], ["a", "b"])
    model.partial_fit(ROWS, LABELS)
    before = model.to_bytes()
    for bad in ("a", None):
        with pytest.raises(ValueError, match=r"not a number: leave this row out"):
            model.learn_one(ROWS[0], bad)
    assert model.to_bytes() == before


def test_a_table_without_rows():
    with pytest.raises(ValueError, match="X has no rows"):
        ks.AutoRegressor().fit(pd.DataFrame({"a": ["x"], "b": [1.0]})[:0], [])


def test_a_folder_that_is_not_there(tmp_path):
    model = ks.Committee(["smd-linear"], "regressor").partial_fit(ROWS, LABELS)
    with pytest.raises(FileNotFoundError, match=r"model\.ks: there is no folder .*models"):
        model.save(tmp_path / "models" / "model.ks")


def test_no_label_yet():
    model = ks.AutoClassifier().partial_fit(ROWS, LABELS, sample_weight=np.zeros(150))
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError, match="no label has been learned yet"):
            ask(ROWS)
    with pytest.raises(NotFittedError, match="no label has been learned yet"):
        model.predict_one(ROWS[0])
    twin = ks.AutoClassifier().partial_fit(ROWS, LABELS)
    assert model.partial_fit(ROWS, LABELS).predict(ROWS).tolist() == twin.predict(ROWS).tolist()


def test_as_many_threads_as_cores():
    all_cores = ks.AutoRegressor(n_jobs=-1).partial_fit(ROWS, LABELS)
    assert all_cores.predict(ROWS).tolist() == (
        ks.AutoRegressor().partial_fit(ROWS, LABELS).predict(ROWS).tolist()
    )
    with pytest.raises(ValueError, match="n_jobs=0"):
        ks.AutoRegressor(n_jobs=0).partial_fit(ROWS, LABELS)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("preset", "task", "why"),
    [("svrseq", "regressor", "revisits its rows"), ("adatron", "classifier", "revisits its rows"),
     ("voted-perceptron", "classifier", "leave predictor")],
)  # fmt: skip
def test_presets_that_cannot_be_members(preset, task, why, learn):
    with pytest.raises(ValueError, match=why):
        getattr(ks.Committee([preset, "svmd"], task), learn)(ROWS, LABELS)


@pytest.mark.usefixtures("without_compiler")
def test_a_series_is_read_by_its_names():
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    for model in (ks.KernelRegressor(), ks.KernelRegressor(missing="mean")):
        model.partial_fit(frame[:100], LABELS[:100])
        twin = clone(model).partial_fit(frame[:100], LABELS[:100])
        other = frame[list("dbca")]
        for i in range(100, 110):
            model.learn_one(other.iloc[i], LABELS[i])
            twin.learn_one(ROWS[i], LABELS[i])
        assert model.to_bytes() == twin.to_bytes()
        assert model.predict_one(other.iloc[120]) == twin.predict_one(ROWS[120])
        assert model.predict_one(pd.Series(ROWS[120])) == twin.predict_one(ROWS[120])
        with pytest.raises(ValueError, match="the column 'e'"):
            model.learn_one(frame.iloc[0].rename({"d": "e"}), 1.0)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("value", "kind"),
    [(3, "number"), (2.5, "number"), (True, "number"), (pd.Timestamp("2024-05-01"), "date")],
)
def test_a_column_that_is_missing_at_first_has_the_kind_of_its_first_entry(value, kind):
    model = ks.Committee(["smd-linear"], "regressor").learn_one({"a": None, "b": "x"}, 1.0)
    model.learn_one({"a": value, "b": "y"}, 2.0)
    (column,) = (c for c in model.known().columns.columns if c.name == "a")
    assert column.kind == kind


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.filterwarnings("error")
def test_a_category_that_is_missing_at_first_is_one():
    model = ks.Committee(["smd-linear"], "regressor").learn_one({"a": None, "b": "x"}, 1.0)
    model.learn_one({"a": "red", "b": None}, 2.0).learn_one({"a": None, "b": "y"}, 2.0)
    typed = pd.DataFrame({"a": pd.array([None, 3], dtype="Int64"), "b": ["x", "y"]})
    ks.Committee(["smd-linear"], "regressor").partial_fit(typed, [1.0, 2.0])


@pytest.mark.usefixtures("without_compiler")
def test_what_to_do_about_missing_values():
    rows = np.where(np.arange(4) == 2, np.nan, ROWS[:20])
    with pytest.raises(ValueError, match=r"X contains NaN: .*fill it in by missing='mean'"):
        ks.KernelRegressor().partial_fit(rows, LABELS[:20])
    with pytest.raises(ValueError, match=r"X contains NaN: .*give dense rows"):
        ks.Committee(["smd-linear"], "regressor").partial_fit(sparse.csr_array(rows), LABELS[:20])


def test_fit_takes_sorted_tables_in_another_order():
    X, y = load_iris(return_X_y=True)  # sorted by class
    assert cross_val_score(ks.AutoClassifier(), X, y).mean() > 0.9
    in_order = ks.AutoClassifier(random_state=None).fit(X, y)
    assert in_order.to_bytes() == ks.AutoClassifier(random_state=None).fit(X, y).to_bytes()
    same = ks.AutoClassifier(random_state=None).partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(in_order.predict_proba(X), same.predict_proba(X))
    seeds = [ks.AutoClassifier(random_state=seed).fit(X, y).predict_proba(X) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(seeds[0], seeds[1])
    assert not np.array_equal(seeds[0], seeds[2])
