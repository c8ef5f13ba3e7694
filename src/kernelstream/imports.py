"""Imports of other packages that are put off until something of them is asked for.

scikit-learn imports `scipy.stats` and pandas when it is imported itself, and asks for something of
them only in functions that we do not call. They are half of all that a first call has to import.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["put_off"]


class _PutOff(ModuleType):
    """Stands where a module would be. Whoever asks it for something gets that of the module."""

    def __getattr__(self, name: str) -> Any:
        _make_way(self)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def put_off(*names: str) -> Iterator[None]:
    """Modules that are imported meanwhile, and not yet, are imported when they are first used.

    Afterwards an import is an import again: nothing stands in for a module any longer, except where
    somebody has kept its name, as ``import pandas as pd`` does.

    Examples
    --------
    >>> import sys
    >>> from kernelstream.imports import put_off
    >>> with put_off("this"):
    ...     import this as zen
    >>> "this" in sys.modules
    False
    """
    standing_in = []
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = _PutOff(name)
            module.__spec__, module.__file__ = spec, spec.origin
            # another thread may have imported it meanwhile
            if sys.modules.setdefault(name, module) is module:
                standing_in.append(module)
    try:
        yield
    finally:
        for module in standing_in:
            _make_way(module)


def _make_way(module: _PutOff) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]
