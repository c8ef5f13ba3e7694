"""Budgets: who goes, what stays, and that an inverse stays healthy."""

import numpy as np
import pytest
from sklearn.base import clone

import kernelstream as ks
from kernelstream.budgets import LeastLoss, Merge, OldestOut, SmallestOut, Unbounded
from kernelstream.budgets.merging import best_share
from kernelstream.estimators.files import from_bytes
from kernelstream.learner.loops.expansion import ExpansionLoop
from kernelstream.step_sizes import SMD, Constant
from tests.reference.expansion import Reference

RBF = ks.kernels.RBF(gamma=1 / 128)
random = np.random.default_rng(0)


def drifting(n_rows, n_features=2):
    t = np.arange(n_rows)
    centre = np.stack([np.cos(t / 500), np.sin(t / 500)], axis=1)
    X = np.concatenate([3 * centre, np.zeros((n_rows, n_features - 2))], axis=1)
    X += random.normal(size=X.shape)
    return X, (X[:, 0] * np.cos(t / 300) > X[:, 1]).astype(int)


@pytest.mark.parametrize(("size", "percent"), [(64, 8.9), (128, 7.2), (256, 6.1), (512, 5.6)])
def test_least_loss_keeps_almost_everything(usps, size, percent):
    X, y = usps
    model = ks.make("pa", "classifier", kernel=RBF, budget=LeastLoss(size))
    result = ks.prequential(model, X, y)
    assert 100 * result.error_rate <= percent
    assert model.n_support_ == size


@pytest.mark.parametrize(("size", "percent"), [(64, 6.4), (128, 5.6), (256, 5.3), (512, 5.2)])
def test_merging_keeps_even_more(usps, size, percent):
    X, y = usps
    model = ks.make("pa", "classifier", kernel=RBF, budget=Merge(size))
    assert 100 * ks.prequential(model, X, y).error_rate <= percent
    assert model.n_support_ == size


@pytest.mark.parametrize("size", [64, 128, 256])
def test_svmd_with_least_loss_is_far_below_dropping(usps, size):
    X, y = usps
    errors = {}
    for policy in (OldestOut, LeastLoss):
        model = ks.make("svmd", "classifier", kernel=RBF, budget=policy(size))
        errors[policy] = ks.prequential(model, X, y).error_rate
    assert errors[LeastLoss] < 0.55 * errors[OldestOut]


def test_the_inverse_stays_healthy_over_many_replacements():
    X, y = drifting(140_000)
    model = ks.KernelClassifier(
        gamma=0.3, budget=LeastLoss(20), step_size=Constant(0.5), regularization=0.1, margin=5.0
    )
    model.partial_fit(X, y, classes=[0, 1])
    state = model.machine_.state.budget
    assert state.replaced[0] > 100_000
    gram = model.kernel_(model.support_vectors_)
    np.testing.assert_allclose(state.gram, gram, rtol=1e-10, atol=1e-12)
    fresh = np.linalg.inv(gram)
    np.testing.assert_allclose(state.inverse, fresh, rtol=1e-6, atol=1e-6 * np.abs(fresh).max())


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("budget", [LeastLoss(12), Merge(12)], ids=str)
@pytest.mark.parametrize("update", ["explicit", "implicit"])
def test_norms_are_exact_after_every_projection(update, budget):
    X, y = drifting(400)
    model = ks.KernelClassifier(
        gamma=0.3,
        budget=budget,
        step_size=SMD(0.3, 0.1, 0.99),
        regularization=0.01,
        update=update,
    )
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
    learner = model.machine_
    from kernelstream.expansion.scoring import trace_coefficients

    gram = model.kernel_(model.support_vectors_)
    alpha = learner.coefficients()
    beta = trace_coefficients(learner.state.expansion, learner.n_outputs)
    norm2 = np.sum(alpha * (alpha @ gram))
    assert learner.state.expansion.norm2[0] == pytest.approx(norm2, rel=1e-8)
    assert learner.state.expansion.pi[0] == pytest.approx(np.sum(alpha * (beta @ gram)), rel=1e-7)


@pytest.mark.usefixtures("without_compiler")
def test_least_loss_removes_the_point_that_costs_least():
    """One replacement, against the best projection of every candidate."""
    X, y = random.normal(size=(6, 3)), random.normal(size=6)
    kernel = ks.kernels.RBF(0.4)
    params = {"kernel": kernel, "step_size": 0.5, "regularization": 0.0}
    full = ks.KernelRegressor(budget=Unbounded(), **params).partial_fit(X[:5], y[:5])
    full.partial_fit(X[5:], y[5:])
    budgeted = ks.KernelRegressor(budget=LeastLoss(5), **params).partial_fit(X, y)
    gram, alpha = kernel(X), full.dual_coef_[0]
    candidates = {}
    for j in range(6):
        kept = np.delete(np.arange(6), j)
        best = np.linalg.solve(gram[np.ix_(kept, kept)], gram[kept] @ alpha)
        lost = alpha @ gram @ alpha - best @ gram[kept] @ alpha
        candidates[lost] = kept, best
    kept, best = candidates[min(candidates)]
    probe = random.normal(size=(20, 3))
    np.testing.assert_allclose(budgeted.predict(probe), kernel(probe, X[kept]) @ best, rtol=1e-7)


def test_dependent_rows_take_no_room():
    rows = random.normal(size=(3, 3))
    X = rows[random.integers(0, 3, 200)]  # three rows, again and again
    model = ks.KernelRegressor(ks.kernels.RBF(0.5), budget=LeastLoss(50), step_size=0.5)
    model.partial_fit(X, X[:, 0])
    assert model.n_support_ == 3
    linear = ks.KernelRegressor("linear", budget=LeastLoss(50), step_size=0.05)
    linear.partial_fit(random.normal(size=(300, 4)), random.normal(size=300))
    assert linear.n_support_ == 4
    zero = ks.KernelRegressor("linear", budget=LeastLoss(5), step_size=0.1)
    zero.partial_fit(np.zeros((10, 2)), np.ones(10))
    assert zero.n_support_ == 0


def test_the_smallest_coefficient_goes_and_the_new_point_competes():
    model = ks.KernelRegressor(
        "linear", budget=SmallestOut(2), step_size=1.0, loss="epsilon_insensitive", margin=0.0,
        regularization=0.0, C=1.0,
    )  # fmt: skip
    model.partial_fit(np.eye(3), [9.0, 9.0, 9.0], sample_weight=[0.5, 0.2, 0.3])
    assert sorted(model.dual_coef_[0]) == [0.3, 0.5]
    model.partial_fit([[1.0, 1.0, 1.0]], [99.0], sample_weight=[0.1])
    assert sorted(model.dual_coef_[0]) == [0.3, 0.5]
    assert model.n_seen_ == 4


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    "budget", [OldestOut(8), SmallestOut(8), LeastLoss(8), Merge(8), Merge(2, most=8)], ids=str
)
@pytest.mark.parametrize("update", ["explicit", "implicit"])
@pytest.mark.parametrize("task", ["classifier", "regressor", "novelty"])
def test_files_undo_and_late_classes_with_every_budget(tmp_path, monkeypatch, task, update, budget):
    X, y = drifting(220, 3)
    model = ks.make("svmd", task, budget=budget, update=update).partial_fit(X[:60], y[:60])
    model.save(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks")
    before = model.to_bytes()
    whole, tiles = ExpansionLoop.learn, []

    def second_tile_fails(*arguments):
        tiles.append(arguments)
        if len(tiles) == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ExpansionLoop, "learn", second_tile_fails)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[60:], y[60:] + 5)
    assert model.to_bytes() == before
    model.partial_fit(X[60:], y[60:] + 5)
    twin.partial_fit(X[60:], y[60:] + 5)
    assert model.to_bytes() == twin.to_bytes()
    assert model.n_support_ <= 8


def test_kernel_values_of_merged_points_stay_true():
    X, y = drifting(50_000)
    model = ks.KernelClassifier(
        gamma=0.3, budget=Merge(20), step_size=Constant(0.5), regularization=0.1, margin=5.0
    )
    model.partial_fit(X, y, classes=[0, 1])
    gram = model.kernel_(model.support_vectors_)
    np.testing.assert_allclose(model.machine_.state.budget.gram, gram, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kappa", [0.2, 0.7, 0.99, 1.0])
@pytest.mark.parametrize("pair", [(1.0, 1.0), (0.1, 2.0), (1.0, -0.3)])
def test_two_points_become_the_best_one(kappa, pair):
    """Against a search over all places on their line, up to as far beyond as they are apart."""
    goes, stays = pair
    shares = np.linspace(-1, 2, 60_001)
    kept = (goes * kappa ** ((1 - shares) ** 2) + stays * kappa ** (shares**2)) ** 2
    h = best_share(kappa, goes**2, stays**2, goes * stays)
    found = (goes * kappa ** ((1 - h) ** 2) + stays * kappa ** (h**2)) ** 2
    assert found == pytest.approx(kept.max(), rel=1e-7)


def test_merging_needs_the_rbf_kernel():
    with pytest.raises(ValueError, match=r"Merge.*RBF kernel only.*LeastLoss"):
        ks.KernelRegressor("linear", budget=Merge(5)).partial_fit([[1.0]], [1.0])


def test_merging_two_of_the_same_keeps_their_sum():
    model = ks.KernelRegressor(
        ks.kernels.RBF(1.0), budget=Merge(2), step_size=0.5, regularization=0
    )
    model.partial_fit([[0.0], [5.0], [5.0], [0.0]], [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(sorted(model.support_vectors_[:, 0]), [0, 5], atol=1e-9)
    np.testing.assert_allclose(model.dual_coef_, [[0.75, 0.75]], rtol=1e-9)


def test_any_integer_is_the_size_of_the_presets_own_budget():
    for size in (64, np.int64(64), np.uint8(64)):
        assert ks.make("silk", "classifier", budget=size).budget == SmallestOut(64)
        assert ks.make("pa", "regressor", budget=size).budget == LeastLoss(64)
    with pytest.raises(TypeError, match="budget=True is not an integer"):
        ks.make("silk", "classifier", budget=True).partial_fit([[1.0]], [1])


def scaled_groups(n_rows, seed):
    """Rows of one-hot groups of skewed frequency, standardised online, asinh, mean length one.

    The frequencies settle, so that within a group the rows come to depend on each other ever more
    nearly.
    """
    groups = [5, 8, 16, 7, 14, 6, 5, 2, 3, 3, 4, 9, 16, 25]
    random = np.random.default_rng(seed)
    columns = []
    for size in groups:
        share = random.permutation(1 / np.arange(1, size + 1) ** 2)
        columns.append(np.eye(size)[random.choice(size, n_rows, p=share / share.sum())])
    X = np.hstack(columns)
    w = 2 * random.normal(size=X.shape[1]) * (random.random(X.shape[1]) < 0.3)
    signal = X @ w - np.median(X @ w)
    y = (random.random(n_rows) < 1 / (1 + np.exp(-1.5 * signal))).astype(int)
    seen = np.arange(1, n_rows)[:, None]
    mean = np.cumsum(X, axis=0)[:-1] / seen
    deviation = np.sqrt(mean * (1 - mean))
    rows = np.zeros_like(X)
    known = deviation > 0
    rows[1:][known] = np.arcsinh((X[1:] - mean)[known] / deviation[known])
    length = np.cumsum(np.sum(rows**2, axis=1)) / np.arange(1, n_rows + 1)
    return rows / np.sqrt(np.maximum(length, 1e-300))[:, None], y


@pytest.mark.parametrize("seed", [0, 1])
def test_projections_on_nearly_dependent_points_stay_true(seed):
    """Unchecked weights of an ill-conditioned projection made coefficients grow without bound."""
    X, y = scaled_groups(6_000, seed)
    model = ks.make("pa", "classifier", kernel="linear", fit_intercept=True, budget=LeastLoss(128))
    result = ks.prequential(model, X, y)
    assert result.error_rate < 0.27
    gram = model.kernel_(model.support_vectors_)
    alpha = model.dual_coef_[0]
    norm2 = alpha @ gram @ alpha
    assert model.machine_.state.expansion.norm2[0] == pytest.approx(norm2, rel=1e-4)
    smallest = np.linalg.eigvalsh(gram)[0]
    assert smallest > 1e-6 * gram.diagonal().min() / len(gram)
    assert alpha @ alpha < norm2 / smallest
    # the same f, as a vector, learned by steps in the space of the rows
    w, b = np.zeros(X.shape[1]), 0.0
    scores = np.empty(len(X))
    for t, (x, sign) in enumerate(zip(X, 2 * y - 1, strict=True)):
        scores[t] = w @ x + b
        step = min(1.0, max(0.0, 1 - sign * scores[t]) / (x @ x + 1)) * sign
        w, b = w + step * x, b + step
    found = result.scores.reshape(-1)
    assert np.abs(found - scores).max() < 0.2 + 0.05 * np.abs(scores).max()


def with_noise(random, n_rows, n_features=4):
    X = random.normal(size=(n_rows, n_features))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * random.normal(size=n_rows)
    return X, y


def error_of_the_last(model, X, y, n_rows):
    return np.mean((ks.prequential(model, X, y).predictions - y)[-n_rows:] ** 2)


def test_merged_coefficients_do_not_grow():
    """Points side by side took up all that was positive and all that was negative."""
    random = np.random.default_rng(0)
    kernel = ks.kernels.RBF(0.25)
    model = ks.make("pa", "regressor", kernel=kernel, budget=Merge(64))
    model.partial_fit(*with_noise(random, 5_000))
    after_a_while = np.abs(model.dual_coef_).max()
    assert error_of_the_last(model, *with_noise(random, 40_000), 10_000) < 0.06
    assert np.abs(model.dual_coef_).max() < 4 * after_a_while


def test_merging_recovers_from_a_disturbance():
    random = np.random.default_rng(1)
    kernel = ks.kernels.RBF(0.5)
    model = ks.make("pa", "regressor", kernel=kernel, budget=Merge(16))
    undisturbed = error_of_the_last(model, *with_noise(random, 20_000, 2), 10_000)
    X, y = with_noise(random, 2_000, 2)
    model.partial_fit(100 * X, 100 * y).partial_fit(X, 100 * y)
    model.partial_fit(0 * X, y).partial_fit(X, -y)
    assert np.abs(model.dual_coef_).max() > 20
    model.partial_fit(*with_noise(random, 60_000, 2))
    assert error_of_the_last(model, *with_noise(random, 20_000, 2), 20_000) < 1.5 * undisturbed
    assert np.abs(model.dual_coef_).max() < 20


def test_far_points_that_merge_give_the_same_in_blocks_and_rows():
    """Points without anything in common are dropped: a point between them is no one's neighbour."""
    random = np.random.default_rng(2)
    X, y = with_noise(random, 300)
    X[100:200] *= 1000
    params = {"kernel": ks.kernels.RBF(0.25), "budget": Merge(12)}
    whole = ks.make("pa", "regressor", **params).partial_fit(X, y)
    single = ks.make("pa", "regressor", **params)
    for x, target in zip(X, y, strict=True):
        single.partial_fit([x], [target])
    np.testing.assert_allclose(single.support_vectors_, whole.support_vectors_, rtol=1e-9)
    np.testing.assert_allclose(single.dual_coef_, whole.dual_coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("preset", ["alma", "ballseptron"])
@pytest.mark.parametrize(
    "budget",
    [Merge(8), LeastLoss(8), SmallestOut(8, half_life=5), OldestOut(8, max_age=20)],
    ids=str,
)
def test_updates_that_look_at_the_norm_find_it_true(preset, budget):
    random = np.random.default_rng(3)
    X = random.normal(size=(200, 2))
    model = ks.make(preset, "classifier", kernel=ks.kernels.RBF(0.5), budget=budget)
    model.fit(X, X[:, 0] * X[:, 1] > 0)
    alpha = model.dual_coef_
    norm2 = np.sum(alpha * (alpha @ model.kernel_(model.support_vectors_)))
    assert model.machine_.state.expansion.norm2[0] == pytest.approx(norm2, rel=1e-9)


def growing_stream(n_rows=520):
    """Labels that are hard to tell apart, so that most rows want to be points."""
    rows = np.random.default_rng(3).normal(size=(n_rows, 2))
    return rows, np.floor(2.0 * rows[:, 0] + np.sin(4.0 * rows[:, 1])) % 3


@pytest.mark.parametrize("update", ["explicit", "implicit"])
def test_a_budget_that_grows_is_its_reference(update):
    X, y = growing_stream()
    model = ks.KernelClassifier(
        ks.kernels.RBF(2.0), update=update, budget=Merge(4, most=20), step_size=0.5
    ).partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    reference = Reference(model.machine_.parts, 2, 3)
    for row, label in zip(X, y, strict=True):
        reference.learn(row, label)
    for n_rows in (1, 7, 520):
        model = clone(model)
        for start in range(0, 520, n_rows):
            rows = slice(start, start + n_rows)
            model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
        assert model.n_support_ == len(reference.points) == 20
        found = np.lexsort(model.support_vectors_.T)
        expected = np.lexsort(reference.points.T)
        np.testing.assert_allclose(
            model.support_vectors_[found], reference.points[expected], rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(
            model.dual_coef_[:, found].T, reference.alpha[expected], rtol=1e-9, atol=1e-12
        )


def test_a_budget_that_grows_takes_memory_when_it_needs_it():
    X, y = growing_stream()
    model = ks.KernelClassifier(
        ks.kernels.RBF(2.0), budget=Merge(4, most=4096), step_size=0.5
    ).partial_fit(X[:200], y[:200])
    assert 4 < model.n_support_ < model.machine_.n_slots < 300
    twin = from_bytes(model.to_bytes())
    before = model.to_bytes()
    bad = X[200:].copy()
    bad[-1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(bad, y[200:])
    assert model.to_bytes() == before
    for row, label in zip(X[200:], y[200:], strict=True):
        model.learn_one(row, label)
    twin.partial_fit(X[200:], y[200:])
    assert model.n_support_ == twin.n_support_ > 20
    np.testing.assert_allclose(model.decision_function(X), twin.decision_function(X), rtol=1e-8)
    with pytest.raises(ValueError, match="most=3"):
        Merge(4, most=3)


def test_a_fleet_has_room_for_all_that_its_budget_may_grow_to():
    X, _ = growing_stream(300)
    params = {"kernel": ks.kernels.RBF(2.0), "budget": Merge(2, most=12), "step_size": 0.5}
    numbers = X[:, 0] + np.sin(4.0 * X[:, 1])
    fleet = ks.Fleet("norma", "regressor", n_models=2, n_features=2, **params)
    for model, sign in ((0, 1.0), (1, -1.0)):
        fleet.learn(X, sign * numbers, models=np.full(300, model))
    single = ks.make("norma", "regressor", **fleet.params).partial_fit(X, numbers)
    assert single.n_support_ == fleet.model(0).n_support_ > 2
    np.testing.assert_allclose(fleet.model(0).predict(X), single.predict(X), rtol=1e-9)
    np.testing.assert_allclose(fleet.model(1).predict(X), -single.predict(X), rtol=1e-9)
