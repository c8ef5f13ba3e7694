"""Prequential evaluation is predicting each row, then learning it."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kernelstream as ks

from .streams import IN_STREAMS

X, DIGITS = load_digits(return_X_y=True)
X = X[:400]
TARGETS = {"classifier": DIGITS[:400], "regressor": X[:, 20] / 16, "novelty": None}


def by_hand(model, X, y):
    """Row by row, with the public methods only."""
    predictions = []
    for i, x in enumerate(X):
        if model.__sklearn_is_fitted__():
            predictions.append(model.predict_one(x))
        if isinstance(model, ks.KernelClassifier) and i == 0:
            model.partial_fit(X[:1], y[:1], classes=np.unique(y))
        else:
            model.learn_one(x, None if y is None else y[i])
    return np.array(predictions)


@pytest.mark.parametrize(("preset", "task"), IN_STREAMS)
def test_it_is_the_loop_by_hand(preset, task, request):
    if preset not in ("svmd", "sog-svr", "lasvm"):  # the compiled code that others need too
        request.getfixturevalue("without_compiler")
    y = TARGETS[task]
    of_points = {} if ks.make(preset, task).kernel == "linear" else {"gamma": 0.001, "budget": 60}
    new = lambda: ks.make(preset, task, **of_points)  # noqa: E731
    model, twin = new(), new()
    result = ks.prequential(model, X, y)
    exact = {"rtol": 1e-6, "atol": 1e-6} if "sog" in preset else {"rtol": 1e-8, "atol": 1e-10}
    np.testing.assert_allclose(by_hand(twin, X, y), result.predictions[1:], **exact)
    assert model.step_size_ == pytest.approx(twin.step_size_, rel=1e-9)
    assert result.step_sizes[-1] <= model.step_size_  # less only where the step taken was cut
    if model.n_capped_ == 0:
        assert result.step_sizes[-1] == model.step_size_
    assert result.n_support[-1] == model.n_support_
    for column in (result.losses, result.step_sizes, result.margins, result.n_support):
        assert column.shape == (400,)
    assert result.scores.shape == ((400, 10) if task == "classifier" else (400,))
    errors = {
        "classifier": lambda: result.predictions != y,
        "regressor": lambda: (result.predictions - y) ** 2,
        "novelty": lambda: result.predictions == -1,
    }[task]()
    assert result.error_rate == pytest.approx(errors.mean())
    np.testing.assert_allclose(result.average_error[-1], result.error_rate)
    np.testing.assert_allclose(result.average_error[9], errors[:10].mean())
    assert "n_rows=400" in repr(result)


def test_two_classes_are_declared_first():
    model = ks.KernelClassifier(gamma=0.001)
    result = ks.prequential(model, X, TARGETS["classifier"] > 4)
    assert model.dual_coef_.shape[0] == 1
    assert result.scores.shape == (400,)


def test_a_model_goes_on_and_may_meet_new_classes():
    y = TARGETS["classifier"]
    first, rest = np.flatnonzero(y < 5), np.flatnonzero(y >= 5)
    model = ks.KernelClassifier(gamma=0.001)
    ks.prequential(model, X[first], y[first])
    result = ks.prequential(model, X[rest], y[rest])
    assert model.n_seen_ == 400
    assert result.scores.shape == (len(rest), 10)
    assert np.isnan(result.scores[0]).sum() == 5  # classes that were not known at that row
    assert result.predictions[0] < 5


def test_progress_is_shown_on_a_terminal_only(capsys):
    ks.prequential(ks.KernelRegressor(), X, TARGETS["regressor"], progress=True)
    assert capsys.readouterr() == ("", "")


def test_bad_calls():
    with pytest.raises(ValueError, match="y is missing"):
        ks.prequential(ks.KernelClassifier(), X)
    with pytest.raises(ValueError, match=r"X has 400 rows, y has 3"):
        ks.prequential(ks.KernelClassifier(), X, [0, 1, 2])
    with pytest.raises(TypeError, match="KernelClassifier"):
        ks.prequential("a model", X, TARGETS["classifier"])
    with pytest.raises(ValueError, match="no rows"):
        ks.prequential(ks.KernelRegressor(), X[:0], [])


@pytest.mark.filterwarnings("ignore:y has")
@pytest.mark.parametrize(
    "make", [ks.AutoClassifier, lambda: ks.make("pa", "classifier")], ids=["committee", "single"]
)
def test_a_label_that_never_came_before_cannot_be_said(make):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(260, 2)), np.where(np.arange(260) < 60, 0, np.arange(260))
    late = y > 0
    result = ks.prequential(make(), X, y, declare_classes=False)
    assert result.errors[late].all()
    # a stream that is cut anywhere has the same scores
    model = make().partial_fit(X[:100], y[:100])
    rest = ks.prequential(model, X[100:], y[100:])
    assert rest.errors.all()
    np.testing.assert_array_equal(np.isnan(rest.scores), np.isnan(result.scores[100:]))
