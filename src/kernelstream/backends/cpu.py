"""Learning and scoring on the CPU: kernel blocks by matrix products, then the loop over the rows.

A backend is these functions; another one has the same names.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from kernelstream.compiled import as_argument, entry_point
from kernelstream.learner import predict
from kernelstream.learner.dictionary import learn_dictionary
from kernelstream.learner.expansion import StoredGram
from kernelstream.learner.lasvm import learn_active, needs_block
from kernelstream.learner.learn import Tile, Trail, Work, learn_tile, new_trail, new_work
from kernelstream.learner.model import Learner
from kernelstream.learner.state import copy_into, snapshot
from kernelstream.updates import ActiveRule, DualRule

__all__ = [
    "LARGEST_TARGET",
    "LARGEST_WEIGHT",
    "NOT_FINITE",
    "TOO_LARGE_A_STEP",
    "BadRow",
    "all_or_nothing",
    "extreme",
    "extreme_target",
    "learn",
    "learn_row",
    "learns_in_one_call",
    "refuse_extreme",
    "refuse_large",
    "score_row",
    "scores",
    "too_large",
]

Answer = TypeVar("Answer")

_PREDICT_ROWS = 512  # rows scored at a time: bounds the memory of predict
_SCORES_OF_A_TILE = 2**18
NOT_FINITE = "it contains NaN or infinity: leave it out or fill it in"
TOO_LARGE_A_STEP = "the step it asks for is too large to be represented"
_STORED_GRAM = StoredGram()
# A larger target leaves rounding errors in the coefficients that drown everything else, and float32
# could not hold them; weights multiply them.
LARGEST_TARGET = LARGEST_WEIGHT = 1e30
_LARGEST_KERNEL = {np.dtype(np.float64): 1e100, np.dtype(np.float32): 1e30}


class BadRow(ValueError):  # noqa: N818 (it names what it is about)
    """A row that cannot be learned. The model is as it was before the call that brought it."""

    def __init__(self, row: int, reason: str):
        super().__init__(f"row {row} was refused: {reason}")
        self.row = row
        self.reason = reason

    def __reduce__(self) -> tuple:
        return BadRow, (self.row, self.reason)


def learn(
    learner: Learner, X: Any, y: np.ndarray, weight: np.ndarray,
    tile_rows: int | None = None, keep_scores: bool = True,
) -> Trail:  # fmt: skip
    """Learn the rows of X in order; return what happened at each.

    A `BadRow` leaves the rows before it learned, unless this runs under `all_or_nothing`.
    `tile_rows`, up to `STAGED_ROWS`, is how many rows share a matrix product: it changes the
    speed, not the result. `keep_scores` makes the trail keep every score, which takes memory.
    """
    if not sparse.issparse(X):
        X = as_argument(X, learner.dtype)
    y, weight = as_argument(y), as_argument(weight)
    numbers = learner.points.kernel.numbers(X)
    refuse_large(learner, X, numbers)
    refuse_extreme(y, weight)
    trail = new_trail(X.shape[0], learner.n_outputs if keep_scores else 0)
    start = 0
    while start < X.shape[0]:
        stop = min(X.shape[0], start + (tile_rows or _tile_rows(learner)))
        rows = slice(start, stop)
        done = _learn_rows(
            learner, X[rows], numbers[rows], y[rows], weight[rows],
            Trail(*(column[rows] for column in trail)), start,
        )  # fmt: skip
        if done < stop - start:
            raise BadRow(start + done, TOO_LARGE_A_STEP)
        start = stop
    return trail


def learns_in_one_call(learner: Learner) -> bool:
    """Whether `learn_row` changes the learner in a single call of compiled code.

    Then nothing can interrupt it half way: there is room for the row, the code is compiled, and the
    loop itself writes the row.
    """
    room = learner.n_points < learner.n_slots or learner.limit is not None
    return room and "learn" in learner.scratch and not learner.points.is_sparse


def learn_row(learner: Learner, X: Any, y: float) -> None:
    """Learn a block of one row: `learn` without what only longer blocks need."""
    numbers = _checked_row(learner, X)
    problem = extreme_target(y)
    if problem is not None:
        raise BadRow(0, problem)
    if "row" not in learner.scratch:
        learner.scratch["row"] = np.empty(1), np.ones(1), new_trail(1, 0)
    target, weight, trail = learner.scratch["row"]
    target[0] = y
    if not _learn_rows(learner, X, numbers, target, weight, trail, 0):
        raise BadRow(0, TOO_LARGE_A_STEP)


def scores(learner: Learner, X: Any, readout: Any = predict.scores) -> np.ndarray:
    """The scores of every row, of shape (rows, outputs); `readout` makes them of kernel values."""
    result = np.empty((X.shape[0], learner.n_outputs))
    numbers = learner.points.kernel.numbers(X)
    refuse_large(learner, X, numbers)
    for start in range(0, X.shape[0], _PREDICT_ROWS):
        rows = slice(start, start + _PREDICT_ROWS)
        piece = X[rows]
        block = np.empty((learner.n_points, piece.shape[0]), learner.dtype)
        learner.points.block(learner.n_points, piece, numbers[rows], block)
        result[rows] = readout(learner.state, block)
    return result


def score_row(learner: Learner, X: Any) -> np.ndarray:
    """The scores of a block of one row, of shape (outputs,)."""
    n = learner.n_points
    numbers = _checked_row(learner, X)
    block = np.empty((n, 1), learner.dtype)  # of its own: other threads may predict too
    learner.points.block(n, X, numbers, block)
    return predict.scores(learner.state, block)[0]


def _tile_rows(learner: Learner) -> int:
    # The kernel values among a tile's own rows cost tile / points of the rest; small tiles make
    # poor matrix products. Measured, the two meet at a fifth. With many outputs the scores of a
    # tile should still fit into the processor's cache.
    return max(32, min(256, learner.n_points // 5, _SCORES_OF_A_TILE // learner.n_outputs))


def _checked_row(learner: Learner, X: Any) -> np.ndarray:
    """The kernel's numbers of one row, checked without the cost of checking a block."""
    kernel = learner.points.kernel
    numbers = kernel.numbers(X)
    if not kernel.magnitude(numbers)[0] <= _LARGEST_KERNEL[learner.dtype]:
        refuse_large(learner, X, numbers)
    return numbers


def too_large(learner: Learner, numbers: np.ndarray) -> np.ndarray:
    """Which rows have kernel values that would overflow, or are not finite."""
    return ~(learner.points.kernel.magnitude(numbers) <= _LARGEST_KERNEL[learner.dtype])


def refuse_large(learner: Learner, X: Any, numbers: np.ndarray) -> None:
    """Refuse rows whose kernel values would overflow."""
    magnitude = learner.points.kernel.magnitude(numbers)
    # max() is NaN where any entry is, and then not below the limit either
    if not magnitude.max(initial=0.0) <= _LARGEST_KERNEL[learner.dtype]:
        row = int(np.flatnonzero(too_large(learner, numbers))[0])
        values = X[[row]].data if sparse.issparse(X) else X[row]
        if np.isfinite(values).all():
            raise BadRow(row, "it is so large that its kernel values would overflow: scale it down")
        raise BadRow(row, NOT_FINITE)


def extreme(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Which rows have a target or a weight that is too large to be learned."""
    return ~((np.abs(y) <= LARGEST_TARGET) & (weight <= LARGEST_WEIGHT))


def extreme_target(y: float) -> str | None:
    """What is wrong with a target, if it is too large to be learned."""
    if abs(y) <= LARGEST_TARGET:
        return None
    return f"its target {y:g} is too large: scale targets, to at most {LARGEST_TARGET:g}"


def refuse_extreme(y: np.ndarray, weight: np.ndarray) -> None:
    """Refuse rows whose target or weight is too large to be learned."""
    bad = extreme(y, weight)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise BadRow(
            row,
            extreme_target(float(y[row]))
            or f"its sample_weight {weight[row]:g} is too large: give at most {LARGEST_WEIGHT:g}",
        )


def _learn_rows(learner, X, numbers, y, weight, trail, first) -> int:
    """One tile: kernel blocks, the loop, and the rows that became points."""
    learner.make_room(X.shape[0])
    n = learner.n_points
    if isinstance(learner.model.update, ActiveRule):  # which needs few kernel values beforehand
        block = _kernel_block(learner, X, numbers, first) if needs_block(learner) else None
        return learn_active(learner, block, X, numbers, y, weight, trail)
    k = _kernel_block(learner, X, numbers, first)
    if isinstance(learner.model.update, DualRule):  # which needs no scores beforehand
        loop, shape = learn_dictionary, (X.shape[0], learner.n_outputs)
        raw_f = raw_v = learner.points.memory.lend("raw_f", shape)
    else:
        loop = learn_tile
        raw_f, raw_v = predict.raw_scores(learner.state, k[:n], learner.points.memory)
    tile = Tile(k, n, raw_f, raw_v, y, weight, _STORED_GRAM)
    slots = learner.points.slots(X, numbers)
    arguments = learner.model, learner.state, tile, trail, _work(learner), slots
    if "learn" not in learner.scratch:  # the types of these never change in a learner's life
        learner.scratch["learn"] = entry_point(loop, *arguments)
    done = learner.scratch["learn"](*arguments)
    learner.points.write(trail, done, X, numbers)
    return int(done)


def _kernel_block(learner: Learner, X: Any, numbers: np.ndarray, first: int) -> np.ndarray:
    """Kernel values of the points and of the rows themselves with each row, all finite."""
    k = learner.points.block_with_rows(learner.n_points, X, numbers)
    if not learner.points.kernel.is_bounded_by_numbers and not np.isfinite(k).all():
        raise BadRow(first, f"{learner.points.kernel!r} is not finite for it or for a row after it")
    return k


def _work(learner: Learner) -> Work:
    """Memory for one row at a time, kept until a class joins."""
    work = learner.scratch.get("work")
    if work is None or len(work.active) != learner.n_outputs:
        work = learner.scratch["work"] = new_work(learner.n_outputs)
    return work


def all_or_nothing(learner: Learner, change: Callable[[], Answer]) -> Answer:
    """Call `change`, which learns; undo everything that it has learned if it fails half way.

    An ordinary try, and no context manager: an interrupt that arrives while a context manager is
    being left would be raised outside of it, with nothing undone.
    """
    state, points, n_slots = learner.state, learner.points, learner.n_slots
    saved = snapshot(state)
    points.journal = []
    try:
        return change()
    except BaseException:
        points.undo()
        points.n_slots = n_slots
        copy_into(state, saved)
        learner.state = state
        raise
    finally:
        points.journal = None
