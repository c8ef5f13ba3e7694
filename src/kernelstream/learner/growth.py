"""How a machine grows: more points, or more features."""

import warnings
from typing import TYPE_CHECKING

from kernelstream.learner import second_order
from kernelstream.learner.state import n_bytes

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["make_room", "resize_slots", "widen"]

_MANY_SLOTS = 1024  # of a dictionary without limit: beyond, the user is warned


def make_room(machine: "Machine", n: int) -> None:
    """Make sure that n more points fit, as far as there may be so many."""
    wanted = machine.n_points + n
    if machine.may_grow and wanted > machine.n_slots:
        n_before, n_slots = machine.n_slots, max(wanted, 2 * machine.n_slots)
        if machine.limit is not None:  # it grows slowly, and memory with the square
            n_slots = min(machine.limit, max(wanted, n_before + n_before // 4))
        resize_slots(machine, n_slots)
        if n_before <= _MANY_SLOTS < n_slots:
            _warn_of_size(machine, max(n, machine.n_points))


def resize_slots(machine: "Machine", n_slots: int) -> None:
    """Change the number of slots to a larger one."""
    machine.store.grow(n_slots)
    sizes = machine.sizes(n_slots=n_slots)
    machine.state = machine.sizing.resized(machine.state, sizes, machine.store.zeros)


def _warn_of_size(machine: "Machine", n_points: int) -> None:
    """Warn that a dictionary becomes large, where there is one."""
    if machine.parts.budget.is_dictionary:
        megabytes = n_bytes(machine.declared, machine.sizes()) / 2**20
        warnings.warn(
            f"the dictionary has grown to {n_points:,} points and may take {megabytes:,.0f} MB "
            "before it grows again: it has no limit, and memory and time grow with its square. "
            "Give it a size, budget=Independent(tolerance, size=512), or a larger tolerance, "
            "or scale the rows.",
            stacklevel=2,
        )


def widen(machine: "Machine", n_features: int) -> None:
    """Give rows more features, which are zero in all that was learned; or remove some."""
    for name, part in (("kernel", machine.kernel), ("scaling", machine.parts.scaling)):
        if not part.may_widen:
            raise ValueError(
                f"{name}={part!r} belongs to rows of {machine.n_features} features, not "
                f"{n_features}: let every row have all features, or use another {name}."
            )
    parts, keeps_points = machine.parts, machine.parts.features == "points"
    if not keeps_points:
        parts.update.check_size(int(machine.kernel.n_explicit(n_features)))
    if parts.update.is_second_order:
        second_order.close(machine)
    machine.store.widen(n_features)
    if not keeps_points or parts.update.is_second_order or parts.scaling.is_scaled:
        machine.state = machine.sizing.resized(machine.state, machine.sizes(), machine.store.zeros)
    if not keeps_points and machine.store.n_first:  # of explicit features, which may be others now
        machine.state.expansion.n_points[0] = machine.limit = machine.store.n_first
