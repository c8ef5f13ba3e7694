"""What a machine is made of: its parts, their rules, what they remember, and how large that is."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernelstream.expansion import StoredGram, Uncorrected, expansion_fields
from kernelstream.intercepts import Intercept
from kernelstream.kernels import Kernel
from kernelstream.learner.state import State, drift_fields, mapped
from kernelstream.parts import Field
from kernelstream.scalings import UNSCALED

__all__ = [
    "Model",
    "Parts",
    "corrects_norms",
    "declaration_of",
    "first_slots",
    "keeps_nonzeros",
    "most_points",
    "most_touched_of",
    "refuse_beyond",
    "rules_of",
    "sizes_of",
    "slots_of",
    "versions_of",
]

MACHINE_VERSION = 1  # of the arrays that every machine has, and of how rows become updates
_FIRST_SLOTS = 256  # of a budget without limit, which then doubles
_FEW_FEATURES = 64  # up to here there may be a number for every two features
_MANY_OUTPUTS = 64  # from here on a point keeps only the coefficients that its row touched


class Model(NamedTuple):
    """The rules of a machine's parts and its two weights. It never changes while learning."""

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
    scaling: Any = UNSCALED
    target_scaling: Any = UNSCALED
    device: Any = None  # where points live and kernel values are made; None: on the host

    @property
    def loop(self) -> str:
        """Return the name of the loop that learns (`kernelstream.learner.loops`)."""
        return "vector" if self.step_size.per_weight else self.update.loop

    @property
    def features(self) -> str:
        """Return what the expansion spans: "points", or the kind of explicit features."""
        return str(self.kernel.feature_store) if self.budget.is_folded else "points"

    @property
    def renews(self) -> bool:
        """Return whether a scaling is renewed at some rows."""
        return bool(self.scaling.renews or self.target_scaling.renews)


def versions_of(parts: Parts) -> dict[str, int]:
    """Return the version of each record of a machine's state, by the names that files use."""
    found = {"machine": MACHINE_VERSION, "intercept": Intercept.version}
    kinds = ("kernel", "margin", "step_size", "update", "budget", "scaling", "target_scaling")
    for kind in kinds:
        part = getattr(parts, kind)
        found[f"{kind} {type(part).__name__}"] = part.version
    return found


def rules_of(parts: Parts) -> Model:
    """Return the compiled rules of the parts."""
    parts.step_size.check_use(
        parts.fit_intercept and parts.update.has_intercept_step, parts.margin.has_step_size()
    )
    step_rule = parts.step_size.to_rule()
    return Model(
        loss=parts.loss,
        margin=parts.margin.to_rule(step_rule.initial),
        step_size=step_rule,
        update=parts.update.to_rule(),
        budget=parts.budget.to_rule(),
        intercept=Intercept(parts.fit_intercept, step_rule.initial).to_rule(),
        regularization=float(parts.regularization),
        loss_weight=float(parts.loss_weight),
    )


def declaration_of(
    parts: Parts, model: Model, dtype: np.dtype, is_sparse: bool, touched: bool, stores_gram: bool
) -> State:
    """Return the state that each part declares."""
    first_step = model.step_size.initial
    gram: Any = Uncorrected()
    if stores_gram and corrects_norms(parts, model):
        gram = StoredGram(Field(("points", "points"), 0.0, dtype))
    declared = State(
        expansion=expansion_fields(
            model.step_size.is_traced(), touched, parts.dated, parts.averaged
        ),
        step_size=parts.step_size.state(),
        margin=parts.margin.state(first_step),
        intercept=Intercept(parts.fit_intercept, first_step).state(),
        budget=parts.budget.state(),
        update=parts.update.state(model.margin.initial, not is_sparse and parts.kernel.compiles()),
        gram=gram,
        drift=drift_fields(first_step),
        scaling=parts.scaling.state(),
        target_scaling=parts.target_scaling.state("one"),
    )
    if parts.loop != "second_order":
        return declared
    return mapped(_beside_points, declared)


def _beside_points(field: Field) -> Field:
    return field._replace(beside_points=field.axes == ("points", "points"))


def most_points(parts: Parts) -> int | None:
    """Return the most points that there can be at any time; None where there is no limit."""
    return _with_spare(parts, parts.budget.limit())


def _with_spare(parts: Parts, limit: int | None) -> int | None:
    """Return as many points, and those that an update may have beside them for a while."""
    return None if limit is None else int(limit) + int(parts.update.spare_slots(parts.budget))


def first_slots(parts: Parts, n_features: int, n_points: int = 0) -> int:
    """Return the number of points or features that an untrained model has room for."""
    if parts.budget.is_folded:
        return int(parts.kernel.n_explicit(n_features))
    limit = _with_spare(parts, parts.budget.first_limit())
    if limit is not None:
        return max(limit, n_points)
    return _FIRST_SLOTS if n_points <= _FIRST_SLOTS else max(n_points, 2 * _FIRST_SLOTS)


def slots_of(parts: Parts, n_features: int, n_slots: int | None) -> tuple[int, int | None]:
    """Return how many slots a machine begins with, and its limit; `n_slots` is what a file says."""
    first = first_slots(parts, n_features)
    if parts.budget.is_folded:
        parts.update.check_size(first)
        return first, first
    return first if n_slots is None else n_slots, most_points(parts)


def refuse_beyond(max_bytes: int | None, needed: int, what: str) -> None:
    """Refuse to take more memory than is allowed, before any is taken."""
    if max_bytes is not None and needed > max_bytes:
        raise MemoryError(
            f"{what} would take {needed:,} bytes; max_bytes is {max_bytes:,}. If you trust where "
            "it comes from, allow more."
        )


def corrects_norms(parts: Parts, model: Model) -> bool:
    """Return whether ||f||^2 and <f, v> are kept true when a point is dropped.

    They enter by the update itself, which forgets nothing; or multiplied by c, where the step size
    keeps a trace, which forgets by its decay. Budgets that project keep them true anyway.
    """
    if parts.budget.projects:
        return False
    equal_norms = parts.kernel.has_unit_diagonal
    if parts.update.uses_norm:
        return bool(parts.budget.keeps_gram(1.0, equal_norms))
    if not model.step_size.is_traced() or model.regularization == 0.0:
        return False
    return bool(parts.budget.keeps_gram(float(model.step_size.trace_decay()), equal_norms))


def most_touched_of(parts: Parts) -> int | None:
    """Return the most outputs that a row can touch; None: all of them, or more may follow."""
    if parts.update.touches_all() or parts.budget.projects or parts.budget.is_folded:
        return None
    n = int(parts.loss.n_touched())
    return None if n < 0 else n


def keeps_nonzeros(most_touched: int | None, n_outputs: int) -> bool:
    """Return whether a point keeps only the coefficients that its row touched: where that pays."""
    return most_touched is not None and n_outputs >= _MANY_OUTPUTS and 4 * most_touched <= n_outputs


def sizes_of(
    most_touched: int | None, n_outputs: int, n_slots: int, n_features: int
) -> dict[str, int]:
    """Return the sizes of the axes of the arrays of a state."""
    lines = n_outputs
    if most_touched is not None and keeps_nonzeros(most_touched, n_outputs):
        lines = most_touched
    return {
        "outputs": n_outputs, "points": n_slots, "lines": lines, "features": n_features,
        "few_features": n_features if n_features <= _FEW_FEATURES else 0,
    }  # fmt: skip
