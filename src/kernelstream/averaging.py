"""One model of several that have learned parts of one stream."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelstream.budgets import Budget, as_budget
from kernelstream.estimators.base import Learned
from kernelstream.estimators.choices import budget_of, parts_of
from kernelstream.estimators.labels import Labels
from kernelstream.learner.machine import Machine
from kernelstream.parts import integer_at_least

__all__ = ["average"]


def average(models: Sequence[Any], weights: Any = None, budget: Any = None) -> Any:
    """Return one model of several of the same kind that learned parts of one stream, side by side.

    Of first-order models it is the mean of their functions, a sum in the kernel's space, projected
    on as many points as the budget allows. Of models with a weight per explicit feature it is the
    mean of the weights. Of second-order models (``sog-svr``, ``rls``) it is the product of their
    posteriors with the prior counted once, on a joint dictionary: what one model would know that
    had learned all rows. The average predicts, is saved, and goes on learning like any other model.

    Parameters
    ----------
    models : sequence of KernelClassifier, KernelRegressor or NoveltyDetector
        With the same parameters. Those that have learned nothing do not count. Classifiers may know
        different classes.
    weights : array-like of shape (n_models,), default=None
        How much each model counts. None: by the number of rows that it learned. Of second-order
        models, by how many times its rows are counted; None: once.
    budget : int or budget part, default=None
        How many points the average has. None: as many as the models.

    Returns
    -------
    KernelClassifier, KernelRegressor or NoveltyDetector

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(1000, 1))
    >>> y = np.sin(X[:, 0])
    >>> parts = [ks.make("sog-svr", "regressor").partial_fit(X[i::4], y[i::4]) for i in range(4)]
    >>> model = ks.average(parts)
    >>> model.n_seen_, bool(np.abs(model.predict(X) - y).max() < 0.02)
    (1000, True)
    """
    models = list(models)
    weights = _checked_weights(models, weights)
    known = [i for i, model in enumerate(models) if model.__sklearn_is_fitted__()]
    known = [i for i in known if models[i].machine_.n_seen > 0]
    if not known:
        raise ValueError(f"models={models!r}: none of them has learned anything.")
    models = [models[i] for i in known]
    for model in models:
        _check_alike(model, models[0])
    names = _joint_names(models)
    first = models[0].machine_
    result = clone(models[0])
    if budget is not None:
        result.set_params(budget=_budget_of_average(models[0], budget))
    labels, outputs = _joint_labels(models)
    single = labels is None or labels.single_output
    parts = parts_of(result, first.kernel, single, first.is_sparse)
    n_outputs = first.n_outputs if labels is None else labels.n_outputs()
    machine = Machine(parts, first.n_features, n_outputs, first.dtype, first.is_sparse)
    if machine.keeps_few_outputs:
        raise ValueError(
            f"{n_outputs} classes: models whose points keep the coefficients of few classes "
            "cannot be averaged. Use a budget that projects, such as LeastLoss, or fewer classes."
        )
    if weights is None:
        rows = np.array([model.machine_.n_seen for model in models], dtype=float)
        weights = np.ones(len(models)) if machine.loop.multiplies_posteriors else rows
    else:
        weights = weights[known]
    if not machine.loop.multiplies_posteriors:
        weights = weights / weights.sum()
    machines = [model.machine_ for model in models]
    machine.state.expansion.n_seen[0] = sum(one.n_seen for one in machines)
    machine.loop.average(machines, weights, outputs, machine)
    result.take_over(Learned(machine, labels))
    if names is not None:
        result.feature_names_in_ = names
    return result


def _checked_weights(models: list[Any], weights: Any) -> np.ndarray | None:
    if not models:
        raise ValueError("models is empty: give at least one model.")
    if weights is None:
        return None
    found = np.asarray(weights, dtype=float)
    if found.shape != (len(models),) or not np.isfinite(found).all() or not (found > 0).all():
        raise ValueError(
            f"weights={weights!r} must be a positive number for each of the {len(models)} models."
        )
    return found


def _check_alike(model: Any, first: Any) -> None:
    """Refuse models that have no common kernel's space, or more than a function in it."""
    machine = getattr(model, "machine_", None)
    if not isinstance(machine, Machine):
        raise TypeError(
            f"{model!r} is not one machine: committees cannot be averaged, their members can."
        )
    if type(model) is not type(first) or repr(model) != repr(first):
        raise ValueError(f"{model!r} and {first!r} have different parameters.")
    if machine.kernel != first.machine_.kernel or machine.n_features != first.machine_.n_features:
        raise ValueError(
            f"the kernels {machine.kernel!r} and {first.machine_.kernel!r} are not the same, or "
            "their rows have different widths: set gamma to a number."
        )
    if not machine.loop.is_averaged or model.readout() != "last":
        raise ValueError(f"{model!r} cannot be averaged: it is more than its last function.")
    if machine.parts.device is not None:
        raise ValueError(
            f"device={machine.parts.device!r}: models are averaged on the host. Set device=None, "
            "save and load them."
        )
    for name in ("scaling", "target_scaling"):
        if getattr(machine.parts, name).is_scaled:
            raise ValueError(
                f"{name}={getattr(model, name)!r}: every model has scaled by its own rows, so that "
                "their functions do not add up. Scale before, by the same numbers for all."
            )
    if model.missing != "error" or model.learns_from_tables() or (
        model.get_params(deep=False).get("class_weight") == "balanced"
    ):  # fmt: skip
        raise ValueError(
            f"{model!r} cannot be averaged: every model has its own means of what is missing, "
            "categories or counts of classes. Give them rows of numbers without gaps, and weights."
        )
    if machine.parts.budget.is_folded and machine.kernel.feature_store != "fixed":
        raise ValueError(
            f"kernel={machine.kernel!r} takes its features from the rows, and those of the models "
            "differ: use RandomFourier, or points."
        )


def _joint_names(models: list[Any]) -> np.ndarray | None:
    """Return the columns that the models learned from; refuse another order or other columns."""
    known = [model.feature_names_in_ for model in models if hasattr(model, "feature_names_in_")]
    for names in known[1:]:
        if names.tolist() != known[0].tolist():
            raise ValueError(
                f"the models learned from different columns: {', '.join(known[0])} and "
                f"{', '.join(names)}. Give all of them the same columns in the same order."
            )
    return known[0] if known else None


def _budget_of_average(model: Any, given: Any) -> Any:
    """Return a budget part as it is, or the budget of a model with another size."""
    if isinstance(given, Budget):
        return as_budget(given)
    if not isinstance(given, Integral):
        raise TypeError(
            f"budget={given!r} is neither a number of points nor a budget part: give budget=512 "
            "or budget=Merge(512), say."
        )
    budget = clone(budget_of(model))
    if "size" not in budget.get_params():
        raise ValueError(f"budget={given!r}: {budget!r} has no size. Leave budget out.")
    return budget.set_params(size=integer_at_least("budget", given, 1))


def _joint_labels(models: list[Any]) -> tuple[Labels | None, list[np.ndarray]]:
    """Return all labels that any of the models knows, and which outputs of all each model has."""
    known = [model.labels_known() for model in models]
    if known[0] is None:
        return None, [np.arange(model.machine_.n_outputs) for model in models]
    if any(one.single_output != known[0].single_output for one in known):
        raise ValueError(
            "some models were told of two classes and have a single output for both, and others "
            "were not: declare the same classes to all."
        )
    labels = known[0]
    if labels.structure is None and not labels.single_output:
        for one in known[1:]:
            labels = labels.including(one.as_array())[0]
        return labels, [np.array([labels.index[name] for name in one.names]) for one in known]
    if any(one.names != labels.names for one in known):
        raise ValueError("the models know different classes: declare the same to all.")
    return labels, [np.arange(model.machine_.n_outputs) for model in models]
