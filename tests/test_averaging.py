"""Models of parts of a stream, averaged: witnesses in plain NumPy, and one pass over all rows."""

import numpy as np
import pytest
from scipy import sparse

import kernelstream as ks
from kernelstream.budgets import Independent, LeastLoss, Merge, OldestOut
from kernelstream.kernels import RBF, Nystroem, Polynomial, RandomFourier
from kernelstream.learner.averaging import closest_on_few
from kernelstream.learner.predicting import noise_variance_of, variances_of

from .conftest import shared_file


@pytest.fixture(autouse=True)
def _nearly_all_without_compiler(request):
    if "nightly" not in {mark.name for mark in request.node.iter_markers()}:
        request.getfixturevalue("without_compiler")


def rows(n=120, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, size=(n, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1])


def in_parts(make, X, y, n=3, **more):
    return [make().partial_fit(X[i::n], y[i::n], **more) for i in range(n)]


FIRST_ORDER = {
    "points": lambda: ks.make("svmd", "regressor", gamma=0.5, budget=None, fit_intercept=True),
    "implicit": lambda: ks.make("silk", "regressor", gamma=0.5, budget=200),
    "explicit features": lambda: ks.make(
        "svmd", "regressor", kernel=RandomFourier(20, gamma=0.5), fit_intercept=True
    ),
    "linear": lambda: ks.make("smd-linear", "regressor"),
}


@pytest.mark.parametrize("name", FIRST_ORDER)
def test_the_average_is_the_mean_of_the_functions(name):
    X, y = rows()
    parts = in_parts(FIRST_ORDER[name], X, y)
    Z = rows(30, seed=1)[0]
    mean = np.mean([part.predict(Z) for part in parts], axis=0)
    model = ks.average(parts)
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-10)
    assert model.n_seen_ == 120
    weighted = ks.average(parts, weights=[1, 2, 5])
    expected = (parts[0].predict(Z) + 2 * parts[1].predict(Z) + 5 * parts[2].predict(Z)) / 8
    np.testing.assert_allclose(weighted.predict(Z), expected, atol=1e-10)
    by_rows = ks.average([*parts[:1], FIRST_ORDER[name]().partial_fit(X[:10], y[:10])])
    expected = (40 * parts[0].predict(Z) + 10 * FIRST_ORDER[name]().partial_fit(
        X[:10], y[:10]).predict(Z)) / 50  # fmt: skip
    np.testing.assert_allclose(by_rows.predict(Z), expected, atol=1e-10)


def test_the_average_of_one_model_goes_on_like_it():
    X, y = rows()
    for make in (
        lambda: ks.make("norma", "regressor", gamma=0.5, budget=LeastLoss(12)),
        lambda: ks.make("norma", "regressor", gamma=0.5, budget=Merge(12)),
        lambda: ks.make("norma", "regressor", gamma=0.5, budget=OldestOut(12)),
        lambda: ks.make("sog-svr", "regressor", gamma=0.5),
        lambda: ks.make("rls", "regressor"),
    ):
        model = make().partial_fit(X[:64], y[:64])
        twin = ks.average([model])
        np.testing.assert_allclose(twin.predict(X), model.predict(X), atol=1e-8)
        if "OldestOut" in repr(model):
            continue  # whose oldest point may be another: the average puts points in another order
        for one in (model, twin):
            one.partial_fit(X[64:90], y[64:90])
        np.testing.assert_allclose(twin.predict(X), model.predict(X), atol=1e-6)


@pytest.mark.parametrize(
    "budget", [OldestOut(10), OldestOut(10, max_age=50), LeastLoss(10), Merge(10)]
)
def test_averages_keep_to_the_budget_and_go_on_learning(budget, tmp_path):
    X, y = rows()
    parts = in_parts(lambda: ks.make("svmd", "regressor", gamma=0.5, budget=budget), X, y)
    model = ks.average(parts)
    assert model.n_support_ <= 10
    larger = ks.average(parts, budget=40)
    assert 10 < larger.n_support_ <= 40
    Z = rows(50, seed=1)[0]
    mean = np.mean([part.predict(Z) for part in parts], axis=0)
    errors = [np.abs(one.predict(Z) - mean).max() for one in (model, larger)]
    assert errors[1] < errors[0]
    for one in (model, larger):
        one.partial_fit(*rows(300, seed=2))
        one.save(tmp_path / "model.ks")
        np.testing.assert_array_equal(ks.load(tmp_path / "model.ks").predict(Z), one.predict(Z))
        assert np.abs(one.predict(Z) - np.sin(Z[:, 0]) * np.cos(Z[:, 1])).mean() < 0.35


def test_the_projection_is_the_closest_function_on_its_points():
    random = np.random.default_rng(0)
    X, coef, kernel = random.normal(size=(40, 2)), random.normal(size=(3, 40)), RBF(0.7)
    K = kernel(X)
    chosen, found = closest_on_few(kernel, X, coef, 12)
    assert len(chosen) == 12
    # what is left of f is orthogonal to every chosen point
    left = coef.copy()
    left[:, chosen] -= found
    np.testing.assert_allclose(left @ K[:, chosen], 0.0, atol=1e-8)
    distance = np.einsum("ij,jk,ik->", left, K, left)
    worse = []
    for seed in range(20):  # and random points are worse
        others = np.random.default_rng(seed).choice(40, 12, replace=False)
        projected = np.linalg.solve(K[np.ix_(others, others)], K[others] @ coef.T)
        worse.append(
            np.einsum("ij,jk,ik->", coef, K, coef) - np.vdot(K[others] @ coef.T, projected)
        )
    assert distance < min(worse)
    chosen, found = closest_on_few(kernel, np.concatenate([X, X]), np.tile(coef, 2), 80)
    assert len(chosen) <= 40  # every point once
    np.testing.assert_allclose(found @ kernel(np.concatenate([X, X])[chosen], X), 2 * coef @ K,
                               atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("task", ["regressor", "classifier"])
def test_least_squares_of_parts_are_those_of_all_rows(task):
    X, y = rows()
    y = y if task == "regressor" else np.digitize(y, [-0.3, 0.3])
    more = {} if task == "regressor" else {"classes": [0, 1, 2]}

    def make():
        return ks.make("rls", task, regularization=0.5)

    whole = make().partial_fit(X, y, **more)
    model = ks.average(in_parts(make, X, y, 4, **more))
    np.testing.assert_allclose(model.outputs(X), whole.outputs(X), atol=1e-9)
    for one in (whole, model):  # the covariance, too, is that of all rows
        one.partial_fit(X[:20], y[:20] * 0)
    np.testing.assert_allclose(model.outputs(X), whole.outputs(X), atol=1e-9)


def test_posteriors_multiply_to_that_of_all_rows():
    # the dictionaries span all polynomials, so that nothing is left open
    X, y = rows()

    def make():
        return ks.make(
            "sog-svr", "regressor", kernel=Polynomial(2, gamma=1.0, coef0=1.0),
            regularization=0.3, budget=Independent(1e-6), fit_intercept=False,
        )  # fmt: skip

    whole = make().partial_fit(X, y)
    model = ks.average(in_parts(make, X, y, 4))
    assert model.n_support_ == whole.n_support_ == 6
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-7)
    np.testing.assert_allclose(
        variances_of(model.machine_, X) / noise_variance_of(model.machine_),
        variances_of(whole.machine_, X) / noise_variance_of(whole.machine_), rtol=1e-5,
    )  # fmt: skip
    twice = ks.average(in_parts(make, X, y, 4), weights=[2, 2, 2, 2])
    both = make().partial_fit(np.concatenate([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(twice.predict(X), both.predict(X), atol=1e-7)


def test_second_order_models_keep_to_their_size():
    X, y = rows(400)
    y += np.random.default_rng(1).normal(0, 0.5, 400)

    def make():
        return ks.make("sog-svr", "regressor", gamma=1.0, budget=15)

    parts = in_parts(make, X, y, 4)
    model, whole = ks.average(parts), make().partial_fit(X, y)
    assert model.n_support_ <= 15
    target = np.sin(X[:, 0]) * np.cos(X[:, 1])
    error, alone, in_order = (
        np.mean((one.predict(X) - target) ** 2) for one in (model, parts[0], whole)
    )
    assert error < alone
    assert error < 2 * in_order
    model.partial_fit(X[:200], y[:200])
    assert model.n_seen_ == 600


def test_classes_that_only_some_models_know():
    X, y = rows()
    names = np.array(["low", "mid", "high"])[np.digitize(y, [-0.3, 0.3])]

    def make():
        return ks.make("svmd", "classifier", gamma=0.5, budget=None, fit_intercept=True)

    few = names != "high"
    first, second = make().partial_fit(X[few], names[few]), make().partial_fit(X, names)
    model = ks.average([first, second], weights=[1, 1])
    assert model.classes_.tolist() == [*first.classes_.tolist(), "high"]
    where = [second.classes_.tolist().index(name) for name in model.classes_]
    expected = 0.5 * second.outputs(X)[:, where]
    expected[:, :2] += 0.5 * first.outputs(X)
    np.testing.assert_allclose(model.outputs(X), expected, atol=1e-10)


def test_sparse_rows_and_novelty():
    X, _ = rows()
    X[X < 0] = 0

    def make():
        return ks.make("silk", "novelty", gamma=0.5, budget=20, C=0.3, regularization=0.01)

    dense = ks.average([make().partial_fit(X[i::3]) for i in range(3)])
    thin = ks.average([make().partial_fit(sparse.csr_array(X[i::3])) for i in range(3)])
    np.testing.assert_allclose(thin.outputs(sparse.csr_array(X)), dense.outputs(X), atol=1e-8)
    assert dense.n_support_ <= 20


def fitted(preset="svmd", task="regressor", **params):
    X, y = rows(40)
    return ks.make(preset, task, **params).partial_fit(X, y)


def test_the_budget_of_the_average_may_be_a_part():
    X, y = rows(200)
    models = [fitted(gamma=1.0), ks.make("svmd", "regressor", gamma=1.0).partial_fit(X, y)]
    for part in (Merge(30), LeastLoss(30), OldestOut(30)):
        average = ks.average(models, budget=part)
        assert average.budget == part
        assert average.n_support_ == 30
        average.partial_fit(X, y)
        assert average.n_support_ <= 30
    with pytest.raises(TypeError, match=r"budget='30'.*Merge\(512\)"):
        ks.average(models, budget="30")


def test_columns_of_averaged_models_must_have_one_order():
    pandas = pytest.importorskip("pandas")
    X, y = rows(60)
    frame = pandas.DataFrame(X[:, :2], columns=["u", "v"])
    models = [ks.KernelRegressor(gamma=1.0).partial_fit(frame, y) for _ in range(2)]
    average = ks.average(models)
    assert average.feature_names_in_.tolist() == ["u", "v"]
    turned = ks.KernelRegressor(gamma=1.0).partial_fit(frame[["v", "u"]], y)
    with pytest.raises(ValueError, match=r"u, v and v, u"):
        ks.average([models[0], turned])
    unnamed = ks.KernelRegressor(gamma=1.0).partial_fit(X[:, :2], y)
    assert ks.average([unnamed, models[0]]).feature_names_in_.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (lambda: [], {}, "empty"),
        (lambda: [ks.KernelRegressor()], {}, "none of them"),
        (lambda: [fitted(gamma=1.0), fitted(gamma=2.0)], {}, "different parameters"),
        (lambda: [fitted(), fitted("norma")], {}, "different parameters"),
        (lambda: [fitted(scaling="running")], {}, "scaled by its own"),
        (lambda: [fitted(kernel=Nystroem(RBF(1.0), 8), budget="auto")], {}, "from the rows"),
        (lambda: [fitted(), fitted()], {"weights": [1.0]}, "weights"),
        (lambda: [fitted(), fitted()], {"weights": [1.0, -1.0]}, "weights"),
        (lambda: [fitted()], {"budget": 0}, "budget"),
        (lambda: [fitted("linear-pa")], {"budget": 5}, "no size"),
        (lambda: [fitted("sog-svr-paper")], {}, "last function"),
    ],
)
def test_models_that_do_not_add_up_are_refused(models, options, message):
    with pytest.raises(ValueError, match=message):
        ks.average(models(), **options)


@pytest.mark.nightly
@pytest.mark.parametrize(("preset", "budget"), [("svmd", 1024), ("sog-svc", 512)])
def test_eight_parts_of_mnist_are_within_a_point_of_one_pass(preset, budget):
    shared_file("mnist.npz")
    data = ks.datasets.load("mnist")
    X, X_test = (
        np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32)
        for X in (data.X_train, data.X_test)
    )

    def learned(rows):
        model = ks.make(preset, "classifier", gamma=2.0, budget=budget)
        return model.partial_fit(X[rows], data.y_train[rows], classes=np.arange(10))

    def error(model):
        return np.mean(model.predict(X_test) != data.y_test)

    average = ks.average([learned(slice(i, None, 8)) for i in range(8)])
    assert average.n_support_ <= budget
    assert error(average) < error(learned(slice(None))) + 0.01
