"""Checks of parameters: each error names the parameter, its value and the remedy."""

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["integer_at_least", "number", "one_of"]


def number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None,
    below: float | None = None, at_most: float | None = None,
) -> float:  # fmt: skip
    """Return `value` as a float; raise with the parameter, the value and the remedy.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : object
    above, at_least, below, at_most : float, default=None
        What the number must be within.

    Examples
    --------
    >>> from kernelstream.parts import number
    >>> number("gamma", 2, above=0)
    2.0
    >>> number("gamma", -1, above=0)
    Traceback (most recent call last):
        ...
    ValueError: gamma=-1.0 is out of range: give a finite number greater than 0.
    """
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
    """Return `value` as an int of at least `least`, or raise.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : object
    least : int

    Examples
    --------
    >>> from kernelstream.parts import integer_at_least
    >>> integer_at_least("size", 512, 1)
    512
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is not an integer: give one of at least {least}.")
    if value < least:
        raise ValueError(f"{name}={value!r} is out of range: give an integer of at least {least}.")
    return int(value)


def one_of(name: str, value: Any, choices: list[str]) -> str:
    """Return `value` if it is among `choices`, or raise with the list.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : object
    choices : list of str

    Examples
    --------
    >>> from kernelstream.parts import one_of
    >>> one_of("rule", "paper", ["relative", "paper"])
    'paper'
    """
    if isinstance(value, str) and value in choices:
        return value
    listed = ", ".join(repr(c) for c in choices)
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is not a name: choose one of {listed}.")
    raise ValueError(f"{name}={value!r} is unknown: choose one of {listed}.")
