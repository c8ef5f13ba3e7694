"""Everything a learner remembers, as plain arrays.

The state is a record of records, one for each part that declares any, plus the kernel expansion.
Whatever walks over it (saving, undoing, growing) treats all arrays alike and knows no part by name.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelstream.parts import LARGEST_SQUARE, Field

__all__ = [
    "SMALLEST_SCALE",
    "Expansion",
    "State",
    "allocate",
    "arrays",
    "check_values",
    "copy_into",
    "first_outputs",
    "n_bytes",
    "only_nonzeros",
    "resize",
    "snapshot",
]


# The scalars of the decay are folded into the coefficients before they leave this range.
SMALLEST_SCALE = 1e-60


class Expansion(NamedTuple):
    """f and its trace v over the points, f = sum_i alpha_i k(x_i, .), v = sum_i beta_i k(x_i, .).

    The coefficients are stored raw, ``alpha = p a`` and ``beta = q b + r a``, so that a step's
    decay touches three numbers and not every point. Where q is zero, every b is.

    A point has a coefficient for each output, or, where a row touches few of many outputs, only
    those that may differ from zero; then `output` says which output each belongs to.

    Where the average of all models is wanted, their sum is kept, without touching every point at
    every row: an old raw coefficient stays as it is, and so the sum of alpha = p a over the models
    is a times that of p. Whatever else belongs to it is in `past`: the sum is ``a p_sum + past``.
    """

    a: Any  # (lines, points): a line is an output, or one of those that a row touches
    b: Any  # (lines, points), or (0, 0) where the step size keeps no trace
    output: Any  # (lines, points), or (0, 0) where a line is an output
    scale: Any  # p, q, r
    norm2: Any  # ||f||^2
    pi: Any  # <f, v>
    size2: Any  # (points,): squared norm of each point's raw a
    born: Any  # (points,): how many rows had been learned when the point came; or empty
    lost: Any  # bound on the norm of what was dropped, raw (times p); or empty
    past: Any  # (lines, points), or (0, 0) where no average is kept
    p_sum: Any  # sum of p over the models since `settle` put it into `past`; or empty
    b_sum: Any  # (outputs,): sum of the intercepts over all models; or empty
    margin_sum: Any  # sum of the margins; or empty
    n_points: Any
    n_seen: Any


class State(NamedTuple):
    """The state of a learner, part by part."""

    expansion: Any
    step_size: Any
    margin: Any
    intercept: Any
    budget: Any
    dual: Any


def expansion_fields(
    traced: bool, compact: bool, dated: bool, expires: bool, averaged: bool
) -> Expansion:
    """The declaration of an expansion, with or without a trace v, of all outputs or of few.

    `dated`: it is known when each point came. `expires`: and what those amount to that went.
    `averaged`: the sum of all models is kept.
    """
    lines, nothing = ("touched" if compact else "outputs", "points"), ("none", "none")
    return Expansion(
        a=Field(lines, 0.0),
        b=Field(lines if traced else nothing, 0.0),
        output=Field(lines if compact else nothing, 0, int, below="outputs"),
        scale=Field(("scale",), 0.0),
        norm2=Field((), 0.0),
        pi=Field((), 0.0),
        size2=Field(("points",), 0.0, largest=LARGEST_SQUARE),
        born=Field(("points",) if dated or expires else ("none",), 0, int),
        lost=Field(() if expires else ("none",), 0.0),
        past=Field(lines if averaged else nothing, 0.0),
        p_sum=Field(() if averaged else ("none",), 0.0),
        b_sum=Field(("outputs",) if averaged else ("none",), 0.0),
        margin_sum=Field(() if averaged else ("none",), 0.0),
        n_points=Field((), 0, int),
        n_seen=Field((), 0, int),
    )


def _shape(field: Field, sizes: dict[str, int]) -> tuple[int, ...]:
    sizes = {"none": 0, "scale": 3, "points_and_one": sizes["points"] + 1, **sizes}
    return tuple(sizes[axis] for axis in field.axes) or (1,)


def _filled(shape: tuple[int, ...], fill: float, dtype: Any) -> np.ndarray:
    # np.zeros takes no memory until an entry is written
    return np.full(shape, fill, dtype) if fill else np.zeros(shape, dtype)


def allocate(fields: State, sizes: dict[str, int]) -> State:
    """A fresh state from the parts' declarations and the sizes of the model."""
    dtypes = {float: np.float64, int: np.int64}
    state = State(*(
        type(record)(*(
            _filled(_shape(f, sizes), f.fill, dtypes.get(f.dtype, f.dtype)) for f in record
        ))
        for record in fields
    ))  # fmt: skip
    state.expansion.scale[:2] = 1.0  # alpha = a, beta = b
    return state


def n_bytes(fields: State, sizes: dict[str, int]) -> int:
    """How much memory `allocate` would claim."""
    return sum(8 * math.prod(_shape(field, sizes)) for record in fields for field in record)


def check_values(state: State, fields: State, sizes: dict[str, int]) -> None:
    """Refuse numbers that learning never leaves behind and that could do harm.

    The arrays may have an axis in front, of many models.
    """
    declared = (field for record in fields for field in record)
    sizes = {"points_and_one": sizes["points"] + 1, **sizes}
    for (name, array), field in zip(arrays(state), declared, strict=True):
        if array.dtype.kind == "f":
            sound = bool((np.abs(array) <= np.float64(field.largest)).all())
        else:
            limit = np.inf if field.below is None else max(sizes[field.below], 1)
            sound = bool((array >= 0).all() and (array < limit).all())
        if not sound:
            raise ValueError(f"{name} has entries that make no sense")
    p, q = state.expansion.scale[..., 0], state.expansion.scale[..., 1]
    sound = (p >= SMALLEST_SCALE).all() and ((q == 0.0) | (q >= SMALLEST_SCALE)).all()
    if not (sound and (state.step_size.eta > 0).all() and (state.expansion.size2 >= 0).all()):
        raise ValueError("a scale, a step size or a norm makes no sense")
    if not ((state.expansion.lost >= 0).all() and (state.budget.diagonal >= 0).all()):
        raise ValueError("what was dropped has a norm that makes no sense")


def resize(state: State, fields: State, sizes: dict[str, int]) -> State:
    """The same state with more outputs or more points."""
    larger = allocate(fields, sizes)
    for old, new in zip(arrays(state), arrays(larger), strict=True):
        new[1][tuple(slice(n) for n in old[1].shape)] = old[1]
    return larger


def first_outputs(state: State, fields: State, n_outputs: int, n_old: int) -> State:
    """The same memory as far as the first `n_outputs`, those after the first `n_old` being new."""
    shorter = []
    for record, declared in zip(state, fields, strict=True):
        arrays = []
        for array, field in zip(record, declared, strict=True):
            if field.axes[:1] == ("outputs",):
                array = array[:n_outputs]
                array[n_old:] = field.fill  # a block that was undone may have written there
            arrays.append(array)
        shorter.append(type(record)(*arrays))
    return State(*shorter)


def only_nonzeros(
    a: np.ndarray, b: np.ndarray, past: np.ndarray, n_lines: int
) -> dict[str, np.ndarray]:
    """Coefficients with a line for each output as those of `n_lines` outputs, and which these are.

    Answers `a`, `b`, `past` and `output` of an expansion that keeps few of many outputs
    (`Expansion`); b and past may be empty.
    """
    touched = a != 0.0
    for lines in (b, past):
        if lines.size:
            touched |= lines != 0.0
    if touched.sum(axis=0).max(initial=0) > n_lines:
        raise ValueError(f"a point has coefficients for more than {n_lines} outputs")
    order = np.argsort(~touched, axis=0, kind="stable")[:n_lines]  # lowest outputs first

    def taken(lines: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.take_along_axis(lines, order, axis=0))

    kept = {name: taken(lines) if lines.size else lines
            for name, lines in (("a", a), ("b", b), ("past", past))}  # fmt: skip
    return {**kept, "output": np.where(taken(touched), order, 0)}


def arrays(state: State) -> Iterator[tuple[str, np.ndarray]]:
    """Every array with its name, such as ("margin.epsilon", array([1.]))."""
    for part, record in zip(state._fields, state, strict=True):
        for name, array in zip(record._fields, record, strict=True):
            yield f"{part}.{name}", array


def snapshot(state: State) -> State:
    """A copy of every array."""
    return State(*(type(record)(*(array.copy() for array in record)) for record in state))


def copy_into(state: State, saved: State) -> None:
    """Put a snapshot back, in place."""
    for (_, array), (_, before) in zip(arrays(state), arrays(saved), strict=True):
        array[...] = before
