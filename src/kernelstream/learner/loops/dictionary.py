"""Learning a dictionary by the rule of the SOG-SVR paper, one row at a time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.expansion import Tile
from kernelstream.learner.dictionary import learn_dictionary, new_dictionary_work
from kernelstream.learner.learn import Trail
from kernelstream.learner.loops.base import Loop

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["DictionaryLoop"]


class DictionaryLoop(Loop):
    """Steps along a gradient, which need no scores beforehand."""

    name = "dictionary"

    def learn(
        self, machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        trail: Trail,
    ) -> int:  # fmt: skip
        store, state, n = machine.store, machine.loop_state(), machine.n_points
        values = machine.kernel_tile(X, x, y, weight)
        raw = store.memory.lend("raw", (machine.n_outputs, 1, X.shape[0]))
        tile = Tile(values.k, n, raw, y, weight, state.gram, machine.changes(), values.pending)
        writer = store.writer(X, x, values)
        work = new_dictionary_work(values.k, state.budget.inverse[:n, :n], machine.n_outputs)
        done = machine.call(
            "learn", learn_dictionary, machine.model, state, tile, trail, work, writer
        )
        store.write(trail, done, X, x)
        return int(done)
