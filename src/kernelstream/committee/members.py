"""Who may be a member of a committee."""

from typing import Any, NamedTuple

from sklearn.base import clone

from kernelstream.committee.wrapped import Wrapped
from kernelstream.estimators import StreamEstimator
from kernelstream.estimators.choices import gains_from_device, learns_from_streams
from kernelstream.estimators.single import KernelEstimator
from kernelstream.presets import make
from kernelstream.stores import Device

__all__ = ["Member", "as_member", "chosen_members", "different_names", "place"]

_TASKS = {"classification": "classifier", "regression": "regressor", "novelty": "novelty"}


class Member(NamedTuple):
    """A member of a committee, before it has learned anything.

    Attributes
    ----------
    name : str
    model : estimator
        Whose parameters choose what learns.
    factor : float
        What its scores are multiplied with before they are mixed.
    """

    name: str
    model: Any
    factor: float = 1.0


def chosen_members(members: Any, task: str) -> list[Member]:
    """Return the members that a user gives, as estimators that have learned nothing."""
    if not isinstance(members, dict | list | tuple) or not members:
        raise ValueError(
            f"members={members!r} are none: give a list of presets or estimators, or a dict of "
            "them by name."
        )
    given = list(members.items() if isinstance(members, dict) else members)
    pairs = [member if isinstance(member, tuple) else (None, member) for member in given]
    names = different_names(pairs)
    return [
        Member(name, as_member(model, task)) for name, (_, model) in zip(names, pairs, strict=True)
    ]


def as_member(model: Any, task: str) -> Any:
    """Return the estimator of a preset, or a copy of one that was given; an error says why not."""
    if isinstance(model, str):
        made = make(model, _TASKS[task])
    elif isinstance(model, StreamEstimator) and model.task == task:
        made = clone(model)
    else:
        return (model if isinstance(model, Wrapped) else Wrapped(model)).for_task(task)
    if isinstance(made, KernelEstimator) and not learns_from_streams(made):
        raise ValueError(
            f"{model!r} cannot be a member of a committee: it revisits its rows, and works in fit "
            "only. Choose another preset, such as 'svmd'."
        )
    if made.readout() != "last" or made.structure() is not None:
        raise ValueError(
            f"{model!r} cannot be a member of a committee, which mixes the scores of the last "
            "models: leave predictor and label_structure out, or choose another preset, such as "
            "'perceptron'."
        )
    usual = type(made)().get_params(deep=False)
    params = made.get_params(deep=False)
    if any(params[name] != usual[name] for name in {"class_weight", "missing"} & set(params)):
        raise ValueError(
            f"{model!r} cannot be a member of a committee: give class_weight and missing to the "
            "committee, whose members and mixing then all feel it."
        )
    return made


def place(members: list[Member], device: Device | None) -> None:
    """Let those members live on a device that gain from it."""
    if device is None:
        return
    for model in (member.model for member in members):
        gains = gains_from_device(model) if isinstance(model, KernelEstimator) else True
        if gains and "device" in model.get_params(deep=False):
            model.set_params(device=device)


def _name_of(model: Any) -> str:
    if isinstance(model, str):
        return model
    return type(model.estimator if isinstance(model, Wrapped) else model).__name__


def different_names(pairs: list[tuple[str | None, Any]]) -> list[str]:
    """Return the given names, and numbered names for models without one."""
    names = [name or _name_of(model) for name, model in pairs]
    own = [name for name, _ in pairs]
    shown = [
        f"{name}-{names[:i].count(name) + 1}" if names.count(name) > 1 and own[i] is None else name
        for i, name in enumerate(names)
    ]
    twice = next((name for name in shown if shown.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"members has the name {twice!r} twice: give each member a name of its own."
        )
    return shown
