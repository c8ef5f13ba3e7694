"""Dual updates over a dictionary: against matrices that hold every row, and in bad health."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream import losses, margins, step_sizes
from kernelstream.backends import cpu
from kernelstream.budgets import Independent
from kernelstream.kernels import RBF, Homogenized, Linear, Polynomial
from kernelstream.learner.dictionary import learn_dictionary
from kernelstream.learner.model import Parts, build
from kernelstream.learner.predict import coefficients
from kernelstream.learner.reference import DictionaryReference
from kernelstream.updates import Dual

KERNELS = [RBF(0.5), Homogenized(RBF(0.5), 0.3), Polynomial(2, 0.5, 1.0), Linear()]
UPDATES = [Dual(), Dual("gradient"), Dual("gradient", step=0.01), Dual("gradient", box=0.3)]


def parts(kernel, update, budget, c=0.01, weight=1.0):
    rule = losses.find("regression", "epsilon_insensitive", True).rule
    return Parts(
        kernel, rule, margins.Fixed(0.1), step_sizes.Constant(1.0), update, budget, False, c, weight
    )


def problem(n_rows, seed, n_outputs=1):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 2))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=n_rows)
    if n_outputs > 1:
        y = np.digitize(y, [-0.5, 0.5]).astype(float)
    return X, y, random.choice([0.0, 1.0, 1.0, 2.5], n_rows)


@settings(max_examples=80)
@given(
    st.sampled_from(KERNELS), st.sampled_from(UPDATES), st.sampled_from([0.01, 0.2]),
    st.sampled_from([None, 6]), st.sampled_from([0.01, 1.0]), st.sampled_from([1.0, 3.0]),
    st.sampled_from([1, 3]), st.sampled_from([1, 5, 64]), st.integers(0, 10**6),
)  # fmt: skip
def test_any_tile_matches_the_matrices(
    kernel, update, tolerance, size, c, C, n_outputs, tile_rows, seed
):
    if update.direction == "newton":
        size = None  # a full dictionary forgets: see below
    X, y, weight = problem(40, seed, n_outputs)
    if update.direction == "gradient":
        weight = np.sign(weight)  # the paper's rule knows none
    chosen = parts(kernel, update, Independent(tolerance, size), c, C)
    reference = DictionaryReference(chosen, 2, n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    learner = build(chosen, 2, n_outputs, np.dtype(float))
    learner.scratch["learn"] = learn_dictionary.py_func
    if n_outputs > 1:
        learner.model = learner.model._replace(
            loss=losses.find("classification", "hinge", False).rule
        )
    trail = cpu.learn(learner, X, y, weight, tile_rows)
    size = max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(trail.scores, scores, rtol=1e-6, atol=1e-7 * size)
    np.testing.assert_allclose(learner.points.stored(learner.n_points), reference.points)
    block = chosen.kernel(X, reference.points)
    np.testing.assert_allclose(
        block @ coefficients(learner.state).T, block @ reference.beta, rtol=1e-6, atol=1e-7 * size
    )


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_compiled_tiles_agree(update):
    X, y, weight = problem(500, 0)
    found = []
    for tile_rows in (1, 64, 512):
        learner = build(parts(KERNELS[1], update, Independent(0.01)), 2, 1, np.dtype(float))
        cpu.learn(learner, X, y, np.sign(weight), tile_rows)
        found.append(cpu.scores(learner, X))
    size = np.abs(found[0]).max()
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], rtol=1e-7, atol=1e-8 * size)


def regressor(**params):
    return ks.make("sog-svr", "regressor", **params)


def inverse_is_sound(model):
    learner = model._learner
    n = learner.n_points
    fresh = np.linalg.inv(learner.state.budget.gram[:n, :n])
    found = learner.state.budget.inverse[:n, :n]
    return np.abs(found - fresh).max() < 1e-3 * np.abs(fresh).max()


@pytest.mark.parametrize("tolerance", [0.0, 1e-6, 0.01])
@pytest.mark.parametrize("trouble", ["duplicates", "constant feature", "constant rows", "line"])
def test_rows_that_depend_on_each_other_do_no_harm(tolerance, trouble):
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3))
    if trouble == "duplicates":
        X = X[random.integers(0, 20, 600)]
    elif trouble == "constant feature":
        X[:, 1] = 7.0
    elif trouble == "constant rows":
        X[:] = 1.0
    else:
        X = np.outer(X[:, 0], [1.0, 2.0, 3.0])
    y = X[:, 0] + 0.1 * random.normal(size=600)
    for kernel in (RBF(0.3), Linear(), Polynomial(3, 0.5, 1.0)):
        model = regressor(kernel=kernel, budget=Independent(tolerance)).partial_fit(X, y)
        assert inverse_is_sound(model)
        assert np.mean((model.predict(X) - y) ** 2) < 1.1 * np.var(y) + 0.02


def test_a_hundred_thousand_rows_leave_the_inverse_sound():
    random = np.random.default_rng(0)
    X = random.uniform(-10, 10, size=(100_000, 1))
    y = np.sinc(X[:, 0] / np.pi) + 0.1 * random.normal(size=len(X))
    model = regressor(kernel=Homogenized(RBF(1 / 18), 0.1)).partial_fit(X, y)
    assert model.n_support_ <= 12
    assert inverse_is_sound(model)
    covariance = model._learner.state.dual.covariance[: model.n_support_, : model.n_support_]
    assert np.linalg.eigvalsh(0.5 * (covariance + covariance.T))[0] > -1e-12
    grid = np.linspace(-10, 10, 200)[:, None]
    assert np.sqrt(np.mean((model.predict(grid) - np.sinc(grid[:, 0] / np.pi)) ** 2)) < 0.02


def test_a_full_dictionary_moves_with_the_stream():
    """Points that no longer matter give way; a dictionary that refuses new ones stays behind."""
    random = np.random.default_rng(0)
    centre = np.repeat([0.0, 30.0], 1500)
    X = (centre + random.uniform(-5, 5, 3000))[:, None]
    y = np.sin(X[:, 0]) + 0.05 * random.normal(size=3000)
    budget = Independent(0.01, size=12)
    found = {}
    for preset in ("sog-svr", "sog-svr-paper"):
        model = ks.make(preset, "regressor", gamma=0.5, budget=budget).partial_fit(X, y)
        assert model.n_support_ == 12
        found[preset] = np.mean((model.predict(X[-500:]) - y[-500:]) ** 2)
        assert inverse_is_sound(model)
    assert found["sog-svr"] < 0.05 < found["sog-svr-paper"]
    covariance = model._learner.state.dual.covariance[:12, :12]
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-9)


@pytest.mark.parametrize("c", [0.0, 0.01])
def test_swapping_does_not_depend_on_tiles(c):
    X, y, _ = problem(400, 1)
    found = []
    for tile_rows in (1, 7, 256):
        learner = build(
            parts(RBF(1.0), Dual(), Independent(0.01, size=10), c), 2, 1, np.dtype(float)
        )
        learner.scratch["learn"] = learn_dictionary.py_func
        cpu.learn(learner, X, y, np.ones(400), tile_rows)
        found.append(cpu.scores(learner, X))
        assert learner.n_points == 10
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], rtol=1e-6, atol=1e-7)
