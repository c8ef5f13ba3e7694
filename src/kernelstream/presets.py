"""The algorithms of the papers: each a row of a table, not new code."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kernelstream.budgets import LeastLoss, SmallestOut, Unbounded
from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
from kernelstream.parts import one_of
from kernelstream.step_sizes import Constant, SqrtDecay, smd_for
from kernelstream.updates import Implicit

__all__ = ["make", "names"]


class Preset(NamedTuple):
    """What the algorithm is, the budget that an int means, and its parts for a task."""

    description: str
    policy: Callable[[int], Any] | None  # None: the estimators' own, the oldest point goes
    parts: Callable[[str], dict[str, Any]]


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
        "sparse ILK: the point with the smallest coefficients goes (NIPS 2006)",
        SmallestOut,
        lambda task: {
            "update": Implicit(exact=False), "step_size": Constant(1.0), "C": 100.0,
            "regularization": _ILK_DECAY, "budget": SmallestOut(512),
        },
    ),
    "silk-md": Preset(
        "SILK whose step size adapts by stochastic meta-descent (docs/implicit.md)",
        SmallestOut,
        lambda task: {
            "update": Implicit(), "step_size": smd_for(task), "budget": SmallestOut(512),
        },
    ),
    "pa": Preset(
        "passive-aggressive, PA-I: implicit steps without decay, capped by C; projecting budget",
        LeastLoss,
        lambda task: {
            "update": Implicit(), "step_size": Constant(1.0), "regularization": 0.0,
            "budget": LeastLoss(256),
        },
    ),
}  # fmt: skip

_TASKS = {
    "classifier": KernelClassifier,
    "regressor": KernelRegressor,
    "novelty": NoveltyDetector,
}


def names() -> list[str]:
    """The names of the presets.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.presets.names()
    ['svmd', 'svmd-single-step', 'norma', 'ilk', 'silk', 'silk-md', 'pa']
    """
    return list(_PRESETS)


def make(preset: str, task: str, **params: Any) -> Any:
    """A model by the name of its algorithm.

    Parameters
    ----------
    preset : str
        One of `names`.
    task : {"classifier", "regressor", "novelty"}
    **params
        Parameters of the estimator; they go before the preset's own. A whole number as `budget`
        is the size of the preset's own kind of budget.

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
    known = estimator().get_params()
    for name in params:
        if name.split("__")[0] not in known:
            raise TypeError(
                f"{name}={params[name]!r} is not a parameter of {estimator.__name__}: "
                f"choose among {', '.join(known)}."
            )
    if chosen.policy is not None and isinstance(params.get("budget"), int):
        params["budget"] = chosen.policy(params["budget"])
    return estimator().set_params(**{**chosen.parts(estimator.task), **params})
