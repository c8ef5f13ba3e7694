"""A row by itself, in one call of compiled code: what `Machine.learn` does with a tile of one row.

All that compiled code is given but the row itself stays the same from row to row: the calls are
made ready once (`kernelstream.compile`). Where rows or targets are scaled, a call for each comes
first; the statistics are put back if the row is not learned then.

There is a path for each loop (`Loop.row_path`). A committee puts the calls of its
members together.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.compile import Call, compiled, in_one_call
from kernelstream.learner.learn import new_trail
from kernelstream.learner.renewal import rows_until_due
from kernelstream.learner.rows import LARGEST_TARGET
from kernelstream.learner.state import arrays, memory_of
from kernelstream.scalings import count_and_scale, count_and_scale_targets

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["MANY_ROWS", "RowPath"]

MANY_ROWS = 2**40  # more than anybody learns one by one


class RowPath(ABC):
    """Memory and calls for single rows, of use as long as the machine's arrays are the same."""

    def __init__(self, machine: "Machine") -> None:
        self.state, self.changes = machine.state, machine.changes()
        self.given_state = machine.loop_state()
        self.n_points, self.n_seen = self.state.expansion.n_points, self.state.expansion.n_seen
        self.store: Any = machine.store
        self.model = machine.model
        self.given_X = np.zeros((1, machine.n_features), machine.dtype)  # the row as it comes
        self.given_y, self.weight = np.zeros(1), np.ones(1)
        self.statistics = _Statistics(machine, self.given_X, self.given_y, self.weight)
        self.X, self.y = self.statistics.X, self.statistics.y  # and as kernels see it
        self.trail = new_trail(1, machine.n_outputs)
        self._ready = range(0)  # numbers of rows after which nothing is due with the next one
        self._calls: list[Call] | None = None
        self._run: Any = None

    @property
    def said(self) -> np.ndarray:
        """Return the scores before the last row was learned, in the units of targets."""
        return self.statistics.in_units(self.trail.scores[0])

    def serves(self, machine: "Machine") -> bool:
        """Return whether these are still the arrays of a machine."""
        return machine.state is self.state and machine.changes() is self.changes

    # --- learning --------------------------------------------------------------------------------

    def learn(self, machine: "Machine", X: np.ndarray, y: float) -> bool:
        """Learn a row; False: nothing has changed, and the longer way says why, or learns it."""
        return abs(y) <= LARGEST_TARGET and self._is_ready(machine) and self._learn(machine, X, y)

    def _is_ready(self, machine: "Machine") -> bool:
        n = self.n_seen.item()
        if n not in self._ready:
            self._ready = range(n, n + self.rows_ahead(machine))
        return n in self._ready

    def rows_until_due(self) -> int:
        """Return how many rows may be learned up to the one after which something is due."""
        return MANY_ROWS

    def follow(self, machine: "Machine") -> None:  # noqa: B027 (most have nothing to do)
        """Run any maintenance that is due after the last row."""

    def rows_ahead(self, machine: "Machine") -> int:
        """Return how many rows may be learned before another scaling, or more room, is due."""
        due = rows_until_due(machine, self.n_seen.item())
        return MANY_ROWS if due is None else due - 1

    def _learn(self, machine: "Machine", X: np.ndarray, y: float) -> bool:
        self.given_X[0], self.given_y[0] = X[0], y
        self.prepare()
        before = self.n_seen.item()
        try:
            return self._pass(machine)
        finally:
            if self.n_seen.item() == before:  # it was not learned: refused, or interrupted
                self.put_back()

    def _pass(self, machine: "Machine") -> bool:
        """Learn the row that has been given; whether all calls have said yes."""
        if self._run is None:
            self._run = in_one_call(self._all_calls())
        return self._run() == len(self._all_calls())

    def _all_calls(self) -> list[Call]:
        if self._calls is None:
            statistics = self.statistics
            self._calls = [*statistics.keeping(), *statistics.scaling(), *self._learning()]
        return self._calls

    def calls(self) -> list[Call] | None:
        """Return the calls that learn the row in `given_X` and `given_y`; None: they are not all.

        If one says no, `put_back` has to follow.
        """
        return self._all_calls()

    def put_back(self) -> None:
        """Undo what calls have changed for a row that was not learned; or raise `BadRow`."""
        self.statistics.put_back()

    def prepare(self) -> None:
        """Prepare for the next row, where more than arrays may have changed."""
        self.statistics.is_kept[0] = False

    @abstractmethod
    def _learning(self) -> list[Call]:
        """Return the calls that learn the row once it is scaled."""

    # --- scoring ---------------------------------------------------------------------------------

    @abstractmethod
    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        """Return the scores of a scaled row; None: use the general path. Thread-safe."""


class _Statistics:
    """What scalings of rows and targets know, and how it was before the row that is learned."""

    def __init__(
        self, machine: "Machine", X: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> None:
        state, parts = machine.state, machine.parts
        self._of_rows = machine.scaling, state.scaling
        self._of_targets = machine.target_scaling, state.target_scaling
        self._given = X, y, weight
        self.scales_targets = parts.target_scaling.is_scaled
        self.X = np.zeros_like(X) if parts.scaling.is_scaled else X
        self.y = np.zeros_like(y) if self.scales_targets else y
        self.units = np.zeros((4, 1))
        self.is_kept = np.zeros(1, np.bool_)  # whether the row that is learned has begun
        # others lie in the same memory, and are not changed either by a row that is refused
        found = {
            id(memory_of(array)): memory_of(array).reshape(-1)
            for record in (state.scaling, state.target_scaling)
            for _, array in arrays(record)
        }
        self._arrays = [(array.copy(), array) for array in found.values()]

    def keeping(self) -> list[Call]:
        """Return the calls after which there is a way back to the statistics as they were."""
        calls = [Call(_copy, array, saved) for saved, array in self._arrays]
        return [*calls, Call(_note, self.is_kept)] if calls else []

    def put_back(self) -> None:
        """Go back to the statistics as they were."""
        if self.is_kept[0]:
            for saved, array in self._arrays:
                array[...] = saved

    def scaling(self) -> list[Call]:
        """Return the calls that write the row and its target, scaled, and let both count."""
        (X, y, weight), calls = self._given, []
        if self.X is not X:
            calls.append(Call(count_and_scale, *self._of_rows, X, weight, self.X))
        if self.scales_targets:
            given = y, weight, self.y, self.units
            calls.append(Call(count_and_scale_targets, *self._of_targets, *given))
        return calls

    def in_units(self, scores: np.ndarray) -> np.ndarray:
        """Return scores of the row that was taken last, in the units that its target had."""
        if not self.scales_targets:
            return scores
        zero, unit, least, most = self.units[:, 0].tolist()
        for k, score in enumerate(scores.tolist()):  # of few outputs, NumPy would take longer
            scores[k] = min(max(zero + unit * score, least), most)
        return scores


@compiled
def _copy(values, out):
    for j in range(values.shape[0]):
        out[j] = values[j]


@compiled
def _note(flag):
    flag[0] = True
