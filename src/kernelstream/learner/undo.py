"""Undoing a block that failed half way, at the cost of what the block changed."""

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
    mark), and whatever is no array over slots, which is little and lies together.
    """

    def __init__(self) -> None:
        self._of: Any = None
        # a copy, what it is a copy of, and where the axes over slots are
        self._pairs: list[tuple[np.ndarray, np.ndarray, list[tuple[slice, ...]]]] = []
        self._n_slots = 0
        self.changes = new_changes(0)
        self.is_open = False

    def changes_for(self, n_slots: int) -> AllChanges:
        """Where to mark what is written, of so many slots."""
        if len(self.changes.slots) != n_slots:  # then the state has grown, and is another one
            self.changes = new_changes(n_slots)
        return self.changes

    def begin(self, state: Any, declared: Any, n_slots: int) -> None:
        """Be ready to go back to the state as it is now."""
        self.changes_for(n_slots)
        if self._of is not state or self.changes.everything[0]:
            self._save_all(state, declared)
        else:
            slots = self.changes.slots.nonzero()[0]
            for old, new, places in self._pairs:
                if not places or old.size <= _FEW_NUMBERS:
                    old[...] = new
                elif slots.size:
                    for before in places:
                        place: Any = (*before, slots)
                        old[place] = new[place]
        self._of, self._n_slots = state, n_slots
        self.changes.slots[:] = False
        self.changes.everything[0] = False
        self.is_open = True

    def _save_all(self, state: Any, declared: Any) -> None:
        if self._of is state:
            for old, new, _ in self._pairs:
                old[...] = new
            return
        found: dict[int, tuple[Any, Any, list[tuple[slice, ...]]]] = {}
        for (_, array), (_, field) in zip(arrays(state), fields(declared), strict=True):
            places = [(slice(None),) * i for i, axis in enumerate(field.axes) if axis == "points"]
            memory = array if places else memory_of(array)
            if field.beside_points:
                places = []  # it changes as a whole
            if id(memory) not in found:
                found[id(memory)] = memory.copy(), memory, places
        self._pairs = list(found.values())

    def commit(self) -> None:
        """The block is learned: there is no way back."""
        self.is_open = False  # a single step, which nothing can interrupt

    def roll_back(self) -> tuple[Any, int]:
        """The state, and the number of slots, as they were when the block began."""
        assert self._of is not None
        for old, new, _ in self._pairs:
            new[...] = old
        self.is_open = False
        return self._of, self._n_slots


def new_changes(n_slots: int) -> AllChanges:
    """A record of changes, with nothing in it."""
    return AllChanges(np.zeros(n_slots, np.bool_), np.zeros(1, np.bool_))
