"""Every preset with every parameter: it changes what is predicted, or it is refused."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream import losses
from kernelstream.budgets import Independent
from kernelstream.estimators import single
from kernelstream.margins import Fixed, Nu
from kernelstream.step_sizes import Constant
from kernelstream.updates import Dual, Unused

_RANDOM = np.random.default_rng(0)
N_ROWS = 70  # beyond the 64th, after which a dictionary is pruned
X = _RANDOM.normal(size=(N_ROWS, 3))
TARGET = 3 * np.sin(2 * X[:, 0]) + 3 * X[:, 1] + 0.3 * _RANDOM.normal(size=N_ROWS)
WEIGHT = _RANDOM.uniform(0.2, 3, N_ROWS)
QUERY = _RANDOM.normal(size=(15, 3))
OTHERS = {
    "kernel": "laplacian", "gamma": 0.37, "margin": 0.37, "nu": 0.3, "step_size": 0.05,
    "budget": 5, "C": 0.3, "regularization": 0.3, "n_epochs": 3, "random_state": 0,
    "predictor": "averaged",
}  # fmt: skip
# so that few rows are enough to see a parameter's effect: boxes that bind, steps that are not huge
BASE = {
    "svrseq": {"C": 1.0, "margin": 0.1}, "adatron": {"C": 0.5}, "pegasos": {"regularization": 0.1},
    "lasvm": {"C": 0.5}, "ilk": {"C": 0.5}, "silk": {"C": 0.5},
}  # fmt: skip
# votes are signs, which the scale of f does not change
NO_SCALE = {("voted-perceptron", "step_size"), ("voted-perceptron", "C")}
TASKS = {"classifier": "classification", "regressor": "regression", "novelty": "novelty"}
CASES = [(preset, task) for preset in ks.presets.names() for task in ks.presets.tasks(preset)]


def predictions(preset, task, weight=None, **params):
    model = ks.make(preset, task, **{**BASE.get(preset, {}), **params})
    y = {"classifier": TARGET > 0, "regressor": TARGET, "novelty": None}[task]
    model.fit(X, y, sample_weight=weight)
    return model.predict(QUERY) if task == "regressor" else model.decision_function(QUERY)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(("preset", "task"), CASES)
def test_a_parameter_changes_something_or_is_refused(preset, task):
    model = ks.make(preset, task, **BASE.get(preset, {}))
    own, default = model.get_params(deep=False), type(model)().get_params(deep=False)
    tried = [(name, value) for name, value in OTHERS.items() if name in own]
    tried += [("loss", name) for name in losses.names(TASKS[task])]
    if "fit_intercept" in own:
        tried.append(("fit_intercept", not own["fit_intercept"]))
    plain = predictions(preset, task)
    silent = []
    for name, value in tried:
        if value in (own[name], default[name]) or (preset, name) in NO_SCALE:
            continue
        try:
            changed = not np.array_equal(predictions(preset, task, **{name: value}), plain)
        except ValueError as refused:
            changed = name.removeprefix("fit_") in str(refused)
        if not changed:
            silent.append((name, value))
    if np.array_equal(predictions(preset, task, WEIGHT), plain):
        silent.append(("sample_weight", "uneven"))
    assert not silent


def regressor(preset, **params):
    return lambda: ks.make(preset, "regressor", **params).partial_fit(X, TARGET)


def fitted(preset, task="regressor", **params):
    y = TARGET if task == "regressor" else TARGET > 0
    return lambda: ks.make(preset, task, **params).fit(X, y)


GRADIENT = Dual("gradient", box=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (regressor("sog-svr", margin=0.2), "margin=0.2 changes nothing with update=Dual"),
        (regressor("sog-svr", margin=Nu(0.2)), "nu=0.2 does not go with loss='squared_error'"),
        (regressor("sog-svr", loss="huber"), "loss='huber' changes nothing .* squared errors"),
        (regressor("sog-svr", nu=0.2), "nu=0.2 "),
        (regressor("sog-svr", step_size=0.2), "step_size=0.2 changes nothing"),
        (regressor("sog-svr", step_size=Constant(0.2)), "step_size=Constant.* changes nothing"),
        (regressor("sog-svr-paper", C=2.0), "C=2.0 changes nothing .* box"),
        (regressor("sog-svr-paper", regularization=0.5), "regularization=0.5 changes nothing"),
        (regressor("sog-svr-paper", step_size=0.2), r"give update=Dual\('gradient', step"),
        (regressor("sog-svr-paper", margin=0.2), r"epsilon cancels unless there is a box"),
        (
            regressor(
                "sog-svr-paper", update=GRADIENT, loss="epsilon_insensitive", margin=Nu(0.2)
            ),
            "margin=Nu.* does not adapt",
        ),
        (regressor("sog-svr-paper", update=GRADIENT, loss="huber"), "loss='huber' changes nothing"),
        (fitted("sog-svc", "classifier", loss="log_loss"), "loss='log_loss' changes nothing"),
        (fitted("sog-svc", "classifier", step_size="sqrt_decay"), "step_size='sqrt_decay'"),
        (fitted("svrseq", nu=0.2), "nu=0.2 changes nothing"),
        (fitted("svrseq", loss="huber"), "use loss='epsilon_insensitive'"),
        (fitted("svrseq", update=GRADIENT), "update__box=1.0 .* the box is C / regularization"),
        (fitted("adatron", "classifier", step_size=0.2), "step_size=0.2 changes nothing"),
        (fitted("lasvm", "classifier", step_size=0.2), "step_size=0.2 changes nothing"),
        (fitted("alma", "classifier", step_size=0.2), "step_size=0.2 changes nothing"),
        (fitted("svmd", margin=0.5), "margin=0.5 .* loss='squared_error' has none"),
        (fitted("svmd", "classifier", loss="log_loss", margin=0.5), "loss='log_loss' has none"),
        (fitted("linear-pa", gamma=0.5), "gamma=0.5 changes nothing with kernel='linear'"),
        (lambda: ks.Fleet("alma", "classifier", 2, 3, step_size=0.2), "step_size=0.2 changes"),
    ],
)  # fmt: skip
def test_what_would_change_nothing_is_refused_with_the_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("without_compiler")
def test_defaults_and_what_presets_say_are_accepted():
    for params in (
        {"step_size": 1.0}, {"step_size": "smd"}, {"step_size": Constant(1.0)}, {"margin": 1.0},
        {"margin": Fixed(1.0)}, {"loss": "squared_error"}, {"nu": None},
    ):  # fmt: skip
        regressor("sog-svr", **params)()
        regressor("sog-svr-paper", **params)()
    regressor("sog-svr-paper", C=1.0, regularization=None)()
    regressor("sog-svr-paper", update=GRADIENT, margin=0.2, loss="epsilon_insensitive")()
    ks.KernelRegressor(update=Dual(), budget=Independent()).partial_fit(X, TARGET)


def test_a_model_from_a_file_may_have_them(tmp_path, monkeypatch):
    """Files of the time when they were ignored can still be read, and go on."""
    with monkeypatch.context() as before:
        before.setattr(single, "refuse_unused", lambda model: None)
        old = regressor("sog-svr", margin=0.2, loss="epsilon_insensitive")()
    old.save(tmp_path / "old.ks")
    loaded = ks.load(tmp_path / "old.ks")
    np.testing.assert_array_equal(loaded.predict(QUERY), old.predict(QUERY))
    assert loaded.partial_fit(X, TARGET).n_seen_ == 2 * N_ROWS
    with pytest.raises(ValueError, match="changes nothing"):
        loaded.fit(X, TARGET)


def test_every_update_answers():
    """Names of real parameters, each with a remedy."""
    known = {f"update__{name}" for name in Dual().get_params()}
    known |= set(ks.KernelClassifier().get_params())
    for preset, task in CASES:
        update = ks.make(preset, task).update
        if isinstance(update, str):
            continue
        for all_rows in (True, False):
            for name, unused in update.unused(all_rows).items():
                assert name in known
                assert isinstance(unused, Unused)
                assert unused.remedy
