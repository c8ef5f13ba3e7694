"""Learning an expansion over points, or over explicit features: the loop of `learn.py`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.expansion import Tile
from kernelstream.learner.averaging import mean_of_functions
from kernelstream.learner.kernel_rows import has_kernel_rows
from kernelstream.learner.learn import Trail, learn_tile
from kernelstream.learner.loops.base import Loop
from kernelstream.learner.point_rows import PointRow
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.weight_rows import FoldedRow

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["ExpansionLoop"]


class ExpansionLoop(Loop):
    """Kernel values and raw scores by matrix products, then the rows in order."""

    name = "expansion"
    is_averaged = True

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        store, state = machine.store, machine.loop_state()
        values = machine.kernel_tile(X, x, y, weight, machine.lines_read(len(y)))
        expansion, n_outputs = state.expansion, machine.n_outputs
        expansion.n_points[0] = values.basis.shape[0]  # which the stream may have made more
        raw = expansion.outputs.raw_scores(
            expansion.coef, expansion.scale, n_outputs, values.basis, store.memory
        )
        tile = Tile(
            values.k, values.n_points, raw, y, weight, state.gram, machine.changes(), values.pending
        )
        writer = store.writer(X, x, values)
        done = machine.call(
            "learn", learn_tile, machine.model, state, tile, trail, machine.work(), writer
        )
        store.write(trail, done, X, x)
        return int(done)

    def row_path(self, machine: "Machine") -> RowPath | None:
        if machine.parts.features == "points":
            return PointRow(machine) if has_kernel_rows(machine) else None
        is_fixed = machine.parts.features == "fixed" and not machine.is_sparse
        return FoldedRow(machine) if is_fixed else None

    def average(self, machines, weights, outputs, machine) -> None:
        mean_of_functions(machines, weights, outputs, machine)
