"""The committee with nothing to tune: exact in blocks, whole in files, and hard to upset."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

import kernelstream as ks

X, Y = load_digits(return_X_y=True)
X, Y = X[:400], Y[:400]


def test_blocks_files_and_undo(tmp_path):
    whole = ks.AutoClassifier().partial_fit(X, Y)
    pieces = ks.AutoClassifier(n_jobs=2)
    for start, stop in ((0, 1), (1, 130), (130, 131), (131, 250)):
        pieces.partial_fit(X[start:stop], Y[start:stop])
    for i in range(250, 260):
        pieces.learn_one(X[i], Y[i])
    pieces.save(tmp_path / "auto.ks")
    pieces = ks.load(tmp_path / "auto.ks")
    before = pieces.to_bytes()
    bad = X[260:].copy()
    bad[70, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        pieces.partial_fit(bad, Y[260:])
    bad[70, 3] = 1e200
    with pytest.raises(ValueError, match="row 70"):
        pieces.partial_fit(bad, Y[260:])
    assert pieces.to_bytes() == before
    pieces.partial_fit(X[260:], Y[260:])
    np.testing.assert_allclose(pieces.predict_proba(X), whole.predict_proba(X), atol=1e-9)
    assert set(whole.weights_) == {
        "adagrad", "smd-linear", "linear-pa", "smd-careful", "rls", "second-order", "pa", "forest",
        "pa-narrow",
    }  # fmt: skip
    assert (whole.predict(X) == Y).mean() > 0.97
    one = pieces.predict_one(X[0])
    assert one == pieces.predict(X[:1])[0]


@pytest.mark.usefixtures("without_compiler")  # sparse rows are compiled in test_linear.py
def test_sparse_rows():
    model = ks.AutoClassifier().partial_fit(scipy.sparse.csr_array(X[:100]), Y[:100])
    assert list(model.weights_) == ["adagrad", "smd-linear", "linear-pa"]
    assert (model.predict(scipy.sparse.csr_array(X[:100])) == Y[:100]).mean() > 0.9


def problem(n_rows, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 5))
    return X, np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, "yes", "no")


def error(X, y, start=0):
    result = ks.prequential(ks.AutoClassifier(), X, y, declare_classes=False)
    assert np.isfinite(result.scores[~np.isnan(result.scores)]).all()
    return (result.predictions != y)[start:].mean()


CALM = 0.15  # the error on such a stream, after 500 rows


def test_calm_streams():
    X, y = problem(1500)
    assert error(X, y, 500) < CALM


@pytest.mark.parametrize("unit", [1e3, 1e-6])
def test_units_do_not_matter(unit):
    X, y = problem(1500)
    X[:, :2] *= unit
    assert error(X, y, 500) < CALM


def test_a_sudden_change_of_units():
    X, y = problem(3000)
    X[1500:] *= 100.0
    assert error(X, y, 2500) < 0.3


def test_outliers():
    X, y = problem(2000)
    X[::100] *= 1e6
    keep = np.arange(2000) % 100 > 0
    result = ks.prequential(ks.AutoClassifier(), X, y, declare_classes=False)
    assert (result.predictions != y)[keep][500:].mean() < CALM + 0.1


def test_constant_stretches_and_duplicates():
    X, y = problem(2000)
    X[300:600], y[300:600] = X[300], y[300]
    assert error(X, y, 1000) < CALM + 0.05


def test_labels_that_flip():
    X, y = problem(3000)
    y[1500:] = np.where(y[1500:] == "yes", "no", "yes")
    assert error(X, y, 2500) < 0.3


def test_one_class_for_long():
    X, y = problem(2500)
    first = np.flatnonzero(y == "yes")[:700]
    rest = np.setdiff1d(np.arange(2500), first)
    order = np.concatenate([first, rest])
    assert error(X[order], y[order], 1700) < CALM + 0.1


def test_many_features():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3000))
    y = np.where(X[:, 0] > 0, "a", "b")
    model = ks.AutoClassifier().partial_fit(X, y)
    assert "rls" not in model.weights_
    assert np.isfinite(model.predict_proba(X)).all()


def test_prompt_targets():
    """Labels that come in runs are found by the last label, whatever the rows say.

    Without it, members whose intercept follows the labels find some of them.
    """
    random = np.random.default_rng(5)
    rows, labels = random.normal(size=(600, 3)), np.repeat(random.permutation(150) % 3, 4)
    without, with_last = (
        ks.prequential(ks.AutoClassifier(prompt_targets=prompt), rows, labels).error_rate
        for prompt in (False, True)
    )
    assert with_last < 0.25 < without - 0.05


def test_prompt_targets_join_members_that_are_given():
    model = ks.AutoClassifier(["linear-pa"], prompt_targets=True).partial_fit(X[:60], Y[:60])
    assert list(model.weights_) == ["linear-pa", "last"]
    with pytest.raises(ValueError, match="budget=-5"):
        ks.AutoClassifier(["linear-pa"], budget=-5).partial_fit(X[:60], Y[:60])


def test_a_budget_is_that_of_the_largest_member():
    rows = np.random.default_rng(8).normal(size=(100, 4))
    small = ks.AutoClassifier(budget=64)
    sizes = {
        m.name: m.model.budget.size for m in small.chosen(4, False) if m.model.budget != "auto"
    }
    assert sizes == {"second-order": 28, "pa": 64, "pa-narrow": 16}
    with pytest.raises(TypeError, match="budget='much'"):
        ks.AutoClassifier(budget="much").partial_fit(rows, rows[:, 0] > 0)
