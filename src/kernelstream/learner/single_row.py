"""Which path a row takes that comes by itself (`kernelstream.learner.row_path`): one per loop."""

from typing import TYPE_CHECKING, Any

from kernelstream.learner.kernel_rows import has_kernel_rows
from kernelstream.learner.point_rows import PointRow, SecondOrderRow
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.weight_rows import FoldedRow, ForestRow, LeastSquaresRow, WeightRow

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["has_row_path", "new_row_path"]

# Which loop learns, and what makes explicit features, if anything does.
_PATHS: dict[tuple[str, str], Any] = {
    ("expansion", "points"): PointRow,
    ("second_order", "points"): SecondOrderRow,
    ("expansion", "fixed"): FoldedRow,
    ("vector", "fixed"): WeightRow,
    ("rls", "fixed"): LeastSquaresRow,
    ("vector", "forest"): ForestRow,
}


def has_row_path(machine: "Machine") -> bool:
    """Whether rows of a machine can be learned and scored so."""
    if machine.parts.budget.is_folded:
        return not machine.is_sparse and _name_of(machine) in _PATHS
    return _name_of(machine) in _PATHS and has_kernel_rows(machine)


def new_row_path(machine: "Machine") -> RowPath:
    """The path of a machine that has one."""
    return _PATHS[_name_of(machine)](machine)


def _name_of(machine: "Machine") -> tuple[str, str]:
    parts = machine.parts
    return parts.loop, parts.kernel.feature_store if parts.budget.is_folded else "points"
