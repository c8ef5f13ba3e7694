"""Which loop learns, and which solver fits, by the name that an update gives.

A loop is a function of a machine and a tile of rows; it answers how many of them were learned.
Fewer than all: the next one is refused.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kernelstream.expansion import Tile
from kernelstream.learner.dictionary import learn_dictionary, new_dictionary_work
from kernelstream.learner.lasvm import finish_active, fit_lasvm, learn_active
from kernelstream.learner.learn import Trail, learn_tile
from kernelstream.learner.least_squares import learn_least_squares, new_least_squares_work
from kernelstream.learner.second_order import learn_by_tiles
from kernelstream.learner.sequential import fit_adatron, fit_sequential
from kernelstream.learner.vector import VectorTile, learn_vector, new_vector_work, rows_of

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["FINISHERS", "LOOPS", "SOLVERS", "TILE_ROWS"]


def learn_expansion(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """The loop over an expansion: kernel values and raw scores by matrix products, then rows."""
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


def learn_by_dictionary(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """The paper's loop over a dictionary, which needs no scores beforehand."""
    store, state, n = machine.store, machine.loop_state(), machine.n_points
    values = machine.kernel_tile(X, x, y, weight)
    raw = store.memory.lend("raw", (machine.n_outputs, 1, X.shape[0]))
    tile = Tile(values.k, n, raw, y, weight, state.gram, machine.changes(), values.pending)
    writer = store.writer(X, x, values)
    work = new_dictionary_work(values.k, state.budget.inverse[:n, :n], machine.n_outputs)
    done = machine.call("learn", learn_dictionary, machine.model, state, tile, trail, work, writer)
    store.write(trail, done, X, x)
    return int(done)


def learn_by_weight(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """The loop over weights that have a step size each, row by row on the features."""
    phi = features_of(machine, X, x, y, weight)
    tile = VectorTile(rows_of(phi), y, weight, machine.changes())
    work = machine.memory(new_vector_work, machine.n_outputs)
    done = machine.call("learn", learn_vector, machine.model, machine.state, tile, trail, work)
    return int(done)


def learn_by_least_squares(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """The loop of recursive least squares, on the features."""
    phi = features_of(machine, X, x, y, weight)
    if sparse.issparse(phi):  # of dense rows: there are few, see `RLS.check_size`
        phi = phi.toarray()
    work = machine.memory(new_least_squares_work, machine.n_outputs, machine.n_slots)
    done = machine.call(
        "learn", learn_least_squares, machine.model, machine.state, phi, y, weight, trail, work,
        machine.changes(),
    )  # fmt: skip
    return int(done)


def features_of(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> Any:
    """The explicit features of rows that are to be learned, to which the stream may add some."""
    phi = machine.store.features(machine.n_points, X, x, y, weight)
    machine.state.expansion.n_points[0] = phi.shape[1]
    return phi


LOOPS: dict[str, Any] = {
    "expansion": learn_expansion,
    "dictionary": learn_by_dictionary,
    "second_order": learn_by_tiles,
    "active": learn_active,
    "vector": learn_by_weight,
    "rls": learn_by_least_squares,
}
# How many rows a tile has, of loops that need no kernel values among them.
TILE_ROWS: dict[str, int] = {"vector": 1024, "rls": 1024}
# Solvers that revisit rows, in `fit`; they answer how many passes they took.
SOLVERS: dict[str, Any] = {
    "svrseq": fit_sequential,
    "adatron": fit_adatron,
    "lasvm": fit_lasvm,
}
# What a stream may leave open, by the name of its loop.
FINISHERS: dict[str, Any] = {"active": finish_active}
