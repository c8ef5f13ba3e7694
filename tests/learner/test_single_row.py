"""A row by itself takes a shorter way, which gives what the longer one gives."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets import LeastLoss, Merge, OldestOut, SmallestOut, Unbounded
from kernelstream.compile import one_by_one
from kernelstream.kernels import RBF, Bias, Laplacian, Linear, Polynomial, RandomFourier
from kernelstream.learner.loops.expansion import ExpansionLoop

from ..conftest import interpret


def rows(n=120, d=4, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    return X, (np.abs(X[:, 0] + X[:, 1]) * n_classes).astype(int) % n_classes


def by_the_longer_way(monkeypatch):
    monkeypatch.setattr(ExpansionLoop, "row_path", lambda loop, machine: None)


KERNELS = [RBF(0.5), Polynomial(degree=3, gamma=0.2), Linear(), Bias() + 0.5 * Linear() + RBF(0.3)]
BUDGETS = [OldestOut(20), OldestOut(20, exact=True), SmallestOut(20), LeastLoss(20), Unbounded()]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(KERNELS), st.sampled_from(BUDGETS), st.sampled_from([np.float64, np.float32]),
    st.integers(2, 4), st.integers(0, 9), st.sampled_from([None, "running"]),
)  # fmt: skip
def test_both_ways_agree(kernel, budget, dtype, n_classes, seed, scaling):
    X, y = rows(60, n_classes=n_classes, seed=seed)
    X = X.astype(dtype)
    models = []
    for shorter in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            interpret(patch)
            if not shorter:
                by_the_longer_way(patch)
            model = ks.KernelClassifier(kernel, budget=budget, regularization=1e-3, scaling=scaling)
            model.partial_fit(X[:5], y[:5], classes=np.arange(n_classes))
            said = []
            for x, label in zip(X[5:], y[5:], strict=True):
                said.append(model.learn_one(x, label).predict_one(x))
            models.append((model, said))
    (one, said), (other, expected) = models
    assert one.machine_.scratch["row path"] is not None
    assert other.machine_.scratch["row path"] is None
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=tolerance, atol=tolerance
    )
    if dtype == np.float64:
        assert said == expected


@pytest.mark.parametrize("scaling", [None, "running"])
def test_compiled_it_agrees_too(scaling):
    X, y = rows(300)
    new = partial(ks.KernelClassifier, budget=30, scaling=scaling)
    one = new().partial_fit(X[:5], y[:5], classes=[0, 1, 2])
    block = new().partial_fit(X, y, classes=[0, 1, 2])
    for x, label in zip(X[5:], y[5:], strict=True):
        one.learn_one(x, label)
    assert one.machine_.scratch["row path"] is not None
    np.testing.assert_allclose(one.decision_function(X), block.decision_function(X), rtol=1e-9)
    single = [one.predict_one(x) for x in X]
    assert single == one.predict(X).tolist()


@pytest.mark.usefixtures("without_compiler")
def test_scaled_targets_and_rows_that_are_refused():
    X, _ = rows(80)
    y = 100.0 * X[:, 0] + 7.0
    new = partial(ks.KernelRegressor, budget=30, scaling="running", target_scaling="running")
    one, block = new().partial_fit(X[:5], y[:5]), new().partial_fit(X[:40], y[:40])
    for i in range(5, 80):
        if i == 40:
            np.testing.assert_allclose(one.predict(X), block.predict(X), rtol=1e-9)
        before = one.machine_.to_arrays()
        for x, target in ((np.full(4, np.nan), 0.0), (X[i], 1e200)):
            with pytest.raises(ValueError, match="refused"):
                one.learn_one(x, target)
        for name, array in one.machine_.to_arrays().items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)
        one.learn_one(X[i], y[i])
        assert one.predict_one(X[i]) == pytest.approx(one.predict(X[[i]])[0], rel=1e-9)
    assert one.machine_.scratch["row path"] is not None


@pytest.mark.usefixtures("without_compiler")
def test_an_interrupted_row_leaves_the_statistics_as_they_were(monkeypatch):
    X, y = rows(20)
    model = ks.KernelClassifier(scaling="running").partial_fit(X[:10], y[:10], classes=[0, 1, 2])
    model.learn_one(X[10], y[10])
    before = {name: array.copy() for name, array in model.machine_.to_arrays().items()}

    path = model.machine_.scratch["row path"]
    for n_done in (0, 2, len(path.calls()) - 1):  # before it began, and after it was refused

        def interrupted(n_done=n_done):
            one_by_one(path.calls()[:n_done])
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(path, "_run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.learn_one(X[11], y[11])
        for name, array in model.machine_.to_arrays().items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_rows_far_from_zero_take_the_longer_way():
    X, y = rows(80)
    X += 1e5  # where |p|^2 + |x|^2 - 2 <p, x> has lost all digits
    one = ks.KernelClassifier(RBF(0.5), budget=30).partial_fit(X[:5], y[:5], classes=[0, 1, 2])
    block = ks.KernelClassifier(RBF(0.5), budget=30).partial_fit(X, y, classes=[0, 1, 2])
    for x, label in zip(X[5:], y[5:], strict=True):
        one.learn_one(x, label)
    assert one.machine_.scratch["row path"].largest < 1e5**2
    np.testing.assert_allclose(one.decision_function(X), block.decision_function(X), rtol=1e-9)
    assert [one.predict_one(x) for x in X] == one.predict(X).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_bad_row_is_refused_and_changes_nothing(bad):
    X, y = rows(40)
    model = ks.KernelClassifier(budget=30).partial_fit(X, y)
    model.learn_one(X[0], y[0])
    before = model.to_bytes()
    x = X[1].copy()
    x[2] = bad
    with pytest.raises(ValueError, match=r"row 0|finite|large"):
        model.learn_one(x, y[1])
    with pytest.raises(ValueError, match=r"row 0|finite|large"):
        model.predict_one(x)
    assert model.to_bytes() == before


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["svmd", "smd-linear", "adagrad", "rls", "linear-pa"]),
    st.sampled_from([Linear(), RandomFourier(16, 0.5)]), st.sampled_from([None, "running"]),
    st.sampled_from([np.float64, np.float32]), st.integers(0, 99),
)  # fmt: skip
def test_rows_of_weights_agree_with_blocks(preset, kernel, scaling, dtype, seed):
    X, y = rows(50, seed=seed)
    X = X.astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        one, block = (
            ks.make(preset, "classifier", kernel=kernel, scaling=scaling) for _ in range(2)
        )
        block.partial_fit(X, y, classes=[0, 1, 2])
        one.partial_fit(X[:5], y[:5], classes=[0, 1, 2])
        for x, label in zip(X[5:], y[5:], strict=True):
            one.learn_one(x, label)
        assert one.machine_.scratch["row path"] is not None
        tolerance = 1e-9 if dtype == np.float64 else 2e-3
        expected = block.decision_function(X)
        np.testing.assert_allclose(one.decision_function(X), expected, tolerance, tolerance)
        for i in range(5):
            said = one.machine_.score_row(X[i : i + 1])
            np.testing.assert_allclose(said, expected[i], tolerance, tolerance)


def test_it_follows_new_arrays():
    X, y = rows(200)
    model = ks.KernelClassifier(budget=Unbounded()).partial_fit(X[:2], y[:2])
    copies = []
    for i, (x, label) in enumerate(zip(X[2:], y[2:], strict=True)):
        model.learn_one(x, label)  # outputs join, slots grow
        if i % 50 == 0:
            model.partial_fit(X[i : i + 3], y[i : i + 3])
            copies.append((model.to_bytes(), model.predict_one(X[0])))
            with pytest.raises(ks.BadRow):
                model.partial_fit(np.vstack([X[:2], [[1e200] * 4]]), y[:3])
            assert model.to_bytes() == copies[-1][0]
    assert [model.predict_one(x) for x in X] == model.predict(X).tolist()


def test_where_there_is_no_shorter_way():
    X, y = rows(30)
    for params in ({"kernel": Laplacian(0.3)}, {"budget": Merge(9)}):
        model = ks.KernelClassifier(**params).partial_fit(X, y)
        model.learn_one(X[0], y[0])
        path = model.machine_.scratch.get("row path")
        assert (path is None) == ("budget" not in params)
        assert model.predict_one(X[1]) == model.predict(X[1:2])[0]
