"""Rules: NamedTuples of plain numbers whose methods run as Python and inside compiled code."""

import inspect
from collections import namedtuple
from typing import Any

from numba import types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr
from numba.extending import lower_builtin

from kernelstream.compiled import as_caller, calling, makes_arrays

__all__ = ["rule"]

_signatures: dict[str, tuple[str, ...]] = {}


def rule(cls: Any = None, *, defaults: type | None = None, allocates: bool = False) -> Any:
    """Class decorator: make a NamedTuple's methods callable from compiled code, found by type.

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
        _make_callable(name, _parameters(function))
        if allocates and name in own:
            makes_arrays(function)
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
    if known is parameters:  # else it was registered with an earlier rule
        lower_builtin((_RuleMethods, name), types.BaseNamedTuple, types.VarArg(types.Any))(
            calling(lambda signature: _method(signature.args[0], name))
        )


@infer_getattr
class _RuleMethods(AttributeTemplate):
    """How the compiler finds the methods of all rules: in the class of the record."""

    key = types.BaseNamedTuple

    def generic_resolve(self, record: Any, name: str) -> Any:  # type: ignore[override]
        is_method = inspect.isfunction(vars(record.instance_class).get(name))
        if name not in _signatures or not is_method:
            return None

        class Method(AbstractTemplate):
            key = (_RuleMethods, name)

            # The compiler may use one such type for several callers, whose options differ: which
            # variant of the method they call is asked only here.
            def generic(self, arguments: Any, keywords: Any) -> Any:
                method = _method(record, name)
                signature = method.get_call_type(self.context, (record, *arguments), keywords)
                return None if signature is None else signature.as_method()

        return types.BoundFunction(Method, record)


def _method(record: Any, name: str) -> Any:
    """The compiler's type of a record's method."""
    return as_caller(vars(record.instance_class)[name])
