"""Points that go by age or by tolerance, and the bound on what is lost with them."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.budgets import OldestOut, Unbounded

KERNEL = ks.kernels.RBF(0.7)


def rows(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * random.normal(size=n) > 0, 1, 0)


def norm_of_difference(model, points, coefficients):
    """Distance in the kernel's space from a sum over points, with a line of each an output."""
    found = model.dual_coef_
    both = np.vstack([points, model.support_vectors_])
    difference = np.hstack([coefficients, -found])
    return np.sqrt(max(np.sum(difference * (difference @ KERNEL(both))), 0.0))


def test_the_bound_is_below_the_published_one_and_above_the_truth():
    """NORMA, proposition 1: a constant step, a loss with gradients of at most C, k(x, x) = X^2."""
    eta, c, C, max_age = 0.3, 0.02, 2.0, 40
    X, y = rows(400)
    model = ks.KernelClassifier(
        KERNEL, step_size=eta, regularization=c, C=C, budget=OldestOut(400, max_age=max_age)
    )
    everything = np.zeros((1, 0))  # coefficients, had nothing been dropped
    largest = 0.0
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        model.partial_fit([x], [label], classes=[0, 1])
        came = model.n_support_ > 0 and (model.support_vectors_[-1] == x).all()
        new = model.dual_coef_[:, -1:] if came else np.zeros((1, 1))
        everything = np.hstack([(1 - eta * c) * everything, new])
        lost = norm_of_difference(model, X[: t + 1], everything)
        assert lost <= model.truncation_error_ + 1e-7  # a root of rounding
        # terms of at least max_age + 1 rows have gone
        assert model.truncation_error_ <= (1 - eta * c) ** (max_age + 1) * C / c
        largest = max(largest, lost)
    assert largest > 0.5  # something was lost at all


STEPS = {
    "hinge": ("classifier", {"loss": "hinge"}),
    "logistic": ("classifier", {"loss": "log_loss"}),
    "squared": ("regressor", {"loss": "squared_error"}),
    "epsilon": ("regressor", {"loss": "epsilon_insensitive", "margin": 0.1}),
}


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    "budget", [{"max_age": 15}, {"max_error": 0.5}, {"size": 12, "max_error": 0.0}]
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("step_size", [0.5, "sqrt_decay"])
@pytest.mark.parametrize("loss", STEPS)
def test_the_bound_holds_against_the_model_that_drops_nothing(loss, step_size, n_classes, budget):
    task, params = STEPS[loss]
    if task == "regressor" and n_classes == 3:
        pytest.skip("regression has one output")
    X, y = rows(150, seed=n_classes)
    y = y + (n_classes == 3) * (X[:, 0] > 1)
    shared = {
        "kernel": KERNEL, "update": "implicit", "step_size": step_size, "regularization": 0.1,
        **params,
    }  # fmt: skip
    model = ks.make("norma", task, budget=OldestOut(**{"size": 100, **budget}), **shared)
    whole = ks.make("norma", task, budget=Unbounded(), **shared)
    classes = {"classes": np.unique(y)} if task == "classifier" else {}
    distances, bounds = [], []
    for x, target in zip(X, y, strict=True):
        for learner in (model, whole):
            learner.partial_fit([x], [target], **classes)
        distances.append(norm_of_difference(model, whole.support_vectors_, whole.dual_coef_))
        bounds.append(model.truncation_error_)
    assert (np.array(distances) <= np.array(bounds) + 1e-7).all()  # a root of rounding
    assert max(distances) > 0.01
    if budget.get("max_error"):
        assert max(bounds) <= budget["max_error"]


@pytest.mark.usefixtures("without_compiler")
def test_points_go_at_their_age_though_no_other_comes():
    model = ks.KernelClassifier(
        KERNEL, step_size=1.0, regularization=0.0, budget=OldestOut(50, max_age=10)
    )
    model.partial_fit([[3.0, 3.0], [-3.0, -3.0]], [0, 1], classes=[0, 1])
    for row in range(2, 13):
        model.partial_fit([[-3.0, -3.0]], [1])  # right beyond the margin: nothing to learn
        expected = 2 if row <= 10 else 1 if row == 11 else 0
        assert model.n_support_ == expected == len(model.support_vectors_)
    assert model.decision_function([[3.0, 3.0]]) == 0.0
    assert model.n_seen_ == 13


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("max_age", [1, 7, 60])
def test_no_point_is_older_than_its_age_and_scores_use_the_rest(max_age):
    X, y = rows(200)
    model = ks.make("svmd", "classifier", kernel=KERNEL, budget=OldestOut(30, max_age=max_age))
    for t in range(0, 200, 5):
        model.partial_fit(X[t : t + 5], y[t : t + 5], classes=[0, 1])
        came = [
            int(np.flatnonzero((point == X).all(axis=1))[0]) for point in model.support_vectors_
        ]
        assert came == sorted(came)
        assert all(t + 4 - row <= max_age for row in came)
        assert model.n_support_ <= min(30, max_age + 1)
        expected = KERNEL(X[:20], model.support_vectors_) @ model.dual_coef_[0]
        np.testing.assert_allclose(model.decision_function(X[:20]), expected, atol=1e-12)


def test_blocks_rows_and_files_give_the_same(tmp_path):
    X, y = rows(600)
    budget = OldestOut(100, exact=True, max_age=70, max_error=0.05)
    params = {"kernel": KERNEL, "budget": budget, "regularization": 0.02}
    whole = ks.make("svmd", "classifier", **params).fit(X, y)
    single = ks.make("svmd", "classifier", **params)
    for x, label in zip(X, y, strict=True):
        single.partial_fit([x], [label], classes=[0, 1])
    half = ks.make("svmd", "classifier", **params).partial_fit(X[:301], y[:301], classes=[0, 1])
    half.save(tmp_path / "half.ks")
    loaded = ks.load(tmp_path / "half.ks").partial_fit(X[301:], y[301:])
    half.partial_fit(X[301:], y[301:])
    assert loaded.to_bytes() == half.to_bytes()
    for model in (single, half):
        np.testing.assert_array_equal(model.support_vectors_, whole.support_vectors_)
        np.testing.assert_allclose(model.dual_coef_, whole.dual_coef_, rtol=1e-9)
        assert model.truncation_error_ == pytest.approx(whole.truncation_error_, rel=1e-9)
    result = ks.prequential(ks.make("svmd", "classifier", **params), X, y)
    assert result.n_support[-1] == whole.n_support_ < 70
    assert whole.machine_.n_points > whole.n_support_  # a slot is empty


@pytest.mark.usefixtures("without_compiler")
def test_a_fleet_counts_the_points_that_are_left():
    X, y = rows(60)
    params = {"kernel": KERNEL, "budget": OldestOut(20, max_age=5)}
    fleet = ks.Fleet("norma", "classifier", n_models=2, n_features=2, classes=[0, 1], **params)
    alone = ks.make("norma", "classifier", **params)
    for x, label in zip(X, y, strict=True):
        fleet.learn(np.stack([x, x]), np.array([label, label]))
        alone.partial_fit([x], [label], classes=[0, 1])
    assert list(fleet.n_support_) == [alone.n_support_] * 2
    assert fleet.model(0).n_support_ == alone.n_support_
    np.testing.assert_allclose(fleet.model(1).dual_coef_, alone.dual_coef_, rtol=1e-9)


@pytest.mark.usefixtures("without_compiler")
def test_the_bound_is_there_only_where_it_is_kept():
    X, y = rows(20)
    plain = ks.make("norma", "classifier", budget=OldestOut(5)).fit(X, y)
    assert not hasattr(plain, "truncation_error_")
    assert "truncation_error_" not in dir(plain)
    with pytest.raises(AttributeError, match=r"max_error=0\.0 just keeps it"):
        plain.truncation_error_  # noqa: B018
    kept = ks.make("norma", "classifier", budget=OldestOut(5, max_error=0.0)).fit(X, y)
    assert kept.truncation_error_ > 0
    assert kept.n_support_ == 5
    np.testing.assert_allclose(sorted(kept.dual_coef_[0]), sorted(plain.dual_coef_[0]))


@pytest.mark.parametrize(
    ("params", "message"),
    [({"max_age": 0}, "max_age=0"), ({"max_age": 2.5}, "max_age=2.5"),
     ({"max_error": -1.0}, "max_error=-1.0"), ({"max_error": "little"}, "max_error='little'")],
)  # fmt: skip
def test_parameters_are_checked(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        OldestOut(10, **params)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    ("kernel", "size", "corrected"),
    # 0.99^119 = 0.302, 0.99^120 = 0.299; 0.99^458 = 0.01002, 0.99^459 = 0.0099
    [(KERNEL, 119, True), (KERNEL, 120, False), ("linear", 458, True), ("linear", 459, False)],
)
def test_norms_are_corrected_where_the_trace_outlives_the_points(kernel, size, corrected):
    """Sooner where some rows may be longer than others, which leave more behind."""
    X, y = rows(3)
    for exact, expected in ((None, corrected), (True, True), (False, False)):
        budget = OldestOut(size, exact=exact)
        model = ks.make("svmd", "classifier", kernel=kernel, budget=budget).partial_fit(X, y)
        assert hasattr(model.machine_.state.gram, "gram") == expected
