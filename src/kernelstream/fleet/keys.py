"""Keys of models: strings, integers, and tuples of these.

Equal keys are one key, whatever they came in: a list, an array, a column of pandas or polars, a
file. So integers of NumPy become integers of Python, and a whole number in a column of floats
(which pandas makes of integers with a gap) is that integer.
"""

import json
import zlib
from numbers import Integral
from typing import Any

import numpy as np

__all__ = [
    "as_keys", "from_text", "keys_from_array", "keys_to_array", "part_of", "to_text", "with_tuples"
]  # fmt: skip

_PLAIN = {str, int}
_LARGEST_WHOLE = 2.0**53  # larger floats stand for several integers


def as_keys(keys: Any) -> tuple[list[Any], dict[int, str]]:
    """Return a key for every row, None where there is none, and what is wrong with those rows.

    A table of several columns makes tuples.
    """
    found = _entries(keys)
    if set(map(type, found)) <= _PLAIN:
        return found, {}
    problems: dict[int, str] = {}
    for row, key in enumerate(found):
        try:
            found[row] = _as_key(key)
        except TypeError as error:
            found[row], problems[row] = None, str(error)
    return found, problems


def _entries(keys: Any) -> list[Any]:
    """Return the entries of a column, or a tuple for each row of a table."""
    if isinstance(keys, list | tuple):
        return list(keys)
    if hasattr(keys, "columns") and hasattr(keys, "dtypes"):
        get = keys.iloc.__getitem__ if hasattr(keys, "iloc") else None
        columns = [
            _entries(keys.to_series(k) if get is None else get((slice(None), k)))
            for k in range(len(keys.columns))
        ]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    if hasattr(keys, "to_list") and hasattr(keys, "dtype") and not isinstance(keys, np.ndarray):
        return list(keys.to_list())  # a column of pandas or polars, with the types it has
    array = np.asarray(keys)
    if array.dtype.kind in "mM":  # whose list would hold bare integers
        rows = array.reshape(len(array), -1) if array.ndim else array
        return [row[0] if array.ndim == 1 else tuple(row) for row in rows]
    if array.ndim == 2:
        return list(map(tuple, array.tolist()))
    if array.ndim == 1:
        return array.tolist()
    raise ValueError(
        f"keys={keys!r} is a single value: give a key for each row, as a list or an array."
    )


def _as_key(key: Any) -> Any:
    if type(key) in _PLAIN:
        return key
    if isinstance(key, tuple) and key:
        return tuple(map(_as_key, key))
    if isinstance(key, str):
        return str(key)
    if isinstance(key, Integral) and not isinstance(key, bool | np.bool_ | np.timedelta64):
        return int(key)
    if key is None or type(key).__name__ in ("NAType", "NaTType") or _is_nan(key):
        raise TypeError(f"its key is null ({key!r})")
    if isinstance(key, float | np.floating):
        number = float(key)
        if abs(number) <= _LARGEST_WHOLE and number.is_integer():
            return int(number)
    raise TypeError(
        f"its key is {key!r}, a {type(key).__name__}: keys are strings, integers, or tuples of "
        "them. Give dates and other keys as text, by astype(str)"
    )


def _is_nan(key: Any) -> bool:
    return isinstance(key, float | np.floating) and bool(np.isnan(key))


def to_text(key: Any) -> str:
    """Return a key as text that no other key has."""
    return json.dumps(key)


def from_text(text: str) -> Any:
    """Return the key of a text."""
    return with_tuples(json.loads(text))


def with_tuples(value: Any) -> Any:
    """Return a key of JSON, which has lists for tuples; a ValueError where it is none."""
    key = tuple(map(with_tuples, value)) if isinstance(value, list) else value
    if type(key) not in (str, int, tuple) or key == ():
        raise ValueError(f"{value!r} is no key.")
    return key


def keys_to_array(keys: list[Any]) -> np.ndarray:
    """Return keys as numbers, for a file: their text, eight bytes at a time."""
    text = json.dumps(keys).encode()
    return np.frombuffer(text + b" " * (-len(text) % 8), dtype="<i8")


def keys_from_array(array: np.ndarray) -> list[Any]:
    """Return the keys that `keys_to_array` wrote."""
    found = json.loads(array.astype("<i8").tobytes())
    if not isinstance(found, list):
        raise ValueError("the keys of the file are no list.")
    if not set(map(type, found)) <= _PLAIN:
        found = [with_tuples(key) for key in found]
    if len(set(found)) != len(found):
        raise ValueError("a key of the file is there twice.")
    return found


def part_of(key: Any, n_parts: int) -> int:
    """Return which of n parts a key belongs to: the same in every process, on every machine.

    Parameters
    ----------
    key : str, int, or tuple of these
    n_parts : int

    Examples
    --------
    >>> from kernelstream.fleet import part_of
    >>> [part_of(sensor, 3) for sensor in ("a", "b", ("a", 7))]
    [1, 0, 0]
    """
    return zlib.crc32(to_text(key).encode()) % n_parts
