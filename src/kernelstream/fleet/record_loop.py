"""Learning and scoring the rows of a fleet, on all cores of the CPU.

THE loop (`learner.learn`) learns each row in place, in the record of its model. So a fleet knows no
part by name, and whatever the loop can do, a fleet can.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import as_argument, compiled, entry_point
from kernelstream.expansion import ComputedGram, NoChanges, Tile, Uncorrected
from kernelstream.fleet.records import Models
from kernelstream.learner.learn import Trail, Work, learn_rows, new_trail, new_work
from kernelstream.learner.state import CACHE_LINE, mapped
from kernelstream.learner.views import moved
from kernelstream.parts import rule
from kernelstream.stores import NOTHING_PENDING, write_row
from kernelstream.threads import each

__all__ = ["RowsBefore", "learn", "scores"]

# What a row costs grows with its model, by 0.1 to 0.3 ns per byte: this is about a millisecond. To
# share less would cost more than it gains.
_BYTES_WORTH_A_PIECE = 2**22
_PIECES_OF_A_THREAD = 4


class Workspace(NamedTuple):
    """Memory of a thread, for one row."""

    filled: Any  # (features,): the row without gaps
    row: Any  # (features,): as kernels see it
    line: Any  # (slots,)
    column: Any  # (slots and one,): kernel values of the row with the points and with itself
    k: Any  # the same memory as a block of one row
    raw: Any  # (outputs, functions, 1)
    y: Any
    weight: Any
    trail: Trail
    work: Work


def _new_workspace(models: Models) -> Workspace:
    machine = models.machine
    n_outputs, n_functions = machine.n_outputs, machine.state.expansion.coef.shape[1]
    space = mapped(_alone, Workspace(
        filled=np.zeros(machine.n_features, machine.dtype),
        row=np.zeros(machine.n_features, machine.dtype),
        line=np.zeros(machine.n_slots, machine.dtype),
        column=np.zeros(machine.n_slots + 1, machine.dtype),
        k=np.zeros((0, 1)),
        raw=np.zeros((n_outputs, n_functions, 1)),
        y=np.zeros(1),
        weight=np.zeros(1),
        trail=new_trail(1, n_outputs),
        work=new_work(n_outputs, n_functions, 1),
    ))  # fmt: skip
    return space._replace(k=space.column.reshape(-1, 1))


def _alone(array: np.ndarray) -> np.ndarray:
    """Return an array like this on cache lines of its own, so that threads do not wait."""
    memory = np.zeros(array.nbytes + 2 * CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)


# made here: compiled code knows no defaults
_NO_CHANGES, _UNCORRECTED = NoChanges(), Uncorrected()


@rule
class NoGrams(NamedTuple):
    """Norms are not corrected for points that are dropped."""

    def of_model(self, kernel, features, memory):
        """Return where the loop finds kernel values between the points of a model."""
        return _UNCORRECTED


@rule
class ComputedGrams(NamedTuple):
    """Kernel values between points are computed where they are needed.

    To fetch them from memory would take longer.
    """

    def of_model(self, kernel, features, memory):
        return ComputedGram(kernel, features, memory)


@rule
class RowWriter(NamedTuple):
    """The slots of one model, and the row that it learns."""

    rows: Any  # (slots, features)
    x: Any

    def write_points(self, expansion, tile, trail, done):
        """Put the row into its slot and merge points, unless it was refused."""
        if done > 0:
            write_row(self.rows, trail.slot[0], trail.partner[0], trail.share[0], self.x)


class Rules(NamedTuple):
    """What stands before the machine of every model, and beside it."""

    scaling: Any
    target_scaling: Any
    filling: Any
    baseline: Any


def _rules_of(models: Models) -> Rules:
    machine = models.machine
    return Rules(machine.scaling, machine.target_scaling, models.filling, models.baseline)


@partial(compiled, nogil=True)
def _learn_models(
    kernel, rules, grams, model, space, first, floats, integers, points, order, members, X, y,
    weight, scores, margins, refused, errors,
):  # fmt: skip
    """Learn rows, those of a model in their order; mark those that are refused."""
    scaling, targets = rules.scaling, rules.target_scaling
    column, trail = space.column, space.trail
    for position in range(order.shape[0]):
        row, m = order[position], members[position]
        state = moved(first, m, floats.strides[0], integers.strides[0])
        expansion = state.expansion
        given = rules.filling.fill_row(state.means, X[row], space.filled)
        size = scaling.scale_row(state.scaling, given, space.row)
        n, x = expansion.n_points[0], scaling.seen_row(given, space.row)
        kernel.write_column(points[m], n, x, column)
        kernel.write_column(x.reshape((-1, 1)), 1, x, column[n:])
        for function in range(expansion.coef.shape[1]):
            expansion.outputs.write_raw(expansion.coef, function, n, column, space.raw)
        zero, unit = targets.unit_of(state.target_scaling)
        least, most = targets.bounds_of(state.target_scaling)
        space.y[0] = targets.scale_target(state.target_scaling, y[row], zero, unit)
        space.weight[0] = weight[row]
        gram = grams.of_model(kernel, points[m], space.line)
        tile = Tile(
            space.k, n, space.raw, space.y, space.weight, gram, _NO_CHANGES, NOTHING_PENDING
        )
        done = learn_rows(model, state, tile, trail, space.work, RowWriter(points[m].T, x))
        for output in range(scores.shape[1]):
            score = zero + unit * trail.scores[0, output]
            scores[row, output] = min(max(score, least), most)
        margins[row] = trail.margin[0]
        refused[row] = done == 0
        if done > 0 and weight[row] != 0.0:
            rules.baseline.compare(state.seen, y[row], scores[row], errors[row])
            rules.baseline.note_target(state.seen, y[row])
            targets.count_row(state.target_scaling, y[row : row + 1], 0.0)
            scaling.count_row(state.scaling, given, size)
            rules.filling.note_values(state.means, X[row])


@partial(compiled, nogil=True)
def _score_models(
    kernel, rules, space, first, floats, integers, points, order, members, X, scores
):  # fmt: skip
    """Write the scores of rows, each by its model."""
    scaling, targets = rules.scaling, rules.target_scaling
    for position in range(order.shape[0]):
        row, m = order[position], members[position]
        state = moved(first, m, floats.strides[0], integers.strides[0])
        expansion, b = state.expansion, state.intercept.b
        given = rules.filling.fill_row(state.means, X[row], space.filled)
        scaling.scale_row(state.scaling, given, space.row)
        n, x = expansion.n_points[0], scaling.seen_row(given, space.row)
        kernel.write_column(points[m], n, x, space.column)
        expansion.outputs.write_raw(expansion.coef, 0, n, space.column, space.raw)
        zero, unit = targets.unit_of(state.target_scaling)
        least, most = targets.bounds_of(state.target_scaling)
        for output in range(scores.shape[1]):
            score = expansion.scale[0] * space.raw[output, 0, 0] + b[output]
            scores[row, output] = min(max(zero + unit * score, least), most)


class RowsBefore(NamedTuple):
    """The scores of rows and the margins of their models, before the models learned the rows."""

    scores: np.ndarray
    margins: np.ndarray
    refused: np.ndarray  # because of the step that the row asks for: its model did not learn it
    errors: np.ndarray = np.empty((0, 2))  # of model and baseline; NaN where not compared


def learn(
    models: Models, X: np.ndarray, y: np.ndarray, weight: np.ndarray, members: np.ndarray | None,
    n_threads: int,
) -> tuple[RowsBefore, Models]:  # fmt: skip
    """Learn each row with the model in `members` (None: row i with model i).

    Return the scores before learning, and the models that have learned. These are the same models,
    changed in place, where nobody can read meanwhile. Otherwise copies learn, and replace the
    models at the end. A row that is bad by itself is a `BadRow` before anything is learned.
    """
    machine = models.machine
    X, y, weight = as_argument(X, machine.dtype), as_argument(y), as_argument(weight)
    models.refuse_unfit(X)
    with models.gate.for_writing():
        if models.gate.is_free():
            return _learn(models, X, y, weight, members, n_threads), models
    if members is None:
        copies = models.select(slice(None))
        return _learn(copies, X, y, weight, members, n_threads), copies
    chosen, members = np.unique(members, return_inverse=True)
    copies = models.select(chosen)
    learned = _learn(copies, X, y, weight, members, n_threads)
    return learned, models.replaced(chosen, copies)


def _learn(
    models: Models, X: np.ndarray, y: np.ndarray, weight: np.ndarray, members: np.ndarray | None,
    n_threads: int,
) -> RowsBefore:  # fmt: skip
    machine = models.machine
    grams: Any = ComputedGrams() if models.corrects else NoGrams()
    before = RowsBefore(
        np.empty((len(X), machine.n_outputs)),
        np.empty(len(X)),
        np.zeros(len(X), np.bool_),
        np.full((len(X), 2), np.nan),
    )

    if not len(X):
        return before  # there may be no first model either
    kernel, first, rules = machine.kernel.to_rule(), models.first_state(), _rules_of(models)

    def learn_rows_of(space: Workspace, order: np.ndarray, of_models: np.ndarray) -> None:
        arguments = (
            kernel, rules, grams, machine.model, space, first, models.floats,
            models.integers, models.points, order, of_models, X, y, weight, *before,
        )  # fmt: skip
        _call(models, "learn", _learn_models, arguments)

    _in_threads(models, len(X), members, n_threads, learn_rows_of)
    return before


def scores(
    models: Models, X: np.ndarray, members: np.ndarray | None, n_threads: int
) -> np.ndarray:  # fmt: skip
    """Return the scores of each row by the model in `members` (None: row i by model i).

    The caller is inside the models' gate.
    """
    machine = models.machine
    X = as_argument(X, machine.dtype)
    models.refuse_unfit(X)
    result = np.empty((len(X), machine.n_outputs))

    if not len(X):
        return result
    kernel, first, rules = machine.kernel.to_rule(), models.first_state(), _rules_of(models)

    def score_rows_of(space: Workspace, order: np.ndarray, of_models: np.ndarray) -> None:
        arguments = (
            kernel, rules, space, first, models.floats, models.integers, models.points,
            order, of_models, X, result,
        )  # fmt: skip
        _call(models, "scores", _score_models, arguments)

    _in_threads(models, len(X), members, n_threads, score_rows_of)
    return result


def _call(models: Models, name: str, function: Any, arguments: tuple[Any, ...]) -> None:
    if name not in models.scratch:  # the types never change in a fleet's life
        models.scratch[name] = entry_point(function, *arguments)
    models.scratch[name](*arguments)


def _in_threads(
    models: Models, n_rows: int, members: np.ndarray | None, n_threads: int,
    work: Callable[[Workspace, np.ndarray, np.ndarray], None],
) -> None:  # fmt: skip
    """Call `work` for the rows of every model, each model's in one thread and in their order."""
    if members is None:
        order = members = np.arange(n_rows)
    else:
        order = np.argsort(members, kind="stable")
        members = members[order]
    # more pieces than threads: one that is late, or has other work, then takes fewer of them
    most = _PIECES_OF_A_THREAD * n_threads if n_threads > 1 else 1
    n_pieces = max(1, min(most, n_rows * models.n_bytes_of_a_model() // _BYTES_WORTH_A_PIECE))
    cuts = np.linspace(0, n_rows, n_pieces + 1).astype(int)
    # a cut in the midst of a model's rows moves to their beginning
    cuts[1:-1] = np.searchsorted(members, members[cuts[1:-1]])
    spaces = models.scratch.setdefault("workspaces", [])

    def work_on(piece: slice) -> None:
        try:  # a thread's memory that no other thread has: one that came back, or a new one
            space = spaces.pop()
        except IndexError:
            space = _new_workspace(models)
        try:
            work(space, order[piece], members[piece])
        finally:
            spaces.append(space)

    each(work_on, [slice(*pair) for pair in pairwise(cuts)], n_threads)
