"""The parameters that all models of a fleet share: defaults for raw tables, and what is refused."""

from typing import Any

from kernelstream import presets
from kernelstream.estimators.choices import solver_of
from kernelstream.estimators.missing import MISSING
from kernelstream.parts import one_of
from kernelstream.scalings import as_scaling
from kernelstream.step_sizes import as_step_size
from kernelstream.updates import as_update

__all__ = ["complete_params", "why_no_records"]

# Parameters that are numbers in the units of the rows, or of the targets. Whoever gives one knows
# these units, and scaling would change what the number means.
_IN_UNITS_OF_ROWS = ("gamma", "coef0")
_IN_UNITS_OF_TARGETS = ("margin",)


def complete_params(preset: Any, task: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the models with the scaling that a fleet uses unless told otherwise.

    Rows are scaled unless `gamma`, `coef0` or a kernel object is given; targets of regressors are
    scaled unless `margin` is given. An estimator as `preset` stays as it is.
    """
    if not isinstance(preset, str):
        return params
    prototype = presets.make(preset, task, **params)
    params = dict(params)
    knows_rows = any(name in params for name in _IN_UNITS_OF_ROWS)
    knows_rows |= not isinstance(params.get("kernel", ""), str)
    if "scaling" not in params:
        params["scaling"] = None if knows_rows else prototype.scaling or "running"
    if task == "regressor" and "target_scaling" not in params:
        knows_targets = any(name in params for name in _IN_UNITS_OF_TARGETS)
        params["target_scaling"] = None if knows_targets else prototype.target_scaling or "running"
    return params


def why_no_records(model: Any) -> str | None:
    """Return why the models of a fleet cannot have these parameters, or None if they can."""
    if as_update(model.update).loop in ("dictionary", "second_order"):
        return "it fits a dictionary, which a fleet cannot: choose another preset."
    if (
        as_update(model.update).loop == "rls"
        or as_step_size(model.step_size, model.task).per_weight
    ):
        return "it has a weight per feature, which a fleet cannot: choose another preset."
    if solver_of(model) is not None:
        return "it revisits its rows, which a fleet cannot: choose another preset."
    if model.predictor != "last":
        return (
            f"predictor={model.predictor!r}: the models of a fleet predict by their last state; "
            "choose another preset, or leave predictor out."
        )
    if getattr(model, "class_weight", None) is not None:
        return (
            f"class_weight={model.class_weight!r}: the rows of a fleet all count the same; leave "
            "class_weight out."
        )
    one_of("missing", model.missing, list(MISSING))
    for name in ("scaling", "target_scaling"):
        if as_scaling(getattr(model, name, None), name).renews:
            return (
                f"{name}={getattr(model, name)!r}: the models of a fleet do not renew their "
                f"scales; use {name}='running'."
            )
    if model.device is not None:
        return (
            f"device={model.device!r}: the models of a fleet are small and learn on the host; "
            "leave device out."
        )
    return None
