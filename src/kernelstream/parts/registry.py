"""Which parts there are: one decorator registers any of them.

Files name parts by their class, so that names are unique over all kinds. Whatever lists parts (the
command line, the documentation's tables, the contract tests) walks this registry.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from kernelstream.parts.checks import one_of

__all__ = ["Entry", "all_parts", "as_part", "by_name", "discover", "make", "named", "names", "part"]

PartClass = TypeVar("PartClass", bound=type)


class Entry(NamedTuple):
    """A part: its kind, the names by which users may ask for it, and its class.

    Attributes
    ----------
    kind : str
        Such as "kernel".
    names : tuple of str
        By which users may ask for it.
    cls : type
        Its class.
    """

    kind: str
    names: tuple[str, ...]
    cls: type


_ENTRIES: dict[str, Entry] = {}


def part(kind: str, *names: str) -> Callable[[PartClass], PartClass]:
    """Register a part, "kernel", "budget" and so on (a class decorator).

    Parameters
    ----------
    kind : str
        The package that it belongs to, in the singular.
    *names : str
        What a user may write in place of the object, such as "rbf".

    Examples
    --------
    >>> from kernelstream.parts import names
    >>> "rbf" in names("kernel")
    True
    """

    def register(cls: PartClass) -> PartClass:
        known = _ENTRIES.get(cls.__name__)
        if known is not None and _source(known.cls) != _source(cls):
            raise ValueError(
                f"there are two parts of the name {cls.__name__}, in {known.cls.__module__} and "
                f"{cls.__module__}: files name parts, so give one of them another name."
            )
        _ENTRIES[cls.__name__] = Entry(kind, names, cls)
        return cls

    return register


def _source(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def all_parts(kind: str | None = None) -> list[Entry]:
    """Return every registered part, or those of one kind.

    Parameters
    ----------
    kind : str, default=None
        Such as "kernel"; None: all.

    Examples
    --------
    >>> from kernelstream.parts import all_parts
    >>> "Nu" in [entry.cls.__name__ for entry in all_parts("margin")]
    True
    """
    return [entry for entry in _ENTRIES.values() if kind in (None, entry.kind)]


def names(kind: str) -> list[str]:
    """Return the names by which users may ask for parts of a kind.

    Parameters
    ----------
    kind : str
        Such as "step_size".

    Examples
    --------
    >>> from kernelstream.parts import names
    >>> "smd" in names("step_size")
    True
    """
    return list(dict.fromkeys(name for entry in all_parts(kind) for name in entry.names))


def by_name(kind: str, name: str) -> Any:
    """Return the class of a part that has a name.

    Parameters
    ----------
    kind, name : str
        Such as "kernel" and "rbf".

    Examples
    --------
    >>> from kernelstream.parts import by_name
    >>> by_name("kernel", "rbf").__name__
    'RBF'
    """
    return next(entry.cls for entry in all_parts(kind) if name in entry.names)


def named(class_name: str) -> Any:
    """Return the part of a class's name, as files give it; None where there is none.

    Parameters
    ----------
    class_name : str

    Examples
    --------
    >>> from kernelstream.parts import named
    >>> named("RBF").__name__, named("Unheard")
    ('RBF', None)
    """
    entry = _ENTRIES.get(class_name)
    return None if entry is None else entry.cls


def make(class_name: str, **params: Any) -> Any:
    """Return a part by its class's name: how one kind of part asks for one of another kind.

    Parameters
    ----------
    class_name : str
    **params
        Its parameters.

    Examples
    --------
    >>> from kernelstream.parts import make
    >>> make("RBF", gamma=2.0)
    RBF(gamma=2.0)
    """
    return _ENTRIES[class_name].cls(**params)


def as_part(kind: str, parameter: str, value: Any, base: type) -> Any:
    """Return a part from its name or itself, checked.

    Parameters
    ----------
    kind : str
        Such as "update".
    parameter : str
        What the user calls it, for the message.
    value : str or part
    base : type
        The base class of such parts.

    Examples
    --------
    >>> from kernelstream.parts import as_part
    >>> from kernelstream.updates import Update
    >>> as_part("update", "update", "implicit", Update)
    Implicit(exact=True)
    """
    if isinstance(value, base):
        value.check()  # type: ignore[attr-defined]
        return value
    return by_name(kind, one_of(parameter, value, names(kind)))()


def discover(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that each part in it registers itself.

    Parameters
    ----------
    package : str
        Its name.
    path : iterable of str
        Its ``__path__``.

    Examples
    --------
    A package of parts of your own needs no list of its files:

    >>> from kernelstream import losses
    >>> from kernelstream.parts import discover
    >>> discover(losses.__name__, losses.__path__)
    """
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
