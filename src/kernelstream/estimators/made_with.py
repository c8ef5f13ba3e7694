"""The parameters that a model was made with: others take effect when `fit` begins again."""

import copy
from collections.abc import Mapping, Sequence
from numbers import Number
from operator import is_
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

__all__ = ["MadeWith"]

_MADE_WITH = "_made_with"
_MAY_DIFFER_INSIDE = "_may_differ_inside"  # whether a parameter of a part was set


class _Parameters(NamedTuple):
    """The parameters that a model was made with: as they were given, and as copies of its own."""

    names: list[str]
    given: list[Any]
    kept: list[Any]


class MadeWith(BaseEstimator):
    """An estimator that learns on with the parameters that its model was made with.

    Attributes
    ----------
    adjustable : frozenset of str
        Parameters that may change at any time, since no part of a model depends on them.
    """

    adjustable: ClassVar[frozenset[str]] = frozenset(
        {"n_epochs", "n_jobs", "on_bad_row", "random_state"}
    )

    def set_params(self, **params: Any) -> Self:
        """Set parameters. Those of a model that has learned take effect when `fit` is called.

        Until then `partial_fit` and `learn_one` raise an error that names the parameter.

        Parameters
        ----------
        **params
            The parameters, also ``part__parameter``.

        Returns
        -------
        self
        """
        super().set_params(**params)
        if any("__" in name for name in params):
            self.__dict__[_MAY_DIFFER_INSIDE] = True
        return self

    def _maker(self) -> Self:
        """Return an estimator of the same parameters that nobody else can change."""
        given = self.get_params(deep=False)
        kept = {name: value for name, value in given.items() if name not in self.adjustable}
        kept.update({name: _copied(value) for name, value in kept.items() if name != "device"})
        self._note(given, kept)
        maker = copy.copy(self)
        maker.__dict__.update(kept)
        return maker

    def _note_parameters(self) -> None:
        """Note that the model was made with the parameters as they are."""
        given = self.get_params(deep=False)
        self._note(given, {k: v for k, v in given.items() if k not in self.adjustable})

    def _note(self, given: dict[str, Any], kept: dict[str, Any]) -> None:
        self.__dict__.pop(_MAY_DIFFER_INSIDE, None)
        names = list(kept)
        made_with = _Parameters(names, [given[name] for name in names], list(kept.values()))
        self.__dict__[_MADE_WITH] = made_with

    def made_with(self) -> dict[str, Any]:
        """Return the parameters of the model, of which files consist."""
        made_with = self.__dict__.get(_MADE_WITH)
        kept = {} if made_with is None else zip(made_with.names, made_with.kept, strict=True)
        return {**self.get_params(deep=False), **dict(kept)}

    def _refuse_changed(self) -> None:
        """Refuse to learn on if a parameter is another than the model was made with."""
        own = self.__dict__
        made_with = own.get(_MADE_WITH)
        if made_with is None:
            return
        looks_inside = _MAY_DIFFER_INSIDE in own
        if not looks_inside and all(map(is_, map(own.get, made_with.names), made_with.given)):
            return  # as before nearly every row
        for name, given, kept in zip(*made_with, strict=True):
            now = getattr(self, name)
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
