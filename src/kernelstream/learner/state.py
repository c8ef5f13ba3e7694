"""Everything a machine remembers, as plain arrays.

The state is a record of records, one for each part that declares any, plus the kernel expansion.
Whatever walks over it (saving, undoing, growing) treats all arrays alike and knows no part by name.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.expansion import SMALLEST_SCALE
from kernelstream.parts import Field
from kernelstream.stores import DeviceMatrix
from kernelstream.updates.dual import PERIOD

__all__ = [
    "CACHE_LINE",
    "Drift",
    "State",
    "allocate",
    "arrays",
    "check_entries",
    "check_values",
    "copied",
    "copy_into",
    "drift_fields",
    "fields",
    "first_outputs",
    "mapped",
    "memory_of",
    "n_bytes",
    "new_arrays",
    "note_drift",
    "only_nonzeros",
    "remembered",
    "resize",
    "snapshot",
]

CACHE_LINE = 64  # bytes
_FEW_LINES = 32  # of a matrix, which fit into the processor's cache however they lie
# Axes of the same size in all models; rows wait for at most a period.
_FIXED = {"one": 1, "functions": 2, "scale": 3, "none": 0, "six": 6, "tile": PERIOD}
_LEVEL_WINDOW = 50  # rows over which the mean of log eta is taken

NewMatrix = Callable[[tuple[int, int], Any], Any]  # as np.zeros
_LEAVES = (Field, np.ndarray, DeviceMatrix)  # of a record of records


class State(NamedTuple):
    """The state of a machine, part by part."""

    expansion: Any
    step_size: Any
    margin: Any
    intercept: Any
    budget: Any
    update: Any
    gram: Any  # kernel values between points, where norms are corrected by them
    drift: Any
    scaling: Any  # statistics of the rows so far; the loops, which see scaled rows, have none
    target_scaling: Any  # and of the targets


class Drift(NamedTuple):
    """Where the step size has been lately."""

    log_level: Any  # running mean of log eta
    score: Any  # log eta beyond that: how much the step size has risen


def drift_fields(first_step: float) -> Drift:
    """Return the declaration of `Drift`."""
    return Drift(log_level=Field((), math.log(first_step)), score=Field((), 0.0))


@helper
def note_drift(drift, eta, n_seen):
    """Keep the drift score: how far log eta is above its mean over the last rows."""
    drift.score[0] = math.log(eta) - drift.log_level[0]
    drift.log_level[0] += drift.score[0] / min(n_seen + 1, _LEVEL_WINDOW)


def mapped(function: Callable[..., Any], record: Any, *others: Any) -> Any:
    """Return a record of the same shape, with `function` applied to its fields or arrays."""
    if isinstance(record, _LEAVES):
        return function(record, *others)
    if not isinstance(record, tuple):
        return record  # of an option that is a type and no more
    inner = (mapped(function, *parts) for parts in zip(record, *others, strict=True))
    return type(record)(*inner)


def arrays(record: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every array (or field) with its name, such as ("margin.epsilon", array([1.]))."""
    if isinstance(record, _LEAVES):
        yield name, record
    elif isinstance(record, tuple):
        for own, value in zip(record._fields, record, strict=True):  # type: ignore[attr-defined]
            yield from arrays(value, f"{name}.{own}" if name else own)


fields = arrays  # of a declaration


def remembered(record: Any, declared: Any) -> Iterator[tuple[str, Any, Field]]:
    """Yield the name, array and declaration of all that is state, and not scratch memory."""
    for (name, array), (_, field) in zip(arrays(record), fields(declared), strict=True):
        if not field.scratch:
            yield name, array, field


def _shape(field: Field, sizes: dict[str, int]) -> tuple[int, ...]:
    sizes = {**_FIXED, "points_and_one": sizes["points"] + 1, **sizes}
    if field.axes == ("points", "points") and not field.beside_points:
        return sizes["points"], _apart(sizes["points"], np.dtype(field.dtype).itemsize)
    return tuple(sizes[axis] for axis in field.axes) or (1,)


def _apart(n: int, n_bytes: int) -> int:
    """Return n, or slightly more, as the row length of a matrix that is also written by columns.

    Lines that are an even number of the processor's cache lines apart share few of the places in
    its cache: a column of 128 numbers would not fit, where the budget is a power of two.
    """
    per_line = CACHE_LINE // n_bytes
    return n if n <= _FEW_LINES else per_line * (-(-n // per_line) | 1)


def new_arrays(declared: Any, sizes: dict[str, int], zeros: NewMatrix = np.zeros) -> Any:
    """Return a record of arrays in which nothing has been written, from its declaration.

    Those that span neither points nor rows that wait lie one after the other in memory that they
    share, so that all of them can be copied at once (`memory_of`). `zeros` makes matrices that live
    where the points do.
    """
    shared: dict[Any, np.ndarray] = {}
    shapes = [(field, _shape(field, sizes)) for _, field in fields(declared)]
    for dtype in {field.dtype for field, _ in shapes}:
        own = [shape for field, shape in shapes if field.dtype == dtype and _shares(field)]
        kind = {float: np.float64, int: np.int64}.get(dtype, dtype)
        shared[dtype] = np.zeros(sum(map(math.prod, own)), kind)
    taken = dict.fromkeys(shared, 0)

    def new(field: Field) -> Any:
        shape: Any = _shape(field, sizes)
        memory = shared[field.dtype]
        if field.beside_points:
            return zeros(shape, memory.dtype)
        if _shares(field):
            start = taken[field.dtype]
            taken[field.dtype] += math.prod(shape)
            array = memory[start : taken[field.dtype]].reshape(shape)
        else:
            array = np.zeros(shape, memory.dtype)
        if field.fill:  # zeros take no memory until an entry is written
            array[...] = field.fill
        return array

    return mapped(new, declared)


def _shares(field: Field) -> bool:
    return "points" not in field.axes and "tile" not in field.axes


def memory_of(array: np.ndarray) -> np.ndarray:
    """Return the memory that an array of a state shares with others, or the array itself."""
    return array.base if isinstance(array.base, np.ndarray) else array


def allocate(declared: State, sizes: dict[str, int], zeros: NewMatrix = np.zeros) -> State:
    """Return a fresh state from the parts' declarations and the sizes of the model."""
    state = new_arrays(declared, sizes, zeros)
    state.expansion.scale[:2] = 1.0  # alpha = a, beta = b
    return state


def n_bytes(declared: Any, sizes: dict[str, int]) -> int:
    """Return how much memory `allocate` would claim."""
    return sum(8 * math.prod(_shape(field, sizes)) for _, field in fields(declared))


def check_entries(record: Any, declared: Any, sizes: dict[str, int]) -> None:
    """Refuse numbers that are not within what their declaration says."""
    sizes = {**_FIXED, "points_and_one": sizes["points"] + 1, **sizes}
    for name, array, field in remembered(record, declared):
        if array.dtype.kind == "f":
            array = np.asarray(array)
            sound = (np.abs(array) <= np.float64(field.largest)) & (array >= field.least)
        else:
            limit = np.inf if field.below is None else max(sizes[field.below], 1)
            sound = (array >= 0) & (array < limit)
        if not sound.all():
            raise ValueError(f"{name} has entries that make no sense")


def check_values(state: Any, declared: Any, sizes: dict[str, int]) -> None:
    """Refuse numbers that learning never leaves behind and that could do harm.

    The state is a `State` or a record with its fields. The arrays may have an axis in front, of
    many models.
    """
    check_entries(state, declared, sizes)
    p, q = state.expansion.scale[..., 0], state.expansion.scale[..., 1]
    if not ((p >= SMALLEST_SCALE) & ((q == 0.0) | (q >= SMALLEST_SCALE))).all():
        raise ValueError("a scale makes no sense")


def resize(
    state: State, declared: State, sizes: dict[str, int], zeros: NewMatrix = np.zeros
) -> State:
    """Return a state with room for other numbers of outputs or points."""
    resized = allocate(declared, sizes, zeros)
    for (_, old), (_, new) in zip(arrays(state), arrays(resized), strict=True):
        common = tuple(slice(min(n, m)) for n, m in zip(old.shape, new.shape, strict=True))
        new[common] = old[common]
    return resized


def copied(state: State) -> State:
    """Copy a state into its own memory, with arrays side by side as before."""
    memories: dict[int, tuple[int, np.ndarray]] = {}

    def copy(array: Any) -> Any:
        memory = getattr(array, "base", None)
        if not isinstance(memory, np.ndarray):
            return array.copy()
        if id(memory) not in memories:
            memories[id(memory)] = _address(memory), memory.copy()
        begin, new = memories[id(memory)]
        return np.ndarray(array.shape, array.dtype, new, _address(array) - begin, array.strides)

    return mapped(copy, state)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def first_outputs(state: State, declared: State, n_outputs: int, n_old: int) -> State:
    """Return the first `n_outputs` of the same memory, with new ones after `n_old`."""

    def shorter(array: np.ndarray, field: Field) -> np.ndarray:
        # lines are outputs here: where they are not, there is no room in advance
        if field.axes[:1] in (("outputs",), ("lines",)):
            array = array[:n_outputs]
            array[n_old:] = field.fill  # a block that was undone may have written there
        return array

    return mapped(shorter, state, declared)


def only_nonzeros(
    coef: np.ndarray, past: np.ndarray | None, n_lines: int
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return coefficients as those of at most `n_lines` outputs per point, and the outputs.

    Answers `coef`, `past` and `output` of an expansion that keeps few of many outputs
    (`TouchedOutputs`).
    """
    touched = (coef != 0.0).any(axis=1)
    if past is not None:
        touched |= past != 0.0
    if touched.sum(axis=0).max(initial=0) > n_lines:
        raise ValueError(f"a point has coefficients for more than {n_lines} outputs")
    order = np.argsort(~touched, axis=0, kind="stable")[:n_lines]  # lowest outputs first

    def taken(lines: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.take_along_axis(lines, order, axis=0))

    kept = np.stack([taken(coef[:, s]) for s in range(coef.shape[1])], axis=1)
    output = np.where(taken(touched), order, 0)
    return kept, None if past is None else taken(past), output


def snapshot(state: State) -> State:
    """Copy every array as a plain one, since compiled code refuses memory maps."""
    return mapped(
        lambda a: np.array(a, order="C") if isinstance(a, np.ndarray) else a.copy(), state
    )


def copy_into(state: State, saved: State) -> None:
    """Put a snapshot back, in place."""
    for (_, array), (_, before) in zip(arrays(state), arrays(saved), strict=True):
        array[...] = before
