"""Tables: the arguments of a compiled function, as words of eight bytes in one piece of memory.

Machine code is given the address of a table and nothing else. Of an array the table holds the
address and the shape (and the strides, unless elements lie one behind the other); of a number, its
value; of a record, the words of its fields. Machine code believes what it reads, so that every
array is checked for its dtype, rank and layout when it is written. What is the same object as
before is neither checked nor written again, and stays alive as long as the table.
"""

from collections.abc import Callable, Sequence
from ctypes import addressof, c_char
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ANSWER", "FAILED", "KIND_OF_ANSWER", "N_RESERVED", "ArrayKind", "Kind", "NumberKind",
    "OtherTypesError", "RecordKind", "Table", "as_argument", "kind_of", "n_words",
]  # fmt: skip

_NOTHING: Any = object()  # which no argument is
_NO_NUMBERS = bytearray(4096)  # where arrays without elements lie
FAILED: Any = object()  # instead of an answer: the function has raised an error
ANSWER, KIND_OF_ANSWER, N_RESERVED = 0, 1, 2  # words that machine code writes


class OtherTypesError(TypeError):
    """Arguments are not of the types that a table was made for."""


class NumberKind(NamedTuple):
    """A number of a type of NumPy."""

    dtype: str

    def __str__(self) -> str:
        return self.dtype


class ArrayKind(NamedTuple):
    """An array: ``layout`` is "C" or "F" where it is contiguous in that order, "A" otherwise."""

    dtype: str
    rank: int
    layout: str
    is_writeable: bool

    def __str__(self) -> str:
        return f"array({self.dtype}, {self.rank}d, {self.layout})"


class RecordKind(NamedTuple):
    """A tuple or a record, by its class, and the kinds of its fields."""

    cls: type
    fields: tuple[Any, ...]

    def __str__(self) -> str:
        fields = ", ".join(map(str, self.fields))
        return f"{self.cls.__module__}.{self.cls.__qualname__}({fields})"


Kind = NumberKind | ArrayKind | RecordKind

_PLAIN = {bool: "bool", int: "int64", float: "float64"}
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400  # of numpy's array flags


def kind_of(value: Any) -> Kind:
    """Return what compiled code takes a value for.

    Raises
    ------
    TypeError
        Unless it is an array of numbers, a number or a record of such.
    """
    if isinstance(value, tuple):
        return RecordKind(type(value), tuple(map(kind_of, value)))
    if type(value) in _PLAIN:
        return NumberKind(_PLAIN[type(value)])
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return NumberKind(value.dtype.name)
    is_array = type(value) in (np.ndarray, np.memmap) and value.dtype.kind in "biuf"
    if is_array and value.dtype.isnative and value.flags.aligned:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return ArrayKind(value.dtype.name, value.ndim, layout, flags.writeable)
    raise TypeError(f"{value!r} cannot be an argument of compiled code.")


def n_words(kind: Kind) -> int:
    """Return how many words of a table a value takes."""
    if isinstance(kind, RecordKind):
        return sum(map(n_words, kind.fields))
    if isinstance(kind, ArrayKind):
        return 1 + kind.rank * (2 if kind.layout == "A" else 1)
    return 1


class Table:
    """The arguments of one call at a time. It belongs to whoever fills it, and to one thread.

    Parameters
    ----------
    kinds : sequence of Kind
        Of the arguments.
    """

    __slots__ = ("_fill", "_memory", "_owner", "address", "arguments", "kinds")

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        size = N_RESERVED + sum(map(n_words, kinds))
        self._memory = bytearray(8 * size)
        self._owner = c_char.from_buffer(self._memory)
        self.address = addressof(self._owner)
        self.arguments: list[Any] = [_NOTHING] * len(self.kinds)
        self._fill, at = [], N_RESERVED
        for kind in self.kinds:
            self._fill.append(_filler(self._memory, at, kind))
            at += n_words(kind)

    def fill(self, arguments: Sequence[Any]) -> None:
        """Write the arguments. If this fails, or is interrupted, the table is of no use."""
        known = self.arguments
        if len(arguments) != len(known):
            raise OtherTypesError(f"There are {len(arguments)} arguments instead of {len(known)}.")
        for i, value in enumerate(arguments):
            if value is not known[i]:
                self._fill[i](value)
                known[i] = value

    def replace(self, position: int, value: Any) -> None:
        """Write another value for one argument; if it is of another type, nothing changes."""
        if kind_of(value) != self.kinds[position]:
            raise OtherTypesError(f"was {self.kinds[position]}, and cannot become {kind_of(value)}")
        self._fill[position](value)
        self.arguments[position] = value

    def answer(self) -> Any:
        """Return what the function that was called last has returned, or `FAILED`."""
        whole, kind = _READ_ANSWER(self._memory)
        if kind == 0:
            return None
        if kind == 1:
            return whole != 0
        if kind == 2:
            return whole
        return _READ_REAL(self._memory, 8 * ANSWER)[0] if kind == 3 else FAILED


_READ_ANSWER, _READ_REAL = Struct("=2q").unpack_from, Struct("=d").unpack_from
_WRITE_WHOLE, _WRITE_REAL = Struct("=q").pack_into, Struct("=d").pack_into
_WRITE_UNSIGNED = Struct("=Q").pack_into
_WRITE_WORDS = [Struct(f"={n}q").pack_into for n in range(12)]

_Filler = Callable[[Any], None]


def _filler(memory: bytearray, at: int, kind: Kind) -> _Filler:
    """Return a function that writes a value of a kind at a word of a table."""
    if isinstance(kind, RecordKind):
        return _record_filler(memory, at, kind)
    if isinstance(kind, ArrayKind):
        return _array_filler(memory, 8 * at, kind)
    return _number_filler(memory, 8 * at, kind)


def _record_filler(memory: bytearray, at: int, kind: RecordKind) -> _Filler:
    cls: Any = kind.cls
    n = len(kind.fields)
    fillers = []
    for field in kind.fields:
        fillers.append(_filler(memory, at, field))
        at += n_words(field)
    known: list[Any] = [_NOTHING] * n

    def fill_record(values: Any) -> None:
        if type(values) is not cls or len(values) != n:
            raise OtherTypesError
        for i, value in enumerate(values):
            if value is not known[i]:
                fillers[i](value)
                known[i] = value

    return fill_record


def _array_filler(memory: bytearray, place: int, kind: ArrayKind) -> _Filler:
    dtype, rank = np.dtype(kind.dtype), kind.rank
    wanted = _ALIGNED | (_WRITEABLE if kind.is_writeable else 0)
    wanted |= {"C": _C, "F": _F, "A": 0}[kind.layout]
    write = _WRITE_WORDS[1 + rank * (2 if kind.layout == "A" else 1)]
    is_plain = kind.is_writeable and kind.layout == "C"
    locate: Any = c_char.from_buffer
    nothing = addressof(locate(_NO_NUMBERS))

    def fill_array(array: Any) -> None:
        if (
            (array.__class__ is not np.ndarray and array.__class__ is not np.memmap)
            or (array.dtype is not dtype and array.dtype != dtype)
            or array.ndim != rank
            or array.flags.num & wanted != wanted
        ):
            raise OtherTypesError
        if is_plain:
            write(memory, place, addressof(locate(array)) if array.size else nothing, *array.shape)
        elif kind.layout == "A":
            address = array.__array_interface__["data"][0]
            write(memory, place, address, *array.shape, *array.strides)
        else:
            write(memory, place, array.__array_interface__["data"][0], *array.shape)

    return fill_array


def _number_filler(memory: bytearray, place: int, kind: NumberKind) -> _Filler:
    dtype = np.dtype(kind.dtype)
    accepted = {dtype.type, *(cls for cls, name in _PLAIN.items() if name == kind.dtype)}
    is_flag = kind.dtype == "bool"
    write = {"f": _WRITE_REAL, "u": _WRITE_UNSIGNED}.get(dtype.kind, _WRITE_WHOLE)

    def fill_number(value: Any) -> None:
        if type(value) not in accepted:
            raise OtherTypesError
        write(memory, place, int(value) if is_flag else value)

    return fill_number


def as_argument(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return `values` as an array that compiled code may be given: contiguous and writeable.

    Read-only arrays (memory maps, broadcasts) are copied, others only where they must be.
    """
    if type(values) is np.ndarray and values.dtype == dtype and values.flags.carray:
        return values
    return np.require(values, dtype, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"]).view(np.ndarray)
