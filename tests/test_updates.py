"""Implicit updates: what the ILK paper promises, and what the figures must be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.step_sizes import Constant, SqrtDecay
from kernelstream.updates import Implicit

pytestmark = pytest.mark.usefixtures("without_compiler")

RBF = ks.kernels.RBF(gamma=1 / 128)


def separable(seed, gap):
    random = np.random.default_rng(seed)
    direction = random.normal(size=3)
    direction /= np.linalg.norm(direction)
    X = random.normal(size=(300, 3))
    side = np.sign(X @ direction)
    return X + (side * gap)[:, None] * direction, side > 0


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(0.1, 1.0), st.floats(1.0, 100.0))
def test_mistake_bound(seed, gap, factor):
    """Theorem 2, stationary and separable: at most B^2 X^2 / mu^2 mistakes."""
    X, y = separable(seed, gap)
    largest2 = (X**2).sum(axis=1).max()
    model = ks.KernelClassifier(
        "linear", update="implicit", step_size=factor / largest2, regularization=0, budget=None
    )
    result = ks.prequential(model, X, y)
    assert result.errors.sum() <= largest2 / gap**2


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.1, 3.0), st.floats(0.1, 2.0), st.floats(0.2, 3.0))
def test_cumulative_risk_bound(seed, eta, c, C):
    """Theorem 3: sum R(f_t) <= sum R(g) + a sqrt(T) + b for any g, with eta_t = eta / sqrt(t)."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(150, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * random.normal(size=150) > 0, 1, -1)
    model = ks.KernelClassifier(
        ks.kernels.RBF(0.5), update="implicit", step_size=SqrtDecay(eta, tau=1), C=C,
        regularization=c, budget=None,
    )  # fmt: skip
    model.partial_fit(X[:1], y[:1], classes=[-1, 1], sample_weight=[0])
    risk, kernel = 0.0, model.kernel_
    for x, label in zip(X, y, strict=True):
        alpha, points = model.dual_coef_[0], model.support_vectors_
        norm2 = alpha @ kernel(points) @ alpha if len(alpha) else 0.0
        score = model.decision_function([x])[0] if len(alpha) else 0.0
        risk += 0.5 * c * norm2 + C * max(0, 1 - label * score)
        model.learn_one(x, label)
    U = C / c  # X = 1 for this kernel
    allowed = (4 * eta * C**2 + 2 * U**2 / eta) * np.sqrt(len(X)) + U**2 / (2 * eta)
    alpha = model.dual_coef_[0]
    norm2 = alpha @ kernel(model.support_vectors_) @ alpha
    scores = model.decision_function(X)
    for scale in (0.0, 0.5, 1.0, 2.0):  # g: the final f, scaled
        losses = np.maximum(0, 1 - scale * y * scores).sum()
        batch = len(X) * 0.5 * c * scale**2 * norm2 + C * losses
        assert risk <= batch + allowed


def test_passive_aggressive_is_an_implicit_hinge_without_decay():
    """Section 5: PA-I is alpha = y min(C, loss / k(x, x)) where the loss is positive."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), random.integers(0, 2, 200)
    model = ks.make("pa", "classifier", kernel=ks.kernels.RBF(0.5), C=0.3, budget=None)
    model.partial_fit(X, y, classes=[0, 1])
    gram = ks.kernels.RBF(0.5)(X)
    alpha = np.zeros(200)
    for t, label in enumerate(2 * y - 1):
        loss = max(0, 1 - label * (alpha @ gram[:, t]))
        alpha[t] = label * min(0.3, loss / gram[t, t])
    np.testing.assert_allclose(model.dual_coef_[0], alpha[alpha != 0], rtol=1e-9)


@pytest.mark.parametrize("task", ["classifier", "regressor", "novelty"])
@pytest.mark.parametrize("step", [1e-6, 1.0, 1e6])
def test_no_step_size_is_too_large(task, step):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    losses = {
        "classifier": ["hinge", "log_loss"],
        "regressor": ["squared_error", "epsilon_insensitive", "huber"],
        "novelty": ["novelty"],
    }
    y = X[:, 0] > 0 if task == "classifier" else 1e6 * X[:, 0]
    for loss in losses[task]:
        for intercept in [False] if task == "novelty" else [False, True]:
            params = {} if task == "novelty" else {"fit_intercept": intercept}
            model = ks.make(
                "svmd",
                task,
                update="implicit",
                step_size=Constant(step),
                loss=loss,
                gamma=0.5,
                **params,
            )
            model.partial_fit(X, y)
            assert np.isfinite(model.dual_coef_).all()
            if task == "classifier" and step >= 1 and not intercept:
                assert model.score(X, y) > 0.8


def test_an_intercept_takes_part_in_the_implicit_step():
    """The step ends on the margin: f and b move together, as if the kernel were k + 1."""
    params = {"step_size": 10.0, "fit_intercept": True, "regularization": 0}
    model = ks.KernelClassifier("linear", update="implicit", budget=512, **params)
    model.partial_fit([[2.0]], [1], classes=[0, 1])
    assert model.decision_function([[2.0]])[0] == pytest.approx(1)
    assert model.intercept_[0] == pytest.approx(1 / 5)
    assert model.dual_coef_[0, 0] == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("preset", "params", "percent", "within"),
    [("ilk", {}, 5.2, 0.3), ("silk", {"budget": 512}, 9.4, 0.3)],
)
def test_usps(usps, preset, params, percent, within):
    X, y = usps
    result = ks.prequential(ks.make(preset, "classifier", kernel=RBF, **params), X, y)
    assert 100 * result.error_rate == pytest.approx(percent, abs=within)


def test_meta_descent_on_implicit_steps(usps):
    X, y = usps
    silk = ks.prequential(ks.make("silk", "classifier", kernel=RBF, budget=512), X, y)
    adaptive = ks.make("silk-md", "classifier", kernel=RBF, budget=512)
    result = ks.prequential(adaptive, X, y)
    assert result.error_rate < silk.error_rate + 0.01
    assert len(np.unique(result.step_sizes)) > 1000


def test_the_paper_rule_can_raise_the_objective_and_the_exact_one_cannot():
    """With decay another label can overtake the runner-up that the paper's rule looks at."""
    from kernelstream import losses

    hinge = losses.find("classification", "hinge", False).rule
    random = np.random.default_rng(0)
    raised = {True: 0, False: 0}
    for _ in range(5000):
        scores, step = random.normal(size=5) * 3, 10 ** random.uniform(-2, 2)
        xi = np.zeros(5)
        for exact in raised:
            hinge.proximal(scores, scores, 0.0, 1.0, step, exact, xi, np.zeros_like(xi))
            after = 0.5 * np.sum((step * xi) ** 2) + step * hinge.value(
                scores - step * xi, 0.0, 1.0
            )
            raised[exact] += after > step * hinge.value(scores, 0.0, 1.0) + 1e-9
    assert raised[True] == 0
    assert Implicit() == Implicit(exact=True)


def test_an_implicit_step_at_a_row_of_zeros_learns_nothing():
    """With a linear kernel nothing learned there could change a score."""
    X, y = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), [0, 1, 2]
    with_zeros, without = (
        ks.make("pa", "classifier", kernel="linear").partial_fit(X[rows], np.array(y)[rows])
        for rows in ([0, 2, 1], [0, 2])
    )
    assert with_zeros.n_seen_ == 3
    assert with_zeros.n_support_ == without.n_support_
