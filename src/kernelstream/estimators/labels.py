"""The names of labels. Inside the learner a label is a number: an output's index, or -1 and +1."""

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from kernelstream.label_kernels import LabelStructure

__all__ = ["Labels", "as_labels"]


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
        if structure is not None:
            if declared is not None:
                structure.codes(declared)  # which refuses unknown ones
                declared = None
            self._add(np.asarray(structure.label_names()))
        if declared is not None:
            names = np.unique(np.asarray(declared))
            if len(names) < 2:
                raise ValueError(
                    f"classes={declared!r} names {len(names)} class: declare at least two, or "
                    "leave classes out and let them come with the stream."
                )
            self.single_output = len(names) == 2
            self._add(names)
        self._index = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def n_outputs(self) -> int:
        """How many outputs a model of these labels has."""
        if self.structure is not None:
            return self.structure.n_outputs()
        return 1 if self.single_output else len(self)

    def as_array(self) -> np.ndarray:
        """The names as an array, of the kind that they came in."""
        if self.dtype is not None and self.dtype.kind in "biuf":
            return np.array(self.names, dtype=self.dtype)
        if self.dtype is not None and self.dtype.kind == "O":
            names = np.empty(len(self.names), dtype=object)
            names[:] = self.names
            return names
        return np.array(self.names)

    def to_json(self) -> dict[str, Any]:
        """What a file keeps of the labels."""
        dtype = None if self.dtype is None else self.dtype.str
        return {"names": self.names, "dtype": dtype, "single_output": self.single_output}

    @classmethod
    def from_json(cls, record: dict[str, Any], structure: LabelStructure | None) -> "Labels":
        """The labels that `to_json` described."""
        labels = cls(structure=structure)
        labels.dtype = None if record["dtype"] is None else np.dtype(str(record["dtype"]))
        labels.names, labels.single_output = list(record["names"]), bool(record["single_output"])
        labels._index = {name: i for i, name in enumerate(labels.names)}
        sound = (
            all(isinstance(name, bool | int | float | str) for name in labels.names)
            and len(labels._index) == len(labels.names) == len(labels.as_array())
            and len(set(labels.as_array().tolist())) == len(labels.names)
            and not (labels.single_output and (len(labels) != 2 or structure is not None))
            and (structure is None or labels.names == structure.label_names())
        )
        if not sound:
            raise ValueError(f"the labels {record!r} make no sense")
        return labels

    def _add(self, names: np.ndarray) -> None:
        self.dtype = names.dtype if self.dtype is None else np.result_type(self.dtype, names.dtype)
        self.names.extend(names.tolist())

    def including(self, y: np.ndarray) -> tuple["Labels", np.ndarray, list[int]]:
        """Labels extended by the new ones in y, y as numbers, and the rows where new ones begin."""
        names, first, inverse = np.unique(y, return_index=True, return_inverse=True)
        position = np.array([self._index.get(name, -1) for name in names.tolist()])
        new = np.flatnonzero(position < 0)
        new = new[np.argsort(first[new])]  # in the order in which they come
        labels = self
        if new.size:
            if self.structure is not None:
                self.structure.codes(names[new])  # which refuses them
            if self.single_output:
                raise ValueError(
                    f"y contains the label {names[new[0]]!r}, but this model was told that the "
                    f"classes are {self.names!r} and has a single output for the two: declare "
                    "every class with classes=, or none, to let classes come with the stream."
                )
            labels = Labels()
            labels.dtype, labels.names = self.dtype, list(self.names)
            labels._add(names[new])
            labels._index = {name: i for i, name in enumerate(labels.names)}
            position[new] = len(self) + np.arange(len(new))
        codes = position[inverse].astype(float)
        if self.single_output:
            codes = 2.0 * codes - 1.0
        return labels, codes, first[new].tolist()

    def code(self, name: Any) -> float | None:
        """The number of one label; None where it is new."""
        try:
            position = self._index.get(name)
        except TypeError:  # not hashable, so no label
            return None
        if position is None:
            return None
        return 2.0 * position - 1.0 if self.single_output else float(position)

    def predicted(self, scores: np.ndarray) -> np.ndarray:
        """The index of the winning label of each row of scores."""
        if self.single_output:
            return (scores[:, 0] > 0.0).astype(np.int64)
        return scores.argmax(axis=1)


def as_labels(y: Any) -> np.ndarray:
    """y as one label a row, or an error that says what it is instead."""
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError("y contains NaN or infinity: leave these rows out.")
        if (y != np.floor(y)).any():
            odd = y[y != np.floor(y)][0]
            raise ValueError(
                f"Unknown label type: y contains {odd!r}, which is continuous. A classifier needs "
                "labels; for numbers use KernelRegressor."
            )
    elif y.dtype.kind not in "biuOUS":
        raise ValueError(f"Unknown label type: y has the type {y.dtype}. Give numbers or strings.")
    return y
