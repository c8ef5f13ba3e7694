"""A row by itself, in two calls of compiled code: what `Machine.learn` does with a tile of one row.

All that these calls are given but the row itself stays the same from row to row, so that it is made
once, and checked once. The first call makes kernel values and raw scores and changes nothing; the
second one is the loop. Where rows or targets are scaled, a call for each comes before; the
statistics are put back if the row is not learned then.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.compiled import compiled, entry_point
from kernelstream.expansion import Tile
from kernelstream.learner.kernel_rows import (
    has_kernel_rows,
    largest_norm2,
    norm2_of,
    write_kernel_values,
)
from kernelstream.learner.learn import learn_tile, new_trail
from kernelstream.learner.rows import LARGEST_TARGET
from kernelstream.learner.state import arrays
from kernelstream.scalings import count_and_scale, count_and_scale_targets
from kernelstream.stores import NOTHING_PENDING

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["RowPath", "has_row_path"]


def has_row_path(machine: "Machine") -> bool:
    """Whether rows of a machine can be learned and scored so."""
    parts = machine.parts
    return (
        parts.loop == "expansion"
        and not parts.scaling.renews
        and not parts.target_scaling.renews
        and has_kernel_rows(machine)
    )


class RowPath:
    """Memory and arguments for single rows, of use as long as the machine's arrays are the same."""

    def __init__(self, machine: "Machine") -> None:
        points = machine.store.points_in_memory()
        assert points is not None
        self.rows, self.row_cache = points
        self.state, self.changes = machine.state, machine.changes()
        self.given_state = machine.loop_state()
        self.n_points, self.n_seen = self.state.expansion.n_points, self.state.expansion.n_seen
        self.statistics = _Statistics(machine)
        self.has_limit = machine.limit is not None
        self.store: Any = machine.store  # of dense points
        self.model = machine.model
        dtype, n_outputs = machine.dtype, machine.n_outputs
        self.kernel = machine.kernel.to_rule(dtype)
        self.largest = largest_norm2(machine)
        self.X, self.x = np.zeros((1, machine.n_features), dtype), np.zeros(1, dtype)
        self.y, self.weight = np.zeros(1), np.ones(1)
        self.trail, self.work = new_trail(1, 0), machine.work()
        self.raw = np.zeros((n_outputs, self.state.expansion.coef.shape[1], 1))
        self.memory = np.zeros(machine.n_slots + 1, dtype)
        self.writer: Any = None
        self.tile: Tile | None = None
        self._make = entry_point(_make_row, *self._given())
        self._score = entry_point(_score_row, *self._scored(self.X, *self._room_for_scores()))
        self._learn: Any = None

    def serves(self, machine: "Machine") -> bool:
        """Whether these are still the arrays of a machine."""
        return (
            machine.state is self.state
            and machine.store.rows is self.rows
            and machine.changes() is self.changes
        )

    def learn(self, X: np.ndarray, y: float) -> bool:
        """Learn a row; False: nothing has changed, and the longer way says why, or learns it."""
        n = int(self.n_points[0])
        has_room = n < len(self.memory) - 1 or self.has_limit
        if not has_room or self.store.journal is not None or not abs(y) <= LARGEST_TARGET:
            return False
        before = int(self.n_seen[0])
        self.statistics.save()
        try:
            return self.statistics.take(X, y, self.X, self.y) and self._learn_taken(n)
        finally:
            if self.n_seen[0] == before:  # it was not learned: refused, or interrupted
                self.statistics.put_back()

    def _learn_taken(self, n: int) -> bool:
        """Learn the row that has been taken; whether it was."""
        if not self._make(*self._given()):
            return False
        if self.tile is None or self.tile.n_points != n:
            self._renew_tile(n)
        arguments = (self.model, self.given_state, self.tile, self.trail, self.work, self.writer)
        if self._learn is None:
            self._learn = entry_point(learn_tile, *arguments)
        return bool(self._learn(*arguments))

    def scores(self, X: np.ndarray) -> np.ndarray | None:
        """The scores of a scaled row; None: take the longer way. Threads may come at once."""
        column, out = self._room_for_scores()
        return out.reshape(-1) if self._score(*self._scored(X, column, out)) else None

    def _renew_tile(self, n: int) -> None:
        if self.writer is None:
            self.writer = self.store.writer(self.X, self.x, None)
        k = self.memory[: n + 1].reshape(-1, 1)
        # the last to be set: an interrupt may come before
        self.tile = Tile(
            k, n, self.raw, self.y, self.weight, self.state.gram, self.changes, NOTHING_PENDING
        )

    def _given(self) -> tuple[Any, ...]:
        return (
            self.kernel, self.rows, self.row_cache, self.state.expansion, self.X, self.x,
            self.largest, self.memory, self.raw,
        )  # fmt: skip

    def _scored(self, X: np.ndarray, column: np.ndarray, out: np.ndarray) -> tuple[Any, ...]:
        return (
            self.kernel, self.rows, self.row_cache, self.state.expansion, self.state.intercept.b, X,
            self.largest, column, out,
        )  # fmt: skip

    def _room_for_scores(self) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.empty(self.n_points[0], self.memory.dtype), np.empty((self.raw.shape[0], 1, 1)),
        )  # fmt: skip


class _Statistics:
    """What scalings of rows and targets know, and how it was before the row that is learned."""

    def __init__(self, machine: "Machine") -> None:
        state, parts = machine.state, machine.parts
        self._of_rows = machine.scaling, state.scaling
        self._of_targets = machine.target_scaling, state.target_scaling
        self._scales_rows = parts.scaling.is_scaled
        self._scales_targets = parts.target_scaling.is_scaled
        self._arrays = [
            (array.copy(), array)
            for record in (state.scaling, state.target_scaling)
            for _, array in arrays(record)
        ]
        self._weight, self._target, self._units = np.ones(1), np.zeros(1), np.zeros((4, 1))
        self._calls: dict[str, Any] = {}

    def save(self) -> None:
        """Be ready to go back to the statistics as they are now."""
        for saved, array in self._arrays:
            saved[...] = array

    def put_back(self) -> None:
        """Go back to the statistics as they were."""
        for saved, array in self._arrays:
            array[...] = saved

    def take(self, X: np.ndarray, y: float, X_out: np.ndarray, y_out: np.ndarray) -> bool:
        """Write a row and its target, scaled, and let both count; whether the row can be scaled."""
        if not self._scales_rows:
            X_out[0] = X[0]
        elif not self._call(count_and_scale, *self._of_rows, X, self._weight, X_out):
            return False
        if not self._scales_targets:
            y_out[0] = y
            return True
        self._target[0] = y
        given = self._target, self._weight, y_out, self._units
        self._call(count_and_scale_targets, *self._of_targets, *given)
        return True

    def _call(self, function: Any, *arguments: Any) -> Any:
        name = function.__name__
        if name not in self._calls:
            self._calls[name] = entry_point(function, *arguments)
        return self._calls[name](*arguments)


@partial(compiled, any_order=True)
def _raw_scores(expansion, n, column, raw):
    """Raw scores of a row, of as many functions as `raw` has lines for."""
    for function in range(raw.shape[1]):
        expansion.outputs.write_raw(expansion.coef, function, n, column, raw)


@partial(compiled, fused=True)
def _make_row(kernel, rows, row_cache, expansion, X, x, largest, column, raw):
    """Kernel values and raw scores of a row; whether it is small enough for this way."""
    norm2, n = norm2_of(X[0]), expansion.n_points[0]
    if not norm2 <= largest:  # NaN is not either
        return False
    x[0] = norm2
    write_kernel_values(kernel, rows, row_cache, n, X[0], x[0], column)
    column[n] = kernel.of_products(x[0], x[0], x[0])
    _raw_scores(expansion, n, column, raw)
    return True


@partial(compiled, fused=True)
def _score_row(kernel, rows, row_cache, expansion, b, X, largest, column, out):
    """The scores of a row; whether it is small enough for this way."""
    norm2, n = norm2_of(X[0]), expansion.n_points[0]
    if not norm2 <= largest:
        return False
    write_kernel_values(kernel, rows, row_cache, n, X[0], norm2, column)
    _raw_scores(expansion, n, column, out)
    for k in range(b.shape[0]):
        out[k, 0, 0] = b[k] + expansion.scale[0] * out[k, 0, 0]
    return True
