"""Accepted rows never produce NaN; published bounds hold; memory stays flat."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets import OldestOut
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.step_sizes import SMD, Constant, SqrtDecay

LOSSES = {
    "classifier": ["hinge", "log_loss", "perceptron"],
    "regressor": ["squared_error", "epsilon_insensitive", "huber"],
    "novelty": ["novelty"],
}
# norms are corrected for dropped points with one loss of each task: more of them compile long
CASES = [(task, loss, loss == names[0]) for task, names in LOSSES.items() for loss in names]
STEPS = [SMD(1e6, 10, 1.0), SMD(0.1, 1e3, 0.99), Constant(1e8), SMD(1e-8), SqrtDecay(1e3)]
magnitudes = st.sampled_from([0.0, 5e-324, 1e-300, 1e-30, 1e-5, 1.0, 1e3, 1e8])


@pytest.mark.parametrize(("task", "loss", "exact"), CASES)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    step=st.sampled_from(STEPS),
    scale=magnitudes,
    c=st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e6]),
    kernel=st.sampled_from(["rbf", "poly", "linear"]),
    intercept=st.booleans(),
)  # fmt: skip
def test_accepted_rows_never_produce_nan(
    task, loss, exact, seed, step, scale, c, kernel, intercept
):
    random = np.random.default_rng(seed)
    X = scale * random.normal(size=(40, 2))
    y = random.integers(0, 3, 40) if task == "classifier" else 1e5 * random.normal(size=40)
    params = {} if task == "novelty" else {"fit_intercept": intercept}
    model = ks.make(
        "svmd", task, loss=loss, step_size=step, regularization=c, kernel=kernel,
        budget=OldestOut(7, exact=exact), **params,
    )  # fmt: skip
    for start in range(0, 40, 8):
        rows = slice(start, start + 8)
        try:
            trails, _ = model.learn_block(X[rows], y[rows])
        except ks.BadRow:
            continue
        numbers = [model.dual_coef_, model.support_vectors_, model.step_size_, model.margin_]
        assert all(np.isfinite(n).all() for n in numbers)
        assert model.step_size_ > 0
        assert all((trail.eta * c < 1).all() for trail in trails)
        assert np.isfinite(model.predict(X)).all()
    state = model.machine_.state if model.__sklearn_is_fitted__() else ()
    assert all(np.isfinite(array).all() for _, array in state_arrays(state))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_regression_does_not_depend_on_the_units_of_y(scale):
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (2000, 1))
    y = np.sin(X[:, 0]) + 0.1 * random.normal(size=2000)
    unit = ks.prequential(ks.KernelRegressor(gamma=1.0), X, y)
    scaled = ks.prequential(ks.KernelRegressor(gamma=1.0), X, scale * y)
    expected = scale * unit.predictions
    np.testing.assert_allclose(scaled.predictions, expected, rtol=1e-4, atol=1e-4 * scale)
    assert unit.errors[1000:].mean() < 0.05


def test_a_step_size_that_fell_comes_back():
    """Stationary noise drives eta down; a change of the stream raises it again."""
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 2))
    y = X[:, 0] > 0
    y[3000:] ^= True
    model = ks.KernelClassifier(gamma=0.5, step_size=SMD(1.0, 0.1, 0.99))
    result = ks.prequential(model, X, y)
    before, after = result.step_sizes[2900:3000].mean(), result.step_sizes[3000:3400].max()
    assert after > 3 * before
    assert result.errors[-500:].mean() < 0.1


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.05, 1.0), st.floats(0.1, 3.0))
def test_perceptron_mistake_bound(seed, gap, eta):
    """Theorem 1: at most ((R + D) / gamma)^2 mistakes; separable here, so D is zero."""
    random = np.random.default_rng(seed)
    direction = random.normal(size=3)
    direction /= np.linalg.norm(direction)
    X = random.normal(size=(300, 3))
    margins = X @ direction
    X += (np.sign(margins) * gap)[:, None] * direction  # every row at least `gap` from the plane
    y = margins > 0
    model = ks.KernelClassifier(
        "linear", loss="perceptron", step_size=eta, regularization=0, budget=None
    )
    result = ks.prequential(model, X, y)
    mistakes = result.n_support[-1]  # a row becomes a point where it is a mistake, or a tie
    assert result.errors.sum() <= mistakes
    assert mistakes <= (np.linalg.norm(X, axis=1).max() / gap) ** 2


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.05, 0.9), st.floats(0.05, 1.0), st.integers(1, 40))
def test_truncation_bound(seed, eta, c, size):
    """NORMA, proposition 1: dropping all terms older than k costs at most (1 - eta c)^k C X / c."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(120, 2)), random.integers(0, 2, 120)
    params = {"step_size": Constant(eta), "regularization": c, "margin": 1e6}  # all rows violate
    whole = ks.KernelClassifier(budget=None, **params).partial_fit(X, y, classes=[0, 1])
    short = ks.KernelClassifier(budget=size, **params).partial_fit(X, y, classes=[0, 1])
    kernel = whole.kernel_
    alpha = whole.dual_coef_[0].copy()
    np.testing.assert_allclose(np.sort(alpha[-size:]), np.sort(short.dual_coef_[0]), rtol=1e-9)
    alpha[-size:] = 0  # what was dropped; alpha is in the order of the rows
    error = np.sqrt(alpha @ kernel(whole.support_vectors_) @ alpha)
    assert error <= (1 - eta * c) ** size / c * (1 + 1e-9)


@pytest.mark.skipif(os.name != "posix", reason="needs the peak memory of the process")
def test_memory_and_work_stay_flat_over_a_million_rows():
    import resource

    random = np.random.default_rng(0)
    block = random.normal(size=(20_000, 3))
    labels = (block[:, 0] * block[:, 1] > 0).astype(int)
    model = ks.KernelClassifier(budget=32, gamma=0.5)
    model.partial_fit(block, labels, classes=[0, 1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        model.partial_fit(block, labels)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert model.n_seen_ == 51 * 20_000
    assert model.n_support_ == 32
    assert grown < 20_000  # kilobytes
    assert sum(array.nbytes for _, array in state_arrays(model.machine_.state)) < 10_000
    assert np.isfinite(model.dual_coef_).all()


def smooth_series(n_rows):
    """Rows that follow each other are nearly alike: the last six values of a series."""
    t = np.arange(n_rows + 6)
    series = np.sin(t / 7) + 0.5 * np.sin(t / 90)
    windows = np.lib.stride_tricks.sliding_window_view(series, 7)
    return windows[:, :6], windows[:, 6]


@pytest.mark.parametrize("size", [16, 64, 128])
@pytest.mark.parametrize("step_size", ["smd", 0.25, 0.9])
@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_regressors_that_drop_points_stay_bounded_on_smooth_series(size, step_size, loss):
    X, y = smooth_series(4_000)
    model = ks.KernelRegressor(
        loss=loss, step_size=step_size, budget=size, scaling="running", target_scaling="running"
    )
    found = ks.prequential(model, X, y).predictions
    assert np.abs(found[2_000:] - y[2_000:]).mean() < 0.5 * y.std()


@pytest.mark.usefixtures("without_compiler")  # plain Python tells of an index that is outside
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "perceptron"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_rows_without_weight_before_any_label_has_any(kernel, loss):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    model = ks.KernelClassifier(kernel=kernel, loss=loss, budget=8 if kernel == "rbf" else "auto")
    model.partial_fit(X, y, sample_weight=np.zeros(20))
    assert model.partial_fit(X, y).predict(X).shape == (20,)


@pytest.mark.usefixtures("without_compiler")
def test_weights_learn_no_row_before_any_label_has_any_weight():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    model = ks.make("smd-linear", "classifier", loss="log_loss")
    model.partial_fit(X, y, sample_weight=np.zeros(20))
    assert model.partial_fit(X, y).predict(X).shape == (20,)
