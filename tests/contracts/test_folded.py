"""A weight for each explicit feature gives the model that keeps every point."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets import Folded, Unbounded
from kernelstream.kernels import RBF, Forest, Linear, Nystroem, RandomFourier
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.stores import as_sparse_rows

from .combinations import EXPLICIT, LOSSES, MARGINS, STEP_SIZES, UPDATES, Combination, is_allowed
from .combinations import problem as problem_of
from .test_tiles import assert_same, everything

combinations = st.builds(
    Combination,
    loss=st.sampled_from(list(LOSSES)),
    margin=st.sampled_from(list(MARGINS)),
    step_size=st.sampled_from(list(STEP_SIZES)),
    kernel=st.sampled_from(list(EXPLICIT)),
    budget=st.just("unbounded"),
    update=st.sampled_from(list(UPDATES)),
    intercept=st.booleans(),
    regularization=st.sampled_from([0.0, 1e-6, 0.05, 1.0]),
    loss_weight=st.sampled_from([1.0, 0.5, 3.0]),
).filter(is_allowed)


def machine_of(combination, budget, sparse=False, averaged=False):
    parts = replace(combination.parts(), budget=budget, averaged=averaged)
    machine = Machine(parts, 3, combination.n_outputs, np.dtype(float), sparse)
    machine.scratch["learn"] = learn_tile.py_func
    return machine


def in_features(machine):
    """Each number of a model whose points are written as the features that they are."""
    numbers = everything(machine)
    points = machine.store.stored(machine.n_points)
    if machine.parts.budget.is_folded:
        phi = np.eye(machine.n_points)
    else:
        phi = machine.kernel.features(points, machine.kernel.row_cache(points))
    numbers["alpha"] = numbers["alpha"] @ phi
    if numbers["beta"].size:
        numbers["beta"] = numbers["beta"] @ phi
    del numbers["points"]
    return numbers


@settings(max_examples=60, deadline=None)
@given(combinations, st.integers(0, 1000), st.booleans(), st.booleans())
def test_folded_equals_unbounded(combination, seed, sparse, averaged):
    X, y, weight = problem_of(combination, 40, seed)
    expected = machine_of(combination, Unbounded(), averaged=averaged)
    found = machine_of(combination, Folded(), sparse, averaged)
    expected.learn(X, y, weight, tile_rows=1)
    cuts = np.sort(np.random.default_rng(seed).integers(0, 41, 2))
    rows = as_sparse_rows(X) if sparse else X
    for part in np.split(np.arange(40), cuts):
        if part.size:
            found.learn(rows[part], y[part], weight[part])
    assert_same(in_features(found), in_features(expected), 1e-9)
    for readout in ("last", "averaged") if averaged else ("last",):
        np.testing.assert_allclose(
            found.scores(rows, readout), expected.scores(X, readout), rtol=1e-8, atol=1e-8
        )


@settings(max_examples=15, deadline=None)
@given(combinations, st.integers(0, 1000), st.integers(1, 30))
def test_scales_are_folded_into_the_weights(combination, seed, landmarks):
    """With a strong decay p, q and r leave the safe range again and again."""
    X, y, weight = problem_of(combination, 60, seed)
    combination = replace(combination, regularization=3.0, step_size="constant", update="explicit")
    expected = machine_of(combination, Unbounded())
    found = machine_of(combination, Folded())
    expected.learn(X, y, weight, tile_rows=1)
    found.learn(X, y, weight)
    assert_same(in_features(found), in_features(expected), 1e-9)


@settings(max_examples=20, deadline=None)
@given(combinations, st.integers(0, 1000), st.integers(1, 30), st.booleans())
def test_landmarks_of_the_stream_do_not_depend_on_blocks(combination, seed, landmarks, sparse):
    X, y, weight = problem_of(combination, 50, seed)
    X[20:25] = X[:5]  # rows that add nothing
    rows = as_sparse_rows(X) if sparse else X
    kernel = Nystroem(RBF(0.5), landmarks)

    def made(tile_rows):
        parts = replace(combination.parts(), budget=Folded(), kernel=kernel)
        machine = Machine(parts, 3, combination.n_outputs, np.dtype(float), sparse)
        machine.scratch["learn"] = learn_tile.py_func
        machine.learn(rows, y, weight, tile_rows=tile_rows)
        return machine

    one_by_one, tiles = made(1), made(17)
    assert one_by_one.n_points == min(landmarks, np.count_nonzero(weight), 50)
    assert_same(in_features(tiles), in_features(one_by_one), 1e-8)


def test_enough_landmarks_are_the_kernel_itself():
    combination = Combination(("regression", "squared_error", "one"), regularization=1e-3)
    X, y, weight = problem_of(combination, 40, 3)
    weight[:] = 1.0
    exact = ks.KernelRegressor(RBF(0.5), budget=None, regularization=1e-3).partial_fit(X, y)
    model = ks.KernelRegressor(Nystroem(RBF(0.5), 64), regularization=1e-3).partial_fit(X, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)


@pytest.mark.parametrize(
    "kernel",
    [Linear(), RandomFourier(64, 0.5), Nystroem(RBF(0.5), 40), Forest(3, 15, 4)],
)  # fmt: skip
def test_compiled_and_whole(kernel, tmp_path):
    """What users run: blocks, rows, undo, files, a late class and sparse rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 4))
    y = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
    y[:60] = np.minimum(y[:60], 1)  # the third class comes late
    block = ks.KernelClassifier(kernel, loss="log_loss").partial_fit(X, y)
    rows = ks.KernelClassifier(kernel, loss="log_loss")
    for i in range(70):
        rows.learn_one(X[i], y[i])
    rows.save(tmp_path / "model.ks")
    rows = ks.load(tmp_path / "model.ks")
    before = rows.to_bytes()
    bad = X[70:].copy()
    bad[-1, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        rows.partial_fit(bad, y[70:])
    huge = X[70:].copy()
    huge[-1] = 1e300
    with pytest.raises(ValueError, match="large"):
        rows.partial_fit(huge, y[70:])
    assert rows.to_bytes() == before
    rows.partial_fit(X[70:], y[70:])
    np.testing.assert_allclose(rows.coef_, block.coef_, atol=1e-9)
    np.testing.assert_allclose(rows.decision_function(X), block.decision_function(X), atol=1e-9)
    assert block.coef_.shape == (3, 4 if kernel == Linear() else block.machine_.n_points)
    for name in ("support_vectors_", "dual_coef_"):
        with pytest.raises(AttributeError, match="coef_"):
            getattr(block, name)
    sparse = ks.KernelClassifier(kernel, loss="log_loss")
    sparse.partial_fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse.decision_function(X), block.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(sparse.predict_one(X[0]), block.predict_one(X[0]))


def test_rows_get_more_features():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = ks.KernelRegressor("linear").partial_fit(X[:, :2], X[:, 0])
    model.widen(3)
    assert model.coef_.shape == (3,)
    assert model.coef_[2] == 0.0
    model.partial_fit(X, X[:, 2])
    assert model.coef_[2] != 0.0
    model = ks.KernelRegressor(RandomFourier(8)).partial_fit(X[:, :2], X[:, 0])
    with pytest.raises(ValueError, match="all features"):
        model.widen(3)


def test_what_auto_means():
    X, y = np.eye(3), [0, 1, 0]
    assert ks.KernelClassifier("linear").partial_fit(X, y).coef_.shape == (2, 3)
    assert ks.KernelClassifier("linear", budget=5).partial_fit(X, y).support_vectors_.size
    assert ks.KernelClassifier().partial_fit(X, y).machine_.limit == 512
    with pytest.raises(ValueError, match="explicit features"):
        ks.KernelClassifier(budget=Folded()).partial_fit(X, y)
    with pytest.raises(ValueError, match="unknown"):
        ks.KernelClassifier(budget="all").partial_fit(X, y)
    with pytest.raises(ValueError, match="landmarks from the stream"):
        ks.KernelClassifier(Nystroem(RBF(1.0)), budget=5).partial_fit(X, y)
    with pytest.raises(ValueError, match="odd"):
        RandomFourier(7)


@pytest.mark.parametrize("approximates", ["rbf", "laplacian"])
def test_random_features_approach_the_kernel(approximates):
    X = np.random.default_rng(0).normal(size=(50, 5))
    exact = {"rbf": ks.kernels.RBF, "laplacian": ks.kernels.Laplacian}[approximates](0.1)(X)
    errors = [
        np.abs(RandomFourier(n, 0.1, approximates)(X) - exact).mean() for n in (64, 1024, 16384)
    ]
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2
    assert errors[2] < 0.01
