"""The averaged hypothesis (ILK, end of section 3.2): the mean of all models that there were."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets import Independent, LeastLoss, Merge, OldestOut, SmallestOut, Unbounded
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.learner.state import arrays
from tests.reference.expansion import Reference

from .contracts.combinations import Combination, problem
from .contracts.test_tiles import FEW, combinations, many_labels
from .structures import TREE

TEST = np.random.default_rng(99).normal(size=(12, 3))


def averaging(parts, n_outputs, interpreted=True):
    learner = Machine(replace(parts, averaged=True), 3, n_outputs, np.dtype(float))
    if interpreted:
        learner.scratch["learn"] = learn_tile.py_func
    return learner


def averages(learner, X=TEST):
    return learner.scores(X, "averaged")


@settings(max_examples=150)
@given(combinations, st.integers(0, 10**6), st.sampled_from([1, 2, 7, 64]))
def test_any_tile_matches_the_reference(combination, seed, tile_rows):
    """Every loss, update, step size, budget and margin, with and without intercept and decay."""
    X, y, weight = problem(combination, 60, seed)
    parts = combination.parts()
    reference = Reference(parts, 3, combination.n_outputs)
    for row in zip(X, y, weight, strict=True):
        reference.learn(*row)
    learner = averaging(parts, combination.n_outputs)
    learner.learn(X, y, weight, tile_rows=tile_rows)
    expected = reference.average(TEST)
    np.testing.assert_allclose(
        averages(learner), expected, rtol=1e-9, atol=1e-9 * max(1, np.abs(expected).max())
    )


def brute_force(learner, X, y, weight, test=TEST):
    """The mean over the models after each row, of what the points that are left brought to it."""
    owners, sums, b, n = {}, {}, 0.0, 0
    for i in range(len(X)):
        rows = slice(i, i + 1)
        trail = learner.learn(X[rows], y[rows], weight[rows], tile_rows=1)[0]
        if weight[i] == 0:
            continue
        if trail.slot[0] >= 0:
            owners[int(trail.slot[0])] = i
        for slot, alpha in enumerate(learner.coefficients().T):
            sums[owners[slot]] = sums.get(owners[slot], 0.0) + alpha
        b, n = b + learner.state.intercept.b, n + 1
    left = [owners[slot] for slot in range(learner.n_points)]
    block = learner.kernel(test, X[left])
    return (block @ np.array([sums[i] for i in left]) + b) / n


COMPILED = [
    Combination(("classification", "hinge", "one"), regularization=1.0, budget="unbounded"),
    Combination(("classification", "hinge", "many"), update="implicit", budget="smallest"),
    Combination(("classification", "log_loss", "many"), intercept=True, step_size="sqrt"),
    Combination(("classification", "hinge", "tree"), update="implicit", intercept=True),
    Combination(("regression", "squared_error", "one"), intercept=True, budget="smallest-exact"),
    Combination(("novelty", "novelty", "one"), margin="relative", regularization=1.0),
]


@pytest.mark.parametrize(
    "combination",
    [*COMPILED[:2], *(pytest.param(c, marks=pytest.mark.nightly) for c in COMPILED[2:])],
    ids=str,
)
def test_compiled_it_is_the_mean_of_all_models(combination):
    X, y, weight = problem(combination, 400, seed=5)
    n_outputs, parts = combination.n_outputs, combination.parts()
    expected = brute_force(averaging(parts, n_outputs, interpreted=False), X, y, weight)
    for size in (1, 13, 400):
        learner = averaging(parts, n_outputs, interpreted=False)
        for start in range(0, 400, size):
            rows = slice(start, start + size)
            learner.learn(X[rows], y[rows], weight[rows], tile_rows=64)
        np.testing.assert_allclose(averages(learner), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("regularization", [0.0, 1e-3, 3.0])
def test_a_long_life_loses_no_digits(regularization):
    """Whatever the decay, and after many rows: sums are settled before they lose their digits."""
    combination = Combination(
        ("regression", "epsilon_insensitive", "one"), step_size="constant", budget="smallest",
        regularization=regularization,
    )  # fmt: skip
    rows = problem(combination, 12_000, seed=6)
    expected = brute_force(averaging(combination.parts(), 1, interpreted=False), *rows)
    learner = averaging(combination.parts(), 1, interpreted=False)
    learner.learn(*rows, tile_rows=256)
    np.testing.assert_allclose(averages(learner), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("budget", ["unbounded", "oldest", "smallest-exact"])
@pytest.mark.parametrize("loss", list(FEW))
def test_where_only_nonzeros_are_kept(monkeypatch, loss, budget):
    rule, n_outputs = FEW[loss]
    combination = Combination(("classification", "hinge", "many"), budget=budget)
    parts = replace(combination.parts(), loss=rule)
    X, y, weight = many_labels(60, 60, seed=1)
    reference = Reference(parts, 3, n_outputs)
    for row in zip(X, y, weight, strict=True):
        reference.learn(*row)
    monkeypatch.setattr("kernelstream.learner.plan._MANY_OUTPUTS", 16)
    learner = averaging(parts, n_outputs)
    assert len(learner.state.expansion.average.past) < n_outputs
    learner.learn(X, y, weight, tile_rows=13)
    np.testing.assert_allclose(averages(learner), reference.average(TEST), rtol=1e-9, atol=1e-12)


# --- estimators ----------------------------------------------------------------------------------

X = np.random.default_rng(3).normal(size=(150, 3))
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1]
MODELS = {
    "svmd": (lambda **more: ks.KernelClassifier(gamma=0.5, **more), SIGNAL > 0),
    "classes": (
        lambda **more: ks.KernelClassifier(loss="log_loss", fit_intercept=True, **more),
        np.digitize(SIGNAL, [-0.5, 0.5]),
    ),
    "tree": (
        lambda **more: ks.KernelClassifier(label_structure=TREE, **more),
        np.digitize(SIGNAL, [-0.5, 0.5]),
    ),
    "silk": (
        lambda **more: ks.make("silk", "classifier", **{"budget": None, **more}), SIGNAL > 0
    ),
    "alma": (lambda **more: ks.make("alma", "classifier", **more), SIGNAL > 0),
    "ballseptron": (lambda **more: ks.make("ballseptron", "classifier", **more), SIGNAL > 0),
    "regressor": (
        lambda **more: ks.KernelRegressor(gamma=0.5, fit_intercept=True, **more), SIGNAL
    ),
    "pa": (lambda **more: ks.make("pa", "regressor", gamma=0.5, **more), SIGNAL),
    "novelty": (lambda **more: ks.NoveltyDetector(gamma=0.5, **more), None),
}  # fmt: skip


def scored(model):
    """What predictions are made of."""
    if isinstance(model, ks.KernelRegressor):
        return model.predict(TEST)
    return model.decision_function(TEST)


def some(y, rows):
    return None if y is None else y[rows]


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("kind", MODELS)
def test_an_estimator_predicts_by_the_mean_of_its_past(kind, tmp_path):
    """No point is dropped here: it is the mean of the plain model's scores after each row."""
    make, y = MODELS[kind]
    plain, averaged = make(budget=None), make(budget=None, predictor="averaged")
    classes = {"classes": np.unique(y)} if isinstance(plain, ks.KernelClassifier) else {}
    total = 0.0
    for i in range(len(X)):
        rows, more = slice(i, i + 1), classes if i == 0 else {}
        plain.partial_fit(X[rows], some(y, rows), **more)
        total = total + scored(plain)
    averaged.partial_fit(X[:70], some(y, slice(0, 70)), **classes)
    averaged.save(tmp_path / "model.ks")
    averaged = ks.load(tmp_path / "model.ks")
    averaged.partial_fit(X[70:], some(y, slice(70, None)))
    np.testing.assert_allclose(averaged.dual_coef_, plain.dual_coef_)  # learning is the same
    np.testing.assert_allclose(scored(averaged), total / len(X), rtol=1e-9, atol=1e-9)
    assert [averaged.predict_one(x) for x in TEST] == pytest.approx(averaged.predict(TEST).tolist())


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("kind", MODELS)
def test_evaluation_asks_the_average_before_every_row(kind):
    make, y = MODELS[kind]
    model, twin = make(predictor="averaged"), make(predictor="averaged")
    result = ks.prequential(model, X[:60], some(y, slice(0, 60)))
    classes = {"classes": np.unique(y)} if isinstance(twin, ks.KernelClassifier) else {}
    twin.partial_fit(X[:1], some(y, slice(0, 1)), **classes)
    for i in range(1, 60):
        assert result.predictions[i] == pytest.approx(twin.predict(X[i : i + 1])[0])
        twin.partial_fit(X[i : i + 1], some(y, slice(i, i + 1)))


@pytest.mark.usefixtures("without_compiler")
def test_bad_rows_are_skipped_where_the_average_is_asked():
    bad = X[:30].copy()
    bad[7, 1] = np.nan
    model = ks.KernelRegressor(predictor="averaged", on_bad_row="skip", budget=None)
    result = ks.prequential(model, bad, SIGNAL[:30])
    assert model.n_skipped_ == 1
    assert 7 not in result.rows


@pytest.mark.usefixtures("without_compiler")
def test_a_late_class_was_zero_before():
    y = np.where(np.arange(150) < 100, SIGNAL > 0, 2).astype(int)
    model = ks.KernelClassifier(gamma=0.5, predictor="averaged", fit_intercept=True, budget=None)
    plain = ks.KernelClassifier(gamma=0.5, fit_intercept=True, budget=None)
    total = np.zeros((len(TEST), 3))
    for i in range(150):
        plain.partial_fit(X[i : i + 1], y[i : i + 1])
        scores = plain.label_scores(TEST)
        total[:, : scores.shape[1]] += scores
    model.partial_fit(X[:37], y[:37]).partial_fit(X[37:], y[37:])
    np.testing.assert_allclose(model.label_scores(TEST), total / 150, rtol=1e-9, atol=1e-9)


@pytest.mark.nightly
def test_averages_pay_where_steps_stay_large():
    """A constant step on noisy rows: the last model jitters, the average does not."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(4000, 3))
    clean = np.sin(2 * rows[:, 0]) + rows[:, 1]
    errors = {}
    for predictor in ("last", "averaged"):
        model = ks.KernelRegressor(
            gamma=0.3, step_size=0.3, budget=LeastLoss(100), predictor=predictor
        )
        model.partial_fit(rows[:3000], (clean + random.normal(size=4000))[:3000])
        errors[predictor] = np.mean((model.predict(rows[3000:]) - clean[3000:]) ** 2)
    assert errors["averaged"] < 0.5 * errors["last"]


# --- what it costs and what it refuses -----------------------------------------------------------


def test_without_it_no_array_is_larger():
    learner = Machine(Combination(("regression", "huber", "one")).parts(), 3, 1, np.dtype(float))
    assert not [name for name, _ in arrays(learner.state) if "average" in name]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ks.make("sog-svr", "regressor", predictor="averaged"),
            "does not go with update=Dual",
        ),
        (
            lambda: ks.make("lasvm", "classifier", predictor="averaged"),
            "does not go with update=LASVM",
        ),
        (lambda: ks.KernelRegressor(predictor="voted"), "predictor='voted'"),
        (lambda: ks.NoveltyDetector(predictor="mean"), "predictor='mean'"),
    ],
)
def test_what_does_not_go_together_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make().fit(X, SIGNAL > 0)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("make", [ks.KernelClassifier, ks.KernelRegressor, ks.NoveltyDetector])
@pytest.mark.parametrize(
    "budget", [OldestOut(9), OldestOut(9, max_age=5), SmallestOut(9), SmallestOut(9, half_life=5)]
)
def test_a_budget_that_drops_points_is_refused(make, budget):
    y = SIGNAL > 0
    with pytest.raises(ValueError, match=r"budget=\w+Out\(.*Use budget=LeastLoss\(9\), .*'last'"):
        make(budget=budget, predictor="averaged").partial_fit(X[:5], y[:5])
    for other in (LeastLoss(9), Merge(9), Independent(), None):
        make(budget=other, predictor="averaged").partial_fit(X[:5], y[:5])


@pytest.mark.usefixtures("without_compiler")
def test_a_number_of_points_is_the_size_of_a_budget_that_projects():
    for budget, expected in ((9, LeastLoss(9)), ("auto", LeastLoss(256)), (None, Unbounded())):
        model = ks.KernelRegressor(budget=budget, predictor="averaged")
        assert model.partial_fit(X[:5], SIGNAL[:5]).machine_.parts.budget == expected
    assert ks.make("averaged-perceptron", "classifier", budget=9).budget == LeastLoss(9)
    with pytest.raises(ValueError, match="budget=0"):
        ks.KernelRegressor(budget=0, predictor="averaged").partial_fit(X[:5], SIGNAL[:5])
    linear = ks.KernelRegressor("linear", predictor="averaged").partial_fit(X[:5], SIGNAL[:5])
    assert linear.machine_.parts.budget.is_folded


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_a_small_budget_keeps_the_average(seed):
    """XOR with 100 points: an average that lost the dropped points' parts had 67 % accuracy."""
    rows = np.random.default_rng(seed).normal(size=(3000, 2))
    y = rows[:, 0] * rows[:, 1] > 0
    model = ks.KernelClassifier(gamma=1.0, budget=100, predictor="averaged")
    model.partial_fit(rows[:2000], y[:2000])
    assert model.score(rows[2000:], y[2000:]) > 0.95


@pytest.mark.usefixtures("without_compiler")
def test_it_must_be_chosen_before_the_first_row():
    model = ks.KernelRegressor().partial_fit(X[:5], SIGNAL[:5])
    model.set_params(predictor="averaged")
    with pytest.raises(ValueError, match="before the first row"):
        model.predict(X)
    with pytest.raises(ValueError, match="predict by their last state"):
        ks.Fleet("averaged-perceptron", "classifier", 3, 2, budget=9)


@pytest.mark.parametrize("budget", [9, LeastLoss(9), Merge(9), None])
@pytest.mark.usefixtures("without_compiler")
def test_a_refused_row_leaves_the_sum_as_it_was(budget):
    model = ks.KernelRegressor(gamma=0.5, budget=budget, predictor="averaged")
    model.partial_fit(X[:40], SIGNAL[:40])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="row 3 was refused"):
        model.partial_fit(X[40:50], np.where(np.arange(10) == 3, 1e100, 0.0))
    assert model.to_bytes() == before
