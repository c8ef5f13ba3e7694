"""Sparse rows everywhere: the same model as from dense ones."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline

import kernelstream as ks

pytestmark = pytest.mark.usefixtures("without_compiler")

FORMATS = [
    sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix,
]  # fmt: skip


def data(n_rows=300, n_features=40, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n_rows)
    X = random.random((n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.15)
    X[np.arange(n_rows), y] += 1
    X[5] = 0.0  # an empty row
    return X, y


ESTIMATORS = {
    "classifier": lambda **p: ks.KernelClassifier(gamma=0.5, budget=50, **p),
    "least-loss": lambda **p: ks.KernelClassifier(budget=ks.budgets.LeastLoss(20), **p),
    "regressor": lambda **p: ks.KernelRegressor(gamma=0.5, budget=50, **p),
    "novelty": lambda **p: ks.NoveltyDetector(gamma=0.5, budget=50, **p),
}


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", rbf_kernel])
@pytest.mark.parametrize("name", ["classifier", "regressor", "novelty"])
def test_sparse_and_dense_copies_give_the_same_model(name, kernel):
    X, y = data()
    task = {"classifier": ks.KernelClassifier, "regressor": ks.KernelRegressor}.get(
        name, ks.NoveltyDetector
    )
    dense, kept = (
        task(kernel, budget=40).partial_fit(rows, y) for rows in (X, sparse.csr_array(X))
    )
    assert sparse.issparse(kept.support_vectors_)
    np.testing.assert_allclose(kept.support_vectors_.toarray(), dense.support_vectors_)
    np.testing.assert_allclose(kept.dual_coef_, dense.dual_coef_, rtol=1e-9, atol=1e-12)
    read = "score_samples" if name == "novelty" else "predict"
    for rows in (X, sparse.csr_matrix(X)):  # either model takes either kind of rows
        for model in (dense, kept):
            np.testing.assert_allclose(getattr(model, read)(rows), getattr(dense, read)(X))


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_in_every_method(form, make):
    X, y = data(80)
    expected, model, before = make().partial_fit(X, y), make(), form(X)
    model.partial_fit(form(X[:1]), y[:1]).partial_fit(form(X[1:50]), y[1:50])
    for row, target in zip(X[50:], y[50:], strict=True):
        model.learn_one(sparse.csr_array(row.reshape(1, -1)), target)
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-8, atol=1e-9)
    model.partial_fit(before, y)
    assert (form(X) != before).nnz == 0  # nobody touched it
    assert model.predict_one(sparse.csr_array(X[:1])) == model.predict_one(X[0])
    fitted = make().fit(form(X), y)
    np.testing.assert_allclose(fitted.dual_coef_, make().fit(X, y).dual_coef_, atol=1e-9)
    result = ks.prequential(make(), form(X).tocsr(), y)
    assert result.error_rate == pytest.approx(ks.prequential(make(), X, y).error_rate)


def test_unsorted_and_duplicate_entries_count_as_their_sum():
    X = sparse.csr_array(
        (np.array([2.0, 1.0, 1.0, 3.0]), np.array([3, 0, 0, 1]), np.array([0, 3, 4])), shape=(2, 4)
    )
    model = ks.KernelRegressor("linear").partial_fit(X, [1.0, 2.0])
    assert X.nnz == 4  # the caller's matrix is as it was
    dense = ks.KernelRegressor("linear").partial_fit(X.toarray(), [1.0, 2.0])
    np.testing.assert_allclose(model.predict(X), dense.predict(X.toarray()))


def test_float32_rows_stay_float32():
    X, y = data()
    model = ks.KernelClassifier().partial_fit(sparse.csr_array(X.astype(np.float32)), y)
    assert model.support_vectors_.dtype == np.float32
    dense = ks.KernelClassifier().partial_fit(X.astype(np.float32), y)
    np.testing.assert_allclose(
        model.decision_function(X), dense.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_a_bad_row_is_refused_and_nothing_changes():
    X, y = data()
    model = ks.KernelClassifier("linear").partial_fit(sparse.csr_array(X), y)
    before = model.to_bytes()
    for bad, message in ((np.nan, "NaN"), (np.inf, "infinity"), (1e200, "row 2 was refused")):
        rows = sparse.lil_array(X[:5])
        rows[2, 3] = bad
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows.tocsr(), y[:5])
        assert model.to_bytes() == before
    row = np.zeros(40)
    row[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.learn_one(row, 1)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(sparse.csr_array((2, 41)), [0, 1])
    assert model.to_bytes() == before
    with pytest.raises(ValueError, match="does not go with sparse rows"):
        ks.KernelClassifier(budget=ks.budgets.Merge(20)).partial_fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_a_sparse_model_survives_files_and_pickles(tmp_path, make):
    X, y = data()
    rows = sparse.csr_array(X)
    model = make().partial_fit(rows[:200], y[:200])
    model.save(tmp_path / "model.ks")
    expected = make().partial_fit(rows[:200], y[:200]).partial_fit(rows[200:], y[200:])
    for copy in (ks.load(tmp_path / "model.ks"), pickle.loads(pickle.dumps(model))):
        assert copy.partial_fit(rows[200:], y[200:]).to_bytes() == expected.to_bytes()


def test_gamma_scale_is_that_of_dense_rows():
    X, y = data()
    found = [ks.KernelClassifier(gamma="scale").fit(rows, y) for rows in (X, sparse.csr_array(X))]
    assert found[0].kernel_.gamma == pytest.approx(found[1].kernel_.gamma)


def test_kernels_can_be_looked_at_with_sparse_rows():
    X, _ = data(20)
    for kernel in (ks.kernels.RBF(0.3), ks.kernels.Laplacian(0.3), ks.kernels.Polynomial(2, 1.0)):
        expected = kernel(X, X[:7])
        np.testing.assert_allclose(kernel(sparse.csr_array(X), sparse.csr_array(X[:7])), expected)
        np.testing.assert_allclose(kernel(sparse.coo_matrix(X), X[:7]), expected)


TEXTS = ["the disk is full", "no space left on the disk", "the screen is dark", "a dark screen"]


def test_text_in_a_streaming_loop():
    words = HashingVectorizer()  # a million features
    weights = ks.KernelClassifier("linear")
    points = ks.KernelClassifier("linear", budget=512)
    for model in (weights, points):
        for _ in range(5):
            for text, label in zip(TEXTS, "ddss", strict=True):
                model.partial_fit(words.transform([text]), [label])
        assert model.predict(words.transform(["disk space", "screen"])).tolist() == ["d", "s"]
    assert weights.coef_.shape == (2, 2**20)
    assert points.support_vectors_.shape[1] == 2**20
    assert points.machine_.store.rows.nnz < 200


def test_text_in_a_pipeline():
    model = make_pipeline(TfidfVectorizer(), ks.KernelClassifier("linear", n_epochs=5))
    model.fit(TEXTS, list("ddss"))
    assert model.predict(["full disk", "dark"]).tolist() == ["d", "s"]
