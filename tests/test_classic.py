"""The learners that the papers compare with: their definitions, their bounds, their limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import kernelstream as ks
from kernelstream import budgets, kernels, losses, margins, step_sizes, updates
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine, Parts
from tests.reference.perceptron import PerceptronReference

UPDATES = {
    "perceptron": (updates.Explicit(), "perceptron", lambda many: margins.Fixed(0.0)),
    "ballseptron": (updates.Ballseptron(0.3), "perceptron", lambda many: margins.Ball(0.3)),
    "alma": (
        updates.ALMA(0.7), "hinge",
        lambda many: margins.Shrinking(updates.ALMA(0.7).first_margin() * math.sqrt(1 + many)),
    ),
}  # fmt: skip
BUDGETS = [budgets.Unbounded(), budgets.OldestOut(7, exact=True)]
KERNELS = [kernels.RBF(0.5), kernels.Normalized(kernels.Polynomial(2, 0.5, 1.0))]


def parts_of(name, many, budget, kernel):
    update, loss, margin = UPDATES[name]
    return Parts(
        kernel=kernel, loss=losses.find("classification", loss, not many).rule,
        margin=margin(many), step_size=step_sizes.Constant(1.0), update=update, budget=budget,
        fit_intercept=False, regularization=0.0, loss_weight=1.0,
    )  # fmt: skip


@settings(max_examples=120)
@given(
    st.sampled_from(list(UPDATES)), st.booleans(), st.sampled_from(BUDGETS),
    st.sampled_from(KERNELS), st.sampled_from([1, 7, 64]), st.integers(0, 10**6),
)  # fmt: skip
def test_any_tile_is_what_the_papers_say(name, many, budget, kernel, tile_rows, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 3))
    signal = np.sin(2 * X[:, 0]) + X[:, 1]
    y = np.digitize(signal, [-0.5, 0.5]) * 1.0 if many else np.where(signal > 0, 1.0, -1.0)
    weight = random.choice([0.0, 1.0, 1.0, 1.7], size=60)
    parts = parts_of(name, many, budget, kernel)
    n_outputs = 3 if many else 1
    reference = PerceptronReference(parts, 3, n_outputs)
    expected = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    learner = Machine(parts, 3, n_outputs, np.dtype(float))
    learner.scratch["learn"] = learn_tile.py_func
    trail = learner.learn(X, y, weight, tile_rows=tile_rows)[0]
    np.testing.assert_allclose(trail.scores, expected, rtol=1e-9, atol=1e-9)
    found = np.roll(learner.coefficients(), -learner.state.budget.oldest[0], axis=1)
    np.testing.assert_allclose(found, reference.alpha.T, rtol=1e-9, atol=1e-9)
    if name == "alma":
        assert reference._norm2() <= 1 + 1e-9 or not isinstance(budget, budgets.Unbounded)
        k = reference.n_corrections + 1
        assert learner.state.margin.epsilon[0] == pytest.approx(
            parts.margin.initial / math.sqrt(k), rel=1e-9
        )


# --- mistake bounds -----------------------------------------------------------------------------


def separable(seed, n_rows=150, n_features=4, gamma=0.1):
    """Rows of unit length that a unit vector u separates by a margin gamma, and u."""
    random = np.random.default_rng(seed)
    u = random.normal(size=n_features)
    u /= np.linalg.norm(u)
    X = random.normal(size=(20 * n_rows, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = X[np.abs(X @ u) >= gamma][:n_rows]
    return X, np.where(X @ u > 0, 1, -1), u


def interpreted(preset, **params):
    """A model that learns without a compiler, so that many can be tried."""
    return ks.make(preset, "classifier", kernel="linear", budget=None, **params)  # counts points


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("seed", range(8))
def test_the_perceptron_keeps_its_mistake_bound(seed):
    """Theorem 1 of section 3: ((R + D) / gamma)^2, also where some labels are wrong."""
    X, y, u = separable(seed)
    gamma = 0.1
    wrong = np.random.default_rng(seed).random(len(y)) < 0.03
    noisy = np.where(wrong, -y, y)
    for labels in (y, noisy):
        result = ks.prequential(interpreted("perceptron"), X, labels)
        deviation = math.sqrt((np.maximum(0, gamma - labels * (X @ u)) ** 2).sum())
        assert 0 < result.errors.sum() <= ((1 + deviation) / gamma) ** 2
        if labels is y:
            assert result.errors.sum() <= 1 / gamma**2


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("predictor", ["voted", "averaged"])
def test_votes_are_those_of_every_model_that_there_was(seed, predictor):
    """By the definition: keep each weight vector and how many rows it stood."""
    random = np.random.default_rng(seed)
    X, test = random.normal(size=(80, 3)), random.normal(size=(20, 3))
    for y in (np.sign(X[:, 0] + 0.5 * random.normal(size=80)).astype(int),
              np.digitize(X[:, 0] + 0.3 * random.normal(size=80), [-0.4, 0.4])):  # fmt: skip
        model = ks.make(f"{predictor}-perceptron", "classifier", gamma=0.5)
        labels = np.unique(y)
        model.partial_fit(X[:1], y[:1], classes=labels)
        n_outputs = 1 if len(labels) == 2 else len(labels)
        total = np.zeros((20, n_outputs))
        for t in range(1, 81):
            plain = model.machine_
            scores = plain.scores(test)  # the model after t rows, which stands at row t
            if predictor == "averaged":
                total += scores
            elif n_outputs == 1:
                total += np.where(scores > 0, 1, -1)
            else:
                total += np.eye(n_outputs)[scores.argmax(axis=1)]
            if t < 80:
                model.learn_one(X[t], y[t])
        np.testing.assert_allclose(model.label_scores(test), total / 80, atol=1e-9)
        expected = total.argmax(axis=1) if n_outputs > 1 else (total[:, 0] > 0).astype(int)
        np.testing.assert_array_equal(model.predict(test), labels[expected])
        assert [model.predict_one(x) for x in test[:5]] == model.predict(test[:5]).tolist()


@pytest.mark.usefixtures("without_compiler")
def test_the_voted_perceptron_keeps_its_bound():
    """Freund and Schapire, theorem 3: the chance of a mistake on row m + 1 is at most
    2 / (m + 1) E[((R + D) / gamma)^2], over orders of the rows."""
    X, y, _ = separable(0, n_rows=60, gamma=0.3)
    random, wrong = np.random.default_rng(1), 0
    for _ in range(60):
        order = random.permutation(len(y))
        model = interpreted("voted-perceptron").partial_fit(
            X[order[:-1]], y[order[:-1]], classes=[-1, 1]
        )
        wrong += model.predict(X[order[-1:]])[0] != y[order[-1]]
    assert wrong / 60 <= 2 / len(y) * (1 / 0.3) ** 2


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_alma_keeps_its_bound_and_finds_a_large_margin(alpha, seed):
    """Gentile, theorem 3: at most 2 / gamma^2 (2 / alpha - 1)^2 + 8 / alpha - 4 corrections, and
    when there are no more, a margin of (1 - alpha) gamma."""
    X, y, _ = separable(seed, n_rows=60, gamma=0.25)
    best = SVC(kernel="linear", C=1e9).fit(np.vstack([X, -X]), np.append(y, -y))  # no intercept
    gamma = 1 / np.linalg.norm(best.coef_)
    model = interpreted("alma", update=updates.ALMA(alpha))
    most = 2 / gamma**2 * (2 / alpha - 1) ** 2 + 8 / alpha - 4
    corrections = -1
    model.partial_fit(X, y, classes=[-1, 1])
    while model.n_support_ > corrections:
        corrections = model.n_support_
        assert corrections <= most
        model.partial_fit(X, y)
    margin = (y * model.decision_function(X)).min()
    norm = math.sqrt(model.machine_.state.expansion.norm2[0])
    assert norm <= 1 + 1e-9
    assert margin / norm >= (1 - alpha) * gamma


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("radius", [0.0, 0.02, 0.08])
@pytest.mark.parametrize("seed", range(4))
def test_the_ballseptron_keeps_its_bound(radius, seed):
    X, y, u = separable(seed)
    gamma = np.min(y * (X @ u))
    model = interpreted("ballseptron", update=updates.Ballseptron(radius))
    result = ks.prequential(model, X, y)
    # a score of zero is a mistake, whatever label it stands for
    m = int((y * result.scores <= 0).sum())
    n = model.n_support_ - m
    assert (m * gamma + n * (gamma - radius)) ** 2 <= m + n * (1 + radius**2)
    assert m <= 1 / gamma**2
    assert n == 0 or radius > 0
    assert n > 0 or radius < 0.05


# --- batch problems -------------------------------------------------------------------------------


def two_digits():
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, [3, 8])
    return X[keep] / 16, y[keep]


def objective(model):
    """The dual of the SVM: sum |alpha| - 1/2 ||f||^2."""
    alpha = model.dual_coef_[0]
    gram = model.kernel_(model.support_vectors_)
    return np.abs(alpha).sum() - 0.5 * alpha @ gram @ alpha


def test_adatron_finds_the_largest_margin():
    X, y = two_digits()
    model = ks.make("adatron", "classifier", gamma=0.1, C=1e6, n_epochs=2000).fit(X, y)
    assert model.n_passes_ < 2000
    # without an intercept: the batch problem on rows and their mirrors in the kernel's space
    gram = kernels.RBF(0.1)(X)
    sign = np.where(y == 8, 1.0, -1.0)
    both = np.block([[gram, -gram], [-gram, gram]])
    batch = SVC(kernel="precomputed", C=1e6, tol=1e-6).fit(both, np.append(sign, -sign))
    expected = batch.decision_function(both)[: len(y)]
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3)
    margin = (sign * model.decision_function(X)).min()
    assert margin == pytest.approx(1.0, abs=1e-4)
    assert model.score(X, y) == 1.0


def test_adatron_and_lasvm_take_several_classes_sparse_rows_and_functions():
    from scipy.sparse import csr_array

    X, y = load_digits(return_X_y=True)
    three = np.flatnonzero(y < 3)[:120]
    X, y = X[three] / 16, y[three]
    for preset, n_epochs in (("adatron", 100), ("lasvm", 10)):
        model = ks.make(preset, "classifier", gamma=0.1, n_epochs=n_epochs).fit(X, y)
        assert model.score(X, y) > 0.98
        assert model.dual_coef_.shape[0] == 3
        again = ks.make(preset, "classifier", gamma=0.1, n_epochs=n_epochs).fit(csr_array(X), y)
        np.testing.assert_allclose(
            again.decision_function(csr_array(X)), model.decision_function(X), atol=5e-3
        )
        function = ks.make(
            preset, "classifier", kernel=lambda A, B: kernels.RBF(0.1)(A, B), n_epochs=n_epochs
        )
        np.testing.assert_allclose(
            function.fit(X, y).decision_function(X), model.decision_function(X), atol=5e-3
        )


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_lasvm_solves_the_svm(C):
    X, y = two_digits()
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.05, 11 - y, y)  # not separable
    exact = SVC(C=C, gamma=0.1, tol=1e-6).fit(X, y)
    alpha = exact.dual_coef_[0]
    best = np.abs(alpha).sum() - 0.5 * alpha @ kernels.RBF(0.1)(exact.support_vectors_) @ alpha
    found = []
    for n_epochs in (1, 2, 20):
        model = ks.make("lasvm", "classifier", gamma=0.1, C=C, n_epochs=n_epochs).fit(X, y)
        assert abs(model.dual_coef_[0].sum()) < 1e-9 * C * len(y)
        assert np.abs(model.dual_coef_).max() <= C * (1 + 1e-12)
        found.append(objective(model) / best)
    assert 0.95 < found[0] < found[1] < found[2] <= 1 + 1e-9
    assert found[2] == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=0.01)
    # one value in the cache less than there are points changes nothing but the time
    small = ks.make(
        "lasvm", "classifier", gamma=0.1, C=C, n_epochs=20, update=updates.LASVM(cache_mb=0.05)
    ).fit(X, y)
    np.testing.assert_allclose(small.dual_coef_, model.dual_coef_, rtol=1e-9, atol=1e-12)


def test_lasvm_is_as_good_as_libsvm_on_usps(usps):
    """0-4 against 5-9, one pass and finishing: test error within 0.3 points, same C and gamma."""
    data = ks.datasets.load("usps")
    y_train, y_test = data.y_train >= 5, data.y_test >= 5
    batch = SVC(C=10.0, gamma=1 / 128).fit(data.X_train, y_train)
    model = ks.make("lasvm", "classifier", gamma=1 / 128, C=10.0).fit(data.X_train, y_train)
    errors = [(m.predict(data.X_test) != y_test).mean() for m in (batch, model)]
    assert abs(errors[0] - errors[1]) <= 0.003


@pytest.mark.usefixtures("without_compiler")
def test_pegasos_is_near_the_svm():
    X, y = two_digits()
    c = 0.01
    model = ks.make("pegasos", "classifier", gamma=0.1, regularization=c, n_epochs=20).fit(X, y)
    batch = SVC(C=1 / (c * len(y)), gamma=0.1).fit(X, y)
    assert model.step_size_ == pytest.approx(1 / (c * (model.n_seen_ + 1)))
    agree = model.predict(X) == batch.predict(X)
    assert agree.mean() > 0.98


# --- what a user may try -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "params", "message"),
    [
        ("alma", {"margin": 0.5}, "margin of its own"),
        ("alma", {"nu": 0.1}, "margin of its own"),
        ("alma", {"regularization": 0.1}, "no regularization"),
        ("alma", {"loss": "log_loss"}, "goes with loss='hinge'"),
        ("alma", {"step_size": "smd"}, "step_size=1.0"),
        ("ballseptron", {"loss": "hinge"}, "goes with loss='perceptron'"),
        ("ballseptron", {"fit_intercept": True}, "Homogenized"),
        ("voted-perceptron", {"regularization": 0.1}, "regularization=0"),
        ("voted-perceptron", {"update": "implicit"}, "update='explicit'"),
        ("voted-perceptron", {"budget": budgets.LeastLoss(9)}, "changes old coefficients"),
        ("voted-perceptron", {"predictor": "most"}, "predictor='most'"),
        ("adatron", {"budget": 10}, "budget=None"),
        ("adatron", {"nu": 0.1}, "fixed margin"),
        ("lasvm", {"fit_intercept": False}, "fit_intercept=True"),
        ("pegasos", {"regularization": 0.0}, "InverseDecay"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_said(preset, params, message):
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=message):
        ks.make(preset, "classifier", **params).fit(X, y)


def test_learners_that_revisit_rows_take_no_stream(tmp_path):
    X, y = two_digits()
    model = ks.make("adatron", "classifier", gamma=0.1)
    with pytest.raises(ValueError, match="fit only"):
        model.partial_fit(X, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="fit only"):
        model.learn_one(X[0], y[0])
    model.save(tmp_path / "model.ks")
    np.testing.assert_array_equal(ks.load(tmp_path / "model.ks").predict(X), model.predict(X))


@pytest.mark.parametrize("preset", ["voted-perceptron", "alma", "ballseptron"])
def test_they_come_back_from_a_file_and_keep_a_budget(preset, tmp_path, request):
    if preset == "voted-perceptron":  # the same code as others' but for the vote
        request.getfixturevalue("without_compiler")
    X, y = two_digits()
    model = ks.make(preset, "classifier", gamma=0.1, budget=60).partial_fit(X[:200], y[:200])
    assert model.n_support_ <= 60
    model.save(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks")
    for one in (model, twin):
        one.partial_fit(X[200:], y[200:])
    assert twin.to_bytes() == model.to_bytes()
    assert (model.predict(X) == y).mean() > 0.8


def test_normalized_kernels_have_a_diagonal_of_one():
    X = np.random.default_rng(0).normal(size=(5, 3))
    X[2] = 0
    gram = kernels.Normalized(kernels.Polynomial(2, 1.0))(X)
    np.testing.assert_allclose(np.diag(gram), [1, 1, 0, 1, 1], atol=1e-12)
    plain = kernels.Polynomial(2, 1.0)(X)
    assert gram[0, 1] == pytest.approx(plain[0, 1] / math.sqrt(plain[0, 0] * plain[1, 1]))
    with pytest.raises(TypeError, match="diagonal is known"):
        kernels.Normalized(kernels.Custom(lambda X, Z: X @ Z.T))
