"""Where each number of a model lies in the two records of a fleet."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.learner.state import State, arrays, mapped, remembered

__all__ = ["Layout", "Record"]


class Record(NamedTuple):
    """The state of a model in a fleet: that of a machine, and what stands before the machine."""

    expansion: Any
    step_size: Any
    margin: Any
    intercept: Any
    budget: Any
    update: Any
    gram: Any
    drift: Any
    scaling: Any
    target_scaling: Any
    means: Any  # for missing values
    seen: Any  # of the targets, for the baseline

    @classmethod
    def of(cls, state: State, means: Any, seen: Any) -> "Record":
        """Return the state of a machine with more fields."""
        return cls(*state, means, seen)


class Layout:
    """Where each array of a state lies in the two records of a model; scratch memory comes last."""

    def __init__(self, state: Record, declared: Record):
        self._like = state
        self.places: dict[str, tuple[bool, slice, tuple[int, ...]]] = {}
        self.n_floats = self.n_integers = 0
        found = dict(arrays(state))
        self.remembered = [name for name, _, _ in remembered(state, declared)]
        for name in self.remembered:
            self._place(name, found[name])
        self.n_saved_floats, self.n_saved_integers = self.n_floats, self.n_integers
        for name in [name for name in found if name not in self.places]:
            self._place(name, found[name])

    def _place(self, name: str, array: np.ndarray) -> None:
        is_float = array.dtype.kind == "f"
        start = self.n_floats if is_float else self.n_integers
        self.places[name] = is_float, slice(start, start + array.size), array.shape
        if is_float:
            self.n_floats += array.size
        else:
            self.n_integers += array.size

    def view(self, name: str, floats: np.ndarray, integers: np.ndarray) -> np.ndarray:
        """Return a view of one array in the records of a model, or of many models."""
        is_float, place, shape = self.places[name]
        record = floats if is_float else integers
        return record[..., place].reshape(*record.shape[:-1], *shape)

    def state(self, floats: np.ndarray, integers: np.ndarray) -> Record:
        """Return the state whose arrays are views of one model's records."""
        views = iter([self.view(name, floats, integers) for name, _ in arrays(self._like)])
        return mapped(lambda array: next(views), self._like)

    def write(self, state: Record, floats: np.ndarray, integers: np.ndarray) -> None:
        """Write a state into the records of a model, or of many models."""
        for name, array in arrays(state):
            self.view(name, floats, integers)[...] = array
