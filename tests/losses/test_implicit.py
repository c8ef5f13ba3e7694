"""The implicit step of every loss: it is the minimum, and `follow` is its derivative."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernelstream import losses
from kernelstream.label_kernels import LabelMatrix

from .test_losses import LOSSES, problem

IMPLICIT = {name: entry for name, entry in LOSSES.items() if entry.accepts_implicit}
each_loss = pytest.mark.parametrize("entry", IMPLICIT.values(), ids=IMPLICIT.keys())
score = st.floats(-5, 5)
scores4 = st.lists(score, min_size=4, max_size=4)
steps = st.floats(-6, 6).map(lambda exponent: 10.0**exponent)


def proximal_and_dual(entry, scores, y, margin, step, exact=True):
    xi, dual = np.full(len(scores), np.nan), np.zeros(len(scores))
    entry.rule.proximal(scores, scores, y, margin, step, exact, xi, dual)
    return xi, dual


def proximal(*arguments, **options):
    return proximal_and_dual(*arguments, **options)[0]


def objective(entry, z, scores, y, margin, step):
    return 0.5 * np.sum((z - scores) ** 2) + step * entry.rule.value(z, y, margin)


@each_loss
@given(scores4, score, st.floats(0.1, 2), steps, st.integers(0, 2**32 - 1))
def test_it_is_the_minimum(entry, scores, target, margin, step, seed):
    scores, y = problem(scores, entry, target)
    z = scores - step * proximal(entry, scores, y, margin, step)
    value = objective(entry, z, scores, y, margin, step)
    assert np.isfinite(z).all()
    slack = 1e-11 * (1 + step) * (1 + np.abs(scores).max() ** 2)
    assert value <= objective(entry, scores, scores, y, margin, step) + slack
    random = np.random.default_rng(seed)
    for size in (1e-5, 1e-3, 0.1, 1.0, 10.0):  # the objective is convex: nowhere near is lower
        for direction in random.normal(size=(8, len(z))):
            assert value <= objective(entry, z + size * direction, scores, y, margin, step) + slack


@each_loss
@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), score, steps)
def test_huge_scores_and_steps_neither_overflow_nor_increase_the_objective(
    entry, scores, target, step
):
    scores, y = problem(scores, entry, target)
    xi = proximal(entry, scores, y, 1.0, step)
    assert np.isfinite(xi).all()
    z = scores - step * xi
    before = objective(entry, scores, scores, y, 1.0, step)
    assert objective(entry, z, scores, y, 1.0, step) <= before * (1 + 1e-9) + 1e-9


@each_loss
@pytest.mark.parametrize("exact", [True, False])
@given(scores4, scores4, score, st.floats(0.1, 2), st.floats(-2, 2).map(lambda e: 10.0**e))
def test_follow_is_the_derivative_of_the_new_scores(
    entry, exact, scores, slope, target, margin, step
):
    scores, y = problem(scores, entry, target)
    slope = np.array(slope[: len(scores)])
    h = 1e-6
    moved = [scores + sign * h * slope for sign in (-1, 1)]
    steps, duals = zip(
        *(proximal_and_dual(entry, s, y, margin, step, exact) for s in (*moved, scores)),
        strict=True,
    )
    of_a_piece = duals if entry.structured else steps
    active = [np.sign(xi) * np.where(np.abs(xi) < 1, 1, 2) for xi in of_a_piece]
    assume((active[0] == active[2]).all() and (active[1] == active[2]).all())  # the same piece
    new = [s - step * xi for s, xi in zip(moved, steps, strict=False)]
    numeric = (new[1] - new[0]) / (2 * h)
    followed = slope.copy()
    entry.rule.follow(y, margin, step, steps[2], duals[2], followed)
    np.testing.assert_allclose(followed, numeric, atol=1e-4 * (1 + step), rtol=1e-4)


def test_the_paper_looks_at_one_runner_up():
    hinge = LOSSES["hinge-many"]
    scores = np.array([0.0, 0.9, 0.8])
    paper = proximal(hinge, scores, 0.0, 1.0, 1.0, exact=False)
    np.testing.assert_allclose(paper, [-0.95, 0.95, 0.0])
    exact = proximal(hinge, scores, 0.0, 1.0, 1.0)
    assert exact[2] > 0
    z = scores - exact
    assert z[1] == pytest.approx(z[2])


def test_the_papers_runner_up_is_that_of_the_scores_before_the_decay():
    """ILK, below (17): y* maximises Delta + f_t; its step (18) then looks at (1 - tau) f_t."""
    costs = np.array([[0, 1, 2], [1, 0, 1], [1, 1, 0.0]])
    labels = LabelMatrix([0, 1, 2], distance=costs).to_rule()
    graph = losses.find("classification", "hinge", False, labels).rule
    f, keep, step = np.array([0.0, 3.2, 2.0]), 0.5, 2.0
    decayed = keep * f  # Delta + f says label 1, Delta + (1 - tau) f would say label 2
    assert np.argmax((costs[0] + f)[1:]) == 0
    assert np.argmax((costs[0] + decayed)[1:]) == 1
    xi = np.zeros(3)
    graph.proximal(decayed, f, 0.0, 1.0, step, False, xi, np.zeros(3))
    share = (1 + decayed[1] - decayed[0]) / (2 * step)
    np.testing.assert_allclose(xi, [-share, share, 0.0])
    graph.proximal(decayed, f, 0.0, 1.0, step, True, xi, np.zeros(3))  # the exact step: both
    assert xi[2] > xi[1] >= 0


def test_the_same_with_plain_labels_where_an_intercept_is_not_decayed():
    f, b, step = np.array([0.0, 3.0, 0.0]), np.array([0.0, 0.0, 2.0]), 4.0
    decayed, now = 0.5 * f + b, f + b  # 0, 1.5, 2 and 0, 3, 2
    xi = np.zeros(3)
    LOSSES["hinge-many"].rule.proximal(decayed, now, 0.0, 1.0, step, False, xi, np.zeros(3))
    share = (1 + 1.5) / (2 * step)
    np.testing.assert_allclose(xi, [-share, share, 0.0])


def test_a_tiny_step_is_an_explicit_one():
    for entry in IMPLICIT.values():
        scores, y = problem([0.3, -0.2, 0.1, 0.7], entry, 2.0)
        xi = np.zeros(len(scores))
        entry.rule.gradient(scores, y, 1.0, xi)
        for step in (1e-9, 1e-30, 1e-300):
            np.testing.assert_allclose(proximal(entry, scores, y, 1.0, step), xi, atol=1e-8)
