"""What every part is made of: a public face, a compiled rule, and a declaration of state.

A part has two faces. The public one (`RBF`, `SMD`, `OldestOut`, ...) is a small class with
``get_params``/``set_params``, equality by type and value, and a repr, so that ``clone`` and grid
search work. The other is its *rule*: a ``NamedTuple`` of plain numbers with methods, which runs
as ordinary Python and, marked with `rule`, inside compiled code too.
"""

import inspect
import math
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from numba import types
from numba.extending import overload_method
from sklearn.base import BaseEstimator

__all__ = [
    "LARGEST_NUMBER",
    "LARGEST_SQUARE",
    "Field",
    "Part",
    "integer_at_least",
    "number",
    "one_of",
    "rule",
]

RuleClass = TypeVar("RuleClass", bound=type)

# Where two outcomes differ by less than this, relative to the numbers compared, the decision goes
# the documented way. BLAS rounds a row in a tile differently from the row alone (about 1e-14);
# without slack that rounding would choose between them.
SLACK = 1e-12


# What learning may leave in a model, and so what a file may hold. Coefficients stay below 1e60, or
# 1e110 where points are projected, and are divided by a scalar of at least 1e-60; times a kernel
# value (1e100) they are still numbers. Their squares, and one over a distance squared, are larger.
LARGEST_NUMBER = 1e180
LARGEST_SQUARE = 1e300


class Field(NamedTuple):
    """One array of a part's state.

    `axes` names the sizes of the model that the array spans ("outputs", "points"); an array
    without axes holds one number. `fill` is the value of entries that nothing has written yet.
    `below` names the size that integers stay below, `largest` what other numbers stay within; a
    file must respect both.
    """

    axes: tuple[str, ...]
    fill: float | int
    dtype: Any = float
    below: str | None = None
    largest: float = LARGEST_NUMBER


class Part(BaseEstimator):
    """Base of the public parts. A subclass stores its arguments, then calls `check`."""

    def check(self) -> None:
        """Raise if a parameter is out of range (called again when a model is built)."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(self.get_params(deep=False) == other.get_params(deep=False))

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.get_params(deep=False).items()))))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.get_params(deep=False).items())
        return f"{type(self).__name__}({arguments})"


# --- checks of parameters -----------------------------------------------------------------------


def number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None,
    below: float | None = None, at_most: float | None = None,
) -> float:  # fmt: skip
    """`value` as a float, or an error that names the parameter, the value and the remedy."""
    limits = [
        f"{word} {limit:g}"
        for word, limit in (
            ("greater than", above), ("at least", at_least),
            ("less than", below), ("at most", at_most),
        )
        if limit is not None
    ]  # fmt: skip
    remedy = "give a finite number" + (" " + " and ".join(limits) if limits else "")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not a number: {remedy}.")
    value = float(value)
    in_range = (
        math.isfinite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    )
    if not in_range:
        raise ValueError(f"{name}={value!r} is out of range: {remedy}.")
    return value


def integer_at_least(name: str, value: Any, least: int) -> int:
    """`value` as an int not below `least`, or an error that says so."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is not an integer: give one of at least {least}.")
    if value < least:
        raise ValueError(f"{name}={value!r} is out of range: give an integer of at least {least}.")
    return int(value)


def one_of(name: str, value: Any, choices: list[str]) -> str:
    """`value` if it is among `choices`, or an error that lists them."""
    listed = ", ".join(repr(c) for c in choices)
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is not a name: choose one of {listed}.")
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown: choose one of {listed}.")
    return value


# --- rules: NamedTuples whose methods compile ----------------------------------------------------

_signatures: dict[str, tuple[str, ...]] = {}


def rule(cls: RuleClass) -> RuleClass:
    """Class decorator: make a NamedTuple's methods callable from compiled code, found by type.

    Methods of one name share one signature over all rules, because the compiler finds the
    implementation by the type of `self` alone. A rule needs at least one field: the compiler
    loses an empty tuple that is passed as `self`.
    """
    if not cls._fields:  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__name__} needs at least one field.")
    for name, function in vars(cls).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            _make_callable(name, tuple(inspect.signature(function).parameters))
    return cls


def _make_callable(name: str, parameters: tuple[str, ...]) -> None:
    known = _signatures.setdefault(name, parameters)
    if known != parameters:
        raise TypeError(f"method {name}{parameters} was declared as {name}{known} by another rule.")
    if known is not parameters:
        return  # registered with an earlier rule
    # Numba compares parameter names, so the typing function must be written out with them.
    scope: dict[str, Any] = {}
    exec(  # names come from the package's own source
        f"def implementation({', '.join(parameters)}):\n"
        f"    return getattr(self.instance_class, {name!r}, None)",
        scope,
    )
    for kind in (types.NamedTuple, types.NamedUniTuple):
        overload_method(kind, name)(scope["implementation"])
