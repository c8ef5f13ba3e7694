"""What a user chose: what parts look at when they are asked whether they go together."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Choice", "Unused"]


@dataclass(frozen=True)
class Choice:
    """Everything that was chosen for a model, the parts as objects.

    Where one part cannot work with another, the part that needs something says so: `check_with`.
    It asks the other for a property (`kernel.interpolates`), never for its class.
    """

    task: str  # "classification", "regression" or "novelty"
    kernel: Any
    loss: Any  # its entry, with what it accepts
    margin: Any
    step_size: Any
    update: Any
    budget: Any
    single_output: bool
    structured: bool  # whether there is a label structure
    fit_intercept: bool
    sparse: bool
    scaling: Any
    given: dict[str, Any] = field(default_factory=dict)  # the parameters as the user wrote them


@dataclass(frozen=True)
class Unused:
    """A parameter of an estimator that would change nothing: what to do instead."""

    remedy: str
    but: tuple[Any, ...] = ()  # values that only say what is done anyway
