"""What one entry of a table means, whatever type it arrives with.

An entry is missing, a number, a date or a category. The same entry has the same meaning as text, as
a Python object and as a scalar of NumPy or pandas: "17", 17 and 17.0 are one number and one
category; "2024-05-01", a date and a timestamp are one moment.
"""

import datetime
import math
import numbers
from typing import Any

import numpy as np

__all__ = [
    "as_category",
    "as_float",
    "as_moment",
    "as_moments",
    "as_number",
    "as_plain_numbers",
    "as_seconds",
    "is_missing",
    "kind_of",
    "shortened",
]

_MISSING = {"", "na", "n/a", "nan", "nat", "null", "none", "?", "<na>"}
_TRUTH = {"true": 1.0, "false": 0.0}
_LAST_YEAR = 290_000  # datetime64[us] holds no later ones
_MOST_DIGITS = 400  # of a category that is written as an integer
# first characters of numbers and of dates of ISO 8601
_NUMERIC_STARTS = frozenset("+-.0123456789")


def is_missing(value: Any) -> bool:
    """Return whether an entry stands for a missing value.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> from kernelstream.tables import is_missing
    >>> is_missing("NA"), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    if isinstance(value, str):
        return value.strip().lower() in _MISSING
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN and NaT
    except (TypeError, ValueError):  # pandas.NA; an array in a cell
        return type(value).__name__ == "NAType"


def kind_of(value: Any) -> str | None:
    """Return "number", "date" or "category"; None if the entry is missing.

    NaN and NaT are missing, but say by their type what their column holds.
    """
    if is_missing(value):
        if isinstance(value, np.datetime64 | datetime.date):
            return "date"
        return "number" if isinstance(value, float | np.floating | np.timedelta64) else None
    for kind, convert in (("number", as_number), ("date", as_moment)):
        try:
            convert(value)
        except (TypeError, ValueError, OverflowError):
            continue
        return kind
    return "category"


def as_number(value: Any) -> float:
    """Return an entry as a number, a duration in seconds; raise an error if it is neither."""
    if isinstance(value, str):
        text = value.strip()
        truth = _TRUTH.get(text.lower())
        if truth is not None:
            return truth
        if "_" in text:  # which Python reads as a number, and nobody else does
            raise ValueError(f"{value!r} is not a number")
        return float(text)
    if isinstance(value, np.timedelta64):
        return float(as_seconds(np.asarray(value)))
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, np.datetime64 | datetime.date | bytes):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def as_seconds(durations: np.ndarray) -> np.ndarray:
    """Return durations of any unit in seconds; NaN where one is missing."""
    return durations / np.timedelta64(1, "s")  # a TypeError for months, which differ in length


def as_plain_numbers(X: Any) -> Any:
    """Return an array without durations, which become seconds; refuse an array of dates.

    NumPy would make numbers of both, in whatever unit they are stored. Everything else is returned
    as it is.
    """
    if not isinstance(X, np.ndarray | list | tuple):
        return X
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return X
    if array.dtype.kind == "m":
        return as_seconds(array)
    if array.dtype.kind == "M":
        raise TypeError(
            f"{array.flat[0]!r} is a date: give numbers, or a data frame or dictionaries, in which "
            "dates become features."
        )
    if array.dtype.kind == "O" and any(
        isinstance(value, np.timedelta64 | datetime.timedelta) for value in array.flat
    ):
        return np.array([as_number(value) for value in array.flat]).reshape(array.shape)
    return X


def as_moment(value: Any) -> np.datetime64:
    """Return an entry as a moment; raise an error if it is no date."""
    if isinstance(value, np.datetime64):
        return as_moments(np.asarray(value)[None])[0]
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.strip())
    if isinstance(value, datetime.datetime):  # and pandas.Timestamp
        value = value.replace(tzinfo=None)  # the local time counts
    elif not isinstance(value, datetime.date):
        raise TypeError(f"{value!r} is not a date")
    return np.datetime64(value, "us")


def as_moments(moments: np.ndarray) -> np.ndarray:
    """Return moments of any unit in microseconds; raise an error if these cannot hold one."""
    years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    too_far = ~np.isnat(moments) & (np.abs(years) > _LAST_YEAR)
    if too_far.any():
        raise OverflowError(
            f"the year {years[too_far][0]:,} is beyond those that can be used, {-_LAST_YEAR:,} to "
            f"{_LAST_YEAR:,}"
        )
    return moments.astype("datetime64[us]")


def as_category(value: Any) -> str:
    """Return the name of a category: the same for an entry of every type, "" if it is missing."""
    if is_missing(value):
        return ""
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, np.datetime64 | datetime.date):
        return _of_moment(as_moment(value))
    if isinstance(value, np.timedelta64 | datetime.timedelta):
        return _of_number(as_number(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        return _of_number(float(str(value)))  # 0.1 of any precision is 0.1
    if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        return _of_number(float(value))
    return _of_text(str(value).strip())


def _of_text(text: str) -> str:
    if text[:1] in _NUMERIC_STARTS and len(text) <= _MOST_DIGITS:
        if text.lstrip("+-").isdecimal() and text[1:2] not in ("+", "-"):
            return str(int(text))
        try:
            return _of_number(as_number(text))
        except ValueError:
            pass
        try:
            return _of_moment(as_moment(text))
        except ValueError:
            return text
    truth = _TRUTH.get(text.lower()) if len(text) <= 5 else None
    return text if truth is None else str(bool(truth))


def _of_number(number: float) -> str:
    whole = math.isfinite(number) and number.is_integer()
    return str(int(number)) if whole else repr(number)


def _of_moment(moment: np.datetime64) -> str:
    return str(np.datetime_as_string(moment, unit="auto"))


def as_float(value: Any) -> float:
    """Return an entry as a number, or NaN if it is none.

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
        return math.nan if is_missing(value) else as_number(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def shortened(value: Any) -> str:
    """Return a value as text for a message, shortened if it is long.

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
