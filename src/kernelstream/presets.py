"""The algorithms of the papers: each a row of a table, not new code."""

from typing import Any, NamedTuple

from kernelstream import step_sizes
from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
from kernelstream.parts import one_of

__all__ = ["make", "names"]


class Preset(NamedTuple):
    """Parts by name, and what the algorithm is."""

    description: str
    parts: dict[str, Any]


_PRESETS = {
    "svmd": Preset(
        "online SVM with stochastic meta-descent (JMLR 2006)",
        {"update": "explicit", "step_size": step_sizes.SMD()},
    ),
    "svmd-single-step": Preset(
        "SVMD that looks at the effect of the last step only, decay 0 (JMLR 2006, section 6)",
        {"update": "explicit", "step_size": step_sizes.SMD(decay=0.0)},
    ),
    "norma": Preset(
        "online SVM with a step size that decays by schedule (NIPS 2001)",
        {"update": "explicit", "step_size": step_sizes.SqrtDecay()},
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
    KernelClassifier(budget=128, step_size=SqrtDecay(initial=1.0, tau=100))
    """
    estimator = _TASKS[one_of("task", task, list(_TASKS))]
    parts = _PRESETS[one_of("preset", preset, names())].parts
    known = estimator().get_params()
    for name in params:
        if name.split("__")[0] not in known:
            raise TypeError(
                f"{name}={params[name]!r} is not a parameter of {estimator.__name__}: "
                f"choose among {', '.join(known)}."
            )
    return estimator().set_params(**{**_fresh(parts), **params})


def _fresh(parts: dict[str, Any]) -> dict[str, Any]:
    """Copies, so that set_params on one model does not change the table."""
    return {k: v if isinstance(v, str) else type(v)(**v.get_params()) for k, v in parts.items()}
