"""Bad input: an error that names the parameter, the value and the remedy; the model unchanged."""

import pickle

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.margins import Nu

X = np.random.default_rng(0).normal(size=(60, 3))
Y = {"classifier": (X[:, 0] > 0).astype(int), "regressor": X[:, 0], "novelty": None}
TASKS = list(Y)


def fitted(task, **params):
    model = ks.make("svmd", task, budget=16, **params)
    return model.partial_fit(X, Y[task])


def with_entry(value, dtype=float):
    bad = X.astype(dtype)
    bad[30, 1] = value
    return bad


BAD_ROWS = {
    "nan": (with_entry(np.nan), "NaN"),
    "inf": (with_entry(np.inf), "inf"),
    "-inf": (with_entry(-np.inf), "inf"),
    "wide": (np.ones((60, 4)), "4 features"),
    "narrow": (np.ones((60, 2)), "2 features"),
    "strings": (np.full((60, 3), "one"), "str|convert"),
    "empty": (np.empty((0, 3)), "0 sample"),
    "one dimension": (np.ones(3), "1D|2D"),
    "huge": (with_entry(1e200), "row 30.*overflow.*scale"),
    "complex": (with_entry(1j, complex), "Complex"),
    "object": (with_entry(None, object), "NaN|None|float"),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_leave_the_model_as_it_was(task, name):
    bad, message = BAD_ROWS[name]
    model = fitted(task)
    before = pickle.dumps(model)
    target = None if Y[task] is None else Y[task][: len(bad)]
    for call in (model.partial_fit, model.fit):
        if name in ("wide", "narrow") and call == model.fit:
            continue  # fit may begin with other features
        with pytest.raises((ValueError, TypeError), match=message):
            call(bad, target)
        assert pickle.dumps(model) == before
    with pytest.raises((ValueError, TypeError)):
        model.predict(bad)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("row", "message"),
    [(np.array([0.0, np.nan, 0]), "NaN"), (np.array([0.0, np.inf, 0]), "NaN or infinity"),
     (np.ones(4), r"\(4,\).*3 features"), (np.ones((1, 3)), "one-dimensional"),
     (np.array(["a", "b", "c"]), "not a row of numbers"), (np.full(3, 1e200), "overflow"),
     (None, "row of numbers|shape")],
)  # fmt: skip
def test_bad_single_rows_leave_the_model_as_it_was(task, row, message):
    model = fitted(task)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(row, 1)
    with pytest.raises((ValueError, TypeError), match=message):
        model.predict_one(row)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("task", "y", "message"),
    [
        ("classifier", np.linspace(0, 1, 60), "continuous.*KernelRegressor"),
        ("classifier", np.full(60, np.nan), "NaN"),
        ("classifier", np.zeros((60, 2)), "1d|2"),
        ("classifier", np.zeros(59), "inconsistent"),
        ("classifier", None, "y"),
        ("classifier", np.full(60, 2), "label 2, .*single output"),
        ("regressor", np.array(["a"] * 60), "not a number"),
        ("regressor", np.where(np.arange(60) == 7, np.nan, 1.0), "NaN"),
        ("regressor", np.where(np.arange(60) == 7, 1e200, 1.0), "row 7.*too large"),
        ("regressor", None, "y"),
    ],
)
def test_bad_targets_leave_the_model_as_it_was(task, y, message):
    model = ks.make("svmd", task)
    model.partial_fit(X, Y[task], **({"classes": [0, 1]} if task == "classifier" else {}))
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.partial_fit(X, y)
    assert pickle.dumps(model) == before


def test_bad_single_targets():
    model = fitted("regressor")
    before = pickle.dumps(model)
    for y in (np.nan, np.inf, 1e200, "x", None):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(X[0], y)
    assert pickle.dumps(model) == before


def test_a_refused_row_in_a_block_undoes_late_classes_and_growth():
    model = ks.KernelClassifier(budget=None).partial_fit(X, Y["classifier"])
    before = pickle.dumps(model)
    many = np.random.default_rng(1).normal(size=(400, 3))
    labels = np.arange(400) % 7
    weight = np.ones(400)
    weight[399] = 1e200
    with pytest.raises(ks.BadRow, match="row"):
        model.partial_fit(many, labels, sample_weight=weight)
    assert pickle.dumps(model) == before
    model.partial_fit(many, labels)
    assert model.n_seen_ == 460


def test_a_refused_row_is_counted_from_the_beginning_of_its_block():
    rows = X.copy()
    rows[50] = 1e200  # after a class that begins at row 40
    with pytest.raises(ks.BadRow, match="row 50 was refused") as refused:
        ks.KernelClassifier().partial_fit(rows, np.arange(60) // 40)
    assert refused.value.row == 50


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [-np.ones(60), np.full(60, np.nan), np.ones(59), "heavy"])
def test_bad_weights(task, weight):
    model = fitted(task)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(X, Y[task], sample_weight=weight)
    assert pickle.dumps(model) == before


BAD_PARAMETERS = [
    ({"gamma": 0}, ValueError, "gamma=0.*greater than 0"),
    ({"gamma": -1.0}, ValueError, "gamma=-1.0"),
    ({"gamma": "wide"}, ValueError, "gamma='wide'"),
    ({"gamma": "scale"}, ValueError, "gamma='scale'.*fit only"),
    ({"gamma": None}, TypeError, "gamma=None"),
    ({"kernel": "gauss"}, ValueError, "kernel='gauss'.*'rbf'"),
    ({"kernel": 3}, TypeError, "kernel=3"),
    ({"kernel": ks.kernels.RBF(1.0), "gamma": 2.0}, ValueError, "gamma=2.0.*kernel object"),
    ({"kernel": "poly", "degree": 0}, ValueError, "degree=0"),
    ({"kernel": "poly", "degree": 2.5}, TypeError, "degree=2.5"),
    ({"kernel": "poly", "coef0": -1.0}, ValueError, "coef0=-1.0"),
    ({"nu": 0.0}, ValueError, r"nu=0.0.*greater than 0 and less than 1"),
    ({"nu": 1.0}, ValueError, "nu=1.0"),
    ({"nu": "few"}, TypeError, "nu='few'"),
    ({"nu": 0.1, "margin": 0.5}, ValueError, r"nu=0.1 and margin=0.5.*keep one"),
    ({"nu": 0.1, "margin": Nu(0.2)}, ValueError, "nu=0.1 and margin="),
    ({"margin": -1.0}, ValueError, "margin=-1.0"),
    ({"margin": "wide"}, TypeError, "margin='wide'"),
    ({"step_size": 0.0}, ValueError, "step_size=0.0"),
    ({"step_size": "adam"}, ValueError, "step_size='adam'.*'smd'"),
    ({"step_size": [1]}, TypeError, "step_size="),
    ({"update": "backwards"}, ValueError, "update='backwards'.*'explicit'"),
    ({"budget": 0}, ValueError, "budget=0"),
    ({"budget": 2.5}, TypeError, "budget=2.5"),
    ({"budget": "big"}, ValueError, "budget='big'"),
    ({"C": 0}, ValueError, "C=0"),
    ({"C": "one"}, TypeError, "C='one'"),
    ({"regularization": -1e-3}, ValueError, "regularization=-0.001"),
    ({"loss": "zero_one"}, ValueError, "loss='zero_one'"),
    ({"loss": None}, TypeError, "loss=None"),
]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("params", "error", "message"), BAD_PARAMETERS)
def test_bad_parameters_are_named(task, params, error, message):
    model = ks.make("svmd", task, **params)
    for learn in (
        lambda: model.partial_fit(X, Y[task]),
        lambda: model.learn_one(X[0], 1),
        lambda: ks.prequential(model, X, Y[task]),
    ):
        with pytest.raises(error, match=message):
            learn()
        assert not model.__sklearn_is_fitted__()
        assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("task", "params", "message"),
    [
        ("classifier", {"nu": 0.1, "loss": "log_loss"}, "nu=0.1 does not go with loss='log_loss'"),
        ("classifier", {"nu": 0.1, "loss": "perceptron"}, "loss='perceptron'"),
        ("regressor", {"nu": 0.1}, "nu=0.1 does not go with loss='squared_error'"),
        ("regressor", {"loss": "hinge"}, "loss='hinge'.*'huber'"),
        ("regressor", {"loss": "huber", "margin": 0.0}, "margin=0.0"),
        ("classifier", {"loss": "huber"}, "loss='huber'"),
        ("novelty", {"loss": "hinge"}, "loss='hinge'"),
        ("classifier", {"loss": "perceptron", "update": "implicit"}, "never moves.*hinge"),
    ],
)
def test_parameters_that_do_not_go_together(task, params, message):
    with pytest.raises(ValueError, match=message):
        ks.make("svmd", task, **params).partial_fit(X, Y[task])


@pytest.mark.parametrize(
    ("part", "params", "message"),
    [
        (ks.kernels.RBF, {"gamma": -1}, "gamma=-1"),
        (ks.kernels.Polynomial, {"degree": 0}, "degree=0"),
        (ks.kernels.Custom, {"function": 3}, "kernel=3"),
        (ks.step_sizes.SMD, {"decay": 1.1}, "decay=1.1"),
        (ks.step_sizes.SMD, {"meta": -0.1}, "meta=-0.1"),
        (ks.step_sizes.SMD, {"initial": 0}, "initial=0"),
        (ks.step_sizes.SqrtDecay, {"tau": 0}, "tau=0"),
        (ks.step_sizes.Constant, {"initial": np.inf}, "initial=inf"),
        (ks.budgets.OldestOut, {"size": 0}, "budget=0"),
        (ks.budgets.SmallestOut, {"size": 2.5}, "budget=2.5"),
        (ks.budgets.LeastLoss, {"size": -1}, "budget=-1"),
        (ks.budgets.LeastLoss, {"tolerance": 0}, "tolerance=0"),
        (ks.margins.Nu, {"nu": 0.5, "rule": "new"}, "rule='new'.*'relative'"),
        (ks.margins.Nu, {"nu": 2}, "nu=2"),
        (ks.margins.Fixed, {"value": -1}, "margin=-1"),
    ],
)
def test_parts_refuse_bad_parameters_at_once(part, params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        part(**params)


def test_unknown_names():
    with pytest.raises(ValueError, match=r"preset='svm'.*'svmd'"):
        ks.make("svm", "classifier")
    with pytest.raises(ValueError, match=r"task='cluster'.*'novelty'"):
        ks.make("svmd", "cluster")
    with pytest.raises(TypeError, match="colour='red' is not a parameter of KernelClassifier"):
        ks.make("svmd", "classifier", colour="red")
    with pytest.raises(AttributeError, match="nothing"):
        ks.nothing  # noqa: B018


@pytest.mark.parametrize("task", TASKS)
def test_fit_needs_some_weight(task):
    with pytest.raises(ValueError, match="sample_weight"):
        ks.make("svmd", task).fit(X, Y[task], sample_weight=np.zeros(60))


def test_a_kernel_function_that_fails_leaves_the_model_as_it_was():
    answers = {"block": lambda A, B: A @ B.T}
    model = ks.KernelRegressor(kernel=lambda A, B: answers["block"](A, B))
    model.partial_fit(X, Y["regressor"])
    alpha = model.dual_coef_
    for broken, message in (
        (lambda A, B: np.full((len(A), len(B)), np.nan), "not finite"),
        (lambda A, B: np.ones(3), r"shape \(3,\)"),
        (lambda A, B: 1 / 0, "division"),
    ):
        answers["block"] = broken
        with pytest.raises((ValueError, ZeroDivisionError), match=message):
            model.partial_fit(X, Y["regressor"])
        np.testing.assert_array_equal(model.dual_coef_, alpha)
        assert model.n_seen_ == 60


@pytest.mark.usefixtures("without_compiler")
def test_a_kernel_function_that_fails_late_in_a_block_blames_a_row_of_that_tile():
    def kernel(A, B):
        return np.where(A[:, :1] + B[:, 0] > 50, np.nan, A @ B.T)

    rows, targets = np.tile(X, (2, 1)), np.tile(Y["regressor"], 2)
    rows[100, 0] = 100.0
    model = ks.KernelRegressor(kernel=kernel, budget=20)
    with pytest.raises(ks.BadRow, match="not finite") as caught:
        model.partial_fit(rows, targets)
    assert 96 <= caught.value.row <= 100  # tiles have 32 rows here
