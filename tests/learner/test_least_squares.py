"""Recursive least squares: against matrices, with forgetting, and every cut of the stream."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelstream import budgets, kernels, losses, margins, step_sizes
from kernelstream.learner.learn import Trail, new_trail
from kernelstream.learner.least_squares import learn_least_squares, new_least_squares_work
from kernelstream.learner.plan import Parts, declaration_of, rules_of
from kernelstream.learner.state import allocate, arrays, resize
from kernelstream.learner.undo import new_changes
from kernelstream.updates import RLS
from tests.reference.vector import LeastSquaresReference


def parts(forgetting=1.0, c=0.1, weight=1.5, intercept=True, n_outputs=1):
    kind = ("regression", "squared_error", True)
    if n_outputs > 1:
        kind = ("classification", "hinge", False)
    return Parts(
        kernel=kernels.Linear(), loss=losses.find(*kind).rule, margin=margins.Fixed(1.0),
        step_size=step_sizes.Constant(1.0), update=RLS(forgetting), budget=budgets.Unbounded(),
        fit_intercept=intercept, regularization=c, loss_weight=weight,
    )  # fmt: skip


class LeastSquares:
    """A model on explicit features, with nothing around it."""

    def __init__(self, chosen, n_features, n_outputs, compiled=True):
        self.model, self.n_outputs = rules_of(chosen), n_outputs
        self.declared = declaration_of(chosen, self.model, np.dtype(float), False, False, False)
        self.state = allocate(self.declared, self.sizes(n_features))
        self.call = learn_least_squares if compiled else learn_least_squares.py_func

    def sizes(self, n_features):
        return {"outputs": self.n_outputs, "points": n_features, "lines": self.n_outputs}

    def learn(self, X, y, weight=None, cuts=()):
        weight = np.ones(len(y)) if weight is None else weight
        trail, ends = new_trail(len(y), self.n_outputs), [0, *cuts, len(y)]
        work = new_least_squares_work(self.n_outputs, X.shape[1])
        for start, end in pairwise(ends):
            rows, own = slice(start, end), Trail(*(column[start:end] for column in trail))
            self.n_done = self.call(
                self.model, self.state, X[rows], y[rows], weight[rows], own, work,
                new_changes(X.shape[1]),
            )  # fmt: skip
        return trail

    @property
    def w(self):
        return np.column_stack([self.state.expansion.coef[:, 0], self.state.intercept.b])


def problem(n_rows, seed, n_outputs=1, n_features=4):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features))
    y = X[:, 0] + X[:, 1] * np.linspace(-1, 1, n_rows) + 0.1 * random.normal(size=n_rows)
    if n_outputs > 1:
        y = np.digitize(y, [-0.5, 0.5]).astype(float)
    return X, y, random.choice([0.0, 1.0, 1.0, 2.5], n_rows)


@settings(max_examples=60)
@given(
    st.sampled_from([1.0, 0.999, 0.3]), st.sampled_from([0.01, 1.0]), st.sampled_from([1, 3]),
    st.booleans(), st.integers(0, 10**6), st.lists(st.integers(1, 49), max_size=3, unique=True),
)  # fmt: skip
def test_any_cut_matches_the_matrices(forgetting, c, n_outputs, intercept, seed, cuts):
    X, y, weight = problem(50, seed, n_outputs)
    chosen = parts(forgetting, c, intercept=intercept, n_outputs=n_outputs)
    reference = LeastSquaresReference(chosen, 4, n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    model = LeastSquares(chosen, 4, n_outputs, compiled=False)
    trail = model.learn(X, y, weight, sorted(cuts))
    np.testing.assert_allclose(trail.scores, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.w, reference.w, rtol=1e-9, atol=1e-9)
    covariance = model.state.update.covariance
    np.testing.assert_allclose(covariance[1:, 1:], reference.P[:-1, :-1], rtol=1e-9, atol=1e-12)


def test_compiled_code_solves_ridge_regression():
    X, y, weight = problem(3000, 1, n_features=7)
    model = LeastSquares(parts(c=0.3, weight=1.0), 7, 1)
    model.learn(X, y, weight, [1, 2, 300])
    A = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.solve(A.T @ (weight[:, None] * A) + 0.3 * np.eye(8), A.T @ (weight * y))
    np.testing.assert_allclose(model.w[0], expected, rtol=1e-10)


def test_forgetting_follows_a_change():
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 3))
    y = np.where(np.arange(4000) < 2000, X[:, 0], -X[:, 0])
    for forgetting, is_close in [(0.99, True), (1.0, False)]:
        model = LeastSquares(parts(forgetting, c=1.0), 3, 1)
        model.learn(X, y)
        assert (abs(model.w[0, 0] + 1.0) < 0.1) == is_close


def test_a_long_stream_without_forgetting_keeps_its_covariance_positive():
    random = np.random.default_rng(0)
    X = random.normal(size=(200_000, 3)) @ np.diag([1e4, 1.0, 1e-4])
    X[:, 1] = 1e-3 * X[:, 1] + X[:, 0]  # nearly dependent
    model = LeastSquares(parts(c=1e-6), 3, 1)
    model.learn(X, X[:, 2])
    assert np.linalg.eigvalsh(model.state.update.covariance).min() > 0
    assert np.isfinite(model.w).all()


def test_features_that_come_late_have_a_prior():
    X, y, _ = problem(60, 4)
    late = np.array(X)
    late[:30, 2:] = 0.0
    whole = LeastSquares(parts(0.99), 4, 1, compiled=False)
    whole.learn(late, y)
    model = LeastSquares(parts(0.99), 2, 1, compiled=False)
    model.learn(np.ascontiguousarray(late[:30, :2]), y[:30])
    model.state = resize(model.state, model.declared, model.sizes(4))
    model.learn(late[30:], y[30:])
    np.testing.assert_allclose(model.w, whole.w, rtol=1e-12)


@pytest.mark.parametrize("row", [[1e61, 0.0], [1e45, 0.0]])
def test_a_row_that_is_too_large_changes_nothing(row):
    model = LeastSquares(parts(c=1e-40), 2, 1, compiled=False)
    model.learn(np.ones((3, 2)), np.arange(3.0))
    before = {name: array.copy() for name, array in arrays(model.state)}
    model.learn(np.array([row]), np.array([1e29]))
    assert model.n_done == 0
    for name, array in arrays(model.state):
        np.testing.assert_array_equal(array, before[name], name)
