"""Rules: NamedTuples of plain numbers whose methods run as Python and inside compiled code."""

import inspect
from collections import namedtuple
from typing import Any

from kernelstream.compile import declare

__all__ = ["rule"]

_signatures: dict[str, tuple[str, ...]] = {}


def rule(cls: Any = None, *, defaults: type | None = None, allocates: bool = False) -> Any:
    """Make the methods of a NamedTuple callable from compiled code, by type (a class decorator).

    Methods of one name share one signature over all rules, because the compiler finds the
    implementation by the type of `self` alone.

    Parameters
    ----------
    cls : NamedTuple
    defaults : class, default=None
        Where methods come from that the rule does not have itself: a NamedTuple cannot inherit.
        It is the protocol of such rules.
    allocates : bool, default=False
        Whether methods make arrays, which they must not hand on. Those of parts from outside this
        package always may.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from kernelstream.parts import rule
    >>> @rule
    ... class Doubling(NamedTuple):
    ...     factor: float = 2.0
    ...
    ...     def doubled(self, x):
    ...         return self.factor * x
    >>> Doubling().doubled(3.0)
    6.0
    """
    if cls is None:
        return lambda cls: rule(cls, defaults=defaults, allocates=allocates)
    own = {name for name, _ in _methods(cls)}
    for name, function in _methods(defaults):
        if name not in vars(cls):
            setattr(cls, name, function)
    if not cls._fields:
        cls = _with_a_field(cls)
    for name, function in _methods(cls):
        _check_parameters(name, function)
        _declare(name, function if allocates and name in own else None)
    return cls


def _methods(cls: type | None) -> list[tuple[str, Any]]:
    return [
        (name, function)
        for name, function in ({} if cls is None else vars(cls)).items()
        if inspect.isfunction(function) and not name.startswith("_")
    ]


def _parameters(function: Any) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _with_a_field(cls: Any) -> Any:
    """Return the class with a field, because the compiler loses an empty tuple as `self`."""
    made: Any = namedtuple(cls.__name__, ["no_parameters"], defaults=(True,))  # type: ignore[misc]
    for name, function in _methods(cls):
        setattr(made, name, function)
    made.__doc__, made.__module__, made.__qualname__ = cls.__doc__, cls.__module__, cls.__qualname__
    return made


def _check_parameters(name: str, function: Any) -> None:
    parameters = _parameters(function)
    known = _signatures.setdefault(name, parameters)
    if known != parameters:
        raise TypeError(f"method {name}{parameters} was declared as {name}{known} by another rule.")


def _declare(name: str, allocates: Any) -> None:
    declare(lambda making: making.add_method(name, allocates))
