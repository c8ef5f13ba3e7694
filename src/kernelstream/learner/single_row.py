"""A row by itself, in few calls of compiled code: what `Machine.learn` does with a tile of one row.

All that these calls are given but the row itself stays the same from row to row, so that it is made
once, and checked once. Where rows or targets are scaled, a call for each comes first; the
statistics are put back if the row is not learned then.

There is a path for each loop. Over points, kernel values come from the kernel's rule: a first call
makes them and the raw scores and changes nothing, and a second one is the loop; the second order
does all in one call (`kernelstream.learner.open_tile`). Over weights, the loop is given the row.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kernelstream.compiled import compiled, entry_point, helper
from kernelstream.expansion import Pending, Tile
from kernelstream.learner import second_order
from kernelstream.learner.kernel_rows import has_kernel_rows, norm2_of, write_kernel_values
from kernelstream.learner.learn import learn_tile, new_trail
from kernelstream.learner.least_squares import learn_least_squares, new_least_squares_work
from kernelstream.learner.open_tile import learn_alone, new_alone_work
from kernelstream.learner.renewal import rows_until_due
from kernelstream.learner.rows import LARGEST_TARGET, TOO_LARGE_A_STEP, BadRow
from kernelstream.learner.state import arrays, memory_of
from kernelstream.learner.vector import (
    SparseRows,
    VectorTile,
    learn_vector,
    new_vector_work,
    rows_of,
)
from kernelstream.scalings import count_and_scale, count_and_scale_targets
from kernelstream.stores import NOTHING_PENDING, Values
from kernelstream.updates.dual import PERIOD

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["RowPath", "has_row_path", "new_row_path"]


def has_row_path(machine: "Machine") -> bool:
    """Whether rows of a machine can be learned and scored so."""
    if machine.parts.budget.is_folded:
        return not machine.is_sparse and _name_of(machine) in _PATHS
    return _name_of(machine) in _PATHS and has_kernel_rows(machine)


def new_row_path(machine: "Machine") -> "RowPath":
    """The path of a machine that has one."""
    return _PATHS[_name_of(machine)](machine)


def _name_of(machine: "Machine") -> tuple[str, str]:
    """Which loop learns, and what makes explicit features, if anything does."""
    parts = machine.parts
    return parts.loop, parts.kernel.feature_store if parts.budget.is_folded else "points"


class RowPath:
    """Memory and arguments for single rows, of use as long as the machine's arrays are the same."""

    def __init__(self, machine: "Machine") -> None:
        self.state, self.changes = machine.state, machine.changes()
        self.given_state = machine.loop_state()
        self.n_points, self.n_seen = self.state.expansion.n_points, self.state.expansion.n_seen
        self.statistics = _Statistics(machine)
        self.store: Any = machine.store
        self.model = machine.model
        self.X = np.zeros((1, machine.n_features), machine.dtype)
        self.x = np.zeros(1, machine.dtype)
        self.y, self.weight = np.zeros(1), np.ones(1)
        self.trail = new_trail(1, machine.n_outputs)
        self._renews = machine.parts.scaling.renews or machine.parts.target_scaling.renews
        self._learn: Any = None

    @property
    def said(self) -> np.ndarray:
        """The scores of the row that was learned last, before that, in the units of targets."""
        return self.statistics.in_units(self.trail.scores[0])

    def serves(self, machine: "Machine") -> bool:
        """Whether these are still the arrays of a machine."""
        return machine.state is self.state and machine.changes() is self.changes

    def is_whole(self, machine: "Machine") -> bool:
        """Whether the next row is learned without anything that would have to follow it."""
        return not self._renews or rows_until_due(machine, int(self.n_seen[0])) != 1

    def learn(self, machine: "Machine", X: np.ndarray, y: float) -> bool:
        """Learn a row; False: nothing has changed, and the longer way says why, or learns it."""
        if not abs(y) <= LARGEST_TARGET or not self.is_whole(machine):
            return False
        if not self.statistics.are_kept:
            self.X[0], self.y[0] = X[0], y
            return self._learn_taken(machine)
        before = int(self.n_seen[0])
        self.statistics.save()
        try:
            return self.statistics.take(X, y, self.X, self.y) and self._learn_taken(machine)
        finally:
            if self.n_seen[0] == before:  # it was not learned: refused, or interrupted
                self.statistics.put_back()

    def _learn_taken(self, machine: "Machine") -> bool:
        """Learn the row that has been taken; whether it was."""
        raise NotImplementedError

    def _call(self, function: Any, *arguments: Any) -> Any:
        if self._learn is None:
            self._learn = entry_point(function, *arguments)
        return self._learn(*arguments)

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        """The scores of a scaled row; None: take the longer way. Threads may come at once."""
        raise NotImplementedError


# --- over points ---------------------------------------------------------------------------------


class PointRow(RowPath):
    """Rows of an expansion over dense points."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__(machine)
        self.rows, self.row_cache = machine.store.rows, machine.store.row_cache
        self.has_limit = machine.limit is not None
        self.kernel = machine.kernel.to_rule(machine.dtype)
        self.largest = machine.largest_norm2()
        self.raw = np.zeros((machine.n_outputs, self.state.expansion.coef.shape[1], 1))
        self.memory = np.zeros(machine.n_slots + 1, machine.dtype)
        self.work = self._new_work(machine)
        self._writer: Any = None
        self._journal: Any = None
        self.tile: Tile | None = None
        self._make: Any = None
        self._score = entry_point(_score_row, *self._scored(self.X, *self._room_for_scores()))

    def _new_work(self, machine: "Machine") -> Any:
        return machine.work()

    def serves(self, machine: "Machine") -> bool:
        return super().serves(machine) and machine.store.rows is self.rows

    def is_whole(self, machine: "Machine") -> bool:
        has_room = self.n_points[0] < len(self.memory) - 1 or self.has_limit
        return has_room and super().is_whole(machine)

    def _learn_taken(self, machine: "Machine") -> bool:
        given = self._given()
        if self._make is None:
            self._make = entry_point(_make_row, *given)
        if not self._make(*given):
            return False
        n = int(self.n_points[0])
        if self.tile is None or self.tile.n_points != n:
            k = self.memory[: n + 1].reshape(-1, 1)
            self.tile = Tile(
                k, n, self.raw, self.y, self.weight, self.state.gram, self.changes, NOTHING_PENDING
            )
        writer = self._lent_writer()
        return bool(
            self._call(
                learn_tile, self.model, self.given_state, self.tile, self.trail, self.work, writer
            )
        )

    def _lent_writer(self) -> Any:
        """What writes the row, if it becomes a point; the same as before if that one wrote none."""
        journal, trail = self.store.journal, self.trail
        is_used = journal is not None and (trail.slot[0] >= 0 or trail.partner[0] >= 0)
        if self._writer is None or journal is not self._journal or is_used:
            self._writer, self._journal = self.store.writer(self.X, self.x, None), journal
        return self._writer

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        column, out = self._room_for_scores()
        return out.reshape(-1) if self._score(*self._scored(X, column, out)) else None

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


class SecondOrderRow(PointRow):
    """Rows of the second order: what is due after every 64th comes with it, if it can be undone."""

    def _new_work(self, machine: "Machine") -> Any:
        return new_alone_work(machine.n_outputs, machine.n_slots)

    def is_whole(self, machine: "Machine") -> bool:
        is_due = (self.n_seen[0] + 1) % PERIOD == 0
        return (not is_due or machine.undoes) and super().is_whole(machine)

    def _learn_taken(self, machine: "Machine") -> bool:
        is_learned = self._call(
            learn_alone, self.model, self.kernel, self.rows, self.row_cache, self.given_state,
            self.largest, self.X, self.x, self.y, self.weight, self.trail, self._lent_writer(),
            self.changes, self.work,
        )  # fmt: skip
        if is_learned and self.n_seen[0] % PERIOD == 0:
            with machine.threads(PERIOD, None):
                second_order.follow_period(machine)
        return bool(is_learned)


# --- over weights --------------------------------------------------------------------------------


class WeightRow(RowPath):
    """Rows of a model with a weight, and a step size, for each feature."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__(machine)
        self.work = self._new_work(machine)
        self._phi: Any = None
        self._tile: Any = None
        self._score: Any = None

    def _new_work(self, machine: "Machine") -> Any:
        return new_vector_work(machine.n_outputs)

    def _features(self, machine: "Machine") -> Any:
        x = machine.checked_row(self.X)
        return self.store.features(self.n_points[0], self.X, x, self.y, self.weight)

    def _learn_taken(self, machine: "Machine") -> bool:
        phi = self._features(machine)
        if phi is not self._phi:  # which is the row itself, where the kernel is linear
            self._phi = phi
            self._tile = VectorTile(rows_of(phi), self.y, self.weight, self.changes)
        return self._learn_tile()

    def _learn_tile(self) -> bool:
        return bool(
            self._call(learn_vector, self.model, self.state, self._tile, self.trail, self.work)
        )

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        phi = self.store.basis(self.n_points[0], X, machine.checked_row(X)).T
        return None if sparse.issparse(phi) else self._scores_of(_score_features, phi[0])

    def _scores_of(self, function: Any, features: np.ndarray, *numbers: float) -> np.ndarray:
        out = np.empty(self.trail.scores.shape[1])
        given = self.state.expansion, self.state.intercept.b, features, *numbers, out
        if self._score is None:
            self._score = entry_point(function, *given)
        self._score(*given)
        return out


class LeastSquaresRow(WeightRow):
    """Rows of recursive least squares."""

    def _new_work(self, machine: "Machine") -> Any:
        return new_least_squares_work(machine.n_outputs, machine.n_slots)

    def _learn_taken(self, machine: "Machine") -> bool:
        return bool(
            self._call(
                learn_least_squares, self.model, self.state, self._features(machine), self.y,
                self.weight, self.trail, self.work, self.changes,
            )
        )  # fmt: skip


class FoldedRow(WeightRow):
    """Rows of the loop over an expansion, where features are explicit and there are no points."""

    def _new_work(self, machine: "Machine") -> Any:
        coef = self.state.expansion.coef
        self._k = np.zeros((1, 1), machine.dtype)
        self._raw = np.zeros((machine.n_outputs, coef.shape[1], 1))
        self._pending = Pending(
            np.zeros((1, coef.shape[1], machine.n_outputs)), np.zeros((1, machine.n_outputs))
        )
        self._make: Any = None
        return machine.work()

    def _learn_taken(self, machine: "Machine") -> bool:
        phi = self._features(machine)
        if sparse.issparse(phi):
            return False
        if phi is not self._phi:
            self._phi = phi
            self._tile = Tile(
                self._k, 0, self._raw, self.y, self.weight, self.state.gram, self.changes,
                self._pending,
            )  # fmt: skip
            values = Values(self._k, 0, phi.T, self._pending)
            self._writer = self.store.writer(self.X, self.x, values)
        given = self.state.expansion, phi, self._k, self._raw, self._pending
        if self._make is None:
            self._make = entry_point(_make_features, *given)
        self._make(*given)
        return bool(
            self._call(
                learn_tile, self.model, self.given_state, self._tile, self.trail, self.work,
                self._writer,
            )
        )  # fmt: skip


class ForestRow(WeightRow):
    """Rows whose features are nodes of trees, which learn first, so that it has to be undone."""

    def is_whole(self, machine: "Machine") -> bool:
        return machine.undoes and super().is_whole(machine)

    def _learn_taken(self, machine: "Machine") -> bool:
        machine.checked_row(self.X)
        if self._tile is None:
            rows = SparseRows(*self.store.row_entries())
            self._tile = VectorTile(rows, self.y, self.weight, self.changes)
        self.store.learn_row(self.X, self.y, self.weight)
        self.n_points[0] = self.store.n_nodes
        if not self._learn_tile():
            raise BadRow(0, TOO_LARGE_A_STEP)
        return True

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        machine.checked_row(X)
        size = float(self.store.row_entries()[0][0])
        return self._scores_of(_score_nodes, self.store.nodes_of_row(X), size)


_PATHS: dict[tuple[str, str], Any] = {
    ("expansion", "points"): PointRow,
    ("second_order", "points"): SecondOrderRow,
    ("expansion", "fixed"): FoldedRow,
    ("vector", "fixed"): WeightRow,
    ("rls", "fixed"): LeastSquaresRow,
    ("vector", "forest"): ForestRow,
}


class _Statistics:
    """What scalings of rows and targets know, and how it was before the row that is learned."""

    def __init__(self, machine: "Machine") -> None:
        state, parts = machine.state, machine.parts
        self._of_rows = machine.scaling, state.scaling
        self._of_targets = machine.target_scaling, state.target_scaling
        self._scales_rows = parts.scaling.is_scaled
        self._scales_targets = parts.target_scaling.is_scaled
        self.are_kept = self._scales_rows or self._scales_targets
        # others lie in the same memory, and are not changed either by a row that is refused
        found = {
            id(memory_of(array)): memory_of(array)
            for record in (state.scaling, state.target_scaling)
            for _, array in arrays(record)
        }
        self._arrays = [(array.copy(), array) for array in found.values()]
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

    def in_units(self, scores: np.ndarray) -> np.ndarray:
        """Scores of the row that was taken last, in the units that its target had."""
        if not self._scales_targets:
            return scores
        zero, unit, least, most = self._units[:, 0].tolist()
        for k, score in enumerate(scores.tolist()):  # of few outputs, NumPy would take longer
            scores[k] = min(max(zero + unit * score, least), most)
        return scores

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


@helper(apart=True, any_order=True)
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


@partial(compiled, any_order=True)
def _score_features(expansion, b, phi, out):
    """The scores of a row by its explicit features."""
    for k in range(b.shape[0]):
        total = 0.0
        for j in range(phi.shape[0]):
            total += expansion.coef[k, 0, j] * phi[j]
        out[k] = b[k] + expansion.scale[0] * total


@partial(compiled, any_order=True)
def _score_nodes(expansion, b, nodes, size, out):
    """The scores of a row whose features are nodes, all of the same size."""
    for k in range(b.shape[0]):
        total = 0.0
        for j in range(nodes.shape[0]):
            total += expansion.coef[k, 0, nodes[j]]
        out[k] = b[k] + expansion.scale[0] * size * total


@partial(compiled, any_order=True)
def _make_features(expansion, phi, k, raw, pending):
    """k(x, x) and the raw scores of a row by its explicit features; nothing is pending."""
    k[0, 0] = norm2_of(phi[0])
    for output in range(raw.shape[0]):
        for function in range(raw.shape[1]):
            total = 0.0
            for j in range(phi.shape[1]):
                total += expansion.coef[output, function, j] * phi[0, j]
            raw[output, function, 0] = total
            pending.coef[0, function, output] = 0.0
        pending.past[0, output] = 0.0
