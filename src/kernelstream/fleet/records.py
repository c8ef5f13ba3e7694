"""The models of a fleet as lines of two large arrays.

A model's numbers are one record of floats and one of integers, and a fleet is an array of each. The
state of the first model is a tuple of views. Moved along by the length of a record (`moved`), the
same views are the state of the next model.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelstream.fleet.baseline import NoBaseline
from kernelstream.fleet.layout import Layout, Record
from kernelstream.fleet.missing import filling_of, without_gaps
from kernelstream.learner.gate import Gate
from kernelstream.learner.machine import Machine
from kernelstream.learner.plan import Parts, corrects_norms, most_points, refuse_beyond
from kernelstream.learner.rows import refuse_large
from kernelstream.learner.scaled import refuse_unfit, unfit
from kernelstream.learner.state import check_values, new_arrays

__all__ = ["READABLE", "Models"]


class Models:
    """The models of a fleet: what they share, and what each of them knows.

    `floats` and `integers` have a record for every model, `points` its support vectors, a line for
    every feature.

    Parameters
    ----------
    parts : Parts
    n_features, n_outputs : int
        The number of columns that users give, and of scores.
    dtype : numpy.dtype
    n_models : int
    max_bytes : int, default=None
        The most memory that the models may take.
    missing : {"error", "mean", "indicator"}, default="error"
        As in the estimators.
    baseline : tuple, default=None
        The rule and the fields from `baseline_of`. None: nothing is compared.
    """

    def __init__(
        self, parts: Parts, n_features: int, n_outputs: int, dtype: Any, n_models: int,
        max_bytes: int | None = None, missing: str = "error", baseline: Any = None,
    ):  # fmt: skip
        # The machine never learns, and so keeps no rows (`sparse`). Kernel values between points
        # are computed where they are needed: to fetch them from memory would take longer.
        self.n_given = n_features
        width = 2 * n_features if missing == "indicator" else n_features
        self.machine = machine = Machine(
            parts, width, n_outputs, np.dtype(dtype), sparse=True, stores_gram=False,
            max_bytes=max_bytes, n_slots=most_points(parts),  # records do not grow
        )  # fmt: skip
        self.corrects = corrects_norms(parts, machine.model)
        self.filling, means = filling_of(missing)
        nothing: Any = NoBaseline()
        self.baseline, seen = (nothing, nothing) if baseline is None else baseline
        self.declared = Record.of(machine.declared, means, seen)
        untrained = Record.of(
            machine.state, new_arrays(means, self.sizes()), new_arrays(seen, self.sizes())
        )
        self.layout = Layout(untrained, self.declared)
        refuse_beyond(max_bytes, n_models * self.n_bytes_of_a_model(), "the fleet")
        self.floats = np.zeros((n_models, self.layout.n_floats))
        self.integers = np.zeros((n_models, self.layout.n_integers), np.int64)
        self.points = np.zeros((n_models, machine.n_features, machine.n_slots), machine.dtype)
        self.layout.write(untrained, self.floats, self.integers)
        self._untrained = untrained
        self.scratch: dict[str, Any] = {}  # never saved
        self.gate = Gate()

    def __len__(self) -> int:
        return len(self.floats)

    def __getstate__(self) -> dict[str, Any]:
        with self.gate:
            copy = {**self.select(slice(None)).__dict__, "scratch": {}}
        del copy["gate"]
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, gate=Gate())
        for name in ("floats", "integers", "points"):  # joblib's memory maps are read-only
            setattr(self, name, np.require(getattr(self, name), requirements="W"))

    def sizes(self) -> dict[str, int]:
        """Return the lengths of the axes of a record's arrays."""
        machine = self.machine
        return {**machine.sizes(), "given": self.n_given, "labels": max(machine.n_outputs, 2)}

    def n_bytes_of_a_model(self) -> int:
        """Return how much memory a model takes."""
        points = self.machine.n_features * self.machine.n_slots * self.machine.dtype.itemsize
        return 8 * (self.layout.n_floats + self.layout.n_integers) + points

    def first_state(self) -> Record:
        """Return the state of the first model, as views."""
        return self.layout.state(self.floats[0], self.integers[0])

    def view(self, name: str) -> np.ndarray:
        """Return a view of an array of the state, such as "margin.epsilon", of all models."""
        return self.layout.view(name, self.floats, self.integers)

    def states(self) -> Record:
        """Return the states of all models, as views with an axis of models in front."""
        return self.layout.state(self.floats, self.integers)

    def n_capped(self) -> np.ndarray:
        """Return at how many rows of each model a smaller step than eta was taken."""
        counts = self.machine.parts.update.n_capped(self.states().update)
        return np.zeros(len(self), np.int64) if counts is None else counts.copy()

    def n_kept(self) -> np.ndarray:
        """Return how many support vectors each model has."""
        states = self.states()
        return self.machine.parts.budget.n_kept(states.budget, states.expansion).copy()

    # --- rows ------------------------------------------------------------------------------------

    def refuse_unfit(self, X: np.ndarray) -> None:
        """Raise a `BadRow` for the first row that cannot be learned."""
        refuse_unfit(self.machine, without_gaps(self.filling, X))

    def unfit(self, X: np.ndarray) -> np.ndarray:
        """Return which rows cannot be learned."""
        return unfit(self.machine, without_gaps(self.filling, X))

    # --- choosing models -------------------------------------------------------------------------

    def select(self, chosen: Any) -> "Models":
        """Return copies of the chosen models."""
        chosen = np.arange(len(self))[chosen]  # with a slice numpy would give views
        return self._with(self.floats[chosen], self.integers[chosen], self.points[chosen])

    def put(self, chosen: np.ndarray, others: "Models") -> None:
        """Write other models over the chosen ones."""
        self.floats[chosen], self.integers[chosen] = others.floats, others.integers
        self.points[chosen] = others.points

    def replaced(self, chosen: np.ndarray, others: "Models") -> "Models":
        """Return these models with others in place of the chosen ones.

        They change in place where nobody reads; otherwise a copy is returned.
        """
        with self.gate.lock:
            if not self.gate.readers:
                self.put(chosen, others)
                return self
        copy = self.select(slice(None))
        copy.put(chosen, others)
        return copy

    def untrained(self, n_models: int) -> "Models":
        """Return untrained models of the same kind."""
        models = self._with(
            np.zeros((n_models, *self.floats.shape[1:])),
            np.zeros((n_models, *self.integers.shape[1:]), np.int64),
            np.zeros((n_models, *self.points.shape[1:]), self.points.dtype),
        )
        self.layout.write(self._untrained, models.floats, models.integers)
        return models

    def extend(self, others: "Models") -> "Models":
        """Return these models and, after them, others of the same kind."""
        return self._with(
            np.concatenate([self.floats, others.floats]),
            np.concatenate([self.integers, others.integers]),
            np.concatenate([self.points, others.points]),
        )

    def _with(self, floats: np.ndarray, integers: np.ndarray, points: np.ndarray) -> "Models":
        models = object.__new__(Models)
        models.__dict__.update(
            self.__dict__, floats=floats, integers=integers, points=points, gate=Gate()
        )
        return models

    # --- bytes -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse numbers that learning never leaves behind and that could do harm."""
        machine = self.machine
        check_values(self.states(), self.declared, self.sizes())
        if (self.view("expansion.n_points") > machine.n_slots).any():
            raise ValueError("a model has more points than fit.")
        rows = self.points.transpose(0, 2, 1).reshape(-1, machine.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            refuse_large(machine.kernel, machine.dtype, rows, machine.kernel.row_cache(rows))

    def packed(self, chosen: np.ndarray) -> list[bytes]:
        """Return the bytes of each of the chosen models."""
        if not len(chosen):
            return []
        parts = [
            np.ascontiguousarray(array[chosen]).reshape(len(chosen), -1).view(np.uint8)
            for array in self.saved()
        ]
        return [line.tobytes() for line in np.concatenate(parts, axis=1)]

    def saved(self) -> tuple[np.ndarray, ...]:
        """Return what is saved of each record, as views: all but scratch memory."""
        floats = self.floats[:, : self.layout.n_saved_floats]
        return floats, self.integers[:, : self.layout.n_saved_integers], self.points

    def unpacked(self, contents: list[bytes]) -> "Models":
        """Return models from the bytes that `packed` returned, checked."""
        n_bytes = sum(math.prod(array.shape[1:]) * array.itemsize for array in self.saved())
        if any(len(content) != n_bytes for content in contents):
            raise ValueError(f"a model of this kind takes {n_bytes} bytes.")
        lines = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), n_bytes)
        models = self._with(*(
            np.zeros((len(contents), *array.shape[1:]), array.dtype)
            for array in (self.floats, self.integers, self.points)
        ))  # fmt: skip
        start = 0
        for array in models.saved():
            stop = start + math.prod(array.shape[1:]) * array.itemsize
            array[...] = lines[:, start:stop].copy().view(array.dtype).reshape(array.shape)
            start = stop
        models.check()
        return models


READABLE: dict[str, Callable[[Models], np.ndarray]] = {
    "n_seen_": lambda models: models.view("expansion.n_seen")[:, 0].copy(),
    "step_size_": lambda models: models.view("step_size.eta")[:, 0].copy(),
    "n_capped_": lambda models: models.n_capped(),
    "drift_score_": lambda models: models.view("drift.score")[:, 0].copy(),
    "margin_": lambda models: models.view("margin.epsilon")[:, 0].copy(),
    "n_support_": lambda models: models.n_kept(),
}
