"""Undoing a block that failed half way, at the cost of what the block changed."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from kernelstream.expansion import AllChanges
from kernelstream.learner.state import arrays, fields, memory_of

__all__ = ["Undo", "new_changes"]

_FEW_NUMBERS = 8192  # up to here it is faster to copy all of them than those of some slots


class Undo:
    """The state of a machine as it was when its last block began.

    A copy of the state is kept from block to block, and brought up to date when the next one
    begins: only the slots that were written since then are copied (`AllChanges`, which the loops
    mark), and whatever is no array over slots, which is little and lies together. Matrices beside
    the points change only where everything is marked; to rows that wait, others are added.
    """

    def __init__(self) -> None:
        self._of: Any = None
        # a copy, what it is a copy of, and where the axes over slots are
        self._pairs: list[tuple[np.ndarray, np.ndarray, list[tuple[slice, ...]]]] = []
        self._matrices: list[tuple[Any, Any]] = []
        self._of_tile: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_open = 0
        self._n_slots = 0
        self.changes = new_changes(0)
        self.is_open = False

    def changes_for(self, n_slots: int) -> AllChanges:
        """Return where to mark what is written, of so many slots."""
        if len(self.changes.slots) != n_slots:  # then the state has grown, and is another one
            self.changes = new_changes(n_slots)
        return self.changes

    def begin(self, state: Any, declared: Any, n_slots: int, n_open: int = 0) -> None:
        """Remember the present state, to which `roll_back` returns; `n_open` rows wait."""
        self.changes_for(n_slots)
        if self._of is not state or self.changes.everything[0]:
            self._save_all(state, declared)
        else:
            slots = self.changes.slots.nonzero()[0]
            are_few = 2 * slots.size < n_slots
            for old, new, places in self._pairs:
                if not places or old.size <= _FEW_NUMBERS or not are_few:
                    old[...] = new
                elif slots.size:
                    for before in places:
                        place: Any = (*before, slots)
                        old[place] = new[place]
            for old, new in self._of_tile:
                old[self._n_open : n_open] = new[self._n_open : n_open]
        self._of, self._n_slots, self._n_open = state, n_slots, n_open
        self.changes.slots[:] = False
        self.changes.everything[0] = False
        self.is_open = True

    def _save_all(self, state: Any, declared: Any) -> None:
        if self._of is state:
            for old, new, *_ in self._all():
                old[...] = new
            return
        found: dict[int, tuple[Any, Any, list[tuple[slice, ...]]]] = {}
        self._matrices, self._of_tile = [], []
        for (_, array), (_, field) in zip(arrays(state), fields(declared), strict=True):
            places = [(slice(None),) * i for i, axis in enumerate(field.axes) if axis == "points"]
            memory = array if places else memory_of(array)
            if field.beside_points:
                self._matrices.append((memory.copy(), memory))
            elif field.axes[:1] == ("tile",) and len(field.axes) > 1:  # a line for every row
                self._of_tile.append((memory.copy(), memory))
            elif id(memory) not in found:
                found[id(memory)] = memory.copy(), memory, places
        self._pairs = list(found.values())

    def _all(self) -> Iterator[tuple[Any, ...]]:
        return chain(self._pairs, self._matrices, self._of_tile)

    def commit(self) -> None:
        """Keep the block: afterwards it cannot be undone."""
        self.is_open = False  # a single step, which nothing can interrupt

    def roll_back(self) -> tuple[Any, int]:
        """Return the state, and the number of slots, as they were when the block began."""
        assert self._of is not None
        for old, new, *_ in self._all():
            new[...] = old
        self.is_open = False
        return self._of, self._n_slots


def new_changes(n_slots: int) -> AllChanges:
    """Return a record of changes, with nothing in it."""
    return AllChanges(np.zeros(n_slots, np.bool_), np.zeros(1, np.bool_))
