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

    def is_curved(self):
        return False

    def curvature(self, scores, y, margin, direction, product):
        return 0.0

    def margin_direction(self):
        return 0.0

    def n_touched(self):
        return -1  # all


class LossEntry(NamedTuple):
    """A loss rule and its properties."""

    name: str  # the name that users give
    task: str  # "classification", "regression" or "novelty"
    single_output: bool  # one score, or one per label
    accepts_nu: bool  # whether its margin can adapt
    accepts_implicit: bool  # whether it has an implicit step
    structured: bool  # whether it is made with the rule of a label structure
    rule: Any  # or, if structured, the class that makes one from that rule
    has_margin: bool = True  # whether it depends on the margin
    needs_positive_margin: bool = False
    default_margin: float | None = None  # if it differs from that of the estimator


_ENTRIES: dict[tuple[str, str, bool, bool], LossEntry] = {}


def loss(
    name: str, task: str, *, single_output: bool, accepts_nu: bool, accepts_implicit: bool = True,
    structured: bool = False, has_margin: bool = True, needs_positive_margin: bool = False,
    default_margin: float | None = None,
) -> Callable[[Any], Any]:  # fmt: skip
    """Class decorator that registers a NamedTuple as a loss by name."""

    def register(cls: Any) -> Any:
        cls = part("loss", name)(rule(cls, defaults=LossRule, allocates=True))
        made = cls if structured else cls()
        _ENTRIES[task, name, single_output, structured] = LossEntry(
            name, task, single_output, accepts_nu, accepts_implicit, structured, made, has_margin,
            needs_positive_margin, default_margin,
        )  # fmt: skip
        return cls

    return register


def all_losses() -> list[LossEntry]:
    """Every loss of the package."""
    return list(_ENTRIES.values())


def names(task: str) -> list[str]:
    """The names of the losses of a task."""
    return sorted({entry.name for entry in all_losses() if entry.task == task})


def has_margin(task: str, name: str) -> bool:
    """Whether the loss depends on the margin."""
    return any(e.has_margin for e in all_losses() if (e.task, e.name) == (task, name))


def find(task: str, name: str, single_output: bool, labels: Any = None) -> LossEntry:
    """The loss of a task by name, for models with one output or with one per label.

    `labels` is the rule of the label structure, if there is one.
    """
    entry = _ENTRIES.get((task, name, single_output, labels is not None))
    if entry is None:
        raise LookupError(f"no loss {name!r} for {task} (single_output={single_output})")
    return entry if labels is None else entry._replace(rule=entry.rule(labels))
