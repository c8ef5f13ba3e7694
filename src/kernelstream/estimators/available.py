"""Methods that only some settings of an estimator have."""

from collections.abc import Callable
from types import MethodType
from typing import Any

__all__ = ["available_unless"]


def available_unless(problem: Callable[[Any], str | None]) -> Callable[[Any], Any]:
    """Return a decorator for a method that an estimator lacks if `problem` says why.

    The reason is the message of the `AttributeError`. (scikit-learn's `available_if` hides it, and
    Python then proposes a method of a similar name.)

    Parameters
    ----------
    problem : callable
    """
    return lambda function: _Available(function, problem)


class _Available:
    def __init__(self, function: Any, problem: Callable[[Any], str | None]):
        self._function, self._problem = function, problem
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__wrapped__ = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._function
        why_not = self._problem(instance)
        if why_not is not None:
            # a name and no object: Python has nothing to propose
            raise AttributeError(why_not, name=self._function.__name__, obj=None)
        return MethodType(self._function, instance)
