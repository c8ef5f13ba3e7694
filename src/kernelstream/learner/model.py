"""The record of parts that a learner is, and the learner: that record, its state and its points."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kernelstream.intercepts import Intercept
from kernelstream.kernels import Kernel
from kernelstream.learner.points import Points, SparsePoints
from kernelstream.learner.state import State, allocate, expansion_fields, n_bytes, resize
from kernelstream.updates import dual_fields

__all__ = ["Learner", "Model", "Parts", "build", "corrects_norms"]

_FIRST_SLOTS = 256  # of a budget without limit, which then doubles
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


@dataclass(eq=False)
class Learner:
    """A model that learns: rules, state, points."""

    model: Model
    fields: State  # what each array of the state spans, as its part declared it
    state: State
    points: Points | SparsePoints
    limit: int | None
    n_touched: int  # the most outputs that a row touches
    scratch: dict[str, Any] = field(default_factory=dict, repr=False)  # a backend's, never saved

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scratch": {}, "points": self.points.first(self.n_points)}

    @property
    def n_points(self) -> int:
        """How many points the expansion has."""
        return int(self.state.expansion.n_points[0])

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
        """Give the model n more outputs, all zero."""
        sizes = self.sizes(n_outputs=self.n_outputs + n)
        self.state = resize(self.state, self.fields, sizes)

    def make_room(self, n: int) -> None:
        """Make sure that n more points fit, where there is no limit."""
        wanted = self.n_points + n
        if self.limit is None and wanted > self.n_slots:
            self.resize_slots(max(wanted, 2 * self.n_slots))

    def resize_slots(self, n_slots: int) -> None:
        """Change the number of slots to a larger one."""
        self.points.grow(n_slots)
        self.state = resize(self.state, self.fields, self.sizes(n_slots=n_slots))

    def sizes(self, n_outputs: int | None = None, n_slots: int | None = None) -> dict[str, int]:
        """What the axes of the state's arrays stand for, now or with other numbers."""
        return {
            "outputs": self.n_outputs if n_outputs is None else n_outputs,
            "points": self.n_slots if n_slots is None else n_slots,
            "touched": self.n_touched,
        }


def build(
    parts: Parts, n_features: int, n_outputs: int, dtype: np.dtype, sparse: bool = False,
    max_bytes: int | None = None, stores_gram: bool = True,
) -> Learner:  # fmt: skip
    """A learner that has seen nothing yet; `sparse`: it keeps sparse rows.

    `stores_gram`: kernel values between points are kept where dropped points need them; otherwise
    only where they are projected.
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
    traced = step_rule.is_traced()
    n_touched = _most_touched(parts, n_outputs)
    fields = State(
        expansion=expansion_fields(traced, n_touched < n_outputs, parts.dated),
        step_size=parts.step_size.state(),
        margin=parts.margin.state(step_rule.initial),
        intercept=intercept.state(),
        budget=parts.budget.state(_norm_decay(parts, model) if stores_gram else None, dtype),
        dual=dual_fields(parts.update),
    )
    limit = parts.budget.limit()
    n_slots = _FIRST_SLOTS if limit is None else limit
    sizes = {"outputs": n_outputs, "points": n_slots, "touched": n_touched}
    needed = n_bytes(fields, sizes) + (0 if sparse else n_slots * n_features * dtype.itemsize)
    if max_bytes is not None and needed > max_bytes:
        raise MemoryError(f"the model would take {needed:,} bytes; max_bytes is {max_bytes:,}")
    return Learner(
        model=model,
        fields=fields,
        state=allocate(fields, sizes),
        points=(SparsePoints if sparse else Points)(parts.kernel, n_slots, n_features, dtype),
        limit=limit,
        n_touched=n_touched,
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


def _most_touched(parts: Parts, n_outputs: int) -> int:
    """How many coefficients a point needs: fewer than outputs where that pays."""
    most = parts.loss.n_touched() if hasattr(parts.loss, "n_touched") else n_outputs
    few = n_outputs >= _MANY_OUTPUTS and 4 * most <= n_outputs
    if few and not parts.update.touches_all() and not parts.budget.projects():
        return int(most)
    return n_outputs
