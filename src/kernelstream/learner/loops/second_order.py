"""Learning by Newton over a dictionary, a tile of rows at a time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.learner.averaging import product_of_posteriors
from kernelstream.learner.kernel_rows import has_kernel_rows
from kernelstream.learner.learn import Trail
from kernelstream.learner.loops.base import Loop
from kernelstream.learner.point_rows import SecondOrderRow
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.rows import rows_until
from kernelstream.learner.second_order import close, follow_period
from kernelstream.learner.second_order_tiles import learn_tile_of_rows
from kernelstream.updates.dual import PERIOD

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["SecondOrderLoop"]


class SecondOrderLoop(Loop):
    """The posterior of f at the points, updated once per tile."""

    name = "second_order"
    is_averaged = True
    multiplies_posteriors = True

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        """Learn rows in order, in tiles that end where something happens after a row."""
        start, n_rows = 0, X.shape[0]
        while start < n_rows:
            due = PERIOD - machine.n_seen % PERIOD
            stop = start + rows_until(due, weight[start : start + PERIOD])
            n_seen, given = machine.n_seen, (X, x, y, weight, trail)
            if stop - start < n_rows:
                rows = slice(start, stop)
                own = Trail(*(column[rows] for column in trail))
                given = X[rows], x[rows], y[rows], weight[rows], own
            close(machine)
            done = learn_tile_of_rows(machine, *given)
            if machine.n_seen // PERIOD > n_seen // PERIOD:
                follow_period(machine)
            start += done
            if start < stop:
                break
        return start

    def row_path(self, machine: "Machine") -> RowPath | None:
        has_path = machine.parts.features == "points" and has_kernel_rows(machine)
        return SecondOrderRow(machine) if has_path else None

    def average(self, machines, weights, outputs, machine) -> None:
        product_of_posteriors(machines, weights, outputs, machine)
