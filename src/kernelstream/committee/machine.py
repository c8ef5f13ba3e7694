"""A committee as something that learns: the same methods as one machine."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelstream.committee.mixing import Mixing
from kernelstream.committee.together import Together, joined_paths
from kernelstream.learner.gate import Gate
from kernelstream.learner.learn import Trail
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow, extreme_target
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.learner.state import snapshot
from kernelstream.threads import each

__all__ = ["CommitteeMachine"]

_ROWS = 4096  # at a time: the scores of all members are kept for so many
_ROWS_TOGETHER = 64  # for which members are ready, at most, before they are asked again
_ROWS_AGAIN = 512  # that came one by one, at most, and are learned again if one of them fails
_ONCE = np.ones(1)  # the weight of a row
_LARGEST_NORM2 = 1e60  # of a row that members learn one after the other


class CommitteeMachine(Learner):
    """Machines that learn the same rows, and a mixing of what they say.

    Parameters
    ----------
    members : list of Learner
        For the same task, rows and outputs; none has learned anything, or all have learned the same
        rows.
    mixing : Mixing
    factors : sequence of float, default=None
        What the scores of each member are multiplied with before they are mixed: those of least
        squares on labels are small. None: one.
    n_threads : int, default=1
        How many members learn at the same time. It changes the speed, not the result.
    names : sequence of str, default=None
        What the members are called; None: by their numbers.
    models : sequence of estimators, default=()
        Whose parameters chose the parts of each member. Files hold them, so that they can be read
        where other members are chosen.

    Examples
    --------
    `machine_` of a committee's estimator is one:

    >>> import kernelstream as ks
    >>> model = ks.Committee(["smd-linear", "linear-pa"], "regressor")
    >>> len(model.partial_fit([[0.0], [1.0]], [0.0, 1.0]).machine_.members)
    2
    """

    def __init__(
        self, members: Sequence[Learner], mixing: Mixing, factors: Sequence[float] | None = None,
        n_threads: int = 1, names: Sequence[str] | None = None, models: Sequence[Any] = (),
    ):  # fmt: skip
        self.members = list(members)
        self.names = [str(i) for i in range(len(members))] if names is None else list(names)
        self.models = list(models)
        self.factors = np.ones(len(self.members)) if factors is None else np.array(factors, float)
        self.mixing = mixing
        self.mixing_state = mixing.new_state(len(self.members), self.n_outputs)
        self.n_threads = n_threads
        self.gate = Gate()
        self._saved: Any = None  # the mixing's state as it was when a block began
        self._single: list[tuple[np.ndarray, float]] | None = None  # rows since then, one by one
        self._together: Together | None = None
        self._rows_left = 0  # that can be learned together before that has to be asked again

    # --- what a person can read ------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Return how many rows were learned."""
        return self.members[0].n_seen

    @property
    def n_features(self) -> int:
        """Return how long a row is."""
        return self.members[0].n_features

    @property
    def n_outputs(self) -> int:
        """Return how many scores a row gets."""
        return self.members[0].n_outputs

    @property
    def dtype(self) -> np.dtype:
        """Return the precision of rows."""
        return self.members[0].dtype

    @property
    def is_sparse(self) -> bool:
        """Return whether rows are sparse."""
        return self.members[0].is_sparse

    @property
    def learns_from_streams(self) -> bool:
        """Return whether it learns from a stream."""
        return all(member.learns_from_streams for member in self.members)

    @property
    def margin(self) -> float:
        """Return the score below which a row is an alarm."""
        return self.mixing.threshold(self.mixing_state)

    @property
    def weights(self) -> np.ndarray:
        """Return how much each member counts."""
        return self.mixing.weights(self.mixing_state)

    # --- learning --------------------------------------------------------------------------------

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what happened at each, with the mixed scores.

        A `BadRow` leaves rows before it learned: `begin` first, then `roll_back`.
        """
        trails: list[Trail] = []
        for start in range(0, max(X.shape[0], 1), _ROWS):
            rows = slice(start, start + _ROWS)
            new = [row - start for row in new_outputs if start <= row < start + _ROWS]
            try:
                trails += self._learn_some(X[rows], y[rows], weight[rows], new)
            except BadRow as bad:
                raise BadRow(start + bad.row, bad.reason) from None
        return trails

    def _learn_some(self, X: Any, y: np.ndarray, weight: np.ndarray, new: list[int]) -> list[Trail]:
        of_members = self._each(lambda member: member.learn(X, y, weight, new))
        result, start = [], 0
        for pieces in zip(*of_members, strict=True):
            rows = slice(start, start + len(pieces[0].loss))
            scores = self._stacked([piece.scores for piece in pieces])
            self.mixing_state = self.mixing.widened(self.mixing_state, scores.shape[2])
            mixed, loss = self.mixing.learn(self.mixing_state, scores, y[rows], weight[rows])
            margin = np.full(len(loss), self.margin)
            n_points = np.sum([piece.n_points for piece in pieces], axis=0)
            result.append(
                pieces[0]._replace(scores=mixed, loss=loss, margin=margin, n_points=n_points)
            )
            start = rows.stop
        return result

    def _stacked(self, said: list[np.ndarray]) -> np.ndarray:
        """Return the scores of all members, of shape (members, rows, outputs)."""
        scores = np.stack(said)
        scores *= self.factors[:, None, None]
        return scores

    def _each(self, work: Any) -> list[Any]:
        """Return the result of `work` for each member, on several threads if asked for."""
        return each(work, self.members, self.n_threads)

    def learn_row(self, X: Any, y: float) -> np.ndarray:
        """Learn a block of one row; its mixed scores before, of shape (outputs,)."""
        self._rows_left = 0
        return self._learn_from(0, X, y, self.room_for_scores())

    def _learn_from(self, first: int, X: Any, y: float, said: np.ndarray) -> np.ndarray:
        """Let the members from one on learn a row, and the mixing; its mixed scores before."""
        for i in range(first, len(self.members)):
            said[i, 0] = self.factors[i] * self.members[i].learn_row(X, y)
        return self.mixing.learn(self.mixing_state, said, np.array([y]), _ONCE)[0][0]

    def room_for_scores(self) -> np.ndarray:
        """Return memory for what members say of a row, as the mixing takes it."""
        return np.empty((len(self.members), 1, self.n_outputs))

    def _learn_together(self, X: Any, y: float) -> None:
        """Learn a block of one row in one call, unless a member has more to do than to learn it."""
        if self._rows_left == 0:
            self._join()
        if self._rows_left == 0:
            self.learn_row(X, y)
            return
        together = self._together
        assert together is not None
        self._rows_left -= 1
        n_done = together.learn(X, y)
        if self._rows_left == 0:
            together.follow(n_done)
        if n_done <= len(self.members):  # one takes the longer way, or the mixing has no calls
            self._rows_left = self._rows_left if n_done == len(self.members) else 0
            self._learn_from(n_done, X, y, together.said)

    def _join(self) -> None:
        """Find out for how many rows members can be called together.

        One that grows gets room for many points at once: to ask again takes as long as a row.
        """
        for member in self.members:
            member.make_room(_ROWS_TOGETHER)
        paths = joined_paths(self)
        if paths is None:
            return
        if self._together is None or not self._together.serves(self, paths):
            self._together = Together(self, paths)
        self._rows_left = self._together.rows_ahead()

    def learn_at_once(self, X: Any, y: float) -> bool:
        """Learn a block of one row, all or nothing; False: it takes `begin` and more.

        Several machines change one after the other. To be ready for an error at every row would
        take longer than the row. So all can go back to where they were up to 512 rows ago, and if
        one fails they learn the rows since then again: the same numbers, to the last bit.
        """
        if self._is_draft or self.is_sparse:
            return False
        # as Python's float: NumPy would compare in float32, where the largest norm is infinite
        if not float(np.vdot(X, X)) <= _LARGEST_NORM2 or extreme_target(y) is not None:  # nor NaN
            return False
        rows = self._single
        if rows is None or len(rows) == _ROWS_AGAIN:
            self.begin()
            rows = self._single = []
        n_before = len(rows)
        try:
            rows.append((X.copy(), y))
            self._learn_together(X, y)
        except BaseException:
            self._learn_again(rows[:n_before])
            raise
        return True

    def _learn_again(self, rows: list[tuple[np.ndarray, float]]) -> None:
        """Go back, and learn these rows; another interrupt has to wait until that is done."""
        while True:
            try:
                self._single = None
                self.roll_back()
                self.begin()
                for row in rows:
                    self.learn_row(*row)
                self._single = rows
                return
            except KeyboardInterrupt:
                continue

    # --- scoring ---------------------------------------------------------------------------------

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """Return the mixed scores of every row, of shape (rows, outputs)."""
        said = self._stacked(self._each(lambda member: member.scores(X)))
        return self.mixing.mix(self.mixing_state, said)

    def scores_and_deviations(self, X: Any, readout: str = "last") -> tuple[np.ndarray, np.ndarray]:
        """Return the mixed scores of every row, and the standard deviation of y around each."""
        said = self._stacked(self._each(lambda member: member.scores(X)))
        state = self.mixing_state
        return self.mixing.mix(state, said), self.mixing.deviations(state, said)

    def no_deviations(self) -> str | None:
        """Return why there are no `scores_and_deviations`, or None."""
        if self.mixing.gives_deviations:
            return None
        return f"mixing={self.mixing!r} does not know how certain a prediction is."

    def score_row(self, X: Any) -> np.ndarray:
        """Return the mixed scores of a block of one row, of shape (outputs,)."""
        said = self.room_for_scores()
        for i, member in enumerate(self.members):
            said[i, 0] = self.factors[i] * member.score_row(X)
        return self.mixing.mix(self.mixing_state, said)[0]

    # --- all or nothing --------------------------------------------------------------------------

    @property
    def inner(self) -> Sequence[Learner]:
        """Return the members."""
        return self.members

    def begin(self) -> None:
        """Prepare to undo everything that is learned from now on."""
        self._rows_left = 0
        if self._single is not None:  # then members were ready to undo these rows, too
            self._single = self._saved = None
            for member in self.members:
                member.commit()
        super().begin()

    def _remember(self) -> None:
        self._saved = snapshot(self.mixing_state)

    def _forget(self) -> None:
        self._saved = None

    @property
    def _is_open(self) -> bool:
        return self._saved is not None and self._single is None

    def _go_back(self) -> None:
        self.mixing_state, self._saved = self._saved, None

    def _own_arrays(self) -> None:
        self.members = [member.copy() for member in self.members]
        self._saved = self._single = self._together = None
        self._rows_left = 0
        self._make_usable()

    def _make_usable(self) -> None:
        self.mixing_state = snapshot(self.mixing_state)

    # --- growing, and files ----------------------------------------------------------------------

    def widen(self, n_features: int) -> None:
        """Give rows more features, or take such away."""
        n_before = self.n_features
        for name, member in zip(self.names, self.members, strict=True):
            try:
                member.widen(n_features)
            except ValueError as error:
                raise ValueError(
                    f"a committee with the member {name!r} keeps to the {n_before} "
                    "features of its first row: let every row have all features, with NaN or "
                    "None for a value that is not known yet, or use a single learner, such as "
                    "'svmd'."
                ) from error

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all that it knows, as arrays by name."""
        arrays = {f"mixing.{name}": array for name, array in state_arrays(self.mixing_state)}
        for i, member in enumerate(self.members):
            arrays.update({f"{i}.{name}": a for name, a in member.to_arrays().items()})
        return arrays

    def fill_mixing(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over the mixing's part of what `to_arrays` gave, checked."""
        for name, array in state_arrays(self.mixing_state):
            saved = arrays[f"mixing.{name}"]
            if saved.shape != array.shape or not np.isfinite(saved).all():
                raise ValueError(f"the mixing's {name} makes no sense")
            array[...] = saved
