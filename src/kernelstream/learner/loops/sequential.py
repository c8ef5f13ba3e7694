"""Learning by revisiting rows in `fit`: SVRseq and Kernel-Adatron."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.learner.loops.base import Loop
from kernelstream.learner.sequential import fit_adatron, fit_sequential

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["AdatronLoop", "SequentialLoop"]


class SequentialLoop(Loop):
    """SVRseq: every row has a coefficient of its own."""

    name = "sequential"

    def fit(
        self, machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: Any
    ) -> tuple[int, float]:
        return fit_sequential(machine, X, y, weight, orders)


class AdatronLoop(Loop):
    """Kernel-Adatron: the same for margins."""

    name = "adatron"

    def fit(
        self, machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: Any
    ) -> tuple[int, float]:
        return fit_adatron(machine, X, y, weight, orders)
