"""Everything a learner remembers, as plain arrays.

The state is a record of records, one for each part that declares any, plus the kernel expansion.
Whatever walks over it (saving, undoing, growing) treats all arrays alike and knows no part by name.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelstream.parts import Field

__all__ = ["Expansion", "State", "allocate", "arrays", "copy_into", "resize", "snapshot"]


class Expansion(NamedTuple):
    """f and its trace v over the points, f = sum_i alpha_i k(x_i, .), v = sum_i beta_i k(x_i, .).

    The coefficients are stored raw, ``alpha = p a`` and ``beta = q b + r a``, so that a step's
    decay touches three numbers and not every point. Where q is zero, every b is.

    A point has a coefficient for each output, or, where a row touches few of many outputs, only
    those that may differ from zero; then `output` says which output each belongs to.
    """

    a: Any  # (lines, points): a line is an output, or one of those that a row touches
    b: Any  # (lines, points), or (0, 0) where the step size keeps no trace
    output: Any  # (lines, points), or (0, 0) where a line is an output
    scale: Any  # p, q, r
    norm2: Any  # ||f||^2
    pi: Any  # <f, v>
    size2: Any  # (points,): squared norm of each point's raw a
    n_points: Any
    n_seen: Any


class State(NamedTuple):
    """The state of a learner, part by part."""

    expansion: Any
    step_size: Any
    margin: Any
    intercept: Any
    budget: Any


def expansion_fields(traced: bool, compact: bool) -> Expansion:
    """The declaration of an expansion, with or without a trace v, of all outputs or of few."""
    lines, nothing = ("touched" if compact else "outputs", "points"), ("none", "none")
    return Expansion(
        a=Field(lines, 0.0),
        b=Field(lines if traced else nothing, 0.0),
        output=Field(lines if compact else nothing, 0, int),
        scale=Field(("scale",), 0.0),
        norm2=Field((), 0.0),
        pi=Field((), 0.0),
        size2=Field(("points",), 0.0),
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


def resize(state: State, fields: State, sizes: dict[str, int]) -> State:
    """The same state with more outputs or more points."""
    larger = allocate(fields, sizes)
    for old, new in zip(arrays(state), arrays(larger), strict=True):
        new[1][tuple(slice(n) for n in old[1].shape)] = old[1]
    return larger


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
