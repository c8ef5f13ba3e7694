"""`AutoRegressor`: raw rows in, exact in blocks, whole in files, and better than its members."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1

import kernelstream as ks

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


def test_better_than_its_members_and_others():
    model = ks.AutoRegressor()
    error = ks.prequential(model, X, Y).error_rate
    named = model.chosen(X.shape[1], False)
    alone = {m.name: ks.prequential(m.model, X, Y).error_rate for m in named}
    assert error < 1.05 * min(alone.values()), alone
    scaled = ks.KernelRegressor(scaling="running", target_scaling="running")
    assert error < 0.8 * ks.prequential(scaled, X, Y).error_rate
