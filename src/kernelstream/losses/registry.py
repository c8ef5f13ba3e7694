"""The losses by name and task."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kernelstream.parts import part, rule

__all__ = ["LossEntry", "LossRule", "all_losses", "find", "has_margin", "loss", "names"]


class LossRule(Protocol):
    """The methods of a loss (see the docstring of the package), with defaults for a linear loss."""

    def value(self, scores, y, margin):
        raise NotImplementedError

    def gradient(self, scores, y, margin, xi):
        raise NotImplementedError

    def value_and_gradient(self, scores, y, margin, xi):
        return self.value(scores, y, margin), self.gradient(scores, y, margin, xi)

    def is_curved(self):
        return False

    def curvature(self, scores, y, margin, direction, product):
        return 0.0

    def margin_direction(self):
        return 0.0

    def n_touched(self):
        return -1  # all


class LossEntry(NamedTuple):
    """A loss rule and its properties.

    Attributes
    ----------
    name : str
        The name that users give.
    task : str
        "classification", "regression" or "novelty".
    single_output : bool
        Whether it has one score, rather than one per label.
    accepts_nu : bool
        Whether its margin can adapt.
    accepts_implicit : bool
        Whether it has an implicit step.
    structured : bool
        Whether it is made with the rule of a label structure.
    rule : NamedTuple
        Or, if structured, the class that makes one from that rule.
    has_margin : bool
        Whether it depends on the margin.
    needs_positive_margin : bool
    default_margin : float or None
        If it differs from that of the estimator.
    """

    name: str
    task: str
    single_output: bool
    accepts_nu: bool
    accepts_implicit: bool
    structured: bool
    rule: Any
    has_margin: bool = True
    needs_positive_margin: bool = False
    default_margin: float | None = None


_ENTRIES: dict[tuple[str, str, bool, bool], LossEntry] = {}


def loss(
    name: str, task: str, *, single_output: bool, accepts_nu: bool, accepts_implicit: bool = True,
    structured: bool = False, has_margin: bool = True, needs_positive_margin: bool = False,
    default_margin: float | None = None, allocates: bool = False,
) -> Callable[[Any], Any]:  # fmt: skip
    """Register a NamedTuple as a loss by name (a class decorator).

    Parameters
    ----------
    name, task : str
        What users call it, and "classification", "regression" or "novelty".
    single_output, accepts_nu, accepts_implicit, structured, has_margin : bool
        See `LossEntry`.
    needs_positive_margin : bool
    default_margin : float or None
    allocates : bool, default=False
        Whether its methods make arrays. Those of losses outside this package always may.

    Examples
    --------
    The whole of a new loss is in CONTRIBUTING.md.

    >>> from kernelstream.losses import loss
    >>> register = loss("my_loss", "regression", single_output=True, accepts_nu=False)
    """

    def register(cls: Any) -> Any:
        cls = part("loss", name)(rule(cls, defaults=LossRule, allocates=allocates))
        made = cls if structured else cls()
        _ENTRIES[task, name, single_output, structured] = LossEntry(
            name, task, single_output, accepts_nu, accepts_implicit, structured, made, has_margin,
            needs_positive_margin, default_margin,
        )  # fmt: skip
        return cls

    return register


def all_losses() -> list[LossEntry]:
    """Return every loss of the package.

    Examples
    --------
    >>> from kernelstream import losses
    >>> sorted({entry.name for entry in losses.all_losses()})[:3]
    ['epsilon_insensitive', 'hinge', 'huber']
    """
    return list(_ENTRIES.values())


def names(task: str) -> list[str]:
    """Return the names of the losses of a task.

    Parameters
    ----------
    task : {"classification", "regression", "novelty"}

    Examples
    --------
    >>> from kernelstream import losses
    >>> losses.names("regression")
    ['epsilon_insensitive', 'huber', 'squared_error']
    """
    return sorted({entry.name for entry in all_losses() if entry.task == task})


def has_margin(task: str, name: str) -> bool:
    """Return whether the loss depends on the margin.

    Parameters
    ----------
    task, name : str
        Such as "classification" and "hinge".

    Examples
    --------
    >>> from kernelstream import losses
    >>> losses.has_margin("classification", "hinge")
    True
    """
    return any(e.has_margin for e in all_losses() if (e.task, e.name) == (task, name))


def find(task: str, name: str, single_output: bool, labels: Any = None) -> LossEntry:
    """Return the loss of a task by name, for models with one output or with one per label.

    `labels` is the rule of the label structure, if there is one.

    Parameters
    ----------
    task, name : str
        Such as "classification" and "hinge".
    single_output : bool
    labels : NamedTuple, default=None

    Examples
    --------
    >>> from kernelstream import losses
    >>> losses.find("classification", "hinge", single_output=True).accepts_nu
    True
    """
    entry = _ENTRIES.get((task, name, single_output, labels is not None))
    if entry is None:
        raise LookupError(f"no loss {name!r} for {task} (single_output={single_output})")
    return entry if labels is None else entry._replace(rule=entry.rule(labels))
