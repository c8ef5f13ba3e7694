"""Learning a weight per explicit feature: a step size for each, or recursive least squares."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kernelstream.learner.averaging import mean_of_functions, product_of_weights
from kernelstream.learner.learn import Trail
from kernelstream.learner.least_squares import learn_least_squares, new_least_squares_work
from kernelstream.learner.loops.base import Loop
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.vector import VectorTile, learn_vector, new_vector_work, rows_of
from kernelstream.learner.weight_rows import ForestRow, LeastSquaresRow, WeightRow

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["LeastSquaresLoop", "VectorLoop"]

_TILE_ROWS = 1024  # there are no kernel values among the rows of a tile


class VectorLoop(Loop):
    """A step size per weight, row by row on the features."""

    name = "vector"
    is_averaged = True

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        phi = _features_of(machine, X, x, y, weight)
        tile = VectorTile(rows_of(phi), y, weight, machine.changes())
        work = machine.memory(new_vector_work, machine.n_outputs)
        done = machine.call("learn", learn_vector, machine.model, machine.state, tile, trail, work)
        return int(done)

    def tile_rows(self, machine: "Machine") -> int:
        return _TILE_ROWS

    def row_path(self, machine: "Machine") -> RowPath | None:
        if machine.is_sparse:
            return None
        return (ForestRow if machine.parts.features == "forest" else WeightRow)(machine)

    def average(self, machines, weights, outputs, machine) -> None:
        mean_of_functions(machines, weights, outputs, machine)


class LeastSquaresLoop(Loop):
    """Recursive least squares on the features."""

    name = "rls"
    is_averaged = True
    multiplies_posteriors = True

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        phi = _features_of(machine, X, x, y, weight)
        if sparse.issparse(phi):  # of dense rows: there are few, see `RLS.check_size`
            phi = phi.toarray()
        work = machine.memory(new_least_squares_work, machine.n_outputs, machine.n_slots)
        done = machine.call(
            "learn", learn_least_squares, machine.model, machine.state, phi, y, weight, trail, work,
            machine.changes(),
        )  # fmt: skip
        return int(done)

    def tile_rows(self, machine: "Machine") -> int:
        return _TILE_ROWS

    def row_path(self, machine: "Machine") -> RowPath | None:
        is_fixed = machine.parts.features == "fixed" and not machine.is_sparse
        return LeastSquaresRow(machine) if is_fixed else None

    def average(self, machines, weights, outputs, machine) -> None:
        product_of_weights(machines, weights, outputs, machine)


def _features_of(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> Any:
    """Return the explicit features of rows to be learned, to which the stream may add some."""
    phi = machine.store.features(machine.n_points, X, x, y, weight)
    machine.state.expansion.n_points[0] = phi.shape[1]
    return phi
