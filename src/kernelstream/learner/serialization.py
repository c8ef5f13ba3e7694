"""A machine as arrays by name, and back; every array from a file is checked."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.learner.rows import refuse_large
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.learner.state import check_values, remembered
from kernelstream.parts import Field

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["fill", "to_arrays"]

_GROWING = ("points", "tile")  # axes of which a file has what is in use


def to_arrays(machine: "Machine") -> dict[str, np.ndarray]:
    """Return everything that was learned as arrays by name; of the slots, only those in use."""
    n = machine.n_points
    arrays = machine.store.to_arrays(n)
    n_rows, n_new = machine.parts.update.n_waiting(machine.state.update)
    for name, array, field in remembered(machine.state, machine.declared):
        n_known = n - n_new if field.beside_points else n
        taken = {"points": n_known, "tile": n_rows}
        arrays[name] = np.asarray(array[_in_use(field, array.shape, taken)])
    return arrays


def fill(machine: "Machine", arrays: dict[str, np.ndarray], computes_gram: bool) -> None:
    """Let an untrained machine take over what `to_arrays` returned, see `Machine.fill`."""
    for name, array, field in remembered(machine.state, machine.declared):
        if computes_gram and name == "gram.gram":
            continue
        saved = arrays[name]
        if saved.ndim != array.ndim:
            raise ValueError(f"{name} has {saved.ndim} axes")
        taken = dict.fromkeys(_GROWING, 0)
        for axis, size in zip(field.axes, saved.shape, strict=False):
            if axis in taken:
                taken[axis] = max(taken[axis], size)
        array[_in_use(field, array.shape, taken)] = saved
    check_values(machine.state, machine.declared, machine.sizes())
    machine.parts.update.check_state(machine.state.update, machine.n_points)
    if not machine.store.n_first <= machine.n_points <= machine.n_slots:
        raise ValueError(f"there are {machine.n_points} points in {machine.n_slots} slots")
    machine.store.fill(arrays, partial(_checked_cache, machine, arrays))
    if computes_gram:
        n = machine.n_points
        for _, array in state_arrays(machine.state.gram):
            array[:n, :n] = machine.kernel(machine.store.stored(n))


def _checked_cache(machine: "Machine", arrays: dict[str, np.ndarray], rows: Any) -> np.ndarray:
    """Return the row cache of points from a file, after all checks."""
    n = machine.n_points
    if rows.shape != (n, machine.n_features):
        raise ValueError(f"there are {rows.shape} points of {n}")
    if rows.dtype != machine.dtype:
        raise ValueError(f"the points are of type {rows.dtype}, not {machine.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        expected = machine.kernel.row_cache(rows)
        refuse_large(machine.kernel, machine.dtype, rows, expected)
        cache = arrays.get("row_cache", expected)
        if cache.dtype != machine.dtype or cache.shape != (n,):
            raise ValueError(f"the row cache is of type {cache.dtype} and shape {cache.shape}")
        if not np.allclose(cache, expected, rtol=1e-3, atol=1e-30):
            raise ValueError("the row cache is not that of the points")
    return cache.copy()


def _in_use(field: Field, shape: tuple[int, ...], taken: dict[str, int]) -> tuple[slice, ...]:
    """Return the part of an array that belongs to slots, and open rows, in use."""
    axes = field.axes or ("one",)
    return tuple(slice(taken.get(axis, size)) for axis, size in zip(axes, shape, strict=True))
