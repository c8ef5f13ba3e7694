"""Single rows of machines that keep points.

Kernel values come from the kernel's rule: a first call makes them and the raw scores and changes
nothing, and a second one is the loop. The second order does all in one call
(`kernelstream.learner.open_tile`).
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.compile import Call, compiled, entry_point, helper
from kernelstream.expansion import Tile
from kernelstream.learner import second_order
from kernelstream.learner.kernel_rows import norm2_of, write_kernel_values
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.open_tile import learn_alone, new_alone_work
from kernelstream.learner.row_path import MANY_ROWS, RowPath
from kernelstream.stores import NOTHING_PENDING
from kernelstream.updates.dual import PERIOD

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["PointRow", "SecondOrderRow"]

_JOURNAL = 256  # rows for which there is room where it is kept what they overwrite


class PointRow(RowPath):
    """Rows of an expansion over dense points."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__(machine)
        self.rows, self.row_cache = machine.store.rows, machine.store.row_cache
        self.may_grow, self.n_slots = machine.may_grow, machine.n_slots
        self.kernel = machine.kernel.to_rule(machine.dtype)
        self.largest = machine.largest_norm2()
        self.x = np.zeros(1, machine.dtype)
        self.raw = np.zeros((machine.n_outputs, self.state.expansion.coef.shape[1], 1))
        # kernel values with the points, and behind the last slot with itself
        self.memory = np.zeros(machine.n_slots + 1, machine.dtype)
        self.work = self._new_work(machine)
        self._journal, self._writer = self.store.journal, self._new_writer()
        self._spare = [self._room_for_scores()]
        self._score = entry_point(_score_row, *self._scored(self.X, *self._spare[0]))

    def _new_work(self, machine: "Machine") -> Any:
        return machine.work()

    def serves(self, machine: "Machine") -> bool:
        return super().serves(machine) and machine.store.rows is self.rows

    def rows_ahead(self, machine: "Machine") -> int:
        self.prepare()
        room = self.n_slots - self.n_points.item() if self.may_grow else MANY_ROWS
        to_note = MANY_ROWS if self._journal is None else self._room_to_note()
        return min(room, to_note, super().rows_ahead(machine))

    def _learning(self) -> list[Call]:
        tile = Tile(
            self.memory.reshape(-1, 1), self.n_slots, self.raw, self.y, self.weight,
            self.state.gram, self.changes, NOTHING_PENDING,
        )  # fmt: skip
        return [
            Call(
                _make_row, self.kernel, self.rows, self.row_cache, self.state.expansion, self.X,
                self.x, self.largest, self.memory, self.raw,
            ),
            Call(
                learn_tile, self.model, self.given_state, tile, self.trail, self.work, self._writer
            ),
        ]  # fmt: skip

    def prepare(self) -> None:
        """Let the journal have room for what rows overwrite, where there is one.

        Behind what others have noted meanwhile: it is undone in the opposite order.
        """
        super().prepare()
        journal, noted = self.store.journal, self._writer.old_slots
        is_last = journal is None or (journal and journal[-1][0] is noted and self._room_to_note())
        if journal is not self._journal or not is_last:
            calls, run = self._calls, self._run
            self._calls = self._run = None  # if this is interrupted, both are made anew
            self._journal, self._writer = journal, self._new_writer()
            if calls is not None:
                calls[-1].replace(-1, self._writer)
                self._calls, self._run = calls, run

    def _new_writer(self) -> Any:
        return self.store.writer(self.X, self.x, None, _JOURNAL)

    def _room_to_note(self) -> int:
        """Return the number of rows for which the journal has room."""
        writer = self._writer
        return (len(writer.old_slots) - writer.n_old.item()) // 2

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        try:
            room = self._spare.pop()
        except IndexError:  # other threads have it
            room = self._room_for_scores()
        is_scored = self._score(*self._scored(X, *room))
        scores = room[1].reshape(-1).copy() if is_scored else None
        self._spare.append(room)
        return scores

    def _scored(self, X: np.ndarray, column: np.ndarray, out: np.ndarray) -> tuple[Any, ...]:
        return (
            self.kernel, self.rows, self.row_cache, self.state.expansion, self.state.intercept.b, X,
            self.largest, column, out,
        )  # fmt: skip

    def _room_for_scores(self) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.empty(self.n_slots, self.memory.dtype), np.empty((self.raw.shape[0], 1, 1)),
        )  # fmt: skip


class SecondOrderRow(PointRow):
    """Rows of the second order: what is due after every 64th comes with it, if it can be undone."""

    def _new_work(self, machine: "Machine") -> Any:
        return new_alone_work(machine.n_outputs, machine.n_slots)

    def learn(self, machine: "Machine", X: np.ndarray, y: float) -> bool:
        is_due = self.rows_until_due() == 1
        if (is_due and not machine.undoes) or not super().learn(machine, X, y):
            return False
        if is_due:
            self.follow(machine)
        return True

    def rows_until_due(self) -> int:
        return PERIOD - self.n_seen.item() % PERIOD

    def follow(self, machine: "Machine") -> None:
        if self.n_seen.item() % PERIOD == 0:
            with machine.threads(PERIOD, None):
                second_order.follow_period(machine)

    def _learning(self) -> list[Call]:
        return [
            Call(
                learn_alone, self.model, self.kernel, self.rows, self.row_cache, self.given_state,
                self.largest, self.X, self.x, self.y, self.weight, self.trail, self.changes,
                self.work, self._writer,
            )
        ]  # fmt: skip


@helper(apart=True, any_order=True)
def _raw_scores(expansion, n, column, raw):
    """Compute the raw scores of a row, for as many functions as `raw` has rows."""
    for function in range(raw.shape[1]):
        expansion.outputs.write_raw(expansion.coef, function, n, column, raw)


@partial(compiled, fused=True)
def _make_row(kernel, rows, row_cache, expansion, X, x, largest, column, raw):
    """Return kernel values and raw scores of a row; whether it is small enough for this way."""
    norm2, n = norm2_of(X[0]), expansion.n_points[0]
    if not norm2 <= largest:  # NaN is not either
        return False
    x[0] = norm2
    write_kernel_values(kernel, rows, row_cache, n, X[0], x[0], column)
    column[column.shape[0] - 1] = kernel.of_products(x[0], x[0], x[0])
    _raw_scores(expansion, n, column, raw)
    return True


@partial(compiled, fused=True)
def _score_row(kernel, rows, row_cache, expansion, b, X, largest, column, out):
    """Return the scores of a row; whether it is small enough for this way."""
    norm2, n = norm2_of(X[0]), expansion.n_points[0]
    if not norm2 <= largest:
        return False
    write_kernel_values(kernel, rows, row_cache, n, X[0], norm2, column)
    _raw_scores(expansion, n, column, out)
    for k in range(b.shape[0]):
        out[k, 0, 0] = b[k] + expansion.scale[0] * out[k, 0, 0]
    return True
