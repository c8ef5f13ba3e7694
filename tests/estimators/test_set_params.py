"""Parameters that are set after learning has begun take effect in `fit`, and are refused before."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import kernelstream as ks
from kernelstream import budgets, kernels
from kernelstream.estimators.files import from_bytes

X = np.round(np.random.default_rng(0).normal(size=(30, 2)), 3)
CLASSES, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 0] + X[:, 1]
MADE = {
    "classifier": (lambda: ks.KernelClassifier(budget=5), CLASSES),
    "regressor": (lambda: ks.KernelRegressor(budget=5), NUMBERS),
    "detector": (lambda: ks.NoveltyDetector(budget=5), None),
    "committee of classifiers": (lambda: ks.Committee(["linear-pa", "rls"], "classifier"), CLASSES),
    "committee of regressors": (lambda: ks.Committee(["linear-pa", "rls"], "regressor"), NUMBERS),
    "committee of detectors": (
        lambda: ks.Committee([ks.make("norma", "novelty", budget=4)], "novelty"), None
    ),
    "AutoClassifier": (lambda: ks.AutoClassifier(["linear-pa"]), CLASSES),
    "AutoRegressor": (lambda: ks.AutoRegressor(["linear-pa"]), NUMBERS),
    "AutoDetector": (lambda: ks.AutoDetector(budget=32), None),
}  # fmt: skip
ADJUSTABLE = {"n_jobs": 2, "n_epochs": 3, "random_state": 7, "on_bad_row": "skip"}
PAIRS = [(name, p) for name, (make, _) in MADE.items() for p in sorted(make().get_params(False))]

pytestmark = pytest.mark.usefixtures("without_compiler")


def learn(model, y, rows=slice(None)):
    return model.partial_fit(X[rows], *([] if y is None else [y[rows]]))


def learned(name):
    make, y = MADE[name]
    return learn(make(), y, slice(20)), y


def check_the_file(model, name):
    """The file has the parameters of the model, and what it holds learns on as the model would."""
    untouched, y = learned(name)
    twin = from_bytes(model.to_bytes())
    assert model.to_bytes() == untouched.to_bytes() == twin.to_bytes()
    assert learn(twin, y, slice(20, 30)).to_bytes() == learn(untouched, y, slice(20, 30)).to_bytes()


@pytest.mark.parametrize(("name", "parameter"), PAIRS)
def test_every_parameter_of_every_estimator(name, parameter):
    model, y = learned(name)
    before = model.get_params(deep=False)[parameter]
    if parameter in ADJUSTABLE:
        model.set_params(**{parameter: ADJUSTABLE[parameter]})
        untouched, _ = learned(name)
        learn(model, y, slice(20, 30))
        learn(untouched, y, slice(20, 30))
        np.testing.assert_array_equal(model.predict(X), untouched.predict(X))
        assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
        return
    model.set_params(**{parameter: "another"})
    target = [] if y is None else [y[0]]
    for call in (lambda: learn(model, y), lambda: model.learn_one(X[0], *target)):
        with pytest.raises(ValueError, match=f"^{parameter}='another' was set .* fit"):
            call()
    check_the_file(model, name)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        with pytest.raises(ValueError, match=f"^{parameter}='another' was set"):
            learn(other, y)
    model.set_params(**{parameter: before})
    learn(model, y)
    assert model.n_seen_ == 50
    assert clone(model.set_params(**{parameter: "another"})).get_params()[parameter] == "another"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("budget", 7), ("step_size", 0.3), ("scaling", "running"), ("target_scaling", "running"),
     ("nu", 0.3), ("C", 2.0), ("regularization", 0.5), ("update", "implicit"),
     ("fit_intercept", True), ("loss", "epsilon_insensitive"), ("kernel", "laplacian"),
     ("predictor", "averaged")],
)  # fmt: skip
def test_fit_begins_again_with_it(parameter, value):
    params = {"loss": "huber"} if parameter == "nu" else {}
    model = ks.KernelRegressor(budget=5, **params).partial_fit(X, NUMBERS)
    model.set_params(**{parameter: value}).fit(X, NUMBERS)
    fresh = ks.KernelRegressor(**{"budget": 5, **params, parameter: value}).fit(X, NUMBERS)
    assert model.to_bytes() == fresh.to_bytes()
    model.partial_fit(X, NUMBERS)
    assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    "params",
    [{"budget__size": 7}, {"kernel__gamma": 3.0}, {"kernel__gamma": 0.5, "budget__exact": True}],
)
def test_a_parameter_of_a_part(params):
    def made():
        parts = {"kernel": kernels.RBF(0.5), "budget": budgets.OldestOut(5)}
        return ks.KernelRegressor(**parts).partial_fit(X[:20], NUMBERS[:20])

    model, untouched = made(), made()
    model.set_params(**params)
    with pytest.raises(ValueError, match=r"^(budget|kernel)=.* was set after this model had begun"):
        model.partial_fit(X, NUMBERS)
    assert model.to_bytes() == untouched.to_bytes()
    model.set_params(kernel__gamma=0.5, budget__size=5, budget__exact=None)
    model.partial_fit(X, NUMBERS)
    untouched.partial_fit(X, NUMBERS)
    assert model.to_bytes() == untouched.to_bytes()


def test_a_part_that_is_shared_or_changed_by_itself_is_no_part_of_the_model():
    budget = budgets.OldestOut(5)
    model = ks.KernelRegressor(budget=budget).partial_fit(X[:20], NUMBERS[:20])
    untouched = ks.KernelRegressor(budget=5).partial_fit(X[:20], NUMBERS[:20])
    budget.set_params(size=9)
    assert len(model.support_vectors_) == 5
    model.partial_fit(X[20:], NUMBERS[20:])
    untouched.partial_fit(X[20:], NUMBERS[20:])
    np.testing.assert_array_equal(model.dual_coef_, untouched.dual_coef_)
    assert from_bytes(model.to_bytes()).n_support_ == 5


def test_members_of_other_libraries_are_compared_by_their_type():
    from sklearn.linear_model import SGDRegressor

    model = ks.Committee([SGDRegressor(random_state=0), "linear-pa"], "regressor")
    model.partial_fit(X, NUMBERS).partial_fit(X, NUMBERS)
    model.set_params(missing="error")
    with pytest.raises(ValueError, match=r"^missing='error' was set"):
        model.partial_fit(X, NUMBERS)
