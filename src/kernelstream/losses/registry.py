"""Which loss goes by which name, for which task."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kernelstream.parts import rule

__all__ = ["LossEntry", "all_losses", "find", "has_margin", "loss", "names"]

RuleClass = TypeVar("RuleClass", bound=type)


class LossEntry(NamedTuple):
    """A loss rule and where it belongs."""

    name: str  # what a user asks for
    task: str  # "classification", "regression" or "novelty"
    single_output: bool  # one score, or one a label
    accepts_nu: bool  # whether its margin may adapt
    accepts_implicit: bool  # whether it has an implicit step
    structured: bool  # whether it is made with the numbers of a label structure
    rule: Any  # or, where structured, the class that makes one from them
    has_margin: bool = True


_ENTRIES: list[LossEntry] = []


def loss(
    name: str, task: str, *, single_output: bool, accepts_nu: bool, accepts_implicit: bool = True,
    structured: bool = False, has_margin: bool = True,
) -> Callable[[RuleClass], RuleClass]:  # fmt: skip
    """Class decorator: make a NamedTuple a loss that users find by name."""

    def register(cls: RuleClass) -> RuleClass:
        made = rule(cls) if structured else rule(cls)()
        accepts = accepts_nu, accepts_implicit
        _ENTRIES.append(
            LossEntry(name, task, single_output, *accepts, structured, made, has_margin)
        )
        return cls

    return register


def all_losses() -> list[LossEntry]:
    """Every loss of the package."""
    return list(_ENTRIES)


def names(task: str) -> list[str]:
    """The names that a user can ask for, for a task."""
    return sorted({entry.name for entry in _ENTRIES if entry.task == task})


def has_margin(task: str, name: str) -> bool:
    """Whether a margin changes the loss."""
    return any(e.has_margin for e in _ENTRIES if (e.task, e.name) == (task, name))


def find(task: str, name: str, single_output: bool, labels: Any = None) -> LossEntry:
    """The loss of a task by name, for models with one output or with one a label.

    `labels` are the numbers of a label structure, where there is one.
    """
    wanted = (task, name, single_output, labels is not None)
    for entry in _ENTRIES:
        if (entry.task, entry.name, entry.single_output, entry.structured) == wanted:
            return entry if labels is None else entry._replace(rule=entry.rule(labels))
    raise LookupError(f"no loss {name!r} for {task} (single_output={single_output})")
