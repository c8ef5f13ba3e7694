"""Tiles of any size, compiled or not, give the model that the reference gives row by row."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelstream import losses
from kernelstream.expansion.scoring import coefficients, trace_coefficients
from kernelstream.label_kernels import Taxonomy
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.learner.state import arrays
from kernelstream.stores import as_sparse_rows
from tests.reference.expansion import Reference

from .combinations import (
    BUDGETS,
    KERNELS,
    LOSSES,
    MARGINS,
    STEP_SIZES,
    UPDATES,
    Combination,
    is_allowed,
    problem,
)

combinations = st.builds(
    Combination,
    loss=st.sampled_from(list(LOSSES)),
    margin=st.sampled_from(list(MARGINS)),
    step_size=st.sampled_from(list(STEP_SIZES)),
    kernel=st.sampled_from(list(KERNELS)),
    budget=st.sampled_from(list(BUDGETS)),
    update=st.sampled_from(list(UPDATES)),
    intercept=st.booleans(),
    regularization=st.sampled_from([0.0, 1e-6, 0.05, 1.0]),
    loss_weight=st.sampled_from([1.0, 0.5, 3.0]),
).filter(is_allowed)


def learned(combination, X, y, weight, tile_rows, dtype=np.float64, interpreted=False):
    sparse = scipy.sparse.issparse(X)
    learner = Machine(
        combination.parts(), X.shape[1], combination.n_outputs, np.dtype(dtype), sparse
    )
    if interpreted:  # the same lines as plain Python, without a compiler
        learner.scratch["learn"] = learn_tile.py_func
    trail = learner.learn(X.astype(dtype), y, weight, tile_rows=tile_rows)[0]
    return learner, trail


def as_dense(rows):
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def everything(learner):
    """Each number that a model is made of, in its true size."""
    state = learner.state
    return {
        "alpha": coefficients(state.expansion, learner.n_outputs),
        "beta": trace_coefficients(state.expansion, learner.n_outputs)
        if learner.model.step_size.is_traced()
        else np.zeros(0),
        "points": as_dense(learner.store.stored(learner.n_points)),
        "eta": state.step_size.eta,
        "felt": dict(arrays(state)).get("step_size.felt", np.zeros(1)),
        "n_capped": np.array([learner.n_capped]),
        "drift": state.drift.score,
        "norm2": state.expansion.norm2,
        "pi": state.expansion.pi,
        "margin": state.margin.epsilon,
        "margin_eta": state.margin.eta,
        "margin_trace": state.margin.trace,
        "b": state.intercept.b,
        "b_eta": state.intercept.eta,
        "b_felt": state.intercept.felt,
        "b_trace": state.intercept.trace,
        "n_seen": state.expansion.n_seen,
        "lost": np.array([] if learner.truncation_error is None else [learner.truncation_error]),
    }


def assert_same(found, expected, rtol):
    for name, value in expected.items():
        size = np.abs(value).max(initial=0)
        np.testing.assert_allclose(
            found[name], value, rtol=rtol, atol=rtol * max(size, 1e-3), err_msg=name
        )


def reference_numbers(reference):
    smd = reference.parts.step_size.to_rule().is_traced()
    return {
        "alpha": reference.alpha.T,
        "beta": reference.beta.T if smd else np.zeros(0),
        "eta": np.array([reference.eta]),
        "felt": np.array([reference.felt if smd else 0.0]),
        "n_capped": np.array([reference.n_capped]),
        "drift": np.array([reference.drift]),
        "pi": np.array([reference.pi]),
        "margin": np.array([reference.epsilon]),
        "margin_eta": np.array([reference.eta_epsilon]),
        "b": reference.b,
        "b_eta": reference.eta_b,
        "b_felt": reference.felt_b if smd else np.zeros_like(reference.felt_b),
        "b_trace": reference.v_b,
        "n_seen": np.array([reference.t]),
        "lost": np.array([reference.lost] if reference.parts.budget.expires else []),
    }


def in_order(learner, numbers):
    """Points in the order in which they came, as the reference keeps them."""
    order = learner.kept
    oldest = dict(arrays(learner.state)).get("budget.oldest", [0])[0]
    if not learner.parts.budget.expires:  # a ring that begins with the oldest
        order = np.roll(order, -oldest)
    turned = {"alpha", "beta", "points"}
    return {
        name: np.take(value, order, axis=0 if name == "points" else -1)
        if name in turned and value.size
        else value
        for name, value in numbers.items()
    }


@settings(max_examples=150)
@given(combinations, st.integers(0, 10**6), st.sampled_from([1, 2, 7, 64]))
def test_any_tile_matches_the_reference(combination, seed, tile_rows):
    """The very lines of the loop, interpreted, over every combination of parts."""
    X, y, weight = problem(combination, 60, seed)
    reference = Reference(combination.parts(), X.shape[1], combination.n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    learner, trail = learned(combination, X, y, weight, tile_rows, interpreted=True)
    np.testing.assert_allclose(trail.scores, scores, rtol=1e-9, atol=1e-9)
    assert_same(in_order(learner, everything(learner)), reference_numbers(reference), 1e-9)


@pytest.mark.parametrize("tile_rows", [1, 64])
@pytest.mark.parametrize("step_size", ["constant", "smd"])
@pytest.mark.parametrize(
    ("loss", "update"),
    [(("regression", "squared_error", "one"), "implicit"),
     (("classification", "hinge", "many"), "explicit")],
)  # fmt: skip
def test_merged_points_fade_as_in_the_reference(monkeypatch, loss, update, step_size, tile_rows):
    monkeypatch.setattr("kernelstream.budgets.merging._HALF_LIFE", 1)
    combination = Combination(loss=loss, budget="merge", update=update, step_size=step_size)
    X, y, weight = problem(combination, 120, seed=5)
    X[40:70] *= 5  # far from the others, so that nothing is merged with them
    reference = Reference(combination.parts(), X.shape[1], combination.n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    learner, trail = learned(combination, X, y, weight, tile_rows, interpreted=True)
    np.testing.assert_allclose(trail.scores, scores, rtol=1e-9, atol=1e-9)
    assert_same(everything(learner), reference_numbers(reference), 1e-9)
    assert (np.linalg.norm(reference.points, axis=1) < 5).all()


@settings(max_examples=60)
@given(combinations, st.integers(0, 10**6), st.sampled_from([1, 7, 64]))
def test_sparse_rows_give_the_model_that_dense_ones_give(combination, seed, tile_rows):
    assume(combination.budget != "merge" and combination.kernel != "custom")
    X, y, weight = problem(combination, 60, seed)
    X[np.abs(X) < 0.7] = 0.0
    rows = as_sparse_rows(X)
    dense, expected = learned(combination, X, y, weight, tile_rows, interpreted=True)
    learner, trail = learned(combination, rows, y, weight, tile_rows, interpreted=True)
    np.testing.assert_allclose(trail.scores, expected.scores, rtol=1e-9, atol=1e-9)
    assert_same(everything(learner), everything(dense), 1e-9)


def many_labels(n_rows, n_labels, seed):
    random = np.random.default_rng(seed)
    y = random.integers(0, n_labels, n_rows).astype(float)
    X = np.column_stack([np.sin(y), np.cos(3 * y), random.normal(size=n_rows)])
    return X, y, np.ones(n_rows)


DEEP = Taxonomy.from_paths([f"{k % 3}/{k % 12}/{k}" for k in range(60)])
FEW = {
    "flat": (losses.find("classification", "hinge", False).rule, 60),
    "perceptron": (losses.find("classification", "perceptron", False).rule, 60),
    "tree": (losses.find("classification", "hinge", False, DEEP.to_rule()).rule, DEEP.n_outputs()),
}


@pytest.mark.parametrize("budget", ["unbounded", "oldest", "oldest-exact", "smallest-exact"])
@pytest.mark.parametrize("step_size", ["constant", "smd", "smd-single"])
@pytest.mark.parametrize(
    ("loss", "update"),
    [("flat", "explicit"), ("flat", "implicit-paper"), ("tree", "explicit"),
     ("tree", "implicit-paper"), ("perceptron", "explicit")],
)  # fmt: skip
def test_keeping_only_nonzeros_changes_nothing(monkeypatch, loss, update, step_size, budget):
    rule, n_outputs = FEW[loss]
    combination = Combination(
        loss=("classification", "hinge", "many"), step_size=step_size, update=update, budget=budget
    )
    parts = replace(combination.parts(), loss=rule)
    X, y, weight = many_labels(60, 60, seed=1)
    reference = Reference(parts, 3, n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    monkeypatch.setattr("kernelstream.learner.plan._MANY_OUTPUTS", 16)
    for tile_rows in (1, 13):
        learner = Machine(parts, 3, n_outputs, np.dtype(float))
        assert learner.sizes()["lines"] < n_outputs
        assert len(learner.state.expansion.coef) == learner.sizes()["lines"]
        learner.scratch["learn"] = learn_tile.py_func
        trail = learner.learn(X, y, weight, tile_rows=tile_rows)[0]
        np.testing.assert_allclose(trail.scores, scores, rtol=1e-9, atol=1e-9)
        assert_same(in_order(learner, everything(learner)), reference_numbers(reference), 1e-9)
        block = parts.kernel(X, learner.store.stored(learner.n_points))
        np.testing.assert_allclose(
            learner.scores(X),
            block @ coefficients(learner.state.expansion, learner.n_outputs).T,
            atol=1e-12,
        )


def covering():
    """Combinations in which every two choices of different parts meet (greedy pairwise cover).

    One choice for each piece of code that is compiled: those that differ in numbers only are
    interpreted in the test above, as are more structured losses.
    """
    compiled = [
        key
        for key in LOSSES
        if key[2] in ("one", "many") or key[1:] in (("hinge", "tree"), ("log_loss", "matrix"))
    ]
    axes = {
        "loss": compiled, "margin": list(MARGINS), "step_size": ["constant", "sqrt", "smd"],
        "budget": ["oldest-exact", "smallest", "least-loss", "merge"],
        "update": ["explicit", "implicit"], "intercept": [False, True],
    }  # fmt: skip
    allowed = [
        c
        for values in itertools.product(*axes.values())
        if is_allowed(c := Combination(**dict(zip(axes, values, strict=True))))
    ]
    pairs = {c: set(itertools.combinations([(a, getattr(c, a)) for a in axes], 2)) for c in allowed}
    wanted = set().union(*pairs.values())
    while wanted:
        best = max(allowed, key=lambda c: len(pairs[c] & wanted))
        wanted -= pairs[best]
        yield best, {choice for pair in pairs[best] for choice in pair}


def compiled_combinations():
    """Those that bring a choice for the first time; the rest of the pairs takes minutes."""
    seen = set()
    for combination, choices in covering():
        marks = [] if choices - seen else [pytest.mark.nightly]
        seen |= choices
        yield pytest.param(combination, marks=marks, id=str(combination))


@pytest.mark.parametrize("combination", list(compiled_combinations()))
def test_compiled_tiles_of_all_sizes_agree(combination):
    X, y, weight = problem(combination, 600, seed=1)
    expected, _ = learned(combination, X, y, weight, 1)
    for tile_rows in (7, 64, 512):
        learner, _ = learned(combination, X, y, weight, tile_rows)
        assert_same(everything(learner), everything(expected), 1e-9)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k != "custom"])
@pytest.mark.parametrize(
    ("loss", "step_size"),
    [(("classification", "hinge", "many"), "smd"), (("classification", "log_loss", "one"), "sqrt"),
     (("regression", "squared_error", "one"), "smd-normalized")],
)  # fmt: skip
def test_float32_rows_agree_to_single_precision(kernel, loss, step_size):
    combination = Combination(loss=loss, kernel=kernel, step_size=step_size)
    X, y, weight = problem(combination, 300, seed=2)
    X = 0.5 * X
    expected, _ = learned(combination, X, y, weight, 1, np.float32)
    assert expected.store.rows.dtype == np.float32
    for tile_rows in (7, 64, 512):
        learner, _ = learned(combination, X, y, weight, tile_rows, np.float32)
        assert_same(everything(learner), everything(expected), 1e-4)
    double, _ = learned(combination, X.astype(np.float32).astype(float), y, weight, 64)
    assert_same(everything(learner), everything(double), 1e-3)


def test_compiled_and_interpreted_loops_are_the_same_function():
    combination = Combination(loss=("classification", "log_loss", "many"), intercept=True)
    X, y, weight = problem(combination, 80, seed=3)
    plain, _ = learned(combination, X, y, weight, 16, interpreted=True)
    fast, _ = learned(combination, X, y, weight, 16)
    assert_same(everything(fast), everything(plain), 1e-12)


@pytest.mark.parametrize("decay", [1e-30, 1e-3, 0.5])
def test_scales_are_folded_before_they_vanish(decay):
    from kernelstream import budgets, losses, margins, step_sizes, updates
    from kernelstream.kernels import RBF
    from kernelstream.learner.machine import Parts

    parts = Parts(
        RBF(0.5), losses.find("classification", "hinge", True).rule, margins.Fixed(1.0),
        step_sizes.SMD(0.5, 0.1, decay), updates.Explicit(), budgets.OldestOut(9), False, 1.5, 1.0,
    )  # fmt: skip
    X, y, weight = problem(Combination(loss=("classification", "hinge", "one")), 400, seed=4)
    reference = Reference(parts, 3, 1)
    for row in zip(X, y, weight, strict=True):
        reference.learn(*row)
    learner = Machine(parts, 3, 1, np.dtype(float))
    learner.learn(X, y, weight, tile_rows=100)
    assert learner.state.expansion.scale[0] > 1e-60
    assert_same(in_order(learner, everything(learner)), reference_numbers(reference), 1e-9)
