"""Labels: declared, late, two, one, of any type."""

import numpy as np
import pytest

import kernelstream as ks

pytestmark = pytest.mark.usefixtures("without_compiler")


@pytest.fixture
def stream():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    y = np.array(["ant", "bee", "cat", "dog"])[np.digitize(X[:, 0], [-0.7, 0, 0.7])]
    return X, y


def numbers(model):
    return np.sort(np.abs(model.dual_coef_), axis=None), model.step_size_, model.n_seen_


def assert_same_model(a, b, rtol=1e-9):
    assert a.classes_.tolist() == b.classes_.tolist()
    np.testing.assert_allclose(a.dual_coef_, b.dual_coef_, rtol=rtol, atol=rtol)
    assert a.step_size_ == pytest.approx(b.step_size_, rel=rtol)
    assert a.n_seen_ == b.n_seen_
    np.testing.assert_array_equal(a.support_vectors_, b.support_vectors_)


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "perceptron"])
@pytest.mark.parametrize("intercept", [False, True])
def test_late_classes_exist_from_their_own_row_on_however_the_stream_is_cut(
    stream, loss, intercept
):
    X, y = stream
    new = lambda: ks.KernelClassifier(loss=loss, fit_intercept=intercept, budget=50)  # noqa: E731
    whole = new().partial_fit(X, y)
    blocks, rows, ones = new(), new(), new()
    for start in range(0, 300, 23):
        blocks.partial_fit(X[start : start + 23], y[start : start + 23])
    for x, label in zip(X, y, strict=True):
        rows.partial_fit([x], [label])
        ones.learn_one(x, label)
    for other in (blocks, rows, ones):
        assert_same_model(other, whole)
    first = list(dict.fromkeys(y.tolist()))
    assert whole.classes_.tolist() == first  # in the order in which they came
    assert whole.predict(X[:5]).dtype.kind == "U"


def test_a_late_class_does_not_change_what_came_before(stream):
    X, y = stream
    early = np.flatnonzero(y != "dog")[:40]
    alone = ks.KernelClassifier().partial_fit(X[early], y[early])
    with_late = ks.KernelClassifier().partial_fit(
        np.vstack([X[early], X[y == "dog"][:1]]), np.append(y[early], "dog")
    )
    assert with_late.classes_.tolist() == [*alone.classes_.tolist(), "dog"]
    shared = alone.n_support_
    scale = with_late.dual_coef_[:3, :shared] / np.where(alone.dual_coef_, alone.dual_coef_, 1)
    kept = scale[alone.dual_coef_ != 0]
    np.testing.assert_allclose(kept, kept[0], rtol=1e-9)


def test_two_declared_classes_make_one_output(stream):
    X, y = stream
    y = np.where(y < "c", "left", "right")
    declared = ks.KernelClassifier().partial_fit(X, y, classes=["right", "left"])
    assert declared.classes_.tolist() == ["left", "right"]
    assert declared.dual_coef_.shape[0] == 1
    assert declared.decision_function(X).shape == (300,)
    np.testing.assert_array_equal(declared.predict(X) == "right", declared.decision_function(X) > 0)
    undeclared = ks.KernelClassifier().partial_fit(X, y)
    assert undeclared.dual_coef_.shape[0] == 2
    assert undeclared.decision_function(X).shape == (300,)
    second = undeclared.classes_[1]
    positive = undeclared.decision_function(X) > 0
    np.testing.assert_array_equal(undeclared.predict(X) == second, positive)
    with pytest.raises(ValueError, match=r"'middle'.*single output"):
        declared.partial_fit(X[:1], ["middle"])
    with pytest.raises(ValueError, match="middle"):
        declared.learn_one(X[0], "middle")


def test_two_outputs_are_the_binary_hinge_with_twice_the_kernel():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(200, 3)), random.integers(0, 2, 200)
    y[:2] = [0, 1]  # with its first label alone, a model of two outputs has nothing to learn
    params = {"step_size": 0.3, "regularization": 0.1, "budget": None}
    two = ks.KernelClassifier(ks.kernels.RBF(0.5), **params).partial_fit(X, y)
    double = ks.KernelClassifier(lambda A, B: 2 * ks.kernels.RBF(0.5)(A, B), **params)
    double.partial_fit(X[1:], y[1:], classes=[0, 1])
    np.testing.assert_allclose(two.decision_function(X), double.decision_function(X), atol=1e-9)


def test_one_class_is_an_error_in_fit_only(stream):
    X, _ = stream
    with pytest.raises(ValueError, match=r"one class.*partial_fit"):
        ks.KernelClassifier().fit(X, np.zeros(300))
    model = ks.KernelClassifier().partial_fit(X, np.zeros(300, int))
    assert model.predict(X[:3]).tolist() == [0, 0, 0]
    assert model.n_support_ == 0
    model.partial_fit(X[:5], [0, 1, 0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 2], [-5, 7, 10**12], ["a", "bb", "ccc"], [True, False], [1.0, 2.0, 3.0],
     np.array(["x", "yy", "z"], dtype=object), np.array([3, 1, 2], dtype=np.uint8)],
    ids=str,
)  # fmt: skip
def test_labels_of_any_type_come_back_as_they_were(labels):
    random = np.random.default_rng(0)
    labels = np.asarray(labels)
    y = labels[random.integers(0, len(labels), 60)]
    X = random.normal(size=(60, 2)) + 5 * np.searchsorted(np.sort(labels), y)[:, None]
    model = ks.KernelClassifier(gamma=0.5, n_epochs=3).fit(X, y)
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    assert model.predict(X).dtype == labels.dtype
    assert (model.predict(X) == y).mean() > 0.9
    assert model.predict_one(X[0]) == model.predict(X[:1])[0]


def test_declared_classes_that_never_come_are_there():
    model = ks.KernelClassifier(loss="log_loss").partial_fit([[0.0]], [1], classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    probabilities = model.predict_proba([[0.0]])
    assert probabilities.shape == (1, 3)
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities.argmax() == 1
    with pytest.raises(ValueError, match="classes="):
        model.partial_fit([[0.0]], [1], classes=[0, 1, 9])


def test_probabilities_of_two_classes_are_the_logistic_function():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    model = ks.KernelClassifier(loss="log_loss").fit(X, X[:, 0] > 0)
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-scores)))
    one = model.predict_proba_one(X[3])
    assert one == pytest.approx({False: 1.0 - one[True], True: model.predict_proba(X)[3, 1]})
    with pytest.raises(AttributeError, match="predict_proba") as raised:
        ks.KernelClassifier().predict_proba  # noqa: B018
    assert "loss='hinge': use loss='log_loss'" in str(raised.value)
    assert not hasattr(ks.KernelClassifier(), "predict_proba")
