"""An estimator of another library as something that learns: the same methods as one machine.

What such an estimator has learned are Python objects of its own. So it is given one row after the
other, each scored before it is learned, and what can be undone is kept as a deep copy.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.libraries import Library, MemberError
from kernelstream.learner.gate import Gate
from kernelstream.learner.learn import Trail, new_trail
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow, refuse_extreme
from kernelstream.learner.scaled import (
    in_units,
    refuse_too_far,
    scaled,
    scaled_in_order,
    targets_in_order,
    unscaled_scores,
)
from kernelstream.learner.state import new_arrays
from kernelstream.scalings import Scaling

__all__ = ["Kind", "Scalings", "WrappedMachine"]

_LARGEST_SCORE = 10.0  # of a classifier: beyond are decisions in units of their own
_RECENT_ROWS = 1000  # that say how large decisions are
_LARGEST = 1e60  # a number that a detector says: its square is still one
_MANY_ROWS = 100  # from which on it is a loss to begin again, or to have said nothing


class Scalings(NamedTuple):
    """The parts that a member has."""

    scaling: Scaling
    target_scaling: Scaling


class Kind(NamedTuple):
    """Which rows and labels a member is for."""

    n_features: int
    dtype: np.dtype
    is_sparse: bool
    is_single: bool  # whether there are two labels, and one score


@dataclass
class Learned:
    """All that a member knows, and that may have to be undone."""

    estimator: Any
    n_outputs: int
    statistics: Scalings  # of the rows and targets so far, as arrays
    n_seen: int = 0
    n_learned: int = 0  # since the estimator began
    n_scored: int = 0
    n_silent: int = 0  # rows in a row of which it said nothing
    square: float = 0.0  # the mean of squared decisions, lately
    least: float = np.inf  # of the targets
    most: float = -np.inf
    mean: float = 0.0


class WrappedMachine(Learner):
    """An estimator of another library as something that learns: the same methods as one machine.

    Parameters
    ----------
    library : Library
        How the estimator is called.
    task : {"classification", "regression", "novelty"}
    scalings : Scalings
    kind : Kind
    n_outputs : int
        How many scores a row gets, at first.

    Examples
    --------
    The member of a committee is one:

    >>> from sklearn.linear_model import SGDRegressor
    >>> import kernelstream as ks
    >>> committee = ks.Committee([SGDRegressor()], "regressor").partial_fit([[0.0]], [1.0])
    >>> type(committee.machine_.members[0]).__name__
    'WrappedMachine'
    """

    learns_from_streams = True

    def __init__(
        self, library: Library, task: str, scalings: Scalings, kind: Kind, n_outputs: int
    ) -> None:
        self.library, self.task, self.parts, self.kind = library, task, scalings, kind
        self.scaling, self.target_scaling = (part.to_rule() for part in scalings)
        self.gate = Gate()
        self._learned = Learned(library.new(), n_outputs, self._new_statistics())
        self._saved: Learned | None = None  # as it was when a block began
        self._warned: set[str] = set()

    def _new_statistics(self) -> Scalings:
        declared = Scalings(self.parts.scaling.state(), self.parts.target_scaling.state("one"))
        return new_arrays(declared, {"features": self.n_features, "points": 0})

    # --- what a person can read ------------------------------------------------------------------

    @property
    def estimator(self) -> Any:
        """Return the estimator that learns."""
        return self._learned.estimator

    @property
    def state(self) -> Scalings:
        """Return the statistics of its scalings."""
        return self._learned.statistics

    @property
    def n_seen(self) -> int:
        """Return how many rows were learned."""
        return self._learned.n_seen

    @property
    def n_learned(self) -> int:
        """Return how many of them the estimator knows, since it began."""
        return self._learned.n_learned

    @property
    def n_features(self) -> int:
        """Return how long a row is."""
        return self.kind.n_features

    @property
    def n_outputs(self) -> int:
        """Return how many scores a row gets."""
        return self._learned.n_outputs

    @property
    def dtype(self) -> np.dtype:
        """Return the precision of rows."""
        return self.kind.dtype

    @property
    def is_sparse(self) -> bool:
        """Return whether rows are sparse."""
        return self.kind.is_sparse

    # --- learning --------------------------------------------------------------------------------

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what each was scored before.

        A `BadRow` leaves the rows before it learned: `begin` first, then `roll_back`.
        """
        refuse_too_far(X)
        refuse_extreme(y, weight)
        X = scaled_in_order(self, X, weight)
        y, units = targets_in_order(self, y, weight)
        trails, start = [], 0
        for piece, end in enumerate([*new_outputs, X.shape[0]]):
            if piece > 0:
                self._add_output()
            if start == end:
                continue
            scores = np.empty((end - start, self.n_outputs))
            for i in range(start, end):
                counts = weight[i] > 0.0
                scores[i - start] = self._scored(X[i : i + 1], counts)[0]
                if counts:
                    self._teach(i, X[i : i + 1], float(y[i]), float(weight[i]))
            if units is not None:
                in_units(scores, units[:, start:end])
            trails.append(_trail_of(scores))
            start = end
        return trails

    def learn_row(self, X: Any, y: float) -> np.ndarray:
        """Learn a block of one row; what it was scored before, of shape (outputs,)."""
        return self.learn(X, np.array([y]), np.ones(1))[0].scores[0]

    def learn_at_once(self, X: Any, y: float) -> bool:
        """Return False: a row takes a transaction."""
        return False

    def _teach(self, i: int, X: Any, y: float, weight: float) -> None:
        """Let the estimator learn row i of a block."""
        learned, target = self._learned, y
        n_classes = self._n_classes()
        if self.task == "classification":
            target = int(y > 0.0) if self.kind.is_single else int(y)
        name = self.library.name()
        if weight != 1.0 and not self.library.takes_weights:
            raise MemberError(
                f"{name} cannot learn rows with weights: leave class_weight and sample_weight "
                "out, or this member."
            )
        try:
            with _quiet():
                self.library.learn(learned.estimator, X, target, n_classes, weight)
        except MemberError:
            raise
        except Exception as error:
            why = f"({type(error).__name__}: {error})"
            if learned.n_learned == 0:  # the others would fare no better
                raise MemberError(f"{name} cannot learn even its first row {why}.") from error
            raise BadRow(i, f"{name} cannot learn it {why}") from error
        learned.n_seen += 1
        learned.n_learned += n_classes > 1
        learned.least, learned.most = min(learned.least, y), max(learned.most, y)
        learned.mean += (y - learned.mean) / learned.n_seen

    def _n_classes(self) -> int:
        return 2 if self.kind.is_single else self.n_outputs

    def _add_output(self) -> None:
        """Add a class; an estimator that must know all classes begins again."""
        learned = self._learned
        learned.n_outputs += 1
        if self.library.learns_new_classes:
            return
        if learned.n_learned >= _MANY_ROWS:
            self._warn(
                "classes",
                f"{self.library.name()} begins again at a new class, after "
                f"{learned.n_learned:,} rows: estimators of scikit-learn have to know all classes "
                "from the first row on. Declare them: partial_fit(X, y, classes=...).",
            )
        learned.estimator, learned.n_learned = self.library.new(), 0
        learned.n_scored, learned.square = 0, 0.0

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(text, stacklevel=2)

    # --- scoring ---------------------------------------------------------------------------------

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """Return the scores of every row, of shape (rows, outputs)."""
        refuse_too_far(X)
        return unscaled_scores(self, self._scored(scaled(self, X)))

    def score_row(self, X: Any) -> np.ndarray:
        """Return the scores of a block of one row, of shape (outputs,)."""
        return self.scores(X)[0]

    def _scored(self, X: Any, counts: bool = False) -> np.ndarray:
        """Return the scores of scaled rows; zero before anything is learned."""
        learned = self._learned
        if learned.n_learned == 0 or X.shape[0] == 0:
            return np.zeros((X.shape[0], self.n_outputs))
        said, why = self._said(X)
        if counts:
            learned.n_silent = learned.n_silent + 1 if np.isnan(said).all() else 0
            if learned.n_silent == _MANY_ROWS:
                self._warn(
                    "silence",
                    f"{self.library.name()} has said nothing about the last {_MANY_ROWS} rows "
                    f"({why}): the committee learns without it.",
                )
        if self.task == "regression":
            # no farther from the targets so far than these are from each other
            width = learned.most - learned.least
            said = np.where(np.isnan(said), learned.mean, said)
            return np.clip(said, learned.least - width, learned.most + width)
        if self.task == "novelty":
            return np.clip(np.where(np.isnan(said), 0.0, said), -_LARGEST, _LARGEST)
        return self._comparable(np.where(np.isnan(said), 0.0, said), counts)

    def _said(self, X: Any) -> tuple[np.ndarray, str]:
        """Return the scores for each output, NaN where there is none, and the reason."""
        why = "its predictions are NaN"
        try:
            with _quiet():
                said = self.library.score(self._learned.estimator, X, self._n_classes())
            is_silent = np.isnan(said).all(axis=1, keepdims=True)
            if self.task == "classification":
                said = self._per_output(said)
            if said.shape[1] != self.n_outputs:
                raise ValueError(f"it gives {said.shape[1]} scores, not {self.n_outputs}")
        except Exception as error:  # whatever another library may raise
            if X.shape[0] > 1:
                return np.vstack([self._said(X[i : i + 1])[0] for i in range(X.shape[0])]), why
            return np.full((1, self.n_outputs), np.nan), f"{type(error).__name__}: {error}"
        return np.where(is_silent, np.nan, said), why

    def _per_output(self, said: np.ndarray) -> np.ndarray:
        """Return scores for each output; for two classes, the lead of the second."""
        said = np.clip(np.where(np.isnan(said), 0.0, said), -_LARGEST, _LARGEST)
        if self.kind.is_single and said.shape[1] == 2:
            return said[:, 1:] - said[:, :1]
        if self.n_outputs == 2 and said.shape[1] == 1:
            return np.hstack([-0.5 * said, 0.5 * said])
        return said

    def _comparable(self, said: np.ndarray, counts: bool) -> np.ndarray:
        """Return scores that the mixing can begin with.

        Decisions may be of any size: the first ones of SGD are near 1e5. Those that have been far
        beyond logarithms of probabilities lately are scaled down.
        """
        learned = self._learned
        square = np.mean(said**2, axis=1)
        known = learned.square + (square - learned.square) / min(learned.n_scored + 1, _RECENT_ROWS)
        if counts:
            learned.n_scored, learned.square = learned.n_scored + 1, float(known[0])
        said = said / np.maximum(np.sqrt(known) / _LARGEST_SCORE, 1.0)[:, None]
        return np.clip(said, -_LARGEST_SCORE, _LARGEST_SCORE)

    # --- all or nothing --------------------------------------------------------------------------

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call compiled code."""
        return function(*arguments)

    def _remember(self) -> None:
        self._saved = copy.deepcopy(self._learned)

    def _forget(self) -> None:
        self._saved = None

    @property
    def _is_open(self) -> bool:
        return self._saved is not None

    def _go_back(self) -> None:
        if self._saved is not None:
            self._learned, self._saved = self._saved, None

    def _own_arrays(self) -> None:
        self._learned, self._saved = copy.deepcopy(self._learned), None

    def _make_usable(self) -> None:
        self._own_arrays()

    # --- growing, and files ----------------------------------------------------------------------

    def widen(self, n_features: int) -> None:
        """Refuse other features: an estimator has those of its first row."""
        if n_features != self.n_features:
            raise ValueError(f"{self.library.name()} cannot be given other features.")

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Refuse: its state is not made of arrays."""
        raise ValueError(
            f"this committee cannot be saved, since {self.library.no_file()}: write it with pickle "
            "or joblib."
        )


def _quiet() -> Any:
    """Return no warnings of NumPy, at every row perhaps: what is not finite is dealt with here."""
    return np.errstate(all="ignore")


def _trail_of(scores: np.ndarray) -> Trail:
    """Return the trail of rows with known scores alone."""
    trail = new_trail(*scores.shape)
    for array in trail:
        array.fill(0)
    trail.slot.fill(-1)
    trail.partner.fill(-1)
    return trail._replace(scores=scores)
