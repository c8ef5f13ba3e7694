"""The names of labels. Inside the learner a label is a number: an output's index, or -1 and +1."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.rows import BadRow

__all__ = [
    "Labels",
    "as_block",
    "as_labels",
    "as_written",
    "class_probabilities",
    "kind_of",
    "problem_of",
    "shown",
    "sound_labels",
]

_KINDS = "biufUO"  # of arrays of labels: numbers, strings, or objects that are one of the two
_FOR_NUMBERS = "for numbers use a regressor (AutoRegressor, KernelRegressor)"
_LONGEST_NUMBER = 1024  # bits
_BEYOND, _LARGEST_EXACT = 2**63, 2**53  # of integers that NumPy holds, alone and beside floats


_FEW = 256  # rows, up to which it is faster to look labels up one by one than to sort them


class Labels:
    """A growing list of class names, in the order of the model's outputs.

    With exactly two declared classes the model has a single output, and labels become -1 and +1.
    With a label structure the labels are its own, and there will be no others.
    """

    def __init__(self, declared: Any = None, structure: LabelStructure | None = None):
        self.names: list[Any] = []
        self.dtype: np.dtype | None = None
        self.single_output = False
        self.structure = structure
        self.n_late = 0  # how many were not declared
        self.index: dict[Any, int] = {}
        if structure is not None:
            if declared is not None:
                structure.codes(declared)  # which refuses unknown ones
                declared = None
            self.add(as_labels(structure.label_names()))
        if declared is not None:
            names = np.unique(as_labels(declared))
            if len(names) < 2:
                raise ValueError(
                    f"classes={declared!r} names {len(names)} class: declare at least two, or "
                    "leave classes out and let them come with the stream."
                )
            self.single_output = len(names) == 2
            self.add(names)

    def __len__(self) -> int:
        return len(self.names)

    def n_outputs(self) -> int:
        """Return how many outputs a model of these labels has."""
        if self.structure is not None:
            return self.structure.n_outputs()
        return 1 if self.single_output else len(self)

    def as_array(self) -> np.ndarray:
        """Return the names as an array, of the kind that they came in."""
        return _array_of(self.names, self.dtype)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of a file's header for the labels."""
        dtype = None if self.dtype is None else self.dtype.str
        return {"names": self.names, "dtype": dtype, "single_output": self.single_output}

    @classmethod
    def from_json(cls, record: dict[str, Any], structure: LabelStructure | None) -> "Labels":
        """Return the labels that `to_json` described."""
        labels = cls(structure=structure)
        names, dtype = list(record["names"]), record["dtype"]
        labels.dtype = None if dtype is None else np.dtype(str(dtype))
        labels.names, labels.single_output = names, bool(record["single_output"])
        labels.index = {name: i for i, name in enumerate(names)}
        sound = (
            all(_why_no_file_holds(name) is None for name in names)
            and len({kind_of(name) for name in names}) <= 1
            and (labels.dtype is not None or not names)
            and (labels.dtype is None or labels.dtype.kind in _KINDS)
            and len(labels.index) == len(names)
            and labels.as_array().tolist() == names
            and not (labels.single_output and (len(labels) != 2 or structure is not None))
            and (structure is None or names == structure.label_names())
        )
        if not sound:
            raise ValueError(f"the labels {record!r} make no sense")
        return labels

    @staticmethod
    def n_bytes(record: dict[str, Any]) -> int:
        """Return how much memory the labels that `to_json` described take, more or less."""
        names = record["names"]
        longest = max((len(name) for name in names if isinstance(name, str)), default=0)
        return len(names) * (200 + 4 * longest)  # objects, and an array of strings

    def add(self, names: np.ndarray) -> None:
        """Join new names, or refuse them and change nothing."""
        new = names.tolist()
        dtype = names.dtype
        if self.dtype is not None:
            self._refuse_another_kind(new)
            dtype = np.result_type(self.dtype, dtype)
        known = [] if dtype == self.dtype else self.names  # those that another type may not hold
        if dtype.kind in "biuf" and _array_of([*known, *new], dtype).tolist() != [*known, *new]:
            raise ValueError(
                f"no one type of number holds the label {new[0]!r} and the labels so far "
                f"({_abbreviated(self.names)}): give all labels as integers, or all as strings"
            )
        self.dtype = dtype
        for name in new:
            self.index[name] = len(self.names)
            self.names.append(name)

    def _refuse_another_kind(self, new: list[Any]) -> None:
        if self.names and new and kind_of(new[0]) != kind_of(self.names[0]):
            raise ValueError(_two_kinds(self.names[0], new[0]))

    def copy(self) -> "Labels":
        labels = Labels()
        labels.dtype, labels.names, labels.n_late = self.dtype, list(self.names), self.n_late
        labels.index = dict(self.index)
        return labels

    def including(self, y: np.ndarray) -> tuple["Labels", np.ndarray, list[int]]:
        """Return extended labels, y as numbers, and the rows at which new labels begin."""
        if len(y) <= _FEW:  # most of the time of such a block would be spent below
            known = list(map(self.index.get, y.tolist()))
            if None not in known:
                return self, self._codes_at(np.array(known, dtype=float)), []
        names, first, inverse = np.unique(y, return_index=True, return_inverse=True)
        position = np.array([self.index.get(name, -1) for name in names.tolist()], dtype=np.int64)
        new = np.flatnonzero(position < 0)
        new = new[np.argsort(first[new])]  # in the order in which they come
        labels = self
        if new.size:
            if self.structure is not None:
                self.structure.codes(names[new])  # which refuses them
            if self.single_output:
                raise ValueError(
                    f"y contains the label {names[new].tolist()[0]!r}, but this model was told "
                    f"that the classes are {self.names!r} and has a single output for the two: "
                    "declare every class with classes=, or none, to let classes come with the "
                    "stream."
                )
            labels = self.copy()
            try:
                labels.add(names[new])
            except ValueError:  # which is the first that does not go with those before it?
                labels = self.copy()
                for m in new:
                    try:
                        labels.add(names[[m]])
                    except ValueError as error:
                        raise BadRow(int(first[m]), str(error)) from None
            labels.n_late += len(new)
            position[new] = len(self) + np.arange(len(new))
        return labels, self._codes_at(position[inverse].astype(float)), first[new].tolist()

    def _codes_at(self, positions: np.ndarray) -> np.ndarray:
        """Return the numbers of labels at these positions among all."""
        return 2.0 * positions - 1.0 if self.single_output else positions

    def code(self, name: Any) -> float | None:
        """Return the number of one label; None where it is new."""
        try:
            position = self.index.get(name)
        except TypeError:  # not hashable, so no label
            return None
        if position is None:
            return None
        return 2.0 * position - 1.0 if self.single_output else float(position)

    def predicted(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the winning label of each row of scores."""
        if self.single_output:
            return (scores[:, 0] > 0.0).astype(np.int64)
        return scores.argmax(axis=1)


def _array_of(names: list[Any], dtype: np.dtype | None) -> np.ndarray:
    if dtype is not None and dtype.kind in "biuf":
        return np.array(names, dtype=dtype)
    if dtype is not None and dtype.kind == "O":
        array = np.empty(len(names), dtype=object)
        array[:] = names
        return array
    return np.array(names)


def as_written(y: Any) -> Any:
    """Return y as it is, or as objects if NumPy would change a label.

    NumPy makes strings of numbers beside strings, floats of integers beyond 64 bits, and drops the
    null characters at the end of a string.
    """
    if not isinstance(y, list | tuple):
        return y
    kinds = set(map(type, y))
    if kinds <= {str}:
        changes = any(name.endswith("\0") for name in y)
    elif kinds <= {int}:
        changes = any(not -_BEYOND <= name < _BEYOND for name in y)
    elif kinds <= {int, float, bool}:
        changes = any(type(name) is int and abs(name) > _LARGEST_EXACT for name in y)
    else:
        array = np.asarray(y)
        large = any(isinstance(name, int | np.integer) and abs(int(name)) > _LARGEST_EXACT
                    for name in y)  # fmt: skip
        changes = array.ndim == 1 and array.dtype.kind in ("USMmf" if large else "USMm")
    return _as_objects(y) if changes else y


def _as_objects(y: Any) -> np.ndarray:
    array = np.empty(len(y), dtype=object)
    array[:] = list(y)
    return array


def as_block(name: Any) -> Any:
    """Return one label as the y of one row, whatever it is."""
    if isinstance(name, np.datetime64 | np.timedelta64):  # an array would lose what it is
        return _as_objects([name])
    return (
        [name] if isinstance(name, bool | int | float | str | np.generic) else _as_objects([name])
    )


def as_labels(y: Any) -> np.ndarray:
    """Return y as one label per row, or raise an error that describes y."""
    if type(y) is not np.ndarray or y.ndim != 1:
        y = column_or_1d(as_written(y), warn=True)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError("y contains NaN or infinity: leave these rows out.")
        if (y != np.floor(y)).any():
            odd = y[y != np.floor(y)][0]
            raise ValueError(
                f"Unknown label type: y contains {float(odd)!r}, which is continuous. A classifier "
                f"needs labels; {_FOR_NUMBERS}."
            )
        return y.astype(np.float64) if y.dtype.itemsize > 8 else y
    if y.dtype.kind == "O":
        return _of_one_kind(y)
    if y.dtype.kind == "S":
        raise ValueError(f"y contains {y[0]!r}: {_NOT_BYTES}.")
    if y.dtype.kind not in _KINDS:
        raise ValueError(
            f"Unknown label type: y has the type {y.dtype}. Give numbers or strings, such as "
            "y.astype(str)."
        )
    if y.dtype.kind == "u" and y.size and int(y.max()) >= _BEYOND:
        return _of_one_kind(_as_objects(y.tolist()))  # integers of Python have no largest one
    return y


def _of_one_kind(y: np.ndarray) -> np.ndarray:
    """Return labels that came as objects: all numbers, or all strings, of Python's own types."""
    names = [_plain(name) for name in y.tolist()]
    for name in names:
        problem = problem_of(name)
        if problem is not None:
            raise ValueError(f"Unknown label type: y contains {shown(name)}, and {problem}.")
        if kind_of(name) != kind_of(names[0]):
            raise ValueError(f"y mixes strings and numbers: {_two_kinds(names[0], name)}.")
    return _array_of(names, y.dtype)


def sound_labels(y: np.ndarray) -> np.ndarray:
    """Return the labels that y contains, sorted, without entries that are none."""
    if y.dtype.kind not in "fO":
        return np.unique(y)
    names = [name for name in map(_plain, y.tolist()) if problem_of(name) is None]
    return np.unique(np.asarray([name for name in names if kind_of(name) == kind_of(names[0])]))


def problem_of(name: Any) -> str | None:
    """Return the problem with a label, or None."""
    name = _plain(name)
    if isinstance(name, float) and math.isfinite(name) and name != math.floor(name):
        return f"that is continuous: {_FOR_NUMBERS}"
    return _why_no_file_holds(name)


def _why_no_file_holds(name: Any) -> str | None:
    if isinstance(name, bytes):
        return _NOT_BYTES
    if not isinstance(name, bool | int | float | str):
        return "a label is a number or a string"
    if isinstance(name, float) and not math.isfinite(name):
        return "a label is no NaN and no infinity: leave this row out"
    if isinstance(name, int) and name.bit_length() > _LONGEST_NUMBER:
        return f"as a number it has more than {_LONGEST_NUMBER} bits: give it as a string"
    return None


def shown(name: Any) -> str:
    """Return a label in a message."""
    try:
        return repr(name)
    except ValueError:  # Python does not write numbers of thousands of digits
        return "a number of thousands of digits"


def kind_of(name: Any) -> type:
    """Return whether a label is a string or a number: a model's labels are one or the other."""
    return str if isinstance(name, str) else float


def _plain(name: Any) -> Any:
    if isinstance(name, np.longdouble) and name.dtype.itemsize > 8:  # Python has no such number
        return float(name)
    if isinstance(name, np.datetime64 | np.timedelta64):  # whose item may be an integer
        return name
    return name.item() if isinstance(name, np.generic) else name


_NOT_BYTES = "labels that are bytes cannot be saved: decode them to strings"


def _two_kinds(first: Any, second: Any) -> str:
    return (
        f"of the labels {first!r} and {second!r} one is a string and one a number: give all labels "
        "as strings, or all as numbers"
    )


def _abbreviated(names: list[Any], most: int = 6) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return f"{listed}, ..." if len(names) > most else listed


def class_probabilities(log_odds: np.ndarray, single_output: bool) -> np.ndarray:
    """Return the softmax of each row; a single column is the second of two classes."""
    if single_output:
        log_odds = np.column_stack([np.zeros(len(log_odds)), log_odds])
    odds = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)
