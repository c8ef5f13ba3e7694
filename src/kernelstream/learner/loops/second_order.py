"""Learning by Newton over a dictionary, a tile of rows at a time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.learner.averaging import product_of_posteriors
from kernelstream.learner.kernel_rows import has_kernel_rows
from kernelstream.learner.learn import Trail
from kernelstream.learner.loops.base import Loop
from kernelstream.learner.point_rows import SecondOrderRow
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.second_order_tiles import learn_by_tiles

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
        return learn_by_tiles(machine, X, x, y, weight, trail)

    def row_path(self, machine: "Machine") -> RowPath | None:
        has_path = machine.parts.features == "points" and has_kernel_rows(machine)
        return SecondOrderRow(machine) if has_path else None

    def average(self, machines, weights, outputs, machine) -> None:
        product_of_posteriors(machines, weights, outputs, machine)
