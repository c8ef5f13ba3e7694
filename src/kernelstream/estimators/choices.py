"""From an estimator's parameters to the parts of a machine.

Every part is asked what it goes with (`Part.check_with`), and the update what it brings; nothing
here knows a part by its class.
"""

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream import losses
from kernelstream.budgets import as_budget
from kernelstream.kernels import Kernel, as_kernel
from kernelstream.kernels import names as kernel_names
from kernelstream.learner.machine import Parts
from kernelstream.margins import as_margin
from kernelstream.parts import Choice, Unused, integer_at_least, make, number, one_of
from kernelstream.scalings import as_scaling
from kernelstream.step_sizes import as_step_size
from kernelstream.stores import as_device
from kernelstream.updates import as_update

__all__ = [
    "DEFAULT_SIZE", "budget_of", "gains_from_device", "kernel_of", "learns_from_streams",
    "may_fold", "parts_of", "refuse_unused", "solver_of",
]  # fmt: skip

_DEFAULT_REGULARIZATION = 1e-6
DEFAULT_SIZE = 512  # points, where budget="auto" means points
_MANY_POINTS = 1024  # from which on a device pays, measured: docs/gpu.md
_KERNEL_DEFAULTS = {"gamma": "auto", "degree": 3, "coef0": 0.0}
# Of RBF kernels between rows of unit length. Measured (docs/learners.md): functions that divide
# classes need to turn more sharply than those of regression.
_FINENESS = {"classification": 4.0, "regression": 1.0, "novelty": 1.0}
# what presets say where there is no step size to choose, and a default written as a part
_PLAIN = {
    "step_size": (1.0, make("Constant", initial=1.0)),
    "margin": (make("Fixed", value=1.0),),
}


def kernel_of(model: Any, n_features: int, X: Any = None) -> Kernel:
    """Return the kernel of a model's parameters with all its numbers; X is the whole data."""
    gamma, scaling = model.gamma, as_scaling(model.scaling)
    if gamma == "scale" and scaling.is_scaled:
        raise ValueError(
            f"gamma='scale' looks at rows as they come, and scaling={model.scaling!r} changes "
            "them: leave gamma out, or give a number."
        )
    if gamma == "scale" and isinstance(model.kernel, str):
        if X is None:
            raise ValueError(
                "gamma='scale' needs all the data and works in fit only: in partial_fit the "
                "model would depend on how the stream is cut into blocks. Give a number, or "
                "'auto' for 1 / n_features."
            )
        variance = X.power(2).mean() - X.mean() ** 2 if sparse.issparse(X) else np.var(X)
        gamma = 1.0 / (n_features * variance) if variance > 0 else 1.0
    chosen = {"gamma": gamma, "degree": model.degree, "coef0": model.coef0}
    changed = {k: v for k, v in chosen.items() if v != _KERNEL_DEFAULTS[k]}
    kernel = (
        as_kernel(model.kernel, changed)
        .for_task(model.task)
        .resolve(n_features, _FINENESS[model.task] if scaling.gives_unit_length() else None)
    )
    return as_update(model.update).own_kernel(kernel, _fits_intercept(model))


def budget_of(model: Any) -> Any:
    """Return the budget of a model's parameters.

    "auto" is a weight per feature where that is possible. A number of points drops the oldest one,
    or projects the least important one if the average of all models is kept.
    """
    budget, averaged = model.budget, model.predictor == "averaged"
    if isinstance(budget, str) and budget == "auto":
        if may_fold(model):
            return make("Folded")
        return make("LeastLoss") if averaged else as_budget(DEFAULT_SIZE)
    if averaged and isinstance(budget, Integral):
        return make("LeastLoss", size=integer_at_least("budget", budget, 1))
    return as_budget(budget)


def may_fold(model: Any) -> bool:
    """Return whether a model's parameters allow a weight per feature instead of points."""
    kernel = model.kernel
    is_known = isinstance(kernel, Kernel) or (isinstance(kernel, str) and kernel in kernel_names())
    has_features = is_known and as_kernel(kernel, {}).has_features
    return has_features and as_update(model.update).folds and model.predictor != "voted"


def parts_of(model: Any, kernel: Kernel, single_output: bool, sparse: bool = False) -> Parts:
    """Check every parameter of a model and make the parts."""
    model.skips_bad_rows()  # checks `on_bad_row`
    structure = model.structure()
    entry = losses.find(
        model.task,
        one_of("loss", model.loss, losses.names(model.task)),
        single_output,
        None if structure is None else structure.to_rule(),
    )
    update, budget = as_update(model.update), budget_of(model)
    margin = _margin_of(model, entry, update, single_output)
    given_step_size = as_step_size(model.step_size, model.task)
    c = _regularization_of(model, update, (margin, budget, given_step_size))
    step_size = given_step_size.for_model(c, structure is not None)
    choice = Choice(
        task=model.task,
        kernel=kernel,
        loss=entry,
        margin=margin,
        step_size=step_size,
        update=update,
        budget=budget,
        single_output=single_output,
        structured=structure is not None,
        fit_intercept=_fits_intercept(model),
        sparse=sparse,
        scaling=as_scaling(model.scaling),
        given=model.get_params(deep=False),
    )
    target_scaling = as_scaling(getattr(model, "target_scaling", None), "target_scaling")
    device = as_device(model.device)
    for chosen in (margin, update, budget, kernel, step_size, choice.scaling, target_scaling):
        chosen.check_with(choice)
    if device is not None:
        device.check_with(choice)
    _check_predictor(model, choice)
    return Parts(
        kernel=kernel,
        loss=entry.rule,
        margin=margin,
        step_size=step_size,
        update=update,
        budget=budget,
        fit_intercept=choice.fit_intercept and not update.intercept_in_kernel,
        regularization=c,
        loss_weight=number("C", model.C, above=0),
        dated=model.predictor == "voted",
        averaged=model.predictor == "averaged",
        scaling=choice.scaling,
        target_scaling=target_scaling,
        device=device,
    )


def _fits_intercept(model: Any) -> bool:
    return bool(model.get_params(deep=False).get("fit_intercept", False))


def _margin_of(model: Any, entry: losses.LossEntry, update: Any, single_output: bool) -> Any:
    """Return the margin that was asked for, or the one that the update brings."""
    default = type(model).default_margin
    given = None if model.margin == default else model.margin
    own = update.own_margin(single_output)
    if own is None:
        return as_margin(
            given, model.nu, default if entry.default_margin is None else entry.default_margin
        )
    if given is not None or model.nu is not None:
        raise ValueError(
            f"update={update!r} has a margin of its own: leave margin={model.margin!r} and "
            f"nu={model.nu!r} out."
        )
    return own


def _regularization_of(model: Any, update: Any, parts: tuple[Any, ...]) -> float:
    own = update.own_regularization()
    if own is not None:
        if model.regularization:
            raise ValueError(
                f"update={update!r} has no regularization: leave "
                f"regularization={model.regularization!r} out."
            )
        return own
    if model.regularization is not None:
        return number("regularization", model.regularization, at_least=0)
    for part in parts:
        asked = part.default_regularization(model.task)
        if asked is not None:
            return float(asked)
    return _DEFAULT_REGULARIZATION


def _check_predictor(model: Any, choice: Choice) -> None:
    """Check that the predictor goes with the other parts."""
    name = one_of("predictor", model.predictor, list(type(model).predictors))
    if name == "averaged" and not choice.update.keeps_sum:
        raise ValueError(
            f"predictor={name!r} does not go with update={choice.update!r}, where every row "
            "changes old coefficients: use predictor='last', or update='explicit' or 'implicit'."
        )
    budget = choice.budget
    if name == "averaged" and budget.limit() is not None and not budget.projects:
        raise ValueError(
            f"predictor={name!r} does not go with budget={budget!r}: every dropped point would "
            f"take its part of the average away. Use budget=LeastLoss({budget.limit()}), which "
            f"hands it on, Merge({budget.limit()}) or None; or predictor='last'."
        )
    if name != "voted":
        return
    if not choice.update.keeps_coefficients:
        raise ValueError(
            f"predictor={name!r} does not go with update={model.update!r}: old coefficients must "
            "stay as they are. Use update='explicit'."
        )
    if choice.structured:
        raise ValueError(f"predictor={name!r} is for plain labels.")
    if model.regularization != 0 or choice.fit_intercept:
        raise ValueError(
            f"predictor={name!r} needs regularization=0 and no intercept, so that old coefficients "
            "stay as they are."
        )
    if choice.budget.projects:
        raise ValueError(
            f"predictor={name!r} does not go with budget={model.budget!r}, which changes old "
            "coefficients: use None, OldestOut or SmallestOut."
        )


def refuse_unused(model: Any) -> None:
    """Refuse what would change nothing. A model from a file may have it: it is what it is."""
    update = as_update(model.update)
    unused = update.unused(budget_of(model).keeps_all)
    if "loss" not in unused and not losses.has_margin(model.task, model.loss):
        remedy = f"loss={model.loss!r} has none, so leave it out or choose another loss"
        unused = {**unused, "margin": Unused(remedy)}
    given, default = model.get_params(), type(model)().get_params()
    _refuse_unused_by_kernel(model)
    for name, why in unused.items():
        value = given.get(name)
        if value not in (default.get(name), *_PLAIN.get(name, ()), *why.but):
            raise ValueError(
                f"{name}={value!r} changes nothing with update={update!r}: {why.remedy}."
            )
    if "nu" in unused and as_margin(model.margin, None, 1.0).adapts:
        raise ValueError(
            f"margin={model.margin!r} does not adapt with update={update!r}: give a number."
        )


def _refuse_unused_by_kernel(model: Any) -> None:
    if isinstance(model.kernel, str):
        known = as_kernel(model.kernel, {}).get_params()
        for name, usual in _KERNEL_DEFAULTS.items():
            value = getattr(model, name)
            if name not in known and value != usual:
                raise ValueError(
                    f"{name}={value!r} changes nothing with kernel={model.kernel!r}: leave it out."
                )


def solver_of(model: Any) -> str | None:
    """Return the solver by which `fit` revisits rows, if the model's update has one."""
    return as_update(model.update).solver(budget_of(model))


def gains_from_device(model: Any) -> bool:
    """Return whether a model of these parameters keeps so many dense points that a device pays.

    What counts are those it begins with: a budget that may grow gets there late, if at all.
    """
    budget = budget_of(model)
    if budget.is_folded or solver_of(model) is not None:
        return False
    limit = budget.first_limit()
    return limit is None or limit >= _MANY_POINTS


def learns_from_streams(model: Any) -> bool:
    """Return whether a model of these parameters can learn from a stream."""
    return bool(as_update(model.update).in_streams(budget_of(model)))
