"""A step size per weight: against plain NumPy, finite differences, and every cut of the stream."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kernelstream import budgets, kernels, margins, updates
from kernelstream.learner.learn import Trail, new_trail
from kernelstream.learner.plan import Parts, declaration_of, rules_of
from kernelstream.learner.state import allocate, arrays
from kernelstream.learner.undo import new_changes
from kernelstream.learner.vector import (
    SMALLEST_TRACE,
    VectorTile,
    learn_vector,
    new_vector_work,
    powers,
    rows_of,
)
from kernelstream.step_sizes import AdaGrad, VectorSMD
from tests.reference.vector import VectorReference

from ..structures import every_loss, n_labels

LOSSES = {(entry.task, entry.name, kind): entry for kind, entry in every_loss()}
SOFTMAX = LOSSES["classification", "log_loss", "many"]
STEP_SIZES = [
    VectorSMD(), VectorSMD(0.2, 0.5, 1.0), VectorSMD(0.2, 0.1, 0.0),
    VectorSMD(0.2, 0.3, 0.9, normalized=True, highest=2.0), VectorSMD(0.2, 3.0, growth=None),
    AdaGrad(), AdaGrad(0.5, 0.1),
    AdaGrad(0.5, 0.1, least=0.2),
]  # fmt: skip


def parts(step_size, entry=SOFTMAX, c=0.0, intercept=True, margin=None, capped=True, weight=1.0):
    return Parts(
        kernel=kernels.Linear(), loss=entry.rule, margin=margin or margins.Fixed(0.7),
        step_size=step_size, update=updates.Explicit(capped), budget=budgets.Unbounded(),
        fit_intercept=intercept, regularization=c, loss_weight=weight,
    )  # fmt: skip


class Weights:
    """A model on explicit features, with nothing around it."""

    def __init__(self, chosen, n_features, n_outputs, compiled=True):
        self.model = rules_of(chosen)
        declared = declaration_of(chosen, self.model, np.dtype(float), False, False, False)
        sizes = {"outputs": n_outputs, "points": n_features, "lines": n_outputs}
        self.state, self.work = allocate(declared, sizes), new_vector_work(n_outputs)
        self.changes, self.n_outputs = new_changes(n_features), n_outputs
        self.call = learn_vector if compiled else learn_vector.py_func

    def learn(self, X, y, weight=None, cuts=()):
        weight = np.ones(len(y)) if weight is None else weight
        trail, ends = new_trail(len(y), self.n_outputs), [0, *cuts, len(y)]
        for start, end in pairwise(ends):
            own = Trail(*(column[start:end] for column in trail))
            rows = slice(start, end)
            tile = VectorTile(rows_of(X[rows]), y[rows], weight[rows], self.changes)
            self.n_done = self.call(self.model, self.state, tile, own, self.work)
        return trail

    @property
    def w(self):
        return np.column_stack([self.state.expansion.coef[:, 0], self.state.intercept.b])

    @property
    def v(self):
        return np.column_stack([self.state.expansion.coef[:, -1], self.state.intercept.trace])


def outputs_of(entry, kind):
    return {"one": 1, "many": 3}.get(kind, 4)


def problem(entry, n_outputs, seed, n_rows=50, n_features=4):
    """Rows of which half is zero, with targets that drift."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.5)
    signal = X[:, 0] + X[:, 1] * np.linspace(-1, 1, n_rows) + 0.1 * random.normal(size=n_rows)
    if entry.task == "regression":
        y = 2 * signal
    elif entry.task == "novelty":
        y = np.ones(n_rows)
    elif n_outputs == 1:
        y = np.where(signal > 0, 1.0, -1.0)
    else:
        n = min(n_labels(entry, n_outputs), 3)
        y = np.digitize(signal, [-0.5, 0.5][: n - 1]).astype(float)
    return X, y, random.choice([0.0, 1.0, 1.0, 2.5], n_rows)


def as_sparse(X):
    """Sparse rows, among them zeros that are stored."""
    stored = X != 0
    stored[::3, 0] = True
    rows, columns = np.nonzero(stored)
    return sparse.csr_array((X[rows, columns], (rows, columns)), X.shape)


def agree(model, trail, reference, scores):
    np.testing.assert_allclose(trail.scores, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.w, reference.w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        model.state.step_size.steps, reference.p[:, :-1], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        model.state.margin.epsilon, reference.margin.epsilon, rtol=1e-9, atol=1e-12
    )
    assert model.state.expansion.n_seen[0] == reference.t
    assert model.state.update.n_capped[0] == reference.n_capped


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(LOSSES)), st.sampled_from(STEP_SIZES), st.sampled_from([0.0, 0.01, 0.4]),
    st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 10**6),
    st.lists(st.integers(1, 49), max_size=3, unique=True),
)  # fmt: skip
def test_any_cut_of_dense_and_sparse_rows_matches_the_reference(
    loss, step_size, c, intercept, adaptive, capped, is_sparse, seed, cuts
):
    entry = LOSSES[loss]
    n_outputs = outputs_of(entry, loss[2])
    X, y, weight = problem(entry, n_outputs, seed)
    margin = margins.Nu(0.3) if adaptive and entry.accepts_nu else None
    chosen = parts(step_size, entry, min(c, 0.5 / step_size.initial), intercept, margin, capped)
    reference = VectorReference(chosen, X.shape[1], n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    model = Weights(chosen, X.shape[1], n_outputs, compiled=False)
    trail = model.learn(as_sparse(X) if is_sparse else X, y, weight, sorted(cuts))
    agree(model, trail, reference, scores)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_compiled_code_matches_the_reference(is_sparse):
    X, y, weight = problem(SOFTMAX, 3, 5, 400, 9)
    for c in (0.0, 0.01):
        for step_size in (VectorSMD(), VectorSMD(0.1, 0.2, 1.0, normalized=True)):
            chosen = parts(step_size, c=c)
            reference = VectorReference(chosen, 9, 3)
            scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
            model = Weights(chosen, 9, 3)
            trail = model.learn(sparse.csr_array(X) if is_sparse else X, y, weight, [1, 2, 150])
            agree(model, trail, reference, scores)


def test_the_trace_is_the_derivative_of_a_whole_run():
    # with decay 1 and step sizes that stay, v = d w / d log p; (5)-(7)
    X, y, weight = problem(SOFTMAX, 3, 2, 200, 5)

    def run(initial):
        model = Weights(parts(VectorSMD(initial, meta=0.0, decay=1.0), c=0.1, capped=False), 5, 3)
        model.learn(X, y, weight)
        return model

    h = 1e-5
    expected = (run(0.2 * np.exp(h)).w - run(0.2 * np.exp(-h)).w) / (2 * h)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(run(0.2).v, expected, rtol=1e-6, atol=1e-7)


def test_a_decaying_trace_forgets_old_steps():
    # v = sum_i decay^i d w / d log p_(t - i), each by finite differences of one past step (5)
    X, y, weight = problem(SOFTMAX, 3, 3, 12, 3)
    weight[:] = 1.0

    def run(changed, h):
        model = Weights(
            parts(VectorSMD(0.2, meta=0.0, decay=0.8), capped=False), 3, 3, compiled=False
        )
        for t in range(12):
            model.state.step_size.steps[:] = model.state.intercept.eta[:] = (
                0.2 * np.exp(h) if t == changed else 0.2
            )
            model.model = rules_of(
                parts(VectorSMD(0.2, 0.0, 0.8, lowest=0.1, highest=9.0), capped=False)
            )
            model.learn(X[t : t + 1], y[t : t + 1])
        return model

    h = 1e-5
    slopes = [(run(t, h).w - run(t, -h).w) / (2 * h) for t in range(12)]
    expected = sum(0.8 ** (11 - t) * slope for t, slope in enumerate(slopes))
    np.testing.assert_allclose(run(-1, 0.0).v, expected, rtol=1e-6, atol=1e-8)


@given(st.sampled_from([0.0, 0.5, 0.99, 1.0 - 1e-12, 1.0]), st.integers(1, 1000))
def test_powers_sum_a_geometric_series(decay, n):
    power, total = powers(decay, n)
    assert power == pytest.approx(decay**n, rel=1e-12, abs=1e-300)
    assert total == pytest.approx(sum(decay**i for i in range(n)), rel=1e-12)


def test_a_row_of_a_million_features_writes_its_nonzeros():
    model = Weights(parts(VectorSMD()), 10**6, 3)
    X = sparse.csr_array(([1.0, 2.0], ([0, 1], [7, 999_999])), (2, 10**6))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    model.learn(X, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(np.flatnonzero(model.changes.slots), [7, 999_999])
    assert not model.changes.everything[0]
    np.testing.assert_array_equal(np.flatnonzero(model.state.expansion.coef[0, 0]), [7, 999_999])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_trace_that_nothing_renews_becomes_zero(is_sparse):
    model = Weights(parts(VectorSMD(decay=0.5)), 2, 3)
    X = np.ones((2000, 2))
    X[1:-1, 1] = 0.0
    X[-1, 0] = 0.0
    y = np.zeros(2000)
    rows = sparse.csr_array(X) if is_sparse else X
    model.learn(rows[:-1], y[:-1])
    if is_sparse:
        model.learn(rows[-1:], y[-1:], np.zeros(1))  # it is needed again
    assert (model.v[:, 1] == 0.0).all()
    trace = np.abs(model.v[model.v != 0.0])
    assert (trace > SMALLEST_TRACE).all()


def test_a_row_that_is_too_large_changes_nothing():
    entry = LOSSES["regression", "squared_error", "one"]
    for step_size in (VectorSMD(), AdaGrad()):
        chosen = parts(step_size, entry, c=0.01, capped=False)
        model = Weights(chosen, 2, 1, compiled=False)
        model.learn(np.ones((3, 2)), np.arange(3.0))
        before = {name: array.copy() for name, array in arrays(model.state)}
        with np.errstate(over="ignore", invalid="ignore"):
            model.learn(np.array([[1e45, 1.0]]), np.array([1e30]))
        assert model.n_done == 0
        for name, array in arrays(model.state):
            np.testing.assert_array_equal(array, before[name], name)


def test_long_rows_are_learned_by_short_steps():
    # a step leads to the minimum of the row's own loss at most, however long the row is
    entry = LOSSES["regression", "squared_error", "one"]
    model = Weights(parts(VectorSMD(highest=1.0), entry, intercept=False), 2, 1, compiled=False)
    X = np.array([[1e20, 3e20], [1e20, -1e20]])
    trail = model.learn(np.tile(X, (200, 1)), np.tile([1e10, 3e10], 200))
    np.testing.assert_allclose(model.w[0, :2] @ X.T, [1e10, 3e10], rtol=1e-6)
    assert (trail.eta < 1e-39).all()
    assert model.state.update.n_capped[0] == 400


def test_step_sizes_differ_where_features_do():
    # one feature says the label, the other is noise: its step size falls, the other's does not
    random = np.random.default_rng(0)
    entry = LOSSES["regression", "squared_error", "one"]
    X = random.normal(size=(5000, 2)) / np.sqrt(2)
    slope = np.cumsum(0.1 * random.normal(size=5000))  # it never stands still
    chosen = parts(VectorSMD(0.1, 0.01, normalized=True), entry, intercept=False)
    model = Weights(chosen, 2, 1, compiled=False)
    model.learn(X, slope * X[:, 0] + 0.3 * random.normal(size=5000))
    moving, still = model.state.step_size.steps[0]
    assert moving > 5 * still


def test_a_step_size_grows_at_one_row_by_its_limit_or_as_in_the_paper():
    entry = LOSSES["regression", "squared_error", "one"]
    for growth, expected in ((1.5, 0.15), (2.0, 0.2), (None, 0.1 * (1 + 0.1 * 4.0 * 4.0))):
        step_size = VectorSMD(0.1, meta=1.0, highest=100.0, growth=growth)
        chosen = parts(step_size, entry, intercept=False, capped=False)
        model = Weights(chosen, 1, 1, compiled=False)
        # v = -p g = 0.4 after the first row, and f = 0.4 so that the second gradient is -4
        model.learn(np.ones((2, 1)), np.array([4.0, 4.4]))
        assert model.state.step_size.steps[0, 0] == pytest.approx(expected)


def test_gradients_that_are_too_small_move_nothing():
    X, y, weight = problem(SOFTMAX, 3, 7, 200)
    model = Weights(parts(AdaGrad(least=0.1)), X.shape[1], 3, compiled=False)
    n_still = 0
    for i in range(len(y)):
        before, steps = model.w, model.state.step_size.steps.copy()
        scores = model.learn(X[i : i + 1], y[i : i + 1], weight[i : i + 1]).scores[0]
        odds = np.exp(scores - scores.max())
        gradient = np.abs(odds / odds.sum() - (np.arange(3) == y[i]))  # that of softmax
        still = (gradient < 0.1) | (weight[i] == 0.0)
        n_still += np.count_nonzero(still)
        np.testing.assert_array_equal((model.w == before).all(axis=1), still)
        np.testing.assert_array_equal(model.state.step_size.steps[still], steps[still])
    assert 50 < n_still < 550
