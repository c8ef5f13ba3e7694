"""What estimators ask of whatever learns: one machine, or a committee of several."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from kernelstream.learner.gate import Gate
from kernelstream.learner.learn import Trail
from kernelstream.learner.row_path import RowPath

__all__ = ["Learner"]


class Learner(Protocol):
    """What learns rows and gives scores."""

    gate: Gate

    @property
    def n_seen(self) -> int:
        """How many rows were learned."""
        ...

    @property
    def n_features(self) -> int:
        """How long a row is."""
        ...

    @property
    def n_outputs(self) -> int:
        """How many scores a row gets."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The precision of rows."""
        ...

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse."""
        ...

    @property
    def learns_from_streams(self) -> bool:
        """Whether it learns from a stream."""
        ...

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what happened at each, as `readout` says it."""
        ...

    def learn_row(self, X: Any, y: float) -> Any:
        """Learn a block of one row."""
        ...

    def learn_at_once(self, X: Any, y: float) -> bool:
        """Learn a block of one row, all or nothing; False: it takes `begin` and more."""
        ...

    def make_room(self, n_rows: int) -> None:
        """Make room for what so many rows may add, if anything may."""
        return

    def row_path(self) -> RowPath | None:
        """The short way for single rows, where there is one."""
        return None

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """The scores of every row, of shape (rows, outputs)."""
        ...

    def scores_and_deviations(self, X: Any, readout: str = "last") -> tuple[np.ndarray, np.ndarray]:
        """The scores of every row, and the standard deviation of targets around them."""
        raise ValueError(self.no_deviations())

    def no_deviations(self) -> str | None:
        """Why there are no `scores_and_deviations`, if so."""
        return f"{type(self).__name__} does not know how certain its predictions are."

    def score_row(self, X: Any) -> np.ndarray:
        """The scores of a block of one row, of shape (outputs,)."""
        ...

    def begin(self) -> None:
        """Be ready to undo whatever is learned from now on."""
        ...

    def commit(self) -> None:
        """Keep what was learned since `begin`."""
        ...

    def roll_back(self) -> bool:
        """Undo what was learned since `begin`; whether there was anything to undo."""
        ...

    def copy(self) -> Self:
        """The same with arrays of its own."""
        ...

    def changeable(self) -> Self:
        """What learns a block: this one, or a draft of it where somebody may read."""
        if self.gate.is_free():
            return self
        with self.gate:
            return self.copy().as_draft()

    def as_draft(self) -> Self:
        """This one, which nobody has seen yet: it is thrown away if it fails."""
        ...

    def widen(self, n_features: int) -> None:
        """Give rows more features, or take such away."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that it knows, as arrays by name."""
        ...
