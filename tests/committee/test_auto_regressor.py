"""`AutoRegressor`: raw rows in, exact in blocks, whole in files, and better than its members."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1

import kernelstream as ks
from kernelstream.committee import HighestMean

X, Y = make_friedman1(300, random_state=0)
X = X * 10.0 ** np.arange(-5, 5)  # in units of all sizes
Y = 1e3 * Y - 1e5


@pytest.mark.usefixtures("without_compiler")  # sparse rows are compiled in test_linear.py
def test_sparse_rows():
    random = np.random.default_rng(4)
    rows = sparse.random_array((150, 8), density=0.4, rng=random).tocsr()
    y = 10.0 * rows @ random.normal(size=8) + 100.0
    model = ks.AutoRegressor()
    result = ks.prequential(model, rows, y)
    assert list(model.weights_) == ["adagrad", "smd-linear", "linear-pa"]
    assert result.errors[75:].mean() < 0.5 * y.var()
    assert model.predict_one(rows[[3]]) == pytest.approx(model.predict(rows)[3])


def test_blocks_rows_files_and_undo(tmp_path):
    whole, pieces = ks.AutoRegressor().partial_fit(X, Y), ks.AutoRegressor(n_jobs=2)
    for i in range(20):
        pieces.learn_one(X[i], Y[i])
    pieces.partial_fit(X[20:140], Y[20:140])
    pieces.save(tmp_path / "model.ks")
    pieces = ks.load(tmp_path / "model.ks")
    before, bad = pieces.to_bytes(), X[140:].copy()
    bad[130] = 1e300
    with pytest.raises(ValueError, match="row 130"):
        pieces.partial_fit(bad, Y[140:])
    assert pieces.to_bytes() == before
    pieces.partial_fit(X[140:], Y[140:])
    np.testing.assert_allclose(pieces.predict(X), whole.predict(X), rtol=1e-9)
    assert pieces.weights_ == pytest.approx(whole.weights_, abs=1e-6)
    assert pieces.predict_one(X[3]) == pytest.approx(pieces.predict(X[3:4])[0], rel=1e-12)
    assert clone(pieces).get_params() == pieces.get_params()


def test_deviations(tmp_path):
    random = np.random.default_rng(5)
    rows = random.uniform(-1.0, 1.0, size=(900, 3))
    y = 5.0 + np.sin(3.0 * rows[:, 0]) + 0.2 * random.normal(size=900)
    model, inside = ks.AutoRegressor().partial_fit(rows[:300], y[:300]), []
    for start in range(300, 900, 20):
        block = slice(start, start + 20)
        mean, std = model.predict(rows[block], return_std=True)
        np.testing.assert_array_equal(mean, model.predict(rows[block]))
        inside.append(np.abs(y[block] - mean) < 1.645 * std)
        model.partial_fit(rows[block], y[block])
    assert 0.86 < np.mean(inside) < 0.95
    mean, near = model.predict(rows[:50], return_std=True)
    assert 0.15 < np.median(near) < 0.3
    assert np.median(model.predict(10.0 * rows[:50], return_std=True)[1]) > 1.5 * np.median(near)
    model.save(tmp_path / "model.ks")
    again = ks.load(tmp_path / "model.ks").predict(rows[:50], return_std=True, ids=range(50))
    np.testing.assert_array_equal(again, (mean, near))
    model.machine_.mixing = HighestMean()
    with pytest.raises(ValueError, match=r"HighestMean.*how certain"):
        model.predict(rows[:1], return_std=True)


def test_better_than_its_members_and_others():
    model = ks.AutoRegressor()
    error = ks.prequential(model, X, Y).error_rate
    named = model.chosen(X.shape[1], False)
    alone = {m.name: ks.prequential(m.model, X, Y).error_rate for m in named}
    assert error < 1.05 * min(alone.values()), alone
    scaled = ks.KernelRegressor(scaling="running", target_scaling="running")
    assert error < 0.8 * ks.prequential(scaled, X, Y).error_rate


def test_noise_is_told_from_what_can_be_learned():
    """Where nothing can be learned, it is within a percent of the mean of the targets."""
    random = np.random.default_rng(6)
    rows, y = random.normal(size=(800, 6)), 50.0 + random.standard_t(4, size=800)
    model = ks.AutoRegressor()
    squared = (ks.prequential(model, rows, y).predictions - y)[1:] ** 2
    means = np.cumsum(y)[:-1] / np.arange(1, 800)
    assert squared.mean() < 1.02 * np.mean((means - y[1:]) ** 2)
    assert sum(model.weights_.values()) < 0.8


def test_prompt_targets():
    """A series that changes slowly is followed by its last value, and one that does not is not."""
    random = np.random.default_rng(7)
    rows, walk = random.normal(size=(600, 3)), np.cumsum(random.normal(size=600))
    without, with_last = (ks.AutoRegressor(prompt_targets=prompt) for prompt in (False, True))
    errors = [ks.prequential(model, rows, walk).errors[100:] for model in (without, with_last)]
    assert errors[1].mean() < 0.7 * errors[0].mean()
    assert with_last.weights_["last"] > 0.8
    assert "last" not in without.weights_
    unrelated = ks.AutoRegressor(prompt_targets=True).partial_fit(rows, rows[:, 0])
    assert abs(unrelated.weights_["last"]) < 0.05


def test_a_budget_is_that_of_the_largest_member():
    rows = np.random.default_rng(8).normal(size=(500, 4))
    small = ks.AutoRegressor(budget=56)
    sizes = {m.name: m.model.budget.size for m in small.chosen(4, False)[:3]}
    assert sizes == {"matern": 24, "narrow": 56, "forgets": 16}
    y = np.sin(3.0 * rows[:, 0]) + rows[:, 1]
    assert len(small.partial_fit(rows, y).to_bytes()) < 0.5 * len(
        ks.AutoRegressor().partial_fit(rows, y).to_bytes()
    )
    with pytest.raises(ValueError, match=r"budget=3 .*8"):
        ks.AutoRegressor(budget=3).partial_fit(rows, y)
