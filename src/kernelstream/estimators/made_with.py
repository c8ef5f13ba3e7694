"""The parameters that a model was made with: others take effect when `fit` begins again."""

import copy
from collections.abc import Mapping, Sequence
from numbers import Number
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

__all__ = ["look_inside", "made_with", "maker", "note_parameters", "refuse_changed"]

# Parameters that may change at any time, since no part of a model depends on them.
_ADJUSTABLE = frozenset({"n_epochs", "n_jobs", "on_bad_row", "random_state"})
_MADE_WITH = "_made_with"
_MAY_DIFFER_INSIDE = "_may_differ_inside"  # whether a parameter of a part was set


class _Parameters(NamedTuple):
    """The parameters that a model was made with: as they were given, and as copies of its own."""

    names: list[str]
    given: list[Any]
    kept: list[Any]


def look_inside(model: Any) -> None:
    """Compare the parameters of parts, too, before the model learns on."""
    model.__dict__[_MAY_DIFFER_INSIDE] = True


def maker(model: Any) -> Any:
    """Return an estimator of the same parameters that nobody else can change, and note them."""
    given = model.get_params(deep=False)
    kept = {name: value for name, value in given.items() if name not in _ADJUSTABLE}
    kept.update({name: _copied(value) for name, value in kept.items() if name != "device"})
    _note(model, given, kept)
    twin = copy.copy(model)
    twin.__dict__.update(kept)
    return twin


def note_parameters(model: Any) -> None:
    """Note that the model was made with the parameters as they are."""
    given = model.get_params(deep=False)
    _note(model, given, {k: v for k, v in given.items() if k not in _ADJUSTABLE})


def _note(model: Any, given: dict[str, Any], kept: dict[str, Any]) -> None:
    model.__dict__.pop(_MAY_DIFFER_INSIDE, None)
    names = list(kept)
    parameters = _Parameters(names, [given[name] for name in names], list(kept.values()))
    model.__dict__[_MADE_WITH] = parameters


def made_with(model: Any) -> dict[str, Any]:
    """Return the parameters of the model, of which files consist."""
    known = model.__dict__.get(_MADE_WITH)
    kept = {} if known is None else zip(known.names, known.kept, strict=True)
    return {**model.get_params(deep=False), **dict(kept)}


def refuse_changed(model: Any) -> None:
    """Refuse to learn on if a parameter is another than the model was made with."""
    own = model.__dict__
    known = own.get(_MADE_WITH)
    if known is None:
        return
    looks_inside = _MAY_DIFFER_INSIDE in own
    if not looks_inside and all(map(is_, map(own.get, known.names), known.given)):
        return  # as before nearly every row
    for name, given, kept in zip(*known, strict=True):
        now = getattr(model, name)
        if (now is not given or looks_inside) and not _are_alike(now, kept):
            raise ValueError(
                f"{name}={now!r} was set after this model had begun to learn with "
                f"{name}={kept!r}. Parameters take effect when fit is called: fit again, learn "
                "with clone(model), or set it back."
            )


def _copied(value: Any) -> Any:
    return clone(value, safe=False)


def _are_alike(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter mean the same."""
    if a is b:
        return True
    if isinstance(a, Number) and isinstance(b, Number):
        return bool(a == b)
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    if hasattr(a, "get_params"):
        a, b = a.get_params(deep=False), b.get_params(deep=False)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_are_alike(a[key], b[key]) for key in a)
    if isinstance(a, Sequence) and not isinstance(a, str | bytes):
        return len(a) == len(b) and all(map(_are_alike, a, b))
    has_own_equality = type(a).__eq__ is not object.__eq__
    return bool(a == b) if has_own_equality else True  # a copy of an estimator of another library
