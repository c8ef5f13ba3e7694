"""Keys of models: strings, integers, and tuples of these."""

import json
import zlib
from numbers import Integral
from typing import Any

import numpy as np

__all__ = [
    "as_keys", "from_text", "keys_from_array", "keys_to_array", "part_of", "to_text", "with_tuples"
]  # fmt: skip

_PLAIN = {str, int}


def as_keys(keys: Any) -> tuple[list[Any], dict[int, str]]:
    """A key for every row as Python has them, and what is wrong with those that are none.

    Integers and strings of NumPy become those of Python, so that equal keys are one key in files
    too. A table of several columns makes tuples.
    """
    found: list[Any]
    if not isinstance(keys, list | tuple):
        array = np.asarray(keys)
        if array.ndim == 2:
            found = list(map(tuple, np.asarray(keys, dtype=object).tolist()))
        elif array.ndim == 1:
            found = array.tolist()
        else:
            raise ValueError(
                f"keys={keys!r} is a single value: give a key for each row, as a list or an array."
            )
    else:
        found = list(keys)
    if set(map(type, found)) <= _PLAIN:
        return found, {}
    problems: dict[int, str] = {}
    for row, key in enumerate(found):
        try:
            found[row] = _as_key(key)
        except TypeError as error:
            found[row], problems[row] = None, str(error)
    return found, problems


def _as_key(key: Any) -> Any:
    if type(key) in _PLAIN:
        return key
    if isinstance(key, tuple) and key:
        return tuple(map(_as_key, key))
    if isinstance(key, str):
        return str(key)
    if isinstance(key, Integral) and not isinstance(key, bool):
        return int(key)
    if key is None or type(key).__name__ in ("NAType", "NaTType") or _is_nan(key):
        raise TypeError(f"its key is null ({key!r})")
    raise TypeError(
        f"its key is {key!r}, a {type(key).__name__}: keys are strings, integers, or tuples of them"
    )


def _is_nan(key: Any) -> bool:
    return isinstance(key, float | np.floating) and bool(np.isnan(key))


def to_text(key: Any) -> str:
    """A key as text that no other key has."""
    return json.dumps(key)


def from_text(text: str) -> Any:
    """The key of a text."""
    return with_tuples(json.loads(text))


def with_tuples(value: Any) -> Any:
    """A key as JSON has it, with lists for tuples, as it is; a ValueError where it is none."""
    key = tuple(map(with_tuples, value)) if isinstance(value, list) else value
    if type(key) not in (str, int, tuple) or key == ():
        raise ValueError(f"{value!r} is no key.")
    return key


def keys_to_array(keys: list[Any]) -> np.ndarray:
    """Keys as numbers, for a file: their text, eight bytes at a time."""
    text = json.dumps(keys).encode()
    return np.frombuffer(text + b" " * (-len(text) % 8), dtype="<i8")


def keys_from_array(array: np.ndarray) -> list[Any]:
    """The keys that `keys_to_array` wrote."""
    found = json.loads(array.astype("<i8").tobytes())
    if not isinstance(found, list):
        raise ValueError("the keys of the file are no list.")
    if not set(map(type, found)) <= _PLAIN:
        found = [with_tuples(key) for key in found]
    if len(set(found)) != len(found):
        raise ValueError("a key of the file is there twice.")
    return found


def part_of(key: Any, n_parts: int) -> int:
    """Which of n parts a key belongs to: the same in every process, and on every machine.

    Parameters
    ----------
    key : str, int, bytes or tuple of these
    n_parts : int

    Examples
    --------
    >>> from kernelstream.fleet import part_of
    >>> [part_of(sensor, 3) for sensor in ("a", "b", ("a", 7))]
    [1, 0, 0]
    """
    return zlib.crc32(to_text(key).encode()) % n_parts
