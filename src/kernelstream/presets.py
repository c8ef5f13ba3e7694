"""The algorithms of the papers: each a row of a table, not new code."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
from kernelstream.parts import one_of
from kernelstream.step_sizes import SqrtDecay, smd_for

__all__ = ["make", "names"]


class Preset(NamedTuple):
    """What the algorithm is, and its parts for a task."""

    description: str
    parts: Callable[[str], dict[str, Any]]


_PRESETS = {
    "svmd": Preset(
        "online SVM with stochastic meta-descent (JMLR 2006)",
        lambda task: {"update": "explicit", "step_size": smd_for(task)},
    ),
    "svmd-single-step": Preset(
        "SVMD that looks at the effect of the last step only, decay 0 (JMLR 2006, section 6)",
        lambda task: {"update": "explicit", "step_size": smd_for(task, decay=0.0)},
    ),
    "norma": Preset(
        "online SVM with a step size that decays by schedule (NIPS 2001)",
        lambda task: {"update": "explicit", "step_size": SqrtDecay()},
    ),
}

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
    ['svmd', 'svmd-single-step', 'norma']
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
        Parameters of the estimator; they go before the preset's own.

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
    parts = _PRESETS[one_of("preset", preset, names())].parts(estimator.task)
    known = estimator().get_params()
    for name in params:
        if name.split("__")[0] not in known:
            raise TypeError(
                f"{name}={params[name]!r} is not a parameter of {estimator.__name__}: "
                f"choose among {', '.join(known)}."
            )
    return estimator().set_params(**{**parts, **params})
