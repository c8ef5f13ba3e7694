"""scikit-learn's own checks, and what its users try next."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_class_weight_classifiers,
    parametrize_with_checks,
)

import kernelstream as ks

REPEATED_ROWS = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "learning a row twice is not learning it once with twice the weight, as in any SGD"
    )
    for kind in ("dense", "sparse")
}
LOCAL = {
    "check_class_weight_classifiers": (
        "rows are twenty apart and not scaled: where those of only one class are near, it wins, "
        "however little they count (with scaling it passes, see below)"
    )
}


@parametrize_with_checks(
    [
        ks.KernelClassifier(),
        ks.KernelClassifier(loss="log_loss"),
        ks.KernelRegressor(),
        ks.NoveltyDetector(),
        ks.AutoDetector(),
    ],
    expected_failed_checks=lambda estimator: {**REPEATED_ROWS, **LOCAL},
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_weights_of_classes_count_where_rows_are_scaled():
    check_class_weight_classifiers("KernelClassifier", ks.KernelClassifier(scaling="running"))


def test_grid_search_reaches_into_parts():
    X, y = make_classification(200, random_state=0)
    model = ks.KernelClassifier(kernel=ks.kernels.RBF(gamma=1.0), step_size=ks.step_sizes.SMD())
    grid = {"kernel__gamma": [1.0, 0.05], "step_size__initial": [0.01, 0.5]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_["kernel__gamma"] == 0.05
    assert search.best_score_ > 0.8


def test_clone_makes_equal_but_separate_parts():
    model = ks.make("norma", "classifier", kernel=ks.kernels.RBF(gamma=0.1))
    twin = clone(model)
    assert twin.kernel == model.kernel
    assert twin.kernel is not model.kernel
    twin.set_params(kernel__gamma=2.0)
    assert model.kernel.gamma == 0.1


def test_pipeline_and_cross_validation():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), ks.KernelClassifier(random_state=0))
    assert cross_val_score(model, X[:900], y[:900], cv=3).mean() > 0.85


def test_sorted_data_needs_shuffling():
    """random_state=None keeps a stream's order; any other value shuffles."""
    X, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")
    in_order = ks.KernelClassifier(gamma=0.001, budget=100).fit(X[order], y[order])
    shuffled = ks.KernelClassifier(gamma=0.001, budget=100, random_state=0).fit(X[order], y[order])
    assert shuffled.score(X, y) > 0.85
    assert shuffled.score(X, y) > in_order.score(X, y) + 0.1
    stream = ks.KernelClassifier(gamma=0.001, budget=100)
    stream.partial_fit(X[order], y[order], classes=range(10))
    np.testing.assert_array_equal(stream.dual_coef_, in_order.dual_coef_)


def test_epochs_go_over_the_data_again():
    X, y = make_classification(100, random_state=0)
    twice = ks.KernelClassifier(n_epochs=2).fit(X, y)
    by_hand = ks.KernelClassifier().partial_fit(X, y, classes=[0, 1]).partial_fit(X, y)
    assert twice.n_seen_ == 200
    np.testing.assert_allclose(twice.dual_coef_, by_hand.dual_coef_, rtol=1e-12)


def test_gamma_scale_is_that_of_scikit_learn():
    X, y = make_classification(100, random_state=0)
    model = ks.KernelClassifier(gamma="scale").fit(X, y)
    assert model.kernel_ == ks.kernels.RBF(gamma=1 / (X.shape[1] * X.var()))
    assert ks.KernelClassifier(gamma="scale").fit(np.ones((4, 2)), [0, 1, 0, 1]).kernel_.gamma == 1
    model.partial_fit(X, y)  # gamma is settled by now


@pytest.mark.parametrize("task", ["classifier", "regressor", "novelty"])
def test_pickled_models_go_on_bit_for_bit(task):
    X, y = make_classification(300, random_state=0)
    model = ks.make("svmd", task, budget=40)
    model.partial_fit(X[:200], y[:200])
    twin = pickle.loads(pickle.dumps(model))
    model.partial_fit(X[200:], y[200:])
    twin.partial_fit(X[200:], y[200:])
    assert model.to_bytes() == twin.to_bytes()


def test_readable_state():
    X, y = make_classification(60, n_features=5, random_state=0)
    model = ks.KernelClassifier(budget=20)
    for name in ("n_seen_", "step_size_", "support_vectors_", "classes_", "n_features_in_"):
        assert not hasattr(model, name)
    model.fit(X, y)
    assert model.n_seen_ == 60
    assert model.n_support_ <= 20
    assert model.support_vectors_.shape == (model.n_support_, 5)
    assert model.dual_coef_.shape == (1, model.n_support_)
    assert model.intercept_.tolist() == [0]
    assert model.margin_ == 1
    assert model.step_size_ > 0
    assert "n_seen_" in dir(model)
    # what is read can be used: f(x) = dual_coef . k(support vectors, x)
    scores = model.dual_coef_ @ model.kernel_(model.support_vectors_, X)
    np.testing.assert_allclose(scores[0], model.decision_function(X), rtol=1e-10)


def test_a_model_can_be_read_by_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    X, y = make_classification(400, random_state=0)
    model = ks.KernelClassifier(random_state=0).fit(X, y)
    expected = [model.predict_one(x) for x in X]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(model.predict_one, X)) == expected
