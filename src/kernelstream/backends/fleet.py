"""Many small models at once, on all cores of the CPU.

A model's numbers are one record of floats and one of integers; a fleet is a line of records. The
state of the first model is a tuple of views; moved along by the length of a record (`_moved`) they
are the state of the next, and THE loop (`learner.learn`) learns its rows in place. So a fleet knows
no part by name, and whatever the loop can do, a fleet can.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from kernelstream.backends import cpu
from kernelstream.compiled import as_argument, compiled, entry_point
from kernelstream.learner.expansion import ComputedGram
from kernelstream.learner.learn import Tile, Trail, Work, learn_rows, new_trail, new_work
from kernelstream.learner.model import Gate, Parts, build, corrects_norms, refuse_beyond
from kernelstream.learner.points import write_row
from kernelstream.learner.state import State, arrays

__all__ = ["Layout", "Models", "learn", "n_cores", "scores"]

_ROWS_WORTH_A_THREAD = 1000


class Layout:
    """Where each array of a state lies in the two records of a model."""

    def __init__(self, state: State):
        self._like = state
        self.places: dict[str, tuple[bool, slice, tuple[int, ...]]] = {}
        self.n_floats = self.n_integers = 0
        for name, array in arrays(state):
            is_float = array.dtype.kind == "f"
            start = self.n_floats if is_float else self.n_integers
            self.places[name] = is_float, slice(start, start + array.size), array.shape
            if is_float:
                self.n_floats += array.size
            else:
                self.n_integers += array.size

    def view(self, name: str, floats: np.ndarray, integers: np.ndarray) -> np.ndarray:
        """One array of the state in the records of a model, or of many, as a view."""
        is_float, place, shape = self.places[name]
        record = floats if is_float else integers
        return record[..., place].reshape(*record.shape[:-1], *shape)

    def state(self, floats: np.ndarray, integers: np.ndarray) -> State:
        """The state whose arrays are views of one model's records."""
        views = iter([self.view(name, floats, integers) for name in self.places])
        return State(*(type(record)(*(next(views) for _ in record)) for record in self._like))

    def write(self, state: State, floats: np.ndarray, integers: np.ndarray) -> None:
        """Put a state into the records of a model, or of many."""
        for name, array in arrays(state):
            self.view(name, floats, integers)[...] = array


class Models:
    """The models of a fleet: what they share, and what each of them knows.

    `floats` and `integers` have a record for every model, `points` its rows, a line for every
    feature.
    """

    def __init__(
        self, parts: Parts, n_features: int, n_outputs: int, dtype: Any, n_models: int,
        max_bytes: int | None = None,
    ):  # fmt: skip
        # It never learns anything, and so keeps no rows (`sparse`). Kernel values between points
        # are computed where they are needed: to fetch them from memory would take longer.
        self.learner = build(
            parts, n_features, n_outputs, np.dtype(dtype), sparse=True, stores_gram=False,
            max_bytes=max_bytes,
        )  # fmt: skip
        self.corrects = corrects_norms(parts, self.learner.model)
        learner = self.learner
        self.layout = Layout(learner.state)
        refuse_beyond(max_bytes, n_models * self.n_bytes_of_a_model(), "the fleet")
        self.floats = np.zeros((n_models, self.layout.n_floats))
        self.integers = np.zeros((n_models, self.layout.n_integers), np.int64)
        self.points = np.zeros((n_models, learner.n_features, learner.n_slots), learner.dtype)
        self.layout.write(learner.state, self.floats, self.integers)
        self.scratch: dict[str, Any] = {}  # never saved
        self.gate = Gate()

    def __len__(self) -> int:
        return len(self.floats)

    def __getstate__(self) -> dict[str, Any]:
        with self.gate:
            copy = {**self.select(slice(None)).__dict__, "scratch": {}}
        del copy["gate"]
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, gate=Gate())

    def n_bytes_of_a_model(self) -> int:
        """How much memory a model takes."""
        points = self.learner.n_features * self.learner.n_slots * self.learner.dtype.itemsize
        return 8 * (self.layout.n_floats + self.layout.n_integers) + points

    def first_state(self) -> State:
        """The state of the first model, as views."""
        return self.layout.state(self.floats[0], self.integers[0])

    def view(self, name: str) -> np.ndarray:
        """An array of the state, such as "margin.epsilon", of all models, as a view."""
        return self.layout.view(name, self.floats, self.integers)

    def select(self, chosen: Any) -> "Models":
        """The chosen models alone, as copies."""
        chosen = np.arange(len(self))[chosen]  # with a slice numpy would give views
        return self._with(self.floats[chosen], self.integers[chosen], self.points[chosen])

    def replaced(self, chosen: np.ndarray, others: "Models") -> "Models":
        """These models with others in the chosen places: in place, or a copy if somebody reads."""
        with self.gate.lock:
            if not self.gate.readers:
                self._put(chosen, others)
                return self
        copy = self.select(slice(None))
        copy._put(chosen, others)
        return copy

    def _put(self, chosen: np.ndarray, others: "Models") -> None:
        self.floats[chosen], self.integers[chosen] = others.floats, others.integers
        self.points[chosen] = others.points

    def extend(self, others: "Models") -> "Models":
        """These models and after them others of the same kind."""
        return self._with(
            np.concatenate([self.floats, others.floats]),
            np.concatenate([self.integers, others.integers]),
            np.concatenate([self.points, others.points]),
        )

    def _with(self, floats: np.ndarray, integers: np.ndarray, points: np.ndarray) -> "Models":
        models = object.__new__(Models)
        models.__dict__.update(
            self.__dict__, floats=floats, integers=integers, points=points, gate=Gate()
        )
        return models


class Hand(NamedTuple):
    """Memory of a thread, for one row."""

    line: Any  # (slots,)
    column: Any  # (slots and one,): kernel values of the row with the points and with itself
    k: Any  # the same memory as a block of one row
    raw_f: Any
    raw_v: Any
    y: Any
    weight: Any
    trail: Trail
    work: Work


def _new_hand(models: Models) -> Hand:
    learner = models.learner
    n_outputs = learner.n_outputs
    column = np.zeros(learner.n_slots + 1, learner.dtype)
    return Hand(
        line=np.zeros(learner.n_slots, learner.dtype),
        column=column,
        k=column.reshape(-1, 1),
        raw_f=np.zeros((1, n_outputs)),
        raw_v=np.zeros((1, n_outputs if learner.state.expansion.b.size else 0)),
        y=np.zeros(1),
        weight=np.zeros(1),
        trail=new_trail(1, n_outputs),
        work=new_work(n_outputs),
    )


def _moved(views, m, float_bytes, integer_bytes):
    """Views, alone or in tuples, each moved by m records. The result keeps nothing alive."""
    if isinstance(views, tuple):
        inner = [_moved(view, m, float_bytes, integer_bytes) for view in views]
        return type(views)(*inner) if hasattr(views, "_fields") else tuple(inner)
    distance = int(m) * (float_bytes if views.dtype.kind == "f" else integer_bytes)
    memory = (ctypes.c_char * views.nbytes).from_address(views.ctypes.data + distance)
    return np.ndarray(views.shape, views.dtype, buffer=memory, strides=views.strides)


@overload(_moved)
def _overload_moved(views, m, float_bytes, integer_bytes):
    return lambda views, m, float_bytes, integer_bytes: _compiled_moved(
        views, m, float_bytes, integer_bytes
    )


@intrinsic
def _compiled_moved(typing_context, views, m, float_bytes, integer_bytes):
    def generate(context, builder, signature, arguments):
        value, index, *lengths = arguments
        for_floats, for_integers = (builder.mul(index, length) for length in lengths)

        def moved(kind, value):
            if isinstance(kind, types.BaseTuple):
                inner = [
                    moved(part, builder.extract_value(value, i)) for i, part in enumerate(kind)
                ]
                return context.make_tuple(builder, kind, inner)
            array = context.make_array(kind)(context, builder, value)
            distance = for_floats if isinstance(kind.dtype, types.Float) else for_integers
            array.data = cgutils.pointer_add(builder, array.data, distance, array.data.type)
            # without an owner, so that no thread waits for another to count references
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()

        return moved(signature.args[0], value)

    return views(views, types.intp, types.intp, types.intp), generate


@register_jitable
def _unowned(views):
    """The same views, for a while in which somebody else keeps them alive."""
    return _moved(views, 0, 0, 0)


@partial(compiled, nogil=True)
def _learn_models(
    kernel, corrects, model, hand, first, floats, integers, points, order, members, X, y, weight,
    scores, refused,
):  # fmt: skip
    """Learn rows, those of a model in their order; mark those that are refused."""
    hand, first, points, X, scores = _unowned((hand, first, points, X, scores))
    column, trail = hand.column, hand.trail
    for position in range(order.shape[0]):
        row, m = order[position], members[position]
        state = _moved(first, m, floats.strides[0], integers.strides[0])
        expansion = state.expansion
        n, x = expansion.n_points[0], X[row]
        kernel.write_column(points[m], n, x, column)
        kernel.write_column(x.reshape((-1, 1)), 1, x, column[n:])
        _raw_scores(expansion, expansion.a, n, column, hand.raw_f)
        if expansion.b.size > 0:
            _raw_scores(expansion, expansion.b, n, column, hand.raw_v)
        hand.y[0] = y[row]
        hand.weight[0] = weight[row]
        source = ComputedGram(kernel, points[m], hand.line, corrects)
        tile = Tile(hand.k, n, hand.raw_f, hand.raw_v, hand.y, hand.weight, source)
        done = learn_rows(model, state, tile, trail, hand.work)
        scores[row] = trail.scores[0]
        if done == 0:
            refused[row] = True
        else:
            write_row(points[m].T, trail.slot[0], trail.partner[0], trail.share[0], x)


@partial(compiled, nogil=True)
def _score_models(
    kernel, hand, first, floats, integers, points, order, members, X, scores
):  # fmt: skip
    """The scores of rows, each by its model."""
    hand, first, points, X, scores = _unowned((hand, first, points, X, scores))
    for position in range(order.shape[0]):
        row, m = order[position], members[position]
        state = _moved(first, m, floats.strides[0], integers.strides[0])
        expansion, b = state.expansion, state.intercept.b
        n = expansion.n_points[0]
        kernel.write_column(points[m], n, X[row], hand.column)
        _raw_scores(expansion, expansion.a, n, hand.column, hand.raw_f)
        for output in range(scores.shape[1]):
            scores[row, output] = expansion.scale[0] * hand.raw_f[0, output] + b[output]


@register_jitable
def _raw_scores(expansion, coefficients, n, column, raw):
    raw[0] = 0.0
    for line in range(coefficients.shape[0]):
        if expansion.output.size > 0:
            for j in range(n):
                raw[0, expansion.output[line, j]] += coefficients[line, j] * column[j]
        else:
            total = 0.0
            for j in range(n):
                total += coefficients[line, j] * column[j]
            raw[0, line] = total


def learn(
    models: Models, X: np.ndarray, y: np.ndarray, weight: np.ndarray, members: np.ndarray | None,
    n_threads: int,
) -> tuple[np.ndarray, np.ndarray, Models]:  # fmt: skip
    """Learn each row with the model in `members` (None: row i with model i).

    The scores before that; which rows were refused because of the step that they ask for, their
    models being as they were before these rows; and the models that have learned. Those are the
    same ones, changed in place, where nobody can read meanwhile; otherwise copies learn, and take
    the place of the models at the end. A row that is bad by itself is a `BadRow` before anything is
    learned.
    """
    learner = models.learner
    X, y, weight = as_argument(X, learner.dtype), as_argument(y), as_argument(weight)
    cpu.refuse_large(learner, X, learner.points.kernel.numbers(X))
    if threading.active_count() == 1:
        with models.gate.lock:
            if not models.gate.readers:
                return *_learn(models, X, y, weight, members, n_threads), models
    if members is None:
        copies = models.select(slice(None))
        return *_learn(copies, X, y, weight, members, n_threads), copies
    chosen, members = np.unique(members, return_inverse=True)
    copies = models.select(chosen)
    learned = _learn(copies, X, y, weight, members, n_threads)
    return *learned, models.replaced(chosen, copies)


def _learn(
    models: Models, X: np.ndarray, y: np.ndarray, weight: np.ndarray, members: np.ndarray | None,
    n_threads: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    learner = models.learner
    result = np.empty((len(X), learner.n_outputs))
    refused = np.zeros(len(X), np.bool_)

    def learn_rows_of(hand: Hand, order: np.ndarray, of_models: np.ndarray) -> None:
        arguments = (
            learner.points.kernel.to_rule(), models.corrects, learner.model, hand,
            models.first_state(), models.floats, models.integers, models.points, order, of_models,
            X, y, weight, result, refused,
        )  # fmt: skip
        _call(models, "learn", _learn_models, arguments)

    _in_threads(models, len(X), members, n_threads, learn_rows_of)
    return result, refused


def scores(
    models: Models, X: np.ndarray, members: np.ndarray | None, n_threads: int
) -> np.ndarray:  # fmt: skip
    """The scores of each row by the model in `members` (None: row i by model i).

    The caller is inside the models' gate.
    """
    learner = models.learner
    X = as_argument(X, learner.dtype)
    cpu.refuse_large(learner, X, learner.points.kernel.numbers(X))
    result = np.empty((len(X), learner.n_outputs))

    def score_rows_of(hand: Hand, order: np.ndarray, of_models: np.ndarray) -> None:
        arguments = (
            learner.points.kernel.to_rule(), hand, models.first_state(), models.floats,
            models.integers, models.points, order, of_models, X, result,
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
    work: Callable[[Hand, np.ndarray, np.ndarray], None],
) -> None:  # fmt: skip
    """Call `work` for the rows of every model, each model's in one thread and in their order."""
    if n_rows == 0:
        return
    if members is None:
        order = members = np.arange(n_rows)
    else:
        order = np.argsort(members, kind="stable")
        members = members[order]
    n_pieces = max(1, min(n_threads, n_rows // _ROWS_WORTH_A_THREAD))
    cuts = np.linspace(0, n_rows, n_pieces + 1).astype(int)
    # a cut in the midst of a model's rows moves to their beginning
    cuts[1:-1] = np.searchsorted(members, members[cuts[1:-1]])
    pieces = [slice(*pair) for pair in pairwise(cuts)]
    hands = [_lent_hand(models) for _ in pieces]
    try:
        if n_pieces == 1:
            work(hands[0], order, members)
            return
        with ThreadPoolExecutor(n_pieces) as pool:
            jobs = [
                pool.submit(work, hand, order[piece], members[piece])
                for hand, piece in zip(hands, pieces, strict=True)
            ]
            for job in jobs:
                job.result()
    finally:
        models.scratch["hands"].extend(hands)


def _lent_hand(models: Models) -> Hand:
    """A thread's memory that no other thread has: one that came back, or a new one."""
    try:
        return models.scratch.setdefault("hands", []).pop()
    except IndexError:
        return _new_hand(models)


def n_cores() -> int:
    """How many threads there is room for."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
