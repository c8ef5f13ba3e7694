"""on_bad_row: a bad row costs that row only; the others give the model they alone would give."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelstream as ks

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 3))
TARGETS = {
    "classifier": np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])],
    "regressor": X[:, 0] + X[:, 1],
    "novelty": None,
}
POISON = {7: np.nan, 100: np.inf, 101: -np.inf, 399: 1e300}  # rows and what is in them
each_task = pytest.mark.parametrize("task", TARGETS)


def poisoned():
    bad = X.copy()
    for row, value in POISON.items():
        bad[row, 1] = value
    return bad


def model(task, **params):
    kernel = {"kernel": "poly", "gamma": 1.0} if params.pop("poly", True) else {}
    return ks.make("svmd", task, budget=50, on_bad_row="skip", **kernel, **params)


def some(y, rows):
    return None if y is None else y[rows]


@each_task
def test_the_good_rows_give_exactly_the_model_that_they_alone_give(task):
    y, good = TARGETS[task], np.delete(np.arange(400), list(POISON))
    found = model(task).partial_fit(poisoned(), y)
    alone = model(task).partial_fit(X[good], some(y, good))
    assert found.n_skipped_ == 4
    assert sorted(found.skipped_.values()) == [1, 3]
    assert alone.n_skipped_ == 0
    alone._skipped = found._skipped
    assert found.to_bytes() == alone.to_bytes()


@each_task
def test_every_method_that_learns_skips(task):
    y, good = TARGETS[task], np.delete(np.arange(400), list(POISON))
    fitted = model(task).fit(poisoned(), y)
    np.testing.assert_array_equal(
        fitted.dual_coef_, model(task).fit(X[good], some(y, good)).dual_coef_
    )
    shuffled = [
        model(task, random_state=0, n_epochs=2).fit(rows, targets)
        for rows, targets in ((poisoned(), y), (X[good], some(y, good)))
    ]
    np.testing.assert_array_equal(*(m.dual_coef_ for m in shuffled))
    one_by_one = model(task)
    for i, row in enumerate(poisoned()):
        one_by_one.learn_one(row, None if y is None else y[i])
    assert one_by_one.n_skipped_ == 4
    np.testing.assert_allclose(
        one_by_one.dual_coef_, model(task).partial_fit(X[good], some(y, good)).dual_coef_, rtol=1e-8
    )
    result = ks.prequential(model(task), poisoned(), y)
    np.testing.assert_array_equal(result.rows, good)
    expected = ks.prequential(model(task), X[good], some(y, good))
    np.testing.assert_array_equal(result.predictions, expected.predictions)
    assert result.error_rate == expected.error_rate


@each_task
def test_a_step_too_large_costs_its_own_row(task):
    """Such a row only shows when it is learned."""
    if task == "novelty":
        return  # its loss has slope one: no row asks for too much
    rows, y = X.copy(), TARGETS[task]
    if task == "regressor":
        y = y.copy()
        y[[50, 51]] = 1e200
    else:
        rows[[50, 51]] = 1e99
    good = np.delete(np.arange(400), [50, 51])
    for budget, shown in ((512, "dual_coef_"), ("auto", "coef_")):
        params = {"kernel": "linear", "step_size": 1e80, "on_bad_row": "skip", "budget": budget}
        found = ks.make("norma", task, **params).partial_fit(rows, y)
        alone = ks.make("norma", task, **params).partial_fit(rows[good], y[good])
        assert found.n_skipped_ == 2
        np.testing.assert_array_equal(getattr(found, shown), getattr(alone, shown))


def test_a_function_is_told_of_each_row():
    told = []
    found = ks.KernelRegressor(on_bad_row=told.append).partial_fit(
        [[1.0, 2.0], [np.nan, 1.0], [3.0, 1.0], [0.0, 1.0]], [1.0, 2.0, 3.0, np.nan]
    )
    assert [bad.row for bad in told] == [1, 3]
    assert "NaN" in told[0].reason
    assert "target is nan" in told[1].reason
    assert all(isinstance(bad, ks.BadRow) for bad in told)
    assert found.n_seen_ == 2
    found.learn_one([1.0, 2.0, 3.0], 1.0)
    assert "shape (3,)" in told[2].reason


@pytest.mark.parametrize(
    ("rows", "y", "reasons"),
    [
        ([[1.0, 2.0], [1.0], [2.0, 1.0]], [1.0, 2.0, 3.0], ["it has 1 features"]),
        ([[1.0, 2.0], ["x", 1.0], [2.0, "3"]], [1.0, 2.0, 3.0], ["no row of numbers"]),
        ([[1.0, 2.0], None, [2.0, 1.0]], [1.0, 2.0, 3.0], ["it has 1 features"]),
        ([[1.0, 2.0], [3.0, 1.0], [2.0, 1.0]], [1.0, "x", 2.0], ["'x' is not a number"]),
        ([[1.0, 2.0], [3.0, 1.0], [2.0, 1.0]], [1.0, None, 2.0], ["None is not a number"]),
        (
            pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": [1.0, 1.0, 3.0]}),
            [1.0, 2.0, 3.0],
            ["a is missing"],
        ),
        (pd.DataFrame({"a": [1.0, "x", 2.0], "b": [1.0, 1.0, 3.0]}), [1, 2, 3], ["a is 'x'"]),
        (sparse.csr_array([[1.0, 0], [np.inf, 1], [0, 2]]), [1.0, 2.0, 3.0], ["NaN"]),
    ],
    ids=range(8),
)
def test_whatever_comes(rows, y, reasons):
    found = ks.KernelRegressor(on_bad_row="skip").partial_fit(rows, y)
    assert found.n_seen_ == 2
    assert found.n_skipped_ == 1
    for reason, expected in zip(found.skipped_, reasons, strict=True):
        assert expected in reason


def test_bad_labels():
    binary = ks.KernelClassifier(on_bad_row="skip").partial_fit(
        X[:4], ["no", None, "yes", "no"], classes=["no", "yes"]
    )
    binary.partial_fit(X[:2], ["maybe", "no"])
    assert binary.skipped_ == {"its label is None": 1, "its label 'maybe' is unknown": 1}
    assert binary.n_seen_ == 4
    assert binary.classes_.tolist() == ["no", "yes"]
    tree = ks.label_kernels.Taxonomy.from_paths(["a/b", "a/c"])
    found = ks.KernelClassifier(label_structure=tree, on_bad_row="skip")
    found.partial_fit(X[:3], ["a/b", "z", "a/c"]).learn_one(X[0], "q")
    assert (found.n_seen_, found.n_skipped_) == (2, 2)
    numbers = ks.KernelClassifier(on_bad_row="skip").partial_fit(X[:3], [0.0, np.nan, 1.0])
    assert numbers.classes_.tolist() == [0.0, 1.0]


def test_a_block_of_bad_rows_only_changes_nothing_but_the_count(tmp_path):
    found = ks.KernelRegressor(on_bad_row="skip")
    found.partial_fit(np.full((5, 2), np.nan), np.zeros(5))
    assert not hasattr(found, "n_seen_")
    found.partial_fit(X[:20, :2], X[:20, 0])
    coefficients = found.dual_coef_
    found.partial_fit(np.zeros((3, 7)), np.zeros(3))
    np.testing.assert_array_equal(found.dual_coef_, coefficients)
    assert found.n_skipped_ == 8
    found.save(tmp_path / "m.ks")
    assert ks.load(tmp_path / "m.ks").skipped_ == found.skipped_
    with pytest.raises(ValueError, match="nothing to fit"):
        found.fit(np.full((5, 2), np.nan), np.zeros(5))
    assert found.n_skipped_ == 8
    with pytest.raises(ValueError, match="nothing to evaluate"):
        ks.prequential(ks.KernelRegressor(on_bad_row="skip"), np.full((5, 2), np.nan), np.zeros(5))


def test_a_function_is_saved_as_skip(tmp_path):
    found = ks.NoveltyDetector(on_bad_row=print).partial_fit(X)
    found.save(tmp_path / "m.ks")
    assert ks.load(tmp_path / "m.ks").on_bad_row == "skip"


def test_what_is_no_policy_is_refused():
    with pytest.raises(ValueError, match="on_bad_row='ignore' is unknown"):
        ks.KernelRegressor(on_bad_row="ignore").partial_fit(X, X[:, 0])


def test_a_refused_row_of_a_shuffled_fit_is_named_by_its_place_in_x():
    rows = X.copy()
    y = X[:, 0].copy()
    y[50] = 1e200
    with pytest.raises(ks.BadRow, match="row 50 was refused"):
        ks.make("norma", "regressor", kernel="linear", step_size=1e80, random_state=0).fit(rows, y)


@pytest.mark.usefixtures("without_compiler")
def test_reasons_are_bounded_and_predicting_counts_nothing():
    model = ks.KernelClassifier(budget=5, on_bad_row="skip")
    model.partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1])
    model.partial_fit(np.zeros((400, 1)), [f"label {i}" for i in range(400)])
    assert model.n_skipped_ == 400
    assert len(model.skipped_) == 51
    assert model.skipped_["other reasons"] == 350
    before = model.to_bytes()
    with pytest.raises(ValueError, match="NaN"):
        model.predict([[np.nan]])
    assert model.to_bytes() == before
    fleet = ks.KeyedFleet("svmd", "regressor", budget=4, on_bad_row="skip")
    fleet.learn(["a"], [[0.0]], [1.0])
    before = fleet.to_bytes()
    found = fleet.predict([f"key {i}" for i in range(300)], np.zeros((300, 1)))
    assert np.isnan(found).all()
    fleet.score_samples(["b"], [[0.0]])
    assert fleet.to_bytes() == before
    for i in range(200):
        fleet.learn([object()], [[0.0]], [1.0])
        fleet.learn([f"key {i}"], [[0.0]], [f"{i}"])
    assert len(fleet.skipped_) <= 51
    told = []
    fleet.prototype.on_bad_row = told.append
    fleet.predict(["nobody"], [[0.0]])
    assert "'nobody' is unknown" in told[0].reason
