"""The record of parts that a learner is, and the learner: that record, its state and its points."""

import threading
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from kernelstream.intercepts import Intercept
from kernelstream.kernels import Kernel
from kernelstream.learner.points import Memory, Points, SparsePoints
from kernelstream.learner.state import (
    State,
    allocate,
    expansion_fields,
    first_outputs,
    n_bytes,
    only_nonzeros,
    resize,
    snapshot,
)
from kernelstream.updates import active_fields, dual_fields

__all__ = [
    "Gate", "Learner", "Model", "Parts", "build", "corrects_norms", "first_slots", "refuse_beyond",
]  # fmt: skip

_FIRST_SLOTS = 256  # of a budget without limit, which then doubles
_MANY_SLOTS = 1024  # of a dictionary without limit: beyond, the user is warned
_MANY_OUTPUTS = 64  # from here on a point keeps only the coefficients that its row touched


class Model(NamedTuple):
    """The rules of a learner's parts and its two weights. It never changes while learning."""

    loss: Any
    margin: Any
    step_size: Any
    update: Any
    budget: Any
    intercept: Any
    regularization: float  # c in the papers: weight of half the squared norm of f
    loss_weight: float  # C: weight of the loss


@dataclass(frozen=True, eq=False)
class Parts:
    """What a user chose, checked: public parts, and the loss as the rule that it is."""

    kernel: Kernel
    loss: Any
    margin: Any
    step_size: Any
    update: Any
    budget: Any
    fit_intercept: bool
    regularization: float
    loss_weight: float
    dated: bool = False  # whether it is known when each point came
    averaged: bool = False  # whether the sum of all models is kept


class Gate:
    """Who reads a learner just now, so that nobody changes it under their eyes.

    Whoever changes a learner in place holds `lock` and has seen that there are no `readers`;
    otherwise a copy is changed. A reader holds the lock only to come and to go.
    """

    __slots__ = ("lock", "readers")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.readers = 0

    def __enter__(self) -> None:
        with self.lock:
            self.readers += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.readers -= 1


@dataclass(eq=False)
class Learner:
    """A model that learns: rules, state, points."""

    model: Model
    declared: tuple[State, State]  # `fields`, with a point's coefficients all kept or only nonzeros
    state: State
    points: Points | SparsePoints
    limit: int | None
    most_touched: int | None  # how many outputs a row can touch; None: any number
    room: State | None = field(default=None, repr=False)  # the memory that `state` begins
    scratch: dict[str, Any] = field(default_factory=dict, repr=False)  # a backend's, never saved
    gate: Gate = field(default_factory=Gate, repr=False)

    def copy(self) -> "Learner":
        """The same learner with arrays of its own; they share the working memory of learning."""
        points = self.points.first(self.n_points)
        points.memory = self.points.memory
        return replace(self, state=snapshot(self.state), points=points, room=None, gate=Gate())

    def __getstate__(self) -> dict[str, Any]:
        with self.gate:
            copy = {**self.copy().__dict__, "scratch": {}}
        copy["points"].memory = Memory()
        del copy["gate"]
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, gate=Gate())

    @property
    def fields(self) -> State:
        """What each array of the state spans, as its part declared it."""
        return self.declared[_keeps_nonzeros(self.most_touched, self.n_outputs)]

    @property
    def n_touched(self) -> int:
        """How many coefficients a point has."""
        return _n_lines(self.most_touched, self.n_outputs)

    @property
    def n_points(self) -> int:
        """How many points the expansion has."""
        return int(self.state.expansion.n_points[0])

    @property
    def kept(self) -> np.ndarray:
        """The slots that hold a point, in the order in which they are shown."""
        budget = self.state.budget
        n = self.n_points - int(budget.n_spare[0])
        if not budget.queue.size:
            return np.arange(n)
        ring = len(budget.queue) - 1
        return budget.queue[(budget.oldest[0] + np.arange(n)) % ring]

    @property
    def n_outputs(self) -> int:
        """How many scores a row gets."""
        return len(self.state.intercept.b)

    @property
    def n_slots(self) -> int:
        """How many points there is room for."""
        return self.points.n_slots

    @property
    def n_features(self) -> int:
        """How long a row is."""
        return self.points.n_features

    @property
    def dtype(self) -> np.dtype:
        """The precision of rows and kernel values."""
        return self.points.dtype

    def add_outputs(self, n: int) -> None:
        """Give the model n more outputs, all zero.

        There is room for as many again, so that outputs that come one by one are not all copied
        each time.
        """
        n_old, wanted = self.n_outputs, self.n_outputs + n
        if _keeps_nonzeros(self.most_touched, wanted) and self.fields is self.declared[0]:
            self._keep_nonzeros(wanted)
            return
        # What undoes a block, or makes room for points, leaves a state that lies elsewhere.
        if self.room is None or self.state.intercept.b.base is not self.room.intercept.b:
            self.room = None
        if self.room is None or len(self.room.intercept.b) < wanted:
            self.room = resize(self.state, self.fields, self.sizes(n_outputs=2 * wanted))
        self.state = first_outputs(self.room, self.fields, wanted, n_old)

    def _keep_nonzeros(self, n_outputs: int) -> None:
        """Grow to so many outputs that a point keeps only the coefficients that its row touched."""
        old = self.state
        expansion = old.expansion
        few = only_nonzeros(
            expansion.a, expansion.b, expansion.past, _n_lines(self.most_touched, n_outputs)
        )
        state = old._replace(expansion=expansion._replace(**few))
        self.state = resize(state, self.declared[1], self.sizes(n_outputs=n_outputs))
        self.room = None

    def make_room(self, n: int) -> None:
        """Make sure that n more points fit, where there is no limit."""
        wanted = self.n_points + n
        if self.limit is None and wanted > self.n_slots:
            n_before, n_slots = self.n_slots, max(wanted, 2 * self.n_slots)
            self.resize_slots(n_slots)
            if n_before <= _MANY_SLOTS < n_slots:
                self._warn_of_size(max(n, self.n_points))

    def _warn_of_size(self, n_points: int) -> None:
        """Say that a dictionary becomes large, where there is one."""
        if self.fields.budget.inverse.axes == ("points", "points"):
            megabytes = n_bytes(self.fields, self.sizes()) / 2**20
            warnings.warn(
                f"the dictionary has grown to {n_points:,} points and may take {megabytes:,.0f} MB "
                "before it grows again: it has no limit, and memory and time grow with its square. "
                "Give it a size, budget=Independent(tolerance, size=512), or a larger tolerance, "
                "or scale the rows.",
                stacklevel=2,
            )

    def resize_slots(self, n_slots: int) -> None:
        """Change the number of slots to a larger one."""
        self.points.grow(n_slots)
        self.state = resize(self.state, self.fields, self.sizes(n_slots=n_slots))
        self.room = None

    def sizes(self, n_outputs: int | None = None, n_slots: int | None = None) -> dict[str, int]:
        """What the axes of the state's arrays stand for, now or with other numbers."""
        n_outputs = self.n_outputs if n_outputs is None else n_outputs
        return {
            "outputs": n_outputs,
            "points": self.n_slots if n_slots is None else n_slots,
            "touched": _n_lines(self.most_touched, n_outputs),
        }


def build(
    parts: Parts, n_features: int, n_outputs: int, dtype: np.dtype, sparse: bool = False,
    max_bytes: int | None = None, stores_gram: bool = True, n_slots: int | None = None,
) -> Learner:  # fmt: skip
    """A learner that has seen nothing yet; `sparse`: it keeps sparse rows.

    `stores_gram`: kernel values between points are kept where dropped points need them; otherwise
    only where they are projected. `max_bytes` is the most memory that it may take; `n_slots` is how
    many points it has room for, None: as many as the budget allows, or a few where it has no limit.
    """
    parts.step_size.check_use(
        parts.fit_intercept and parts.update.has_intercept_step, parts.margin.has_step_size()
    )
    step_rule = parts.step_size.to_rule()
    intercept = Intercept(parts.fit_intercept, step_rule.initial)
    model = Model(
        loss=parts.loss,
        margin=parts.margin.to_rule(step_rule.initial),
        step_size=step_rule,
        update=parts.update.to_rule(),
        budget=parts.budget.to_rule(),
        intercept=intercept.to_rule(),
        regularization=float(parts.regularization),
        loss_weight=float(parts.loss_weight),
    )
    most_touched = _most_touched(parts)
    declared = tuple(
        State(
            expansion=expansion_fields(
                step_rule.is_traced(),
                nonzeros,
                parts.dated,
                parts.budget.expires(),
                parts.averaged,
            ),
            step_size=parts.step_size.state(),
            margin=parts.margin.state(step_rule.initial),
            intercept=intercept.state(),
            budget=parts.budget.state(_norm_decay(parts, model) if stores_gram else None, dtype),
            dual=_update_fields(parts, sparse),
        )
        for nonzeros in (False, True)
    )
    limit = parts.budget.limit()
    if n_slots is None:
        n_slots = first_slots(limit)
    fields = declared[_keeps_nonzeros(most_touched, n_outputs)]
    touched = _n_lines(most_touched, n_outputs)
    sizes = {"outputs": n_outputs, "points": n_slots, "touched": touched}
    kept = SparsePoints if sparse else Points
    needed = n_bytes(fields, sizes) + kept.n_bytes(n_slots, n_features, dtype)
    refuse_beyond(max_bytes, needed, "the model")
    return Learner(
        model=model,
        declared=declared,  # type: ignore[arg-type]
        state=allocate(fields, sizes),
        points=kept(parts.kernel, n_slots, n_features, dtype),
        limit=limit,
        most_touched=most_touched,
    )


def first_slots(limit: int | None, n_points: int = 0) -> int:
    """How many points a model has room for as it begins with n points; `limit` is its budget's."""
    if limit is not None:
        return limit
    return _FIRST_SLOTS if n_points <= _FIRST_SLOTS else max(n_points, 2 * _FIRST_SLOTS)


def refuse_beyond(max_bytes: int | None, needed: int, what: str) -> None:
    """Refuse to take more memory than is allowed, before any is taken."""
    if max_bytes is not None and needed > max_bytes:
        raise MemoryError(
            f"{what} would take {needed:,} bytes; max_bytes is {max_bytes:,}. If you trust where "
            "it comes from, allow more."
        )


def corrects_norms(parts: Parts, model: Model) -> bool:
    """Whether ||f||^2 and <f, v> are kept true when a point is dropped."""
    decay = _norm_decay(parts, model)
    return decay is not None and bool(parts.budget.keeps_gram(decay))


def _norm_decay(parts: Parts, model: Model) -> float | None:
    """How fast an error of ||f||^2 and <f, v> is forgotten; None where neither is used.

    They enter by the update itself, which forgets nothing; or multiplied by c, where the step size
    keeps a trace.
    """
    if parts.update.uses_norm:
        return 1.0
    if not model.step_size.is_traced() or model.regularization == 0.0:
        return None
    return float(model.step_size.trace_decay())


def _most_touched(parts: Parts) -> int | None:
    """How many outputs a row can touch; None where it may be all, or where more may follow."""
    if parts.update.touches_all() or parts.budget.projects():
        return None
    return int(parts.loss.n_touched()) if hasattr(parts.loss, "n_touched") else None


def _keeps_nonzeros(most_touched: int | None, n_outputs: int) -> bool:
    """Whether a point keeps only the coefficients that its row touched: where that pays."""
    return most_touched is not None and n_outputs >= _MANY_OUTPUTS and 4 * most_touched <= n_outputs


def _n_lines(most_touched: int | None, n_outputs: int) -> int:
    """How many coefficients a point has."""
    if most_touched is not None and _keeps_nonzeros(most_touched, n_outputs):
        return most_touched
    return n_outputs


def _update_fields(parts: Parts, sparse: bool) -> Any:
    """What the update remembers."""
    if not parts.update.finishes:
        return dual_fields(parts.update)
    return active_fields(float(parts.margin.value), sparse or not _compiles(parts.kernel))


def _compiles(kernel: Kernel) -> bool:
    """Whether compiled code can compute kernel values."""
    try:
        kernel.to_rule()
    except ValueError:
        return False
    return True
