"""How large the arrays of a machine's state are, and how they grow."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from kernelstream.learner.plan import (
    Model,
    Parts,
    declaration_of,
    keeps_nonzeros,
    most_touched_of,
    sizes_of,
)
from kernelstream.learner.state import (
    State,
    allocate,
    first_outputs,
    memory_of,
    only_nonzeros,
    resize,
)
from kernelstream.learner.state import arrays as state_arrays

__all__ = ["Sizing"]


class Sizing:
    """The axes of the arrays of a state, for any number of outputs, slots and features.

    From many outputs on, a point keeps only the coefficients that its row touched: then the state
    has another form. There is room for as many outputs again, so that outputs that come one by one
    are not all copied each time.

    Parameters
    ----------
    parts : Parts
    model : Model
        Their rules.
    dtype : numpy.dtype
        Of rows and kernel values.
    is_sparse, stores_gram : bool
        See `Machine`.
    """

    def __init__(
        self, parts: Parts, model: Model, dtype: np.dtype, is_sparse: bool, stores_gram: bool
    ) -> None:
        self._most_touched = most_touched_of(parts)
        self._averaged = parts.averaged
        self._every, self._few = (
            declaration_of(parts, model, dtype, is_sparse, touched, stores_gram)
            for touched in (False, True)
        )
        self._room: State | None = None  # the memory that the present state begins

    def copy(self) -> Self:
        """Return the same sizes, for a state that lies elsewhere."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _room=None)
        return twin

    def keeps_few(self, n_outputs: int) -> bool:
        """Return whether a point keeps only the coefficients that its row touched."""
        return keeps_nonzeros(self._most_touched, n_outputs)

    def declared(self, n_outputs: int) -> State:
        """Return the axes of each array of a state with so many outputs."""
        return self._few if self.keeps_few(n_outputs) else self._every

    def sizes(self, n_outputs: int, n_slots: int, n_features: int) -> dict[str, int]:
        """Return the sizes of the axes."""
        return sizes_of(self._most_touched, n_outputs, n_slots, n_features)

    def resized(self, state: State, sizes: dict[str, int], zeros: Any) -> State:
        """Return a state with other numbers of slots or features."""
        self._room = None
        return resize(state, self.declared(sizes["outputs"]), sizes, zeros)

    def with_more_outputs(
        self, state: State, n: int, n_slots: int, n_features: int, zeros: Callable[..., Any]
    ) -> State:
        """Return a state with n more outputs, all zero."""
        n_old = len(state.intercept.b)
        wanted, declared = n_old + n, self.declared(n_old)
        if self.keeps_few(wanted) and declared is self._every:
            self._room = None
            return self._in_the_other_form(state, self.sizes(wanted, n_slots, n_features), zeros)
        # What undoes a block, or makes room for points, leaves a state that lies elsewhere.
        mine, room = memory_of(state.intercept.b), self._room
        if room is not None and memory_of(room.intercept.b) is not mine:
            room = None
        if room is None or len(room.intercept.b) < wanted:
            sizes = self.sizes(2 * wanted, n_slots, n_features)
            if declared is self._every:  # which has a row of coefficients for every output
                sizes["lines"] = 2 * wanted
            room = resize(state, declared, sizes, zeros)
        self._room = room
        return first_outputs(room, declared, wanted, n_old)

    def _in_the_other_form(
        self, state: State, sizes: dict[str, int], zeros: Callable[..., Any]
    ) -> State:
        """Return a state in which a point keeps only the coefficients that its row touched."""
        larger, old = allocate(self._few, sizes, zeros), state.expansion
        coef, past, output = only_nonzeros(
            old.coef, old.average.past if self._averaged else None, sizes["lines"]
        )
        moved = {"expansion.coef": coef, "expansion.outputs.output": output}
        if past is not None:
            moved["expansion.average.past"] = past
        known = {**dict(state_arrays(state)), **moved}
        for name, array in state_arrays(larger):
            saved = known[name]
            array[tuple(slice(n) for n in saved.shape)] = saved
        return larger
