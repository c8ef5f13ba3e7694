"""How a machine learns a block: it is cut into tiles, at fixed rows of the stream."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelstream.compile import as_argument
from kernelstream.learner.learn import Trail, new_trail
from kernelstream.learner.loops import loop_named
from kernelstream.learner.predicting import READOUTS
from kernelstream.learner.renewal import renew_after, rows_until_renewal
from kernelstream.learner.rows import TOO_LARGE_A_STEP, BadRow, refuse_extreme, refuse_large
from kernelstream.learner.scaled import (
    in_units,
    scaled,
    scaled_in_order,
    scaled_targets,
    targets_in_order,
)
from kernelstream.threads import threads_for

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["fit_block", "learn_block", "threads_of_tiles"]

_SCORES_OF_A_TILE = 2**18


class TileRows(NamedTuple):
    """Rows in the form that loops take."""

    X: Any
    x: np.ndarray  # the row cache
    y: np.ndarray
    weight: np.ndarray


class ScaledRows(NamedTuple):
    """Rows up to the next renewal of a scaling, as kernels see them."""

    stop: int  # where they end in their block
    rows: TileRows
    units: np.ndarray | None  # of the targets, see `targets_in_order`


def learn_block(
    machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
    keep_scores: bool = True, tile_rows: int | None = None, *, readout: str = "last",
) -> list[Trail]:  # fmt: skip
    """Learn the rows of X in order; return what happened at each.

    A `BadRow` leaves the rows before it learned: `begin` first, then `roll_back`.

    Parameters
    ----------
    X : ndarray or csr_array of shape (rows, features)
    y, weight : ndarray of shape (rows,)
    new_outputs : sequence of int, default=()
        Rows at which another output begins to exist, in order. There is one trail up to each
        of them, and one after the last.
    keep_scores : bool, default=True
        Whether trails keep every score, which takes memory.
    tile_rows : int, default=None
        How many rows share a matrix product: it changes the speed, not the result.
    readout : {"last", "averaged", "voted"}, default="last"
        What says the scores that trails keep, and the margin: see `scores`. Only the last model
        is known for a tile of rows at once; the others are asked row by row.

    Returns
    -------
    list of Trail
    """
    X, y, weight = machine.store.taken(X), as_argument(y), as_argument(weight)
    ends, start, trails = [*new_outputs, X.shape[0]], 0, []
    tile_rows = tile_rows if readout == "last" else 1
    with machine.threads(X.shape[0], tile_rows, n_new=X.shape[0]):
        for piece, end in enumerate(ends):
            if piece > 0:
                machine.add_outputs(1)
            if start == end:
                continue
            trail, begin = new_trail(end - start, machine.n_outputs if keep_scores else 0), start
            while start < end:
                first, n_before = start, machine.n_seen
                alike = _scaled(machine, X, y, weight, start, end)
                while start < alike.stop:
                    stop = min(alike.stop, start + (tile_rows or _tile_rows(machine)))
                    own = _trail_of_tile(machine, stop - start, trail.scores.shape[1])
                    rows = _piece(alike.rows, start - first, stop - first)
                    machine.make_room(stop - start)
                    before = None if readout == "last" else _scores_before(machine, rows, readout)
                    try:
                        done = machine.loop.learn(machine, rows.X, rows.x, rows.y, rows.weight, own)
                        if done < stop - start:
                            raise BadRow(done, TOO_LARGE_A_STEP)
                    except BadRow as bad:  # which counted from the beginning of the tile
                        raise BadRow(start + bad.row, bad.reason) from None
                    if before is not None:
                        own.scores[:], own.margin[:] = before
                    for column, of_tile in zip(trail, own, strict=True):
                        column[start - begin : stop - begin] = of_tile
                    start = stop
                if alike.units is not None and keep_scores:
                    in_units(trail.scores[first - begin : start - begin], alike.units)
                renew_after(machine, n_before)
            trails.append(trail)
    return trails


def fit_block(
    machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: Any
) -> tuple[int, float]:
    """Fit an untrained machine by revisiting rows, see `Machine.fit`."""
    X, y, weight = machine.store.taken(X), as_argument(y), as_argument(weight)
    refuse_extreme(y, weight)
    # all rows are there, and are scaled alike
    scaled_in_order(machine, X, weight)
    X = scaled(machine, X)
    if targets_in_order(machine, y, weight)[1] is not None:
        y = scaled_targets(machine, y)
    refuse_large(machine.kernel, machine.dtype, X, machine.kernel.row_cache(X))
    solver = loop_named(machine.parts.update.solver(machine.parts.budget))
    return solver.fit(machine, X, y, weight, orders)


def _trail_of_tile(machine: "Machine", n: int, n_outputs: int) -> Trail:
    """Return room for what happens at the rows of a tile: the same for tiles of one size."""
    trail = machine.scratch.get("trail")
    if trail is None or trail.scores.shape != (n, n_outputs):
        trail = machine.scratch["trail"] = new_trail(n, n_outputs)
    return trail


def _scaled(
    machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, start: int, end: int
) -> ScaledRows:
    """Scale the rows from `start` up to the next renewal of a scaling, or to `end`."""
    stop = start + rows_until_renewal(machine, weight[start:end])
    X, y, weight = X[start:stop], y[start:stop], weight[start:stop]
    try:
        X = scaled_in_order(machine, X, weight)
        x = machine.store.row_cache_of(X)
        refuse_large(machine.kernel, machine.dtype, X, x)
        refuse_extreme(y, weight)
    except BadRow as bad:  # which counted from the first of these rows
        raise BadRow(start + bad.row, bad.reason) from None
    y, units = targets_in_order(machine, y, weight)
    return ScaledRows(stop, TileRows(X, x, y, weight), units)


def _scores_before(
    machine: "Machine", rows: TileRows, readout: str
) -> tuple[np.ndarray, float] | None:
    """Return the scores and the margin before rows are learned; None before the first row."""
    if machine.n_seen == 0:
        return None
    basis = machine.store.basis(machine.n_points, rows.X, rows.x)
    scores = READOUTS[readout](machine.state.expansion, machine.state.intercept.b, basis)
    return scores, machine.averaged_margin if readout == "averaged" else machine.margin


def _tile_rows(machine: "Machine") -> int:
    until_due = machine.parts.update.tile_rows(machine.n_seen)
    if until_due is not None:
        return until_due
    # With many outputs the scores of a tile should still fit into the processor's cache.
    most = _SCORES_OF_A_TILE // max(machine.n_outputs, 1)
    return max(32, min(machine.loop.tile_rows(machine), most))


def threads_of_tiles(machine: "Machine", n_rows: int, most: int | None, n_new: int) -> Any:
    """Limit the threads of BLAS while tiles of n rows are learned, see `Machine.threads`.

    Where something is due after a whole tile, that takes products of as many rows, however few are
    left until then.
    """
    whole_tile = machine.parts.update.tile_rows(0) if n_new else None
    n = machine.n_points + n_new
    n = n if machine.limit is None else min(n, machine.limit)
    if whole_tile is not None:
        n_rows = whole_tile
    elif n_rows > 32:
        n_rows = min(n_rows, most or _tile_rows(machine))
    # neither sparse rows nor outputs of which a point touches few take a product
    n_features = 0 if machine.is_sparse else machine.n_features
    n_lines = machine.state.expansion.coef.shape[0]
    n_terms = max(n_features, n_lines, n * machine.parts.update.is_second_order)
    return threads_for(n_rows, n + n_rows, n_terms)


def _piece(columns: Any, start: int, stop: int) -> Any:
    """Return some rows of a record of columns, or the record itself if these are all of them."""
    if start == 0 and stop == columns[0].shape[0]:
        return columns
    return columns._make([column[start:stop] for column in columns])
