"""Second order beyond the matrices: rounding over long streams, refused rows, other kernels."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.budgets import Independent
from kernelstream.kernels import RBF, Homogenized, Polynomial
from kernelstream.learner import second_order
from kernelstream.learner.machine import Machine
from kernelstream.learner.rows import BadRow
from kernelstream.updates import Dual

from .test_dictionary import inverse_is_sound, parts, problem, regressor


def residual(machine):
    """The largest entry of K K^-1 - I."""
    n, budget = machine.n_points, machine.state.budget
    return np.abs(budget.gram[:n, :n] @ budget.inverse[:n, :n] - np.eye(n)).max()


def lively_rows(n_rows, seed):
    """Rows whose dictionary keeps changing: their place moves."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3)) + np.linspace(0, n_rows / 2000, n_rows)[:, None]
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=n_rows)


def check_long_stream(n_rows, size):
    X, y = lively_rows(n_rows, 0)
    model = regressor(gamma=0.5, budget=Independent(1e-4, size))
    worst, joined = 0.0, 0
    for start in range(0, n_rows, 5000):
        block = model.learn_block(X[start : start + 5000], y[start : start + 5000])
        joined += sum((trail.slot >= 0).sum() for trail in block.trails)
        worst = max(worst, residual(model.machine_))
    n = model.n_support_
    covariance = model.machine_.state.update.covariance[:n, :n]
    np.testing.assert_allclose(covariance, covariance.T, rtol=0, atol=1e-14)
    assert np.linalg.eigvalsh(covariance)[0] > 0
    assert joined > n_rows / 20
    print(f"{n_rows:,} rows, {joined:,} joined: the residual of K K^-1 is {worst:.1e} at most")
    assert worst < 1e-7


def test_the_inverse_stays_accurate():
    check_long_stream(20_000, 60)


@pytest.mark.nightly
def test_the_inverse_stays_accurate_over_a_million_rows():
    check_long_stream(1_000_000, 100)


@pytest.mark.nightly
def test_usps_in_one_pass(usps):
    X, y = usps
    shuffled = np.random.default_rng(0).permutation(len(X))
    for order, most in ((np.arange(len(X)), 0.035), (shuffled, 0.034)):
        model = ks.make("sog-svc", "classifier", gamma=1 / 128, budget=512)
        assert ks.prequential(model, X[order], y[order]).error_rate <= most
        assert residual(model.machine_) < 1e-9


# a row of this length has no variance k / c that could be represented, others do
FREE, LONG = 1e-100, 1e6


@pytest.mark.parametrize("bad", [0, 1, 30, 63, 64, 99])
def test_rows_before_a_refused_one_are_learned(bad):
    X, y, _ = problem(100, 0)
    chosen = parts(Polynomial(2, 0.5, 1.0), Dual(), Independent(0.01, 4), FREE)
    learner, expected = (Machine(chosen, 2, 1, np.dtype(float)) for _ in range(2))
    if bad:
        expected.learn(X[:bad], y[:bad], np.ones(bad))
    rows = X.copy()
    rows[bad] = LONG
    with pytest.raises(BadRow) as refused:
        learner.learn(rows, y, np.ones(100))
    assert refused.value.row == bad
    assert learner.n_seen == bad
    np.testing.assert_allclose(learner.scores(X), expected.scores(X), rtol=1e-7, atol=1e-9)


def test_a_block_that_fails_after_pruning_is_undone():
    X, y, _ = problem(200, 0)
    kernel, budget = Polynomial(2, 0.5, 1.0), Independent(0.01, 4)
    model = regressor(kernel=kernel, budget=budget, regularization=FREE, fit_intercept=False)
    before = model.partial_fit(X[:50], y[:50]).to_bytes()
    X[190] = LONG
    with pytest.raises(BadRow, match="row 140"):
        model.partial_fit(X[50:], y[50:])
    assert model.to_bytes() == before


def test_single_rows_and_blocks_agree_for_every_kind_of_row(tmp_path):
    """Dense, sparse and float32 rows; by learn_one, in blocks, and after a file."""
    from scipy import sparse

    X, y = lively_rows(200, 1)
    budget = Independent(0.01, 24)
    whole = regressor(gamma=0.5, budget=budget).partial_fit(X, y)
    single = regressor(gamma=0.5, budget=budget)
    for i, row in enumerate(X):
        single.learn_one(row, y[i])
        if i == 120:
            single.save(tmp_path / "m.ks")
            single = ks.load(tmp_path / "m.ks")
    np.testing.assert_allclose(single.predict(X), whole.predict(X), rtol=1e-9, atol=1e-9)
    rows = regressor(gamma=0.5, budget=budget).partial_fit(sparse.csr_array(X[:150]), y[:150])
    for row, target in zip(X[150:], y[150:], strict=True):
        rows.learn_one(row, target)
    np.testing.assert_allclose(rows.predict(X), whole.predict(X), rtol=1e-9, atol=1e-9)
    short = regressor(gamma=0.5, budget=budget).partial_fit(X.astype(np.float32), y)
    np.testing.assert_allclose(short.predict(X), whole.predict(X), atol=0.05)
    assert inverse_is_sound(whole)


def test_a_prior_is_exchanged_for_another():
    """P^-1 - c K_old^-1 + c K_new^-1, its mean, and nothing where the kernel is the same."""
    X, y, _ = problem(60, 2)
    chosen = parts(RBF(0.5), Dual(), Independent(0.2, None), 0.3)
    learner = Machine(chosen, 2, 1, np.dtype(float))
    learner.learn(X, y, np.ones(60))
    n, dual = learner.n_points, learner.state.update
    before, values = dual.covariance[:n, :n].copy(), dual.values[:, :n].copy()
    points, old = learner.store.stored(n), learner.state.budget.gram[:n, :n].copy()
    second_order.change_kernel(learner, old)
    np.testing.assert_allclose(dual.covariance[:n, :n], before, rtol=1e-8, atol=1e-10)
    new = RBF(0.7)(points)
    second_order.change_kernel(learner, new)
    precision = np.linalg.inv(before) + 0.3 * (np.linalg.inv(new) - np.linalg.inv(old))
    np.testing.assert_allclose(dual.covariance[:n, :n], np.linalg.inv(precision), rtol=1e-6)
    moved = np.linalg.solve(precision, np.linalg.solve(before, values.T)).T
    np.testing.assert_allclose(dual.values[:, :n], moved, rtol=1e-6, atol=1e-9)
    assert residual(learner) < 1e-9
    np.testing.assert_allclose(new @ learner.coefficients()[0], moved[0], rtol=1e-9)


# --- how certain ---------------------------------------------------------------------------------


def noisy_sine(n_rows, seed, phase=0.0):
    random = np.random.default_rng(seed)
    X = random.uniform(-3, 3, size=(n_rows, 1))
    return X, np.sin(2 * X[:, 0] + phase) + 0.3 * random.normal(size=n_rows)


def test_the_standard_deviation_is_that_of_a_gaussian_process():
    """Of the Gaussian process whose dictionary is every row, in units of the mean e^2 / D."""
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 2))
    y, query, kernel = X[:, 0] + random.normal(size=30), random.normal(size=(9, 2)), RBF(0.5)
    model = regressor(kernel=Homogenized(kernel, 1.0), budget=Independent(0.0), regularization=0.2)
    model.partial_fit(X, y)
    assert model.n_support_ == 30
    K, k = (kernel(X) + 1.0) / 0.2 + np.eye(30), (kernel(X, query) + 1.0) / 0.2
    mean, std = model.predict(query, return_std=True)
    np.testing.assert_allclose(mean, k.T @ np.linalg.solve(K, y), rtol=1e-7)
    errors, variances = np.zeros(30), np.zeros(30)
    for i in range(30):
        share = np.linalg.solve(K[:i, :i], K[:i, i]) if i else np.zeros(0)
        errors[i], variances[i] = y[i] - share @ y[:i], K[i, i] - share @ K[:i, i]
    unit = np.mean(errors**2 / variances)
    own = 2.0 / 0.2 + 1.0 - np.sum(k * np.linalg.solve(K, k), axis=0)
    np.testing.assert_allclose(std, np.sqrt(unit * own), rtol=1e-7)


@pytest.mark.parametrize("forgetting", [1.0, 0.995])
def test_intervals_hold_what_they_promise(forgetting):
    X, y = noisy_sine(2000, 0)
    model = regressor(gamma=1.0, update=Dual(forgetting=forgetting)).partial_fit(X, y)
    query, target = noisy_sine(2000, 1)
    mean, std = model.predict(query, return_std=True)
    for width, nominal in ((0.674, 0.5), (1.645, 0.9), (2.576, 0.99)):
        assert np.mean(np.abs(target - mean) < width * std) == pytest.approx(nominal, abs=0.03)
    far = model.predict([[50.0]], return_std=True)[1]
    assert far > 3 * std.max()


def test_forgetting_follows_a_drift():
    found = {}
    for forgetting in (1.0, 0.997):
        model, errors = regressor(gamma=1.0, update=Dual(forgetting=forgetting)), []
        for step in range(60):
            X, y = noisy_sine(100, step, phase=step / 20)
            if step > 20:
                errors.append(np.mean((model.predict(X) - y) ** 2))
            model.partial_fit(X, y)
        found[forgetting] = np.mean(errors)
    assert found[0.997] < 0.15 < 0.3 < found[1.0]


@pytest.mark.usefixtures("without_compiler")
def test_who_does_not_know_says_so():
    X, y = noisy_sine(80, 0)
    for model in (ks.KernelRegressor(), ks.make("sog-svr-paper", "regressor")):
        with pytest.raises(ValueError, match="does not know how certain"):
            model.partial_fit(X, y).predict(X, return_std=True)
    assert not hasattr(ks.KernelClassifier(), "predict_proba")
    with pytest.raises(ValueError, match="goes back to a prior"):
        regressor(update=Dual(forgetting=0.9), regularization=0.0).partial_fit(X, y)
    with pytest.raises(ValueError, match="goes with direction='newton' only"):
        Dual("gradient", forgetting=0.9)
    with pytest.raises(ValueError, match="give it a size"):
        Independent(0.1, worth=2.0)
    with pytest.raises(ValueError, match="so leave worth out"):
        ks.make(
            "sog-svr-paper", "regressor", budget=Independent(0.1, 8, worth=2.0)
        ).partial_fit(X, y)  # fmt: skip


def test_probabilities_are_frequencies():
    """Labels that are right with the probability 0.1 to 0.9: those are found."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(6000, 1))
    truth = 0.5 + 0.4 * X[:, 0]
    y = random.random(6000) < truth
    for classes in ([False, True], None):  # one output, and one per class
        model = ks.make("sog-svc", "classifier", gamma=1.0)
        model.partial_fit(X[:3000], y[:3000], classes=classes)
        found = model.predict_proba(X[3000:])
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        order = list(model.classes_).index(True)
        assert (model.predict(X[3000:]) == (found[:, order] > 0.5)).mean() > 0.999
        assert np.abs(found[:, order] - truth[3000:]).mean() < 0.1


def test_scaled_targets_have_scaled_deviations():
    X, y = noisy_sine(600, 0)
    found = []
    for size in (1.0, 1000.0):
        model = regressor(gamma=1.0, scaling="running", target_scaling="running")
        for start in (0, 100):  # another unit in the second block
            model.partial_fit(X[start::2], size * y[start::2])
        found.append(np.array(model.predict(X[:50], return_std=True)) / size)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)
    assert (
        found[0][1] > 0.3
    ).all()  # the noise; early rows, whose unit is not known yet, add to it
    assert (found[0][1] < 0.5).all()


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("preset", ["sog-svr", "svmd"])
def test_a_newcomer_must_be_worth_its_place(preset):
    X, y = lively_rows(192, 3)
    first = regressor(gamma=0.5, budget=Independent(0.05)).partial_fit(X, y).support_vectors_[:12]
    kept = {}
    for worth in (1.0, 1e12):
        budget = Independent(0.05, 12, worth=worth)
        model = ks.make(preset, "regressor", kernel=Homogenized(RBF(0.5), 1.0), budget=budget)
        model.set_params(fit_intercept=False).partial_fit(X, y)
        assert model.n_support_ == 12
        kept[worth] = {tuple(row) for row in model.support_vectors_}
    assert kept[1e12] == {tuple(row) for row in first}
    assert len(kept[1.0] - kept[1e12]) > 2


@pytest.mark.usefixtures("without_compiler")
def test_few_rows_join_a_full_dictionary():
    """A row that would not stay is not let in, and the error is that of a smaller dictionary."""
    X, y = lively_rows(640, 4)
    model = regressor(gamma=0.5, budget=Independent(1e-3, 24, worth=3.0))
    slots = [trail.slot for trail in model.learn_block(X, y).trails]
    joined = np.concatenate(slots) >= 0
    assert joined[:64].mean() > 0.3
    assert 0.01 < joined[320:].mean() < 0.5 * joined[:64].mean()
    machine = model.machine_
    assert machine.state.update.bar[0] > 0.0
    n, inverse = machine.n_points, machine.state.budget.inverse
    own = inverse[:n, :n] @ machine.state.update.covariance[:n, :n] @ inverse[:n, :n]
    costs = machine.coefficients()[0] ** 2 / own.diagonal()
    assert machine.state.update.bar[0] == pytest.approx(costs.min(), rel=1e-6)
