"""Every loss of the package, found by itself: derivatives, kinks, minima."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernelstream import losses
from kernelstream.losses.runner_up import runner_up
from kernelstream.parts import SLACK

from ..structures import every_loss, n_labels

LOSSES = {f"{entry.name}-{kind}": entry for kind, entry in every_loss()}
each_loss = pytest.mark.parametrize("entry", LOSSES.values(), ids=LOSSES.keys())
score = st.floats(-5, 5)
margin = st.floats(0.1, 2)


def problem(draw_scores, entry, target):
    """Scores and a target that fit the loss."""
    if entry.single_output:
        scores = np.array(draw_scores[:1])
        y = target if entry.task == "regression" else (1.0 if target > 0 else -1.0)
    else:
        scores = np.array(draw_scores)
        y = float(int(abs(target) * 1000) % n_labels(entry, len(scores)))
    return scores, y


def gradient(entry, scores, y, margin):
    xi = np.full(len(scores), np.nan)
    violated = entry.rule.gradient(scores, y, margin, xi)
    return xi, violated


def near_a_kink(entry, scores, y, margin, width=1e-3):
    """Whether the gradient changes within `width`, other than smoothly."""
    changes = []
    for direction in (-width, width):
        for k in range(len(scores)):
            moved = scores.copy()
            moved[k] += direction
            changes.append(gradient(entry, moved, y, margin)[0])
    return np.abs(np.array(changes) - gradient(entry, scores, y, margin)[0]).max() > 0.5


def test_every_loss_of_the_papers_is_there():
    assert set(LOSSES) == {
        "epsilon_insensitive-one", "hinge-many", "hinge-one", "huber-one", "log_loss-many",
        "log_loss-one", "novelty-one", "perceptron-many", "perceptron-one", "squared_error-one",
        "hinge-tree", "hinge-graph", "hinge-matrix", "log_loss-tree", "log_loss-graph",
        "log_loss-matrix", "perceptron-tree", "perceptron-graph", "perceptron-matrix",
    }  # fmt: skip


@each_loss
@given(st.lists(score, min_size=4, max_size=4), score, margin)
def test_gradient_is_the_derivative_of_the_value(entry, scores, target, margin):
    scores, y = problem(scores, entry, target)
    assume(entry.name != "huber" or abs(abs(y - scores[0]) - margin) > 1e-3)
    assume(not near_a_kink(entry, scores, y, margin))
    xi, _ = gradient(entry, scores, y, margin)
    h = 1e-6
    for k in range(len(scores)):
        up, down = scores.copy(), scores.copy()
        up[k] += h
        down[k] -= h
        slope = entry.rule.value(up, y, margin) - entry.rule.value(down, y, margin)
        assert xi[k] == pytest.approx(slope / (2 * h), abs=2e-8, rel=1e-7)


@each_loss
@given(
    st.lists(score, min_size=4, max_size=4),
    st.lists(score, min_size=4, max_size=4),
    score,
    margin,
)
def test_curvature_is_the_derivative_of_the_gradient(entry, scores, direction, target, margin):
    scores, y = problem(scores, entry, target)
    direction = np.array(direction[: len(scores)])
    assume(entry.name != "huber" or abs(abs(y - scores[0]) - margin) > 1e-3)
    assume(not near_a_kink(entry, scores, y, margin))
    product = np.zeros(len(scores))
    bound = entry.rule.curvature(scores, y, margin, direction, product)
    h = 1e-6
    numeric = gradient(entry, scores + h * direction, y, margin)[0]
    numeric = (numeric - gradient(entry, scores - h * direction, y, margin)[0]) / (2 * h)
    if entry.rule.is_curved():
        np.testing.assert_allclose(product, numeric, atol=1e-8, rtol=1e-6)
    else:
        np.testing.assert_allclose(numeric, 0, atol=1e-8)
        assert not product.any()
    # the bound bounds: |H d| <= bound |d|
    assert np.linalg.norm(product) <= bound * np.linalg.norm(direction) * (1 + 1e-12) + 1e-15


@each_loss
@given(st.lists(score, min_size=4, max_size=4), score, margin)
def test_loss_is_never_negative_and_convex(entry, scores, target, margin):
    scores, y = problem(scores, entry, target)
    value = entry.rule.value(scores, y, margin)
    xi, _ = gradient(entry, scores, y, margin)
    assert value >= 0
    # the tangent lies below: l(s + d) >= l(s) + xi . d
    for other in (np.zeros(len(scores)), -scores, 2 * scores + 1):
        below = value + xi @ (other - scores)
        assert entry.rule.value(other, y, margin) >= below - 1e-9 * (1 + abs(below))


@each_loss
def test_a_perfect_prediction_attains_the_minimum(entry):
    if entry.single_output:
        scores, y = np.array([40.0]), 40.0 if entry.task == "regression" else 1.0
    else:
        scores, y = np.array([0.0, 40.0, 0.0, 0.0]), 1.0
    if entry.structured:
        entry.rule.labels.separate(1, 0, 40.0, scores)
        entry.rule.labels.separate(1, 2, 40.0, scores)
    assert entry.rule.value(scores, y, 1.0) == pytest.approx(0, abs=1e-15)
    xi, _ = gradient(entry, scores, y, 1.0)
    np.testing.assert_allclose(xi, 0, atol=1e-15)


@pytest.mark.parametrize("huge", [1e3, 1e100, 1e300])
@each_loss
def test_huge_scores_do_not_overflow_the_gradient(entry, huge):
    for sign in (-huge, huge):
        scores = np.array([sign]) if entry.single_output else np.array([sign, 0.0, -sign, 0.0])
        xi, _ = gradient(entry, scores, 1.0, 1.0)
        assert np.isfinite(xi).all()


# Where a kink belongs, as each loss's docstring says.
KINKS = [
    ("classification", "hinge", True, [1.0], 1.0, [0.0], False),
    ("classification", "hinge", True, [0.999], 1.0, [-1.0], True),
    ("classification", "hinge", True, [-1.0], -1.0, [0.0], False),
    ("classification", "hinge", False, [0.0, 1.0, -3.0], 1.0, [0.0, 0.0, 0.0], False),
    ("classification", "hinge", False, [0.5, 1.0, 0.5], 1.0, [1.0, -1.0, 0.0], True),
    ("classification", "hinge", False, [0.0], 0.0, [0.0], False),
    ("classification", "perceptron", True, [1.0], 1.0, [-1.0], True),
    ("classification", "perceptron", True, [1.001], 1.0, [0.0], False),
    ("classification", "perceptron", False, [1.0, 0.0], 0.0, [-1.0, 1.0], True),
    ("classification", "perceptron", False, [1.001, 0.0], 0.0, [0.0, 0.0], False),
    ("novelty", "novelty", True, [1.0], 1.0, [0.0], False),
    ("novelty", "novelty", True, [0.9], 1.0, [-1.0], True),
    ("regression", "epsilon_insensitive", True, [1.0], 2.0, [0.0], False),
    ("regression", "epsilon_insensitive", True, [1.0], 2.1, [-1.0], True),
    ("regression", "epsilon_insensitive", True, [1.0], -0.1, [1.0], True),
    ("regression", "huber", True, [1.0], 2.0, [-1.0], False),
    ("regression", "huber", True, [1.0], 1.5, [-0.5], False),
    ("regression", "huber", True, [1.0], 3.0, [-1.0], True),
]


@pytest.mark.parametrize(("task", "name", "single", "scores", "y", "xi", "violated"), KINKS)
def test_kinks_belong_where_the_docstring_says(task, name, single, scores, y, xi, violated):
    entry = losses.find(task, name, single)
    found, flag = gradient(entry, np.array(scores), y, 1.0)
    np.testing.assert_array_equal(found, xi)
    assert flag is violated or bool(flag) == violated


def test_near_ties_of_the_runner_up_go_to_the_lowest_index():
    hinge = losses.find("classification", "hinge", False)
    xi, _ = gradient(hinge, np.array([0.3, 0.3 + 1e-14, 0.0, 0.3 + 2e-14]), 2.0, 1.0)
    np.testing.assert_array_equal(xi, [1, 0, -1, 0])


@given(
    scores=st.lists(st.one_of(score, st.sampled_from([0.0, 1.0, -1.0])), min_size=1, max_size=6),
    label=st.integers(0, 5),
)
def test_the_runner_up_is_the_first_of_the_highest_others(scores, label):
    label %= len(scores)
    others = [k for k in range(len(scores)) if k != label]
    nearly = max((scores[k] for k in others), default=0.0) - SLACK * max(map(abs, scores))
    expected = next((k for k in others if scores[k] >= nearly), -1)
    assert runner_up(np.array(scores), label) == expected


def test_an_empty_huber_zone_is_the_absolute_loss():
    huber = losses.find("regression", "huber", True)
    assert gradient(huber, np.array([1.0]), 1.0, 0.0)[0][0] == 0
    assert gradient(huber, np.array([1.0]), 3.0, -0.5)[0][0] == -1
    assert huber.rule.value(np.array([1.0]), 3.0, 0.0) == 2
