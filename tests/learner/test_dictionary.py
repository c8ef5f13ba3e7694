"""Dual updates over a dictionary: against matrices that hold every row, and in bad health."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream import losses, margins, step_sizes
from kernelstream.budgets import Independent
from kernelstream.kernels import RBF, Homogenized, Linear, Polynomial
from kernelstream.learner import tile_space
from kernelstream.learner.dictionary import learn_dictionary
from kernelstream.learner.machine import Machine, Parts
from kernelstream.learner.predicting import variances_of
from kernelstream.updates import Dual
from tests.reference.dictionary import DictionaryReference

KERNELS = [RBF(0.5), Homogenized(RBF(0.5), 0.3), Polynomial(2, 0.5, 1.0), Linear()]
UPDATES = [
    Dual(), Dual("gradient"), Dual("gradient", step=0.01), Dual("gradient", box=0.3),
    Dual("gradient", step=0.01, box=0.3),
]  # fmt: skip


def parts(kernel, update, budget, c=0.01, weight=1.0):
    rule = losses.find("regression", "epsilon_insensitive", True).rule
    return Parts(
        kernel, rule, margins.Fixed(0.1), step_sizes.Constant(1.0), update, budget, False, c, weight
    )


def problem(n_rows, seed, n_outputs=1):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 2))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=n_rows)
    if n_outputs > 1:
        y = np.digitize(y, [-0.5, 0.5]).astype(float)
    return X, y, random.choice([0.0, 1.0, 1.0, 2.5], n_rows)


def compare_with_matrices(chosen, X, y, weight, n_outputs=1, tile_rows=64, compiled=True):
    """Scores on the way, points and coefficients, beside those of the reference."""
    reference = DictionaryReference(chosen, 2, n_outputs)
    scores = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    learner = machine_for(chosen, n_outputs)
    if not compiled:
        learner.scratch["learn"] = learn_dictionary.py_func
        learner.scratch["tile"] = tile_space.learn_space.py_func
    trail = learner.learn(X, y, weight, tile_rows=tile_rows)[0]
    size = max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(trail.scores, scores, rtol=1e-6, atol=1e-7 * size)
    np.testing.assert_allclose(learner.store.stored(learner.n_points), reference.points)
    block = chosen.kernel(X, reference.points)
    np.testing.assert_allclose(
        block @ learner.coefficients().T, block @ reference.beta, rtol=1e-6, atol=1e-7 * size
    )
    return learner, reference


@settings(max_examples=80)
@given(
    st.sampled_from(KERNELS), st.sampled_from(UPDATES[1:]), st.sampled_from([0.01, 0.2]),
    st.sampled_from([None, 6]), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([1.0, 3.0]),
    st.sampled_from([1, 3]), st.sampled_from([1, 5, 64]), st.integers(0, 10**6),
)  # fmt: skip
def test_any_tile_of_the_papers_rule_matches_the_matrices(
    kernel, update, tolerance, size, ridge, C, n_outputs, tile_rows, seed
):
    X, y, weight = problem(40, seed, n_outputs)
    chosen = parts(kernel, update, Independent(tolerance, size, ridge), 0.01, C)
    compare_with_matrices(chosen, X, y, weight, n_outputs, tile_rows, compiled=False)


@settings(max_examples=60)
@given(
    st.sampled_from(KERNELS), st.sampled_from([0.01, 0.2]), st.sampled_from([None, 6, 20]),
    st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([0.0, 0.01, 1.0]),
    st.sampled_from([1.0, 0.99]), st.sampled_from([1.0, 2.0]), st.sampled_from([1.0, 3.0]),
    st.sampled_from([1, 3]), st.sampled_from([3, 17, 64]), st.integers(0, 10**6),
)  # fmt: skip
def test_second_order_matches_the_matrices(
    kernel, tolerance, size, ridge, c, forgetting, worth, C, n_outputs, tile_rows, seed
):
    """With joins, weights of zero, pruning (after the 64th row with a weight) and forgetting."""
    X, y, weight = problem(95, seed, n_outputs)
    update = Dual(forgetting=forgetting if c > 0 else 1.0)
    budget = Independent(tolerance, size, ridge, worth if size else 1.0)
    chosen = parts(kernel, update, budget, c, C)
    compare_with_matrices(chosen, X, y, weight, n_outputs, tile_rows)


@settings(max_examples=60)
@given(
    st.sampled_from([None, 6, 20]), st.sampled_from([0.0, 0.1]), st.sampled_from([0.0, 0.01]),
    st.sampled_from([1.0, 0.995]), st.sampled_from([1, 3]),
    st.lists(st.integers(1, 90), min_size=1, max_size=12), st.integers(0, 10**6),
)  # fmt: skip
def test_any_split_into_blocks_gives_the_same_model(
    size, ridge, c, forgetting, n_outputs, lengths, seed
):
    """Joins, pruning and forgetting included; also what is said before each row is learned."""
    n_rows = 220
    X, y, weight = problem(n_rows, seed, n_outputs)
    update = Dual(forgetting=forgetting if c > 0 else 1.0)
    chosen = parts(RBF(0.5), update, Independent(0.05, size, ridge), c)
    cuts = [0, *(cut for cut in np.cumsum(lengths) if cut < n_rows), n_rows]
    found = []
    for splits in ([0, n_rows], cuts):
        learner = machine_for(chosen, n_outputs)
        said = [
            learner.learn(X[a:b], y[a:b], weight[a:b])[0].scores
            for a, b in itertools.pairwise(splits)
        ]
        found.append((np.vstack(said), learner.scores(X), variances_of(learner, X)))
    for whole, pieces in zip(*found, strict=True):
        np.testing.assert_allclose(pieces, whole, rtol=1e-9, atol=1e-9 * np.abs(whole).max())


def machine_for(chosen, n_outputs):
    learner = Machine(chosen, 2, n_outputs, np.dtype(float))
    if n_outputs > 1:
        learner.model = learner.model._replace(
            loss=losses.find("classification", "hinge", False).rule
        )
    return learner


@pytest.mark.parametrize("ridge", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("size", [None, 8])
@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_compiled_code_matches_the_matrices_with_any_ridge(update, size, ridge):
    X, y, weight = problem(150, 0)
    chosen = parts(KERNELS[1], update, Independent(0.01, size, ridge))
    learner, _ = compare_with_matrices(chosen, X, y, weight)
    if size is not None and not update.is_second_order:
        assert learner.n_points == size


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_compiled_tiles_agree(update):
    # where a box bends the best step, rounding grows tenfold in some 20 rows
    n_rows = 60 if update.box is not None and update.step is None else 500
    X, y, weight = problem(n_rows, 0)
    found = []
    for tile_rows in (1, 64, 512):
        learner = Machine(parts(KERNELS[1], update, Independent(0.01)), 2, 1, np.dtype(float))
        learner.learn(X, y, np.sign(weight), tile_rows=tile_rows)
        found.append(learner.scores(X))
    size = np.abs(found[0]).max()
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], rtol=1e-7, atol=1e-8 * size)


def regressor(**params):
    return ks.make("sog-svr", "regressor", **params)


def inverse_is_sound(model):
    learner = model.machine_
    n = learner.n_points
    fresh = np.linalg.inv(learner.state.budget.gram[:n, :n])
    found = learner.state.budget.inverse[:n, :n]
    return np.abs(found - fresh).max() < 1e-3 * np.abs(fresh).max()


@pytest.mark.parametrize("tolerance", [0.0, 1e-6, 0.01])
@pytest.mark.parametrize("trouble", ["duplicates", "constant feature", "constant rows", "line"])
def test_rows_that_depend_on_each_other_do_no_harm(tolerance, trouble):
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3))
    if trouble == "duplicates":
        X = X[random.integers(0, 20, 600)]
    elif trouble == "constant feature":
        X[:, 1] = 7.0
    elif trouble == "constant rows":
        X[:] = 1.0
    else:
        X = np.outer(X[:, 0], [1.0, 2.0, 3.0])
    y = X[:, 0] + 0.1 * random.normal(size=600)
    for kernel in (RBF(0.3), Linear(), Polynomial(3, 0.5, 1.0)):
        model = regressor(kernel=kernel, budget=Independent(tolerance)).partial_fit(X, y)
        assert inverse_is_sound(model)
        assert np.mean((model.predict(X) - y) ** 2) < 1.1 * np.var(y) + 0.02


def test_a_hundred_thousand_rows_leave_the_inverse_sound():
    random = np.random.default_rng(0)
    X = random.uniform(-10, 10, size=(100_000, 1))
    y = np.sinc(X[:, 0] / np.pi) + 0.1 * random.normal(size=len(X))
    model = regressor(kernel=Homogenized(RBF(1 / 18), 0.1)).partial_fit(X, y)
    assert model.n_support_ <= 12
    assert inverse_is_sound(model)
    covariance = model.machine_.state.update.covariance[: model.n_support_, : model.n_support_]
    assert np.linalg.eigvalsh(0.5 * (covariance + covariance.T))[0] > -1e-12
    grid = np.linspace(-10, 10, 200)[:, None]
    assert np.sqrt(np.mean((model.predict(grid) - np.sinc(grid[:, 0] / np.pi)) ** 2)) < 0.02


def test_a_full_dictionary_moves_with_the_stream():
    """Points that no longer matter give way; a dictionary that refuses new ones stays behind."""
    random = np.random.default_rng(0)
    centre = np.repeat([0.0, 30.0], 1500)
    X = (centre + random.uniform(-5, 5, 3000))[:, None]
    y = np.sin(X[:, 0]) + 0.05 * random.normal(size=3000)
    budget = Independent(0.01, size=12)
    found = {}
    for preset in ("sog-svr", "sog-svr-paper"):
        model = ks.make(preset, "regressor", gamma=0.5, budget=budget).partial_fit(X, y)
        assert 12 <= model.n_support_ < 12 + 64
        found[preset] = np.mean((model.predict(X[-500:]) - y[-500:]) ** 2)
        assert inverse_is_sound(model)
    assert found["sog-svr"] < 0.05 < found["sog-svr-paper"]
    covariance = model.machine_.state.update.covariance[:12, :12]
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-9)


@pytest.mark.parametrize("c", [0.0, 0.01])
def test_pruning_does_not_depend_on_tiles(c):
    X, y, _ = problem(400, 1)
    found = []
    for tile_rows in (1, 7, 256):
        learner = Machine(
            parts(RBF(1.0), Dual(), Independent(0.01, size=10), c), 2, 1, np.dtype(float)
        )
        learner.learn(X, y, np.ones(400), tile_rows=tile_rows)
        found.append(learner.scores(X))
        assert 10 <= learner.n_points <= 10 + 400 % 64
    for scores in found[1:]:
        np.testing.assert_allclose(scores, found[0], rtol=1e-6, atol=1e-7)


def test_newton_is_the_minimum_over_all_rows():
    """The reference itself, beside the closed form over every row that came."""
    X, y, weight = problem(60, 3)
    for ridge in (0.0, 0.3):
        chosen = parts(KERNELS[1], Dual(), Independent(0.05, None, ridge), 0.2, 1.5)
        reference = DictionaryReference(chosen, 2, 1)
        for row in zip(X, y, weight, strict=True):
            reference.learn(*row)
        A, W = reference.A, np.diag(1.5 * weight[weight > 0])
        K = chosen.kernel(reference.points) + ridge * np.eye(len(reference.points))
        values = np.linalg.solve(
            A.T @ W @ A + 0.2 * np.linalg.inv(K), A.T @ W @ y[weight > 0]
        )  # fmt: skip
        np.testing.assert_allclose(K @ reference.beta[:, 0], values, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("target", [2.5, -2.5, 0.0])
@pytest.mark.parametrize(
    "update",
    [Dual("gradient"), Dual("gradient", step=1e-3), Dual("gradient", step=0.9),
     Dual("gradient", box=10.0), Dual("gradient", step=1e-3, box=10.0)],
    ids=str,
)  # fmt: skip
def test_the_first_point_takes_all_of_its_target(update, target):
    """Table 2 starts from y_1 / k_11, whatever the step, and the box cuts that."""
    X = np.array([[0.3, -1.0]])
    learner = Machine(parts(Linear(), update, Independent(0.01)), 2, 1, np.dtype(float))
    learner.learn(X, np.array([target]), np.ones(1))
    np.testing.assert_allclose(learner.scores(X), [[target]], rtol=1e-14)
    if update.box is not None:
        tight = Dual("gradient", step=update.step, box=0.5)
        learner = Machine(parts(Linear(), tight, Independent(0.01)), 2, 1, np.dtype(float))
        learner.learn(X, np.array([target]), np.ones(1))
        assert learner.coefficients()[0, 0] == np.sign(target) * 0.5


def reduced_dual(learner, A, y, weight, star, plain):
    """(4.18), with every row."""
    n, epsilon = learner.n_points, 0.1
    beta, W = star - plain, np.diag(weight)
    pseudo = np.linalg.solve(A.T @ W @ A, A.T @ W)
    value = -0.5 * beta @ learner.state.budget.gram[:n, :n] @ beta
    return value + beta @ pseudo @ y - epsilon * (star + plain) @ pseudo @ np.ones(len(y))


@pytest.mark.parametrize("box", [0.2, 1.0, 1e6])
def test_the_best_step_in_a_box_raises_the_dual_as_far_as_it_can(box):
    """No other length of the step taken is better, also where epsilon > 0 (4.18)-(4.22)."""
    X, y, weight = problem(60, 5)
    weight[weight == 0] = 1.0
    chosen = parts(KERNELS[1], Dual("gradient", box=box), Independent(0.05))
    learner, reference = Machine(chosen, 2, 1, np.dtype(float)), DictionaryReference(chosen, 2, 1)
    moved = 0
    for i in range(60):
        n = learner.n_points
        dual = learner.state.update
        before = [np.append(v[0, :n], 0.0) for v in (dual.star, dual.plain)]
        learner.learn(X[i : i + 1], y[i : i + 1], weight[i : i + 1])
        reference.learn(X[i], y[i], weight[i])
        m = learner.n_points
        if i == 0:
            continue
        dual = learner.state.update
        after = [v[0, :m] for v in (dual.star, dual.plain)]
        rows = reference.A, y[: i + 1], weight[: i + 1]
        pairs = list(zip(after, before, strict=True))
        reached = [
            reduced_dual(learner, *rows, *(b[:m] + t * (a - b[:m]) for a, b in pairs))
            for t in (0.0, 0.98, 1.0, 1.02)
        ]
        size = 1e-9 * (1 + abs(reached[2]))
        assert reached[2] >= reached[0] - size
        assert reached[2] >= reached[1] - size
        if box == 1e6:  # where nothing is cut, beyond is worse too
            assert reached[2] >= reached[3] - size
        moved += reached[2] > reached[0] + size
    assert moved > 10


def hostile_rows():
    row, target = [0.1, 0.2], 0.5
    return {
        "target 1e50": (row, 1e50, 1.0),
        "target -1e31": (row, -1e31, 1.0),
        "weight 1e154": (row, target, 1e154),
        "weight 1e154, target 0": ([9.0, 9.0], 0.0, 1e154),
    }


@pytest.mark.parametrize("case", hostile_rows(), ids=str)
@pytest.mark.parametrize("preset", ["sog-svr", "sog-svr-paper"])
def test_what_cannot_be_represented_is_refused_and_changes_nothing(preset, case):
    row, target, weight = hostile_rows()[case]
    X, y, _ = problem(80, 0)
    for size in (None, 8):
        budget = Independent(0.01, size)
        model = ks.make(preset, "regressor", gamma=0.5, budget=budget).partial_fit(X, y)
        before = model.to_bytes()
        with pytest.raises(ks.BadRow, match="row 1 was refused"):
            model.partial_fit([X[0], row], [y[0], target], sample_weight=[1.0, weight])
        assert model.to_bytes() == before
        if weight == 1.0:
            with pytest.raises(ks.BadRow, match="row 0 was refused"):
                model.learn_one(np.array(row), target)
            assert model.to_bytes() == before


@pytest.mark.parametrize("preset", ["sog-svr", "sog-svr-paper"])
def test_the_largest_that_is_accepted_can_be_loaded(preset, tmp_path):
    X, y, _ = problem(80, 0)
    weight = np.where(np.arange(80) % 9, 1.0, 1e30 if preset == "sog-svr" else 1e9)
    model = ks.make(preset, "regressor", gamma=0.5, budget=Independent(0.0, 20))
    model.partial_fit(X, 1e29 * y, sample_weight=weight)
    model.save(tmp_path / "m.ks")
    loaded = ks.load(tmp_path / "m.ks")
    assert np.isfinite(loaded.predict(X)).all()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3, 1.0, 1.0)], ids=str)
def test_rows_of_very_different_size_leave_the_covariance_positive(kernel):
    """Coordinates of a row in the millions make a . P a a difference of huge terms."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        x = np.exp(6 * random.normal(size=300)) * random.choice([-1, 1], 300)
        X = np.clip(x, -1e4, 1e4)[:, None]
        y = 2 * X[:, 0] + random.normal(size=300)
        model = regressor(kernel=kernel, fit_intercept=False).partial_fit(X, y)
        n = model.n_support_
        covariance = model.machine_.state.update.covariance[:n, :n]
        assert np.linalg.eigvalsh(0.5 * (covariance + covariance.T))[0] > 0
        assert np.median(np.abs(model.predict(X) - y)) < 1.5


def unscaled(n_rows):
    random = np.random.default_rng(0)
    X = 1000 * random.normal(size=(n_rows, 5))
    return X, X[:, 0] + random.normal(size=n_rows)


@pytest.mark.parametrize(("preset", "task"), [
    ("sog-svr", "regressor"), ("sog-svr-paper", "regressor"), ("sog-svc", "classifier"),
])  # fmt: skip
def test_presets_have_a_size(preset, task):
    budget = ks.make(preset, task).budget
    assert budget == Independent(0.01, 512)
    assert budget.limit() == 512


def test_rows_without_a_scale_do_not_fill_the_memory():
    """Every row is independent; a full dictionary goes on by replacing points."""
    X, y = unscaled(700)
    model = regressor().partial_fit(X, y)
    assert 512 <= model.n_support_ <= 512 + 700 % 64
    newest = {tuple(x) for x in X[512:]}
    assert sum(tuple(x) in newest for x in model.support_vectors_) > 20
    assert inverse_is_sound(model)


def test_a_dictionary_without_a_size_warns_once(monkeypatch):
    monkeypatch.setattr("kernelstream.learner.growth._MANY_SLOTS", 256)  # instead of 1,024
    X, y = unscaled(600)
    model = regressor(budget=Independent(0.01))
    with pytest.warns(UserWarning, match=r"Give it a size, budget=Independent") as told:
        ks.prequential(model, X, y)
    assert len(told) == 1
    assert model.n_support_ == 600
    model.partial_fit(X, y)  # a warning would be an error here
    X, y = (
        X / 1000,
        y / 1000,
    )  # a dictionary that stays small says nothing, nor does one with a size
    regressor(budget=Independent(0.3)).partial_fit(X, y)
    regressor(budget=Independent(0.01, 300)).partial_fit(X, y)
