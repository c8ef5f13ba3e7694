"""Learning by LASVM, on an active set."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.learner.lasvm import finish_active, fit_lasvm, learn_active
from kernelstream.learner.learn import Trail
from kernelstream.learner.loops.base import Loop

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["ActiveLoop"]


class ActiveLoop(Loop):
    """The dual of the support vector machine, one pair of coefficients at a time."""

    name = "active"

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        return learn_active(machine, X, x, y, weight, trail)

    def fit(
        self, machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: Any
    ) -> tuple[int, float]:
        return fit_lasvm(machine, X, y, weight, orders)

    def finish(self, machine: "Machine") -> float:
        return finish_active(machine)
