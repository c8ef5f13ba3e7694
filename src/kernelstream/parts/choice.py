"""What a user chose: what parts look at when they are asked whether they go together."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Choice", "Unused"]


@dataclass(frozen=True)
class Choice:
    """Everything that was chosen for a model, the parts as objects.

    Where one part cannot work with another, the part that needs something says so: `check_with`.
    It asks the other for a property (`kernel.interpolates`), never for its class.

    Attributes
    ----------
    task : str
        "classification", "regression" or "novelty".
    kernel, margin, step_size, update, budget, scaling : parts
    loss : LossEntry
        With what it accepts.
    single_output : bool
        Whether the model has one output, rather than one per label.
    structured : bool
        Whether there is a label structure.
    fit_intercept, sparse : bool
    given : dict
        The parameters as the user wrote them.
    """

    task: str
    kernel: Any
    loss: Any
    margin: Any
    step_size: Any
    update: Any
    budget: Any
    single_output: bool
    structured: bool
    fit_intercept: bool
    sparse: bool
    scaling: Any
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unused:
    """A parameter of an estimator that would change nothing: what to do instead.

    Attributes
    ----------
    remedy : str
        What to do instead.
    but : tuple
        Values that are accepted: they say what is done anyway.
    """

    remedy: str
    but: tuple[Any, ...] = ()
