"""Single rows of machines that keep a weight for each explicit feature: the loop is given the row.

Features are the row itself where the kernel is linear, and the nodes on its paths where it is that
of trees. Otherwise the kernel makes them in Python, between two calls.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.compile import Call, compiled, entry_point, in_one_call
from kernelstream.expansion import Pending, Tile
from kernelstream.learner.kernel_rows import checked_row, norm2_of
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.least_squares import learn_least_squares, new_least_squares_work
from kernelstream.learner.row_path import MANY_ROWS, RowPath
from kernelstream.learner.rows import TOO_LARGE_A_STEP, BadRow
from kernelstream.learner.vector import (
    DenseRows,
    SparseRows,
    VectorTile,
    learn_vector,
    new_vector_work,
)
from kernelstream.stores import Values

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["FoldedRow", "ForestRow", "LeastSquaresRow", "WeightRow"]

_LARGEST_NORM2 = 1e30  # of a row that trees look at without another check


class WeightRow(RowPath):
    """Rows of a model with a weight, and a step size, for each feature."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__(machine)
        self.work = self._new_work(machine)
        self.largest = machine.largest_norm2()
        self.phi = self._features(machine)
        self._scale: Any = None  # what comes before features that Python makes
        self._n_before = 0
        self._score: Any = None

    def _new_work(self, machine: "Machine") -> Any:
        return new_vector_work(machine.n_outputs)

    def _features(self, machine: "Machine") -> np.ndarray:
        """Return features of the row that is learned: itself, or an array of its own."""
        x = checked_row(machine, self.X)
        return self.store.features(self.n_points[0], self.X, x, self.y, self.weight)

    def _pass(self, machine: "Machine") -> bool:
        if self.phi is self.X:
            return super()._pass(machine)
        if self._run is None:
            before = [*self.statistics.keeping(), *self.statistics.scaling()]
            self._calls, self._n_before = self._of_features(), len(before)
            self._scale, self._run = in_one_call(before), in_one_call(self._calls)
        if self._scale() < self._n_before:
            return False
        self.phi[0] = self._features(machine)[0]
        return super()._pass(machine)

    def calls(self) -> list[Call] | None:
        return super().calls() if self.phi is self.X else None

    def _learning(self) -> list[Call]:
        return [Call(_is_small, self.X, self.largest), *self._of_features()]

    def _of_features(self) -> list[Call]:
        """Return the calls that learn the row by its features."""
        tile = VectorTile(DenseRows(self.phi), self.y, self.weight, self.changes)
        return [Call(learn_vector, self.model, self.state, tile, self.trail, self.work)]

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        phi = self.store.basis(self.n_points[0], X, checked_row(machine, X)).T
        return self._scores_of(_score_features, phi[0])

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

    def _of_features(self) -> list[Call]:
        return [
            Call(
                learn_least_squares, self.model, self.state, self.phi, self.y, self.weight,
                self.trail, self.work, self.changes,
            )
        ]  # fmt: skip


class FoldedRow(WeightRow):
    """Rows of the loop over an expansion, where features are explicit and there are no points."""

    def _new_work(self, machine: "Machine") -> Any:
        return machine.work()

    def _of_features(self) -> list[Call]:
        coef, dtype = self.state.expansion.coef, self.X.dtype
        (n_outputs, n_functions), k = coef.shape[:2], np.zeros((1, 1), dtype)
        raw = np.zeros((n_outputs, n_functions, 1))
        pending = Pending(np.zeros((1, n_functions, n_outputs)), np.zeros((1, n_outputs)))
        tile = Tile(
            k, 0, raw, self.y, self.weight, self.state.gram, self.changes, pending
        )  # fmt: skip
        nowhere = np.zeros(1, dtype)
        writer = self.store.writer(self.X, nowhere, Values(k, 0, self.phi.T, pending))
        return [
            Call(_make_features, self.state.expansion, self.phi, k, raw, pending),
            Call(learn_tile, self.model, self.given_state, tile, self.trail, self.work, writer),
        ]


class ForestRow(WeightRow):
    """Rows whose features are nodes of trees, which learn first, so that it has to be undone."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__(machine)
        self.largest = _LARGEST_NORM2  # trees compare, and nothing overflows
        self.store.make_columns_for(machine.n_outputs)
        self.trees, self.tree_changes = self.store.trees, self.store.changes
        self.n_rows = self.trees.n_rows.copy()  # that they had learned before a row began

    def _features(self, machine: "Machine") -> np.ndarray:
        return self.X  # of which the trees make their nodes, in compiled code

    def serves(self, machine: "Machine") -> bool:
        store: Any = machine.store
        are_same = store.trees is self.trees and store.changes is self.tree_changes
        return are_same and super().serves(machine)

    def rows_ahead(self, machine: "Machine") -> int:
        return super().rows_ahead(machine) if machine.undoes else 0

    def prepare(self) -> None:
        super().prepare()
        self.n_rows[0] = MANY_ROWS

    def put_back(self) -> None:
        super().put_back()
        if self.trees.n_rows[0] > self.n_rows[0]:  # they have learned it
            raise BadRow(0, TOO_LARGE_A_STEP)

    def _learning(self) -> list[Call]:
        return [Call(_note, self.trees.n_rows, self.n_rows), *super()._learning()]

    def _of_features(self) -> list[Call]:
        tile = VectorTile(SparseRows(*self.store.row_entries()), self.y, self.weight, self.changes)
        return [
            *self.store.learning_calls(self.X, self.y, self.weight),
            Call(_note, self.trees.n_nodes, self.n_points),
            Call(learn_vector, self.model, self.state, tile, self.trail, self.work),
        ]

    def scores(self, machine: "Machine", X: np.ndarray) -> np.ndarray | None:
        checked_row(machine, X)
        size = float(self.store.row_entries()[0][0])
        return self._scores_of(_score_nodes, self.store.nodes_of_row(X), size)


@compiled
def _is_small(X, largest):
    """Return whether a row needs no other check."""
    return norm2_of(X[0]) <= largest  # NaN is not


@compiled
def _note(n, out):
    out[0] = n[0]


@partial(compiled, any_order=True)
def _score_features(expansion, b, phi, out):
    """Compute the scores of a row from its explicit features."""
    for k in range(b.shape[0]):
        total = 0.0
        for j in range(phi.shape[0]):
            total += expansion.coef[k, 0, j] * phi[j]
        out[k] = b[k] + expansion.scale[0] * total


@partial(compiled, any_order=True)
def _score_nodes(expansion, b, nodes, size, out):
    """Compute the scores of a row whose features are nodes of equal size."""
    for k in range(b.shape[0]):
        total = 0.0
        for j in range(nodes.shape[0]):
            total += expansion.coef[k, 0, nodes[j]]
        out[k] = b[k] + expansion.scale[0] * size * total


@partial(compiled, any_order=True)
def _make_features(expansion, phi, k, raw, pending):
    """Compute k(x, x) and the raw scores of a row from its features; nothing is pending."""
    k[0, 0] = norm2_of(phi[0])
    for output in range(raw.shape[0]):
        for function in range(raw.shape[1]):
            total = 0.0
            for j in range(phi.shape[1]):
                total += expansion.coef[output, function, j] * phi[0, j]
            raw[output, function, 0] = total
            pending.coef[0, function, output] = 0.0
        pending.past[0, output] = 0.0
