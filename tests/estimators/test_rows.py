"""Rows of any kind: weights, frames, precision, one at a time."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kernelstream as ks

pytestmark = pytest.mark.usefixtures("without_compiler")

random = np.random.default_rng(0)
X = random.normal(size=(200, 3))
Y = {"classifier": np.digitize(X[:, 0], [-0.5, 0.5]), "regressor": X[:, 0], "novelty": None}
TASKS = list(Y)
NAMES = ["a", "b", "c"]


def part(y, rows):
    return None if y is None else y[rows]


def assert_same_model(a, b, rtol=1e-9):
    np.testing.assert_allclose(a.dual_coef_, b.dual_coef_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(a.support_vectors_, b.support_vectors_, rtol=rtol)
    assert a.step_size_ == pytest.approx(b.step_size_, rel=rtol)
    assert a.margin_ == pytest.approx(b.margin_, rel=rtol)
    assert a.n_seen_ == b.n_seen_


@pytest.mark.parametrize("task", TASKS)
def test_blocks_of_any_size_give_the_same_model(task):
    y = Y[task]
    whole = ks.make("svmd", task, budget=30).partial_fit(X, y)
    for size in (1, 2, 7, 150):
        model = ks.make("svmd", task, budget=30)
        for start in range(0, 200, size):
            rows = slice(start, start + size)
            model.partial_fit(X[rows], part(y, rows))
        assert_same_model(model, whole)
    ones = ks.make("svmd", task, budget=30)
    for i, x in enumerate(X):
        ones.learn_one(x, None if y is None else y[i])
    assert_same_model(ones, whole)
    predicted = [ones.predict_one(x) for x in X]
    np.testing.assert_allclose(predicted, ones.predict(X), rtol=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_a_zero_weight_is_as_good_as_absent(task):
    y = Y[task]
    weight = random.integers(0, 2, 200).astype(float)
    kept = weight > 0
    weighted = ks.make("svmd", task).partial_fit(X, y, sample_weight=weight)
    assert_same_model(weighted, ks.make("svmd", task).partial_fit(X[kept], part(y, kept)))
    untouched = weighted.dual_coef_
    weighted.partial_fit(X, y, sample_weight=np.zeros(200))
    np.testing.assert_array_equal(weighted.dual_coef_, untouched)
    assert weighted.n_seen_ == kept.sum()


def test_a_class_that_only_comes_without_weight_does_not_exist():
    model = ks.KernelClassifier().partial_fit(
        X[:4], ["a", "ghost", "b", "a"], sample_weight=[1, 0, 1, 1]
    )
    assert model.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("task", ["classifier", "regressor"])
def test_a_weight_multiplies_the_loss_as_c_does(task):
    weighted = ks.make("svmd", task).partial_fit(X, Y[task], sample_weight=np.full(200, 3.0))
    assert_same_model(weighted, ks.make("svmd", task, C=3.0).partial_fit(X, Y[task]))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "frame", [lambda x: pd.DataFrame(x, columns=NAMES), lambda x: pl.DataFrame(x, schema=NAMES)],
    ids=["pandas", "polars"],
)  # fmt: skip
def test_frames_are_learned_and_their_names_checked(task, frame):
    y = Y[task]
    model = ks.make("svmd", task).partial_fit(frame(X), y)
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_model(model, ks.make("svmd", task).partial_fit(X, y))
    np.testing.assert_array_equal(model.predict(frame(X)), model.predict(frame(X)))
    table = frame(X)
    renamed = (
        table.rename({"c": "z"})
        if isinstance(table, pl.DataFrame)
        else table.rename(columns={"c": "z"})
    )
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(renamed, y)
    result = ks.prequential(ks.make("svmd", task), frame(X), y)
    assert len(result.errors) == 200


def test_a_series_as_target():
    y = pd.Series(Y["classifier"], index=range(500, 700))
    model = ks.KernelClassifier().partial_fit(X, y)
    assert_same_model(model, ks.KernelClassifier().partial_fit(X, Y["classifier"]))


@pytest.mark.parametrize("task", TASKS)
def test_float32_stays_float32(task):
    model = ks.make("svmd", task).partial_fit(X.astype(np.float32), Y[task])
    assert model.support_vectors_.dtype == np.float32
    assert model.dual_coef_.dtype == np.float64
    model.partial_fit(X, Y[task])  # float64 rows are rounded to what the model holds
    assert model.support_vectors_.dtype == np.float32
    model.learn_one(X[0], 1)
    with pytest.raises(ValueError, match=r"NaN or infinity|overflow"):
        model.partial_fit(np.full((1, 3), 1e200), part(Y[task], slice(1)))


@pytest.mark.parametrize("rows", [X.tolist(), np.asfortranarray(X), X[::-1][::-1], X.astype(int)])
def test_rows_in_any_layout(rows):
    model = ks.KernelRegressor().partial_fit(rows, Y["regressor"])
    expected = np.ascontiguousarray(np.asarray(rows, dtype=float))
    assert_same_model(model, ks.KernelRegressor().partial_fit(expected, Y["regressor"]))
    read_only = expected.copy()
    read_only.flags.writeable = False
    assert_same_model(model, ks.KernelRegressor().partial_fit(read_only, Y["regressor"]))


def test_a_model_does_not_hold_on_to_the_callers_arrays():
    rows = X.copy()
    model = ks.KernelClassifier().partial_fit(rows, Y["classifier"])
    before = model.predict(X)
    rows[:] = 0
    model.support_vectors_[:] = 0
    model.dual_coef_[:] = 0
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("task", TASKS)
def test_any_function_is_a_kernel(task):
    by_name = ks.make("svmd", task, gamma=0.3).partial_fit(X, Y[task])
    function = ks.make(
        "svmd", task, kernel=lambda A, B: np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(-1))
    ).partial_fit(X, Y[task])
    assert_same_model(function, by_name)
    np.testing.assert_allclose(function.predict(X), by_name.predict(X), rtol=1e-9)


@pytest.mark.parametrize("name", ["rbf", "poly", "polynomial", "linear", "laplacian"])
def test_kernels_by_name(name):
    model = ks.KernelRegressor(name).partial_fit(X, Y["regressor"])
    assert model.score(X, Y["regressor"]) > 0.3


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("make", [ks.KernelRegressor, lambda: ks.AutoRegressor(["linear-pa"])])
def test_a_series_that_comes_first_keeps_its_names(make):
    import pandas as pd

    model, expected = make(), make()
    model.learn_one(pd.Series({"u": 1.0, "v": 2.0}), 3.0)
    expected.partial_fit(pd.DataFrame({"u": [1.0], "v": [2.0]}), [3.0])
    assert model.feature_names_in_.tolist() == ["u", "v"]
    for other, u in ((pd.Series({"v": 5.0, "u": 4.0}), 4.0), (pd.Series({"u": 7, "v": 5}), 7.0)):
        assert model.predict_one(other) == pytest.approx(
            expected.predict(pd.DataFrame({"u": [u], "v": [5.0]}))[0]
        )
        model.learn_one(other, 1.0)
        expected.partial_fit(pd.DataFrame({"u": [u], "v": [5.0]}), [1.0])
    assert model.to_bytes() == expected.to_bytes()
    with pytest.raises(ValueError, match="'w'"):
        model.learn_one(pd.Series({"w": 5.0, "u": 4.0}), 1.0)
    without = make().learn_one(pd.Series([1.0, 2.0]), 3.0)  # numbered: the order is all there is
    assert not hasattr(without, "feature_names_in_")
