"""What a way of learning answers."""

from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernelstream.learner.learn import Trail
from kernelstream.learner.row_path import RowPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelstream.learner.machine import Machine

__all__ = ["Loop", "loop_named"]

_LOOPS: dict[str, "Loop"] = {}


def loop_named(name: str) -> "Loop":
    """Return the way of learning that an update names (`Update.loop`, `Update.solver`)."""
    return _LOOPS[name]


class Loop(ABC):
    """A way of learning: what a machine does with a tile of rows, with one row, and in `fit`.

    A subclass sets `name` and is registered by that. It has no state: everything that a model knows
    belongs to the machine.
    """

    name: ClassVar[str]
    is_averaged: ClassVar[bool] = False  # whether `average` works
    multiplies_posteriors: ClassVar[bool] = False  # whether the weights of `average` are powers

    def __init_subclass__(cls) -> None:
        _LOOPS[cls.name] = cls()

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        """Learn a tile of rows; return how many were learned. Fewer than all: the next is refused.

        x is the row cache of X. What happens at each row is written into `trail`.
        """
        raise TypeError(f"{type(self).__name__} learns in fit only.")

    def tile_rows(self, machine: "Machine") -> int:
        """Return how many rows share a matrix product, where nothing else limits them."""
        return machine.store.tile_rows(machine.n_points)

    def row_path(self, machine: "Machine") -> RowPath | None:
        """Return the short way for single rows, where there is one."""
        return None

    def fit(
        self, machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: Any
    ) -> tuple[int, float]:
        """Fit an untrained machine by revisiting the rows of X in the given orders.

        Return the number of passes, and the largest violation of the conditions of the optimum,
        where that is known.
        """
        raise TypeError(f"{type(self).__name__} learns from streams only.")

    def finish(self, machine: "Machine") -> float:
        """Solve what a stream has left open; return the largest violation that is left."""
        raise TypeError(f"{type(self).__name__} leaves nothing open.")

    def average(
        self, machines: "Sequence[Machine]", weights: np.ndarray, outputs: "Sequence[np.ndarray]",
        machine: "Machine",
    ) -> None:  # fmt: skip
        """Make an untrained machine the average of others (`kernelstream.learner.averaging`)."""
        raise TypeError(f"{type(self).__name__} has no average of several models.")
