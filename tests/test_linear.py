"""Linear models with a step size per weight, and least squares: as estimators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kernelstream as ks
from kernelstream import river
from kernelstream.budgets import OldestOut
from kernelstream.kernels import RBF, Nystroem, RandomFourier
from kernelstream.step_sizes import AdaGrad, VectorSMD
from kernelstream.updates import RLS

from .conftest import interpret

PRESETS = ["smd-linear", "adagrad", "rls"]


def stream(n_rows=300, n_features=6, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.7)
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + X[:, 1], [-0.4, 0.4])]
    return X, y


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_from_the_first_row_to_a_file(preset, tmp_path):
    X, y = stream()
    model = ks.make(preset, "classifier")
    for x, label in zip(X[:20], y[:20], strict=True):  # classes come late
        model.learn_one(x, label)
    model.partial_fit(X[20:200], y[20:200])
    whole = ks.make(preset, "classifier").partial_fit(X[:200], y[:200])
    np.testing.assert_array_equal(model.classes_, whole.classes_)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-9, atol=1e-12)
    assert (model.predict(X[200:]) == y[200:]).mean() > 0.7
    assert model.predict_one(X[250]) == model.predict(X[250:251])[0]
    scores = X[200:] @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X[200:]), scores, rtol=1e-9, atol=1e-12)
    model.save(tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks").partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(loaded.coef_, model.partial_fit(X[200:], y[200:]).coef_)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_block_with_a_row_that_cannot_be_learned_changes_nothing(preset, without_compiler):
    X = stream()[0]
    c = {"regularization": 1e-30} if preset == "rls" else {}  # how much it takes in
    model = ks.make(preset, "regressor", **c).partial_fit(X[:100], X[:100, 0] - 2.0)
    before = {name: array.copy() for name, array in model.machine_.to_arrays().items()}
    bad, weight = X[100:110].copy(), np.ones(10)
    bad[7, 0], weight[7] = 1e49, 1e29
    with pytest.raises(ValueError, match="row 7"):
        model.partial_fit(bad, np.full(10, 1e29), weight)
    for name, array in model.machine_.to_arrays().items():
        np.testing.assert_array_equal(array, before[name], name)


@settings(max_examples=40)
@given(
    st.sampled_from(["linear", RandomFourier(6, gamma=0.3), Nystroem(RBF(0.3), 9)]),
    st.sampled_from([VectorSMD(), VectorSMD(0.1, 0.5, 1.0), AdaGrad(), RLS(), RLS(0.98)]),
    st.sampled_from([0.0, 0.01]), st.booleans(), st.integers(0, 1000),
    st.lists(st.integers(1, 79), max_size=4, unique=True),
)  # fmt: skip
def test_any_cut_of_any_features_gives_one_model(kernel, part, c, is_sparse, seed, cuts):
    is_rls = isinstance(part, RLS)
    X, y = stream(80, seed=seed)
    rows = sparse.csr_array(X) if is_sparse and not is_rls else X
    chosen = {"update": part, "step_size": 1.0} if is_rls else {"step_size": part}
    weight = np.random.default_rng(seed).choice([0.0, 1.0, 2.0], len(X))

    def learned(ends):
        model = ks.KernelClassifier(
            kernel, fit_intercept=True, regularization=max(c, 0.01) if is_rls else c,
            loss="hinge" if is_rls else "log_loss", **chosen,
        )  # fmt: skip
        for start, end in zip([0, *ends], [*ends, len(X)], strict=True):
            model.partial_fit(
                rows[start:end], y[start:end], classes=["low", "middle", "high"],
                sample_weight=weight[start:end],
            )  # fmt: skip
        return model.decision_function(rows)

    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        np.testing.assert_allclose(learned(sorted(cuts)), learned([]), rtol=1e-9, atol=1e-9)


def test_dense_and_sparse_rows_give_one_model(without_compiler):
    X, y = stream()
    for params in ({}, {"regularization": 0.01}, {"step_size": AdaGrad()}):
        dense = ks.make("smd-linear", "classifier", **params).partial_fit(X, y)
        model = ks.make("smd-linear", "classifier", **params).partial_fit(sparse.csr_array(X), y)
        np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9, atol=1e-12)


def test_a_million_features():
    random = np.random.default_rng(0)
    n_rows, n_features = 300, 10**6
    columns = np.sort(random.choice(500, (n_rows, 20)) * 1999, axis=1)
    X = sparse.csr_array(
        (np.full(n_rows * 20, 0.2), columns.ravel(), np.arange(0, n_rows * 20 + 1, 20)),
        (n_rows, n_features),
    )
    X.sum_duplicates()
    y = X @ random.normal(size=n_features) > 0
    model = ks.make("smd-linear", "classifier").partial_fit(X[:290], y[:290], classes=[False, True])
    for i in range(290, 300):
        model.learn_one(X[[i]], y[i])
    assert model.predict_one(X[[5]]) == model.predict(X[[5]])[0]
    assert np.count_nonzero(model.coef_) == len(np.unique(X.indices))
    dense = X[:, np.unique(X.indices)].toarray()
    small = ks.make("smd-linear", "classifier").partial_fit(dense, y, classes=[False, True])
    np.testing.assert_allclose(
        model.coef_[0, np.unique(X.indices)], small.coef_[0], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_river(preset):
    X, y = stream(200)
    chosen = ks.make(preset, "classifier").get_params(deep=False)
    names = ("kernel", "loss", "step_size", "update", "regularization", "fit_intercept")
    model = river.KernelClassifier(**{name: chosen[name] for name in names})
    for x, label in zip(X, y, strict=True):
        model.learn_one({str(j): v for j, v in enumerate(x) if v != 0.0}, label)
    rows = [{str(j): v for j, v in enumerate(x)} for x in X]
    expected = ks.make(preset, "classifier").partial_fit(X, y).predict(X)
    assert [model.predict_one(row) for row in rows] == expected.tolist()


def test_what_does_not_go_together():
    X, y = stream(10)
    with pytest.raises(ValueError, match="is for a weight per feature"):
        ks.make("smd-linear", "classifier", budget=20).partial_fit(X, y)
    with pytest.raises(ValueError, match="is for a weight per feature"):
        ks.KernelClassifier("rbf", step_size="vector-smd").partial_fit(X, y)
    with pytest.raises(ValueError, match="takes explicit steps"):
        ks.make("adagrad", "classifier", update="implicit").partial_fit(X, y)
    with pytest.raises(ValueError, match="weights decay one by one"):
        ks.make("smd-linear", "classifier", predictor="averaged").partial_fit(X, y)
    with pytest.raises(ValueError, match="too large for step_size"):
        ks.make("smd-linear", "classifier", regularization=10.0).partial_fit(X, y)
    with pytest.raises(ValueError, match="works on explicit features"):
        ks.make("rls", "classifier", budget=OldestOut(20)).partial_fit(X, y)
    with pytest.raises(ValueError, match="for dense rows"):
        ks.make("rls", "classifier").partial_fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="regularization=0 does not go"):
        ks.make("rls", "classifier", regularization=0).partial_fit(X, y)
    with pytest.raises(ValueError, match="at most 1,024"):
        ks.make("rls", "classifier").partial_fit(np.ones((2, 2000)), ["low", "high"])
    with pytest.raises(ValueError, match="loss='log_loss' changes nothing"):
        ks.make("rls", "classifier", loss="log_loss").partial_fit(X, y)
