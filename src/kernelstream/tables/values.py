"""Entries of tables as numbers, and as text for messages."""

import math
from typing import Any

__all__ = ["as_float", "shortened"]


def as_float(value: Any) -> float:
    """The value as a float, or NaN if it is not a number.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> from kernelstream.tables import as_float
    >>> as_float("2.5"), as_float("red")
    (2.5, nan)
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def shortened(value: Any) -> str:
    """A value as text for a message, shortened if it is long.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> from kernelstream.tables import shortened
    >>> shortened("red")
    "'red'"
    """
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"
