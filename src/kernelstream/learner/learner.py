"""What learns: one machine, a committee of several, or an estimator of another library."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from kernelstream.learner.gate import Gate
from kernelstream.learner.learn import Trail
from kernelstream.learner.row_path import RowPath

__all__ = ["Learner"]


class Learner(ABC):
    """Something that learns rows and gives scores, and can undo a block that fails.

    `begin`, `commit` and `roll_back` are the transaction around a block. They are written once,
    here, on hooks of a subclass: `_remember`, `_forget`, `_is_open` and `_go_back` for its own
    arrays, `_own_arrays` after a copy, and `inner` for the learners that it consists of.
    """

    gate: Gate
    _is_draft = False  # whether nobody has seen it yet: it is thrown away if it fails
    _not_pickled: ClassVar[tuple[str, ...]] = ()  # attributes that are made again after unpickling

    # --- what a person can read ------------------------------------------------------------------

    n_outputs: Any  # how many scores a row gets
    dtype: Any  # the precision of rows
    learns_from_streams: Any  # whether it learns from a stream

    @property
    @abstractmethod
    def n_seen(self) -> int:
        """Return how many rows were learned."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return how long a row is."""

    @property
    @abstractmethod
    def is_sparse(self) -> bool:
        """Return whether rows are sparse."""

    # --- learning --------------------------------------------------------------------------------

    @abstractmethod
    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what happened at each.

        `readout` says which prediction the recorded scores are: that of the last model, of the
        average of all models, or of their vote.
        """

    @abstractmethod
    def learn_row(self, X: Any, y: float) -> Any:
        """Learn a block of one row; return the scores before it was learned."""

    @abstractmethod
    def learn_at_once(self, X: Any, y: float) -> bool:
        """Learn a block of one row, all or nothing; False: it takes a transaction."""

    def make_room(self, n_rows: int) -> None:
        """Make room for what so many rows may add, if anything may."""
        return

    def row_path(self) -> RowPath | None:
        """Return the short way for single rows, where there is one."""
        return None

    # --- scoring ---------------------------------------------------------------------------------

    @abstractmethod
    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """Return the scores of every row, of shape (rows, outputs)."""

    def scores_and_deviations(self, X: Any, readout: str = "last") -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of every row, and the standard deviation of targets around them."""
        raise ValueError(self.no_deviations())

    def no_deviations(self) -> str | None:
        """Return why there are no `scores_and_deviations`, if so."""
        return f"{type(self).__name__} does not know how certain its predictions are."

    @abstractmethod
    def score_row(self, X: Any) -> np.ndarray:
        """Return the scores of a block of one row, of shape (outputs,)."""

    # --- all or nothing --------------------------------------------------------------------------

    @property
    def inner(self) -> Sequence["Learner"]:
        """Return the learners that this one consists of."""
        return ()

    def begin(self) -> None:
        """Prepare to undo everything that is learned from now on."""
        if not self._is_draft:
            self._remember()
        for learner in self.inner:
            learner.begin()

    def commit(self) -> None:
        """Keep what was learned since `begin`. A draft is a learner like any other from now on."""
        self._is_draft = False
        self._forget()
        for learner in self.inner:
            learner.commit()

    def roll_back(self) -> bool:
        """Undo what was learned since `begin`; return whether there was anything to undo."""
        if self._is_draft:
            return True
        if not self._is_open:
            return False
        for learner in self.inner:
            learner.roll_back()
        self._go_back()  # the last step: an interrupt before it leaves a way to roll back again
        return True

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """Return whether there is a state to which `_go_back` returns."""

    @abstractmethod
    def _remember(self) -> None:
        """Keep the present state, to which `_go_back` returns."""

    @abstractmethod
    def _forget(self) -> None:
        """Give up the state that was kept."""

    @abstractmethod
    def _go_back(self) -> None:
        """Return to the state that was kept."""

    # --- copies ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return the same learner with arrays of its own."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, gate=Gate(), _is_draft=False)
        twin._own_arrays()
        return twin

    @abstractmethod
    def _own_arrays(self) -> None:
        """Replace all arrays by copies. Nothing is to be undone then."""

    def changeable(self) -> Self:
        """Return the learner that learns a block: this one, or a draft where somebody may read."""
        if self.gate.is_free():
            return self
        with self.gate:
            return self.copy().as_draft()

    def as_draft(self) -> Self:
        """Make this a draft, which nobody has seen yet: it is thrown away if it fails."""
        self._is_draft = True
        for learner in self.inner:
            learner.as_draft()
        return self

    def __getstate__(self) -> dict[str, Any]:
        with self.gate:
            state = dict(self.copy().__dict__)
        for name in ("gate", "_is_draft", *self._not_pickled):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, gate=Gate())
        self._make_usable()

    @abstractmethod
    def _make_usable(self) -> None:
        """Complete an unpickled learner. Its arrays may be read-only, as memory maps are."""

    # --- growing, and files ----------------------------------------------------------------------

    @abstractmethod
    def widen(self, n_features: int) -> None:
        """Give rows more features, or take such away."""

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all that was learned, as arrays by name."""
