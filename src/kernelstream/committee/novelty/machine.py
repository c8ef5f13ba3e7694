"""Detector members and their mix as a `Learner`: the same methods as one machine."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.mixing.highest import threshold_rule
from kernelstream.committee.novelty.plan import Plan
from kernelstream.committee.novelty.scan import scan
from kernelstream.committee.sketch import sketch
from kernelstream.compile import as_argument, entry_point
from kernelstream.learner.gate import Gate
from kernelstream.learner.learn import Trail
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import refuse_extreme
from kernelstream.learner.scaled import refuse_too_far
from kernelstream.learner.state import snapshot
from kernelstream.learner.undo import Undo

__all__ = ["NoveltyMachine", "Scanned"]

_FIRST = 1.2  # where the threshold begins, in quantiles of one member: the two lowest are below it
_RATE = 0.02  # how fast the threshold follows in the long run, see `HighestMean`
_N_FIRST = 300.0  # rows that the start of the threshold counts as, so that it does not jump


class Scanned(NamedTuple):
    """What a scan says of each row, before it is learned."""

    scores: np.ndarray  # (rows, 1): the larger, the more familiar
    margin: np.ndarray  # (rows,): the threshold
    said: np.ndarray  # (rows, members): what each member says
    n_points: np.ndarray  # (rows,): of the reservoir, after the row


class NoveltyMachine(Learner):
    """Detector members and their mix, in one scan over the rows.

    Long sparse rows are replaced by a `sketch` of each.

    Parameters
    ----------
    plan : Plan
        The members, and the rows that they are for.
    nu : float
        The share of rows that are alarms.
    seed : int
        For the reservoir, what members choose at random, and the sums of sparse rows.
    dtype : numpy.dtype, default=float64
        The precision of the rows. Everything is computed in float64.
    others : sequence of Learner, default=()
        Detectors of other libraries.

    Examples
    --------
    `machine_` of `AutoDetector` is one:

    >>> import kernelstream as ks
    >>> type(ks.AutoDetector().partial_fit([[0.0], [1.0]]).machine_).__name__
    'NoveltyMachine'
    """

    n_outputs = 1
    dtype = np.dtype(np.float64)
    learns_from_streams = True

    def __init__(
        self, plan: Plan, nu: float, seed: int, dtype: Any = np.float64,
        others: Sequence[Learner] = (),
    ):  # fmt: skip
        self.plan, self.others, self.dtype = plan, list(others), np.dtype(dtype)
        self.threshold_rule = threshold_rule(nu, _RATE, _N_FIRST, _FIRST)
        self.state: Any = plan.new_state()
        self.gate = Gate()
        self._undo = Undo()
        self._prepare()
        self.state.history.seed[0] = seed
        self.state.mixed.threshold[0] = self.threshold_rule.start
        random = np.random.default_rng(seed)
        for member, own, _ in plan.each_member(self.state.own):
            member.start(own, self.sizes["features"], random)

    def _prepare(self) -> None:
        """Make what follows from the plan."""
        self.sizes = self.plan.sizes()
        self._declared = self.plan.declared()
        self._rules = self.plan.rule(), self.plan.searches()
        self._scratch = self.plan.new_scratch()
        self._entry: Any = None

    # --- what a person can read ------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Return how many rows were learned."""
        return int(self.state.history.n_rows[0])

    @property
    def n_features(self) -> int:
        """Return how long a row is."""
        return self.sizes["given"]

    @property
    def is_sparse(self) -> bool:
        """Return whether rows are sparse."""
        return self.plan.is_sparse

    @property
    def n_points(self) -> int:
        """Return how many rows the reservoir has."""
        return int(self.state.history.n_points[0])

    @property
    def margin(self) -> float:
        """Return the score below which a row is an alarm."""
        return float(self.state.mixed.threshold[0])

    # --- learning and scoring --------------------------------------------------------------------

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what happened at each.

        Rows are checked before any is learned. A `BadRow` changes nothing, unless a detector of
        another library raises it: `begin` first, then `roll_back`.
        """
        refuse_too_far(X)
        refuse_extreme(y, weight)
        others = np.empty((X.shape[0], len(self.others)))
        for e, other in enumerate(self.others):
            trails = other.learn(X, y, weight)
            others[:, e] = np.concatenate([trail.scores[:, 0] for trail in trails])
        scores, margin, _, n_points = self.scan(X, weight, others, learns=True)
        n = len(margin)
        nothing, nowhere = np.zeros(n), np.full(n, -1)
        loss = np.maximum(margin - scores[:, 0], 0.0)
        if not keep_scores:
            scores = scores[:, :0]
        return [Trail(nowhere, nowhere, nothing, scores, loss, nothing, nothing, margin, n_points)]

    def learn_row(self, X: Any, y: float) -> np.ndarray:
        """Learn a block of one row; its score before, of shape (1,)."""
        return self.learn(X, np.array([y]), np.ones(1))[0].scores[0]

    def learn_at_once(self, X: Any, y: float) -> bool:
        """Learn a block of one row: nothing can interrupt the scan, if nothing comes before it."""
        if self.is_sparse or self.others:
            return False
        refuse_too_far(X)
        self.scan(X, np.ones(1), np.empty((1, 0)), learns=True)
        return True

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """Return the scores of every row, of shape (rows, 1): the larger, the more familiar."""
        refuse_too_far(X)
        others = np.empty((X.shape[0], len(self.others)))
        for e, other in enumerate(self.others):
            others[:, e] = other.scores(X)[:, 0]
        return self.scan(X, np.zeros(X.shape[0]), others, learns=False).scores

    def score_row(self, X: Any) -> np.ndarray:
        """Return the score of a block of one row, of shape (1,)."""
        return self.scores(X)[0]

    def scan(self, X: Any, weight: np.ndarray, others: np.ndarray, learns: bool) -> Scanned:
        """Score rows in order, and learn each after it was scored, if asked to.

        `others` has the scores of detectors of other libraries, of shape (rows, detectors).
        """
        X, n = self._seen(X, weight, learns), X.shape[0]
        said, scores, margin = np.empty((n, self.sizes["members"])), np.empty((n, 1)), np.empty(n)
        n_points = np.empty(n, np.int64)
        changes = self._undo.changes_for(self.sizes["points"])
        arguments = (
            self.state, *self._rules, as_argument(X), others, as_argument(weight), learns,
            self.threshold_rule, *self._scratch, changes, said, scores, margin, n_points,
        )  # fmt: skip
        if self._entry is None:
            self._entry = entry_point(scan, *arguments)
        self._entry(*arguments)
        return Scanned(scores, margin, said, n_points)

    def _seen(self, X: Any, weight: np.ndarray, learns: bool) -> np.ndarray:
        """Return the rows that members see; a sketch learns from them."""
        if not self.is_sparse:
            return X.astype(np.float64, copy=False)
        if not self.sizes["sketched"]:
            return X.toarray()
        out = np.empty((X.shape[0], self.sizes["features"]))
        history = self.state.history
        sketch(
            history.seed[0], history.entry_square, history.n_rows[0], X.indptr, X.indices, X.data,
            weight, learns, out,
        )  # fmt: skip
        return out

    # --- all or nothing --------------------------------------------------------------------------

    @property
    def inner(self) -> Sequence[Learner]:
        """Return the detectors of other libraries."""
        return self.others

    def _remember(self) -> None:
        self._undo.begin(self.state, self._declared, self.sizes["points"])

    def _forget(self) -> None:
        self._undo.commit()

    @property
    def _is_open(self) -> bool:
        return self._undo.is_open

    def _go_back(self) -> None:
        self._undo.roll_back()

    def _own_arrays(self) -> None:
        self.others = [other.copy() for other in self.others]
        self._make_usable()

    _not_pickled = ("sizes", "_undo", "_declared", "_rules", "_scratch", "_entry")

    def _make_usable(self) -> None:
        self.state, self._undo = snapshot(self.state), Undo()
        self._prepare()

    # --- growing, and files ----------------------------------------------------------------------

    def widen(self, n_features: int) -> None:
        """Give long sparse rows more features, or take such away; refuse that where rows are dense.

        Projections and whitening belong to a number of features.
        """
        if n_features == self.n_features:
            return
        plan = self.plan._replace(n_features=n_features)
        if not (self.sizes["sketched"] and plan.sizes()["sketched"]):
            raise ValueError(
                f"AutoDetector has begun with rows of {self.n_features} features and cannot learn "
                f"from {n_features}: let every row have all features from the first one on, or "
                "use NoveltyDetector(scaling='running')."
            )
        for other in self.others:
            other.widen(n_features)
        square, n = np.zeros(n_features), min(n_features, self.n_features)
        square[:n] = self.state.history.entry_square[:n]
        history = self.state.history._replace(entry_square=square)
        self.plan, self.state = plan, self.state._replace(history=history)
        self._prepare()

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all that it knows, as arrays by name."""
        for other in self.others:
            other.to_arrays()  # an error that says why there are none
        return {name: array for name, array in self.plan.named(self.state) if array.size}

    def fill(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `to_arrays` gave, checked.

        Raises
        ------
        ValueError
            If an array makes no sense. The machine is then of no use.
        """
        for name, array in self.plan.named(self.state):
            saved = arrays[name] if array.size else array
            if saved.shape != array.shape or saved.dtype.kind != array.dtype.kind:
                raise ValueError(f"{name} is of type {saved.dtype} and shape {saved.shape}")
            array[...] = saved
        self.plan.check(self.state)
        history, mixed = self.state.history, self.state.mixed
        if not 0 < history.n_points[0] <= history.n_rows[0] < history.renewal[0]:
            raise ValueError(f"there are {self.n_points} rows of {self.n_seen}")
        if not (history.total[0] > 0.0 and mixed.count[0] <= history.total[0]):
            raise ValueError(f"the rows have the weight {history.total[0]}")
