"""The learners of the benchmark by task and name. A new one is one line in a table."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import kernelstream as ks
from kernelstream_lab.benchmark import passes

__all__ = ["CONTESTANTS", "START_ROWS", "Contestant"]

START_ROWS = 2000  # all are compared on so many first rows, and slow learners run on no more
_SEED = 42


class Contestant(NamedTuple):
    """A learner of the benchmark.

    Attributes
    ----------
    library : {"kernelstream", "River", "scikit-learn", "baseline"}
    make : callable
        A new learner for a number of classes (0: no labels).
    follow : callable
        The function of `passes` that lets such a learner pass over a stream.
    most_rows : int or None
        Only the first rows of each stream are used for a slow learner; None: all.
    """

    library: str
    make: Callable[[int], Any]
    follow: Callable[[Any, str, np.ndarray, np.ndarray, int], tuple[np.ndarray, float]]
    most_rows: int | None = None


def _ours(make: Callable[[], Any], most_rows: int | None = None) -> Contestant:
    return Contestant("kernelstream", lambda n_classes: make(), passes.by_kernelstream, most_rows)


def _preset(name: str, task: str, most_rows: int | None = None) -> Contestant:
    """Make a contestant of a preset with its defaults, on scaled rows (and targets)."""
    params = {"scaling": "running"}
    if task == "regressor":
        params["target_scaling"] = "running"
    return _ours(partial(ks.make, name, task, **params), most_rows)


def _committee(names: list[str], task: str) -> Contestant:
    members = {name: _preset(name, task).make(0) for name in names}
    return _ours(partial(ks.Committee, members, task))


def _public(name: str) -> dict[str, Contestant]:
    """Make a contestant of an estimator without parameters, if the library has it."""
    return {name: _ours(lambda: getattr(ks, name)())} if name in ks.__all__ else {}


def _river(
    name: str, scaled: str | None = "StandardScaler", wrapped: str | None = None,
    most_rows: int | None = None, **params: Any,
) -> Contestant:  # fmt: skip
    """Make a contestant of a River learner behind a scaler, wrapped for three or more classes."""

    def make(n_classes: int) -> Any:
        model = _from_river(name, **params)
        if wrapped is not None and n_classes != 2:
            model = _from_river(wrapped, model)
        return model if scaled is None else _from_river(f"preprocessing.{scaled}") | model

    return Contestant("River", make, passes.by_river, most_rows)


def _from_river(path: str, *arguments: Any, **params: Any) -> Any:
    module, name = path.split(".")
    try:
        found = getattr(import_module(f"river.{module}"), name)
    except ModuleNotFoundError as error:
        raise ValueError(
            "the benchmark compares with River, which is not installed: "
            "pip install 'kernelstream[river]', or name other --contestants."
        ) from error
    return found(*arguments, **{key: made() if callable(made) else made
                                for key, made in params.items()})  # fmt: skip


def _logistic(n_classes: int) -> Any:
    name = "LogisticRegression" if n_classes == 2 else "SoftmaxRegression"
    return _from_river("preprocessing.StandardScaler") | _from_river(f"linear_model.{name}")


def _scikit_learn(name: str, with_features: bool) -> Contestant:
    """Make a contestant of a scikit-learn linear model behind a scaler, on Nystroem features."""

    def make(n_classes: int) -> Any:
        from sklearn import linear_model
        from sklearn.kernel_approximation import Nystroem
        from sklearn.preprocessing import StandardScaler

        features = Nystroem(random_state=_SEED) if with_features else None
        return StandardScaler(), features, getattr(linear_model, name)(random_state=_SEED)

    return Contestant("scikit-learn", make, passes.by_scikit_learn)


def _baseline(kind: str) -> Contestant:
    return Contestant("baseline", lambda n_classes: kind, passes.by_baseline)


# The nearest neighbours are those among the last 1,000 rows. River's default, an approximate
# search, takes five times as long.
_WINDOW = partial(_from_river, "neighbors.LazySearch", window_size=1000)
_SLOW: dict[str, Any] = {"most_rows": START_ROWS, "seed": _SEED}
_PER_CLASS, _TARGETS = "multiclass.OneVsRestClassifier", "preprocessing.TargetStandardScaler"

CONTESTANTS: dict[str, dict[str, Contestant]] = {
    "classify": {
        **_public("AutoClassifier"),
        "KernelClassifier": _ours(lambda: ks.KernelClassifier(scaling="running")),
        "linear-pa": _preset("linear-pa", "classifier"),
        "smd-linear": _preset("smd-linear", "classifier"),
        "rls": _preset("rls", "classifier"),
        "pa": _preset("pa", "classifier"),
        "sog-svc": _preset("sog-svc", "classifier", START_ROWS),
        "committee of 4": _committee(["linear-pa", "smd-linear", "rls", "pa"], "classifier"),
        "logistic regression": Contestant("River", _logistic, passes.by_river),
        "passive-aggressive": _river("linear_model.PAClassifier", wrapped=_PER_CLASS),
        "nearest neighbours": _river("neighbors.KNNClassifier", engine=_WINDOW),
        "adaptive tree": _river(
            "tree.HoeffdingAdaptiveTreeClassifier", scaled=None, seed=_SEED
        ),
        "ARF": _river("forest.ARFClassifier", scaled=None, **_SLOW),
        "SRP": _river("ensemble.SRPClassifier", scaled=None, **_SLOW),
        "SGD": _scikit_learn("SGDClassifier", with_features=False),
        "Nystroem + SGD": _scikit_learn("SGDClassifier", with_features=True),
        "majority class": _baseline("majority"),
        "last label": _baseline("last"),
    },
    "regress": {
        **_public("AutoRegressor"),
        "KernelRegressor": _ours(
            lambda: ks.KernelRegressor(scaling="running", target_scaling="running")
        ),
        "linear-pa": _preset("linear-pa", "regressor"),
        "smd-linear": _preset("smd-linear", "regressor"),
        "rls": _preset("rls", "regressor"),
        "pa": _preset("pa", "regressor"),
        "sog-svr": _preset("sog-svr", "regressor", START_ROWS),
        "committee of 4": _committee(["linear-pa", "smd-linear", "rls", "pa"], "regressor"),
        "linear regression": _river("linear_model.LinearRegression", wrapped=_TARGETS),
        "passive-aggressive": _river("linear_model.PARegressor", wrapped=_TARGETS),
        "nearest neighbours": _river("neighbors.KNNRegressor", engine=_WINDOW),
        "adaptive tree": _river("tree.HoeffdingAdaptiveTreeRegressor", seed=_SEED),
        "ARF": _river("forest.ARFRegressor", **_SLOW),
        "SRP": _river("ensemble.SRPRegressor", **_SLOW),
        "SGD": _scikit_learn("SGDRegressor", with_features=False),
        "Nystroem + SGD": _scikit_learn("SGDRegressor", with_features=True),
        "running mean": _baseline("mean"),
        "last value": _baseline("last"),
    },
    "novelty": {
        **_public("AutoDetector"),
        "NoveltyDetector": _ours(lambda: ks.NoveltyDetector(scaling="running")),
        "silk": _preset("silk", "novelty"),
        "norma": _preset("norma", "novelty"),
        "pa": _preset("pa", "novelty"),
        "half-space trees": _river(
            "anomaly.HalfSpaceTrees", scaled="MinMaxScaler", seed=_SEED
        ),
        "one-class SVM": _river(
            "anomaly.QuantileFilter", q=0.995,
            anomaly_detector=partial(_from_river, "anomaly.OneClassSVM", nu=0.2),
        ),
        "LODA": _river("anomaly.LODA", seed=_SEED),
        "z-score": _baseline("z-score"),
    },
}  # fmt: skip
