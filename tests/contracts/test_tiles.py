"""Tiles of any size, compiled or not, give the model that the reference gives row by row."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelstream.backends import cpu
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.model import build
from kernelstream.learner.predict import coefficients, trace_coefficients
from kernelstream.learner.reference import Reference

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
    learner = build(combination.parts(), X.shape[1], combination.n_outputs, np.dtype(dtype))
    if interpreted:  # the same lines as plain Python, without a compiler
        learner.scratch["learn"] = learn_tile.py_func
    trail = cpu.learn(learner, X.astype(dtype), y, weight, tile_rows)
    return learner, trail


def everything(learner):
    """Each number that a model is made of, in its true size."""
    state = learner.state
    return {
        "alpha": coefficients(state),
        "beta": trace_coefficients(state) if state.expansion.b.size else np.zeros(0),
        "points": learner.points.rows[: learner.n_points],
        "eta": state.step_size.eta,
        "norm2": state.expansion.norm2,
        "pi": state.expansion.pi,
        "margin": state.margin.epsilon,
        "margin_eta": state.margin.eta,
        "margin_trace": state.margin.trace,
        "b": state.intercept.b,
        "b_eta": state.intercept.eta,
        "b_trace": state.intercept.trace,
        "n_seen": state.expansion.n_seen,
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
        "pi": np.array([reference.pi]),
        "margin": np.array([reference.epsilon]),
        "b": reference.b,
        "b_eta": reference.eta_b,
        "b_trace": reference.v_b,
        "n_seen": np.array([reference.t]),
    }


def in_order(learner, numbers):
    """Points in the order in which they came, as the reference keeps them."""
    oldest = learner.state.budget.oldest[0]
    turned = {"alpha", "beta", "points"}
    return {
        name: np.roll(value, -oldest, axis=0 if name == "points" else -1)
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


def covering():
    """Combinations in which every two choices of different parts meet (greedy pairwise cover)."""
    axes = {
        "loss": list(LOSSES), "margin": list(MARGINS), "step_size": list(STEP_SIZES),
        "budget": list(BUDGETS), "update": list(UPDATES), "intercept": [False, True],
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
        yield best


@pytest.mark.parametrize("combination", list(covering()), ids=str)
def test_compiled_tiles_of_all_sizes_agree(combination):
    X, y, weight = problem(combination, 600, seed=1)
    expected, _ = learned(combination, X, y, weight, 1)
    for tile_rows in (7, 64, 512):
        learner, _ = learned(combination, X, y, weight, tile_rows)
        assert_same(everything(learner), everything(expected), 1e-9)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k != "custom"])
@pytest.mark.parametrize(
    ("loss", "step_size"),
    [(("classification", "hinge", False), "smd"), (("classification", "log_loss", True), "sqrt"),
     (("regression", "squared_error", True), "smd-normalized")],
)  # fmt: skip
def test_float32_rows_agree_to_single_precision(kernel, loss, step_size):
    combination = Combination(loss=loss, kernel=kernel, step_size=step_size)
    X, y, weight = problem(combination, 300, seed=2)
    X = 0.5 * X
    expected, _ = learned(combination, X, y, weight, 1, np.float32)
    assert expected.points.rows.dtype == np.float32
    for tile_rows in (7, 64, 512):
        learner, _ = learned(combination, X, y, weight, tile_rows, np.float32)
        assert_same(everything(learner), everything(expected), 1e-4)
    double, _ = learned(combination, X.astype(np.float32).astype(float), y, weight, 64)
    assert_same(everything(learner), everything(double), 1e-3)


def test_compiled_and_interpreted_loops_are_the_same_function():
    combination = Combination(loss=("classification", "log_loss", False), intercept=True)
    X, y, weight = problem(combination, 80, seed=3)
    plain, _ = learned(combination, X, y, weight, 16, interpreted=True)
    fast, _ = learned(combination, X, y, weight, 16)
    assert_same(everything(fast), everything(plain), 1e-12)


@pytest.mark.parametrize("decay", [1e-30, 1e-3, 0.5])
def test_scales_are_folded_before_they_vanish(decay):
    from kernelstream import budgets, losses, margins, step_sizes, updates
    from kernelstream.kernels import RBF
    from kernelstream.learner.model import Parts

    parts = Parts(
        RBF(0.5), losses.find("classification", "hinge", True).rule, margins.Fixed(1.0),
        step_sizes.SMD(0.5, 0.1, decay), updates.Explicit(), budgets.OldestOut(9), False, 1.5, 1.0,
    )  # fmt: skip
    X, y, weight = problem(Combination(loss=("classification", "hinge", True)), 400, seed=4)
    reference = Reference(parts, 3, 1)
    for row in zip(X, y, weight, strict=True):
        reference.learn(*row)
    learner = build(parts, 3, 1, np.dtype(float))
    cpu.learn(learner, X, y, weight, 100)
    assert learner.state.expansion.scale[0] > 1e-60
    assert_same(in_order(learner, everything(learner)), reference_numbers(reference), 1e-9)
