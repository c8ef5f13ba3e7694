"""Rules: NamedTuples of plain numbers whose methods run as Python and inside compiled code."""

import inspect
from collections import namedtuple
from typing import Any

from numba import types
from numba.extending import overload_method

__all__ = ["rule"]

_signatures: dict[str, tuple[str, ...]] = {}


def rule(cls: Any = None, *, defaults: type | None = None) -> Any:
    """Class decorator: make a NamedTuple's methods callable from compiled code, found by type.

    Methods of one name share one signature over all rules, because the compiler finds the
    implementation by the type of `self` alone.

    Parameters
    ----------
    cls : NamedTuple
    defaults : class, default=None
        Where methods come from that the rule does not have itself: a NamedTuple cannot inherit.
        It is the protocol of such rules.
    """
    if cls is None:
        return lambda cls: rule(cls, defaults=defaults)
    for name, function in _methods(defaults):
        if name not in vars(cls):
            setattr(cls, name, function)
    if not cls._fields:
        cls = _with_a_field(cls)
    for name, function in _methods(cls):
        _make_callable(name, tuple(inspect.signature(function).parameters))
    return cls


def _methods(cls: type | None) -> list[tuple[str, Any]]:
    return [
        (name, function)
        for name, function in ({} if cls is None else vars(cls)).items()
        if inspect.isfunction(function) and not name.startswith("_")
    ]


def _with_a_field(cls: Any) -> Any:
    """The same class with a field: the compiler loses an empty tuple that is passed as `self`."""
    made: Any = namedtuple(cls.__name__, ["no_parameters"], defaults=(True,))  # type: ignore[misc]
    for name, function in _methods(cls):
        setattr(made, name, function)
    made.__doc__, made.__module__, made.__qualname__ = cls.__doc__, cls.__module__, cls.__qualname__
    return made


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
    # A method may make arrays (see `compiled`), and is rid of them when it returns.
    options: dict[str, Any] = {"jit_options": {"_nrt": True}}
    for kind in (types.NamedTuple, types.NamedUniTuple):
        overload_method(kind, name, **options)(scope["implementation"])
