"""The algorithms of the papers: each is a row of a table, without code of its own."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

from kernelstream.budgets import (
    Independent,
    LeastLoss,
    OldestOut,
    SmallestOut,
    Unbounded,
    as_budget,
)
from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
from kernelstream.estimators.choices import may_fold
from kernelstream.parts import one_of
from kernelstream.step_sizes import (
    AdaGrad,
    Constant,
    InverseDecay,
    SqrtDecay,
    VectorSMD,
    smd_for,
)
from kernelstream.updates import ALMA, LASVM, RLS, Adatron, Ballseptron, Dual, Implicit

__all__ = ["description", "make", "names", "task_of", "tasks"]


class Preset(NamedTuple):
    """A description, the kind of budget that an int means, the parts for a task, the tasks."""

    description: str
    policy: Callable[[int], Any] | None  # None: the default, the oldest point is dropped
    parts: Callable[[str], dict[str, Any]]
    tasks: tuple[str, ...] = ("classifier", "regressor", "novelty")


# The largest size of a dictionary, so that memory and time are bounded for all data
# (docs/dictionary.md).
_DICTIONARY = 512


def _dictionary(update: Dual, **more: Any) -> Callable[[str], dict[str, Any]]:
    """Return the parts of a learner on a dictionary, with the intercept in the kernel."""
    return lambda task: {
        "fit_intercept": True, "update": update, "step_size": Constant(1.0),
        "budget": Independent(0.01, _DICTIONARY), **more,
    }  # fmt: skip


def _perceptron(**more: Any) -> Callable[[str], dict[str, Any]]:
    """Return the parts of a perceptron: steps of size one on mistakes; every point is kept."""
    return lambda task: {
        "loss": "perceptron", "step_size": Constant(1.0), "regularization": 0.0,
        "budget": Unbounded(), **more,
    }  # fmt: skip


def _linear(**more: Any) -> dict[str, Any]:
    """Return the parts of a linear model: a weight per feature, and an intercept."""
    return {"kernel": "linear", "fit_intercept": True, **more}


def _per_weight(step_size: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    """Return the parts of a linear model with a step size per weight, for a smooth loss."""

    def parts(task: str) -> dict[str, Any]:
        part = step_size(task)
        regularization = part.default_regularization(task) or 0.0
        loss = {"loss": "log_loss"} if task == "classification" else {}
        return _linear(step_size=part, regularization=regularization, **loss)

    return parts


def _fading(size: int) -> SmallestOut:
    """Return SILK's budget for shrinking step sizes, in which old coefficients fade."""
    return SmallestOut(size, half_life=4 * size)


# tau = eta c / (1 + eta c) = 5e-5 with eta = 1, as in section 4 of the ILK paper
_ILK_DECAY = 5e-5 / (1 - 5e-5)

_PRESETS = {
    "svmd": Preset(
        "online SVM with stochastic meta-descent (JMLR 2006)",
        None,
        lambda task: {"update": "explicit", "step_size": smd_for(task)},
    ),
    "svmd-single-step": Preset(
        "SVMD that looks at the effect of the last step only, decay 0 (JMLR 2006, section 6)",
        None,
        lambda task: {"update": "explicit", "step_size": smd_for(task, decay=0.0)},
    ),
    "norma": Preset(
        "online SVM with a step size that decays by schedule (NIPS 2001)",
        None,
        lambda task: {"update": "explicit", "step_size": SqrtDecay()},
    ),
    "ilk": Preset(
        "implicit online learning with kernels, all points kept (NIPS 2006)",
        SmallestOut,
        lambda task: {
            "update": Implicit(exact=False), "step_size": Constant(1.0), "C": 100.0,
            "regularization": _ILK_DECAY, "budget": Unbounded(),
        },
    ),
    "silk": Preset(
        "sparse ILK: the point with the smallest coefficients is dropped (NIPS 2006)",
        SmallestOut,
        lambda task: {
            "update": Implicit(exact=False), "step_size": Constant(1.0), "C": 100.0,
            "regularization": _ILK_DECAY, "budget": SmallestOut(512),
        },
    ),
    "silk-md": Preset(
        "SILK whose step size adapts by stochastic meta-descent (docs/implicit.md)",
        _fading,
        lambda task: {"update": Implicit(), "step_size": smd_for(task), "budget": _fading(512)},
    ),
    "pa": Preset(
        "passive-aggressive, PA-I: implicit steps without decay, capped by C; projecting budget",
        LeastLoss,
        lambda task: {
            "update": Implicit(), "step_size": Constant(1.0), "regularization": 0.0,
            "budget": LeastLoss(256),
        },
    ),
    "linear-pa": Preset(
        "passive-aggressive linear model, PA-I: a weight per feature (Crammer and others 2006)",
        LeastLoss,
        lambda task: {
            "kernel": "linear", "update": Implicit(), "step_size": Constant(1.0),
            "regularization": 0.0, "fit_intercept": True, "C": 0.1,
        },
        ("classifier", "regressor"),
    ),
    "svrseq": Preset(
        "batch support vector regression by sequential dual ascent, in several passes; fit only",
        None,
        lambda task: {
            "fit_intercept": True, "loss": "epsilon_insensitive", "update": Dual("gradient"),
            "step_size": Constant(1.0), "budget": Unbounded(),
            "regularization": 1.0, "n_epochs": 2000,
        },
        ("regressor",),
    ),
    "sog-svr": Preset(
        "regression on a dictionary of independent points, fitted to all rows in one pass (2002)",
        lambda size: Independent(0.01, size),
        _dictionary(Dual(), regularization=0.01),
        ("regressor",),
    ),
    "sog-svr-paper": Preset(
        "sog-svr with the rule of the paper, a step along the gradient at every row",
        lambda size: Independent(0.01, size),
        _dictionary(Dual("gradient")),
        ("regressor",),
    ),
    "sog-svc": Preset(
        "classification as regression on the labels, on a dictionary of independent points",
        lambda size: Independent(0.01, size),
        _dictionary(Dual(), regularization=0.01),
        ("classifier",),
    ),
    "perceptron": Preset(
        "kernel perceptron (Rosenblatt 1958; Freund and Schapire 1999)",
        OldestOut,
        _perceptron(),
        ("classifier",),
    ),
    "averaged-perceptron": Preset(
        "perceptron that predicts with the average of all its models (Freund and Schapire 1999)",
        LeastLoss,
        _perceptron(predictor="averaged"),
        ("classifier",),
    ),
    "voted-perceptron": Preset(
        "perceptron that predicts with the vote of all its models (Freund and Schapire 1999)",
        OldestOut,
        _perceptron(predictor="voted"),
        ("classifier",),
    ),
    "ballseptron": Preset(
        "perceptron with the worst point of a ball around the row (Shalev-Shwartz, Singer 2005)",
        OldestOut,
        _perceptron(update=Ballseptron()),
        ("classifier",),
    ),
    "alma": Preset(
        "approximate large margin algorithm: decreasing steps in the unit ball (Gentile 2001)",
        OldestOut,
        lambda task: {"update": ALMA(), "step_size": Constant(1.0), "budget": Unbounded()},
        ("classifier",),
    ),
    "pegasos": Preset(
        "SVM with step sizes that fall as 1 / (c t) (Shalev-Shwartz and others 2011)",
        OldestOut,
        lambda task: {
            "step_size": InverseDecay(), "regularization": 1e-4, "budget": Unbounded(),
        },
    ),
    "adatron": Preset(
        "Kernel-Adatron: the largest margin, in several passes (Friess and others 1998); fit only",
        None,
        lambda task: {
            "update": Adatron(), "budget": Unbounded(), "regularization": 1.0, "C": 100.0,
            "n_epochs": 100,
        },
        ("classifier",),
    ),
    "lasvm": Preset(
        "online SVM on an active set; finish() solves the SVM of that set (Bordes and others 2005)",
        None,
        lambda task: {
            "update": LASVM(), "budget": Unbounded(), "regularization": 1.0, "fit_intercept": True,
            "step_size": Constant(1.0),
        },
        ("classifier",),
    ),
    "smd-linear": Preset(
        "linear model with a step size per weight, by meta-descent (JMLR 2006, section 2)",
        None,
        _per_weight(lambda task: VectorSMD().for_task(task)),
        ("classifier", "regressor"),
    ),
    "adagrad": Preset(
        "linear model with step sizes that fall weight by weight (Duchi and others 2011)",
        None,
        _per_weight(lambda task: AdaGrad()),
        ("classifier", "regressor"),
    ),
    "rls": Preset(
        "linear recursive least squares; for classification, on the labels",
        None,
        lambda task: _linear(update=RLS(), step_size=Constant(1.0), regularization=0.01),
        ("classifier", "regressor"),
    ),
}  # fmt: skip

_TASKS: dict[str, Any] = {
    "classifier": KernelClassifier,
    "regressor": KernelRegressor,
    "novelty": NoveltyDetector,
}


_TASK_OF = {"classification": "classifier", "regression": "regressor", "novelty": "novelty"}


def task_of(model: Any) -> str:
    """Return the task of an estimator, as presets name it.

    Parameters
    ----------
    model : estimator

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.presets.task_of(ks.KernelRegressor())
    'regressor'
    """
    return _TASK_OF[model.task]


def tasks(preset: str) -> tuple[str, ...]:
    """Return the tasks of a preset, among "classifier", "regressor" and "novelty".

    Parameters
    ----------
    preset : str

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.presets.tasks("sog-svr")
    ('regressor',)
    """
    return _PRESETS[one_of("preset", preset, names())].tasks


def description(preset: str) -> str:
    """Return a description of a preset in one line.

    Parameters
    ----------
    preset : str

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.presets.description("svmd")
    'online SVM with stochastic meta-descent (JMLR 2006)'
    """
    return _PRESETS[one_of("preset", preset, names())].description


def names() -> list[str]:
    """Return the names of the presets.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.presets.names()  # doctest: +NORMALIZE_WHITESPACE
    ['svmd', 'svmd-single-step', 'norma', 'ilk', 'silk', 'silk-md', 'pa', 'linear-pa', 'svrseq',
     'sog-svr', 'sog-svr-paper', 'sog-svc', 'perceptron', 'averaged-perceptron',
     'voted-perceptron', 'ballseptron', 'alma', 'pegasos', 'adatron', 'lasvm',
     'smd-linear', 'adagrad', 'rls']
    """
    return list(_PRESETS)


def make(preset: str, task: str, **params: Any) -> Any:
    """Make a model by the name of its algorithm.

    Parameters
    ----------
    preset : str
        The name of the algorithm, one of `names`.
    task : {"classifier", "regressor", "novelty"}
        The kind of estimator.
    **params
        Parameters of the estimator, which override those of the preset. An integer `budget` is the
        size of the kind of budget that the preset uses.

    Returns
    -------
    KernelClassifier, KernelRegressor or NoveltyDetector

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.make("norma", "classifier", budget=128)
    KernelClassifier(budget=128, step_size=SqrtDecay())
    """
    estimator = _TASKS[one_of("task", task, list(_TASKS))]
    chosen = _PRESETS[one_of("preset", preset, names())]
    if task not in chosen.tasks:
        raise ValueError(
            f"preset={preset!r} is for {' and '.join(chosen.tasks)}, not for task={task!r}."
        )
    known = estimator().get_params()
    for name in params:
        if name.split("__")[0] not in known:
            raise TypeError(
                f"{name}={params[name]!r} is not a parameter of {estimator.__name__}: "
                f"choose among {', '.join(known)}."
            )
    size = params.get("budget")
    if chosen.policy is not None and isinstance(size, Integral) and not isinstance(size, bool):
        params["budget"] = chosen.policy(int(size))
    parts = chosen.parts(estimator.task)
    if "budget" not in params and may_fold(estimator().set_params(**{**parts, **params})):
        params["budget"] = "auto"  # a weight per feature
    if "regularization" in parts and params.get("budget", "auto") != "auto":
        # a budget that drops points diverges with less (`OldestOut.default_regularization`)
        least = as_budget(params["budget"]).default_regularization(estimator.task)
        parts["regularization"] = max(parts["regularization"], least or 0.0)
    return estimator().set_params(**{**parts, **params})
