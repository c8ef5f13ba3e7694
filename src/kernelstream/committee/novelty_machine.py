"""The members for novelty as something that learns: the same methods as one machine."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.mixing.highest import threshold_rule
from kernelstream.committee.novelty import declared, new_work, scan, sizes_of
from kernelstream.committee.sketch import sketch
from kernelstream.compiled import as_argument, entry_point
from kernelstream.learner.gate import Gate
from kernelstream.learner.learn import Trail
from kernelstream.learner.protocol import Learner
from kernelstream.learner.rows import refuse_extreme
from kernelstream.learner.scaled import refuse_too_far
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.learner.state import check_entries, new_arrays, snapshot
from kernelstream.learner.state import fields as state_fields
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
    """Five members for novelty and their mix, in one scan over the rows.

    Parameters
    ----------
    n_features : int
    nu : float
        The share of rows that are alarms.
    seed : int
        For the reservoir, the random projections and the sums of sparse rows.
    is_sparse : bool, default=False
        Whether rows are sparse. If they are long, the members see a `sketch` of each.
    n_points : int, default=None
        How many rows the reservoir may have. None: 256, and up to 512 where rows are short.
    dtype : numpy.dtype, default=float64
        In which rows are given. All that is computed is in float64.

    Examples
    --------
    `machine_` of `AutoDetector` is one:

    >>> import kernelstream as ks
    >>> type(ks.AutoDetector().partial_fit([[0.0], [1.0]]).machine_).__name__
    'NoveltyMachine'
    """

    n_outputs = 1
    dtype = np.dtype(np.float64)
    is_sparse = False
    learns_from_streams = True

    def __init__(
        self, n_features: int, nu: float, seed: int, is_sparse: bool = False,
        n_points: int | None = None, dtype: Any = np.float64,
    ):  # fmt: skip
        self.is_sparse, self.most_points, self.dtype = is_sparse, n_points, np.dtype(dtype)
        self.rule = threshold_rule(nu, _RATE, _N_FIRST, _FIRST)
        self.sizes = sizes_of(n_features, is_sparse, n_points)
        self.declared = declared()
        self.state = new_arrays(self.declared, self.sizes)
        self.work = new_work(self.sizes)
        self.gate = Gate()
        self._undo: Undo | None = Undo()
        self._entry: Any = None
        self.state.seed[0] = seed
        self.state.members.threshold[0] = self.rule.start
        random = np.random.default_rng(seed)
        for chosen in self.state.chosen:
            chosen[:] = random.choice(self.sizes["features"], len(chosen), replace=False)
        self.state.weight[:] = random.normal(size=self.state.weight.shape)

    # --- what a person can read ------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """How many rows were learned."""
        return int(self.state.n_rows[0])

    @property
    def n_features(self) -> int:
        """How long a row is."""
        return self.sizes["given"]

    @property
    def n_points(self) -> int:
        """How many rows the reservoir has."""
        return int(self.state.n_points[0])

    @property
    def margin(self) -> float:
        """The score below which a row is an alarm."""
        return float(self.state.members.threshold[0])

    # --- learning and scoring --------------------------------------------------------------------

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what happened at each.

        Rows are checked before any is learned: a `BadRow` changes nothing.
        """
        refuse_too_far(X)
        refuse_extreme(y, weight)
        scores, margin, _, n_points = self.scan(X, weight, learns=True)
        n = len(margin)
        nothing, nowhere = np.zeros(n), np.full(n, -1)
        loss = np.maximum(margin - scores[:, 0], 0.0)
        if not keep_scores:
            scores = scores[:, :0]
        return [Trail(nowhere, nowhere, nothing, scores, loss, nothing, nothing, margin, n_points)]

    def learn_row(self, X: Any, y: float) -> np.ndarray:
        """Learn a block of one row; its score before, of shape (1,)."""
        refuse_too_far(X)
        return self.scan(X, np.ones(1), learns=True).scores[0]

    def learn_at_once(self, X: Any, y: float) -> bool:
        """Learn a block of one row: nothing can interrupt the scan, if nothing comes before it."""
        if self.is_sparse:
            return False
        self.learn_row(X, y)
        return True

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """The scores of every row, of shape (rows, 1): the larger, the more familiar."""
        refuse_too_far(X)
        return self.scan(X, np.zeros(X.shape[0]), learns=False).scores

    def score_row(self, X: Any) -> np.ndarray:
        """The score of a block of one row, of shape (1,)."""
        return self.scores(X)[0]

    def scan(self, X: Any, weight: np.ndarray, learns: bool) -> Scanned:
        """Score rows in order, and learn each after it was scored, if asked to."""
        X, n = self._seen(X, weight, learns), X.shape[0]
        said, scores, margin = np.empty((n, self.sizes["members"])), np.empty((n, 1)), np.empty(n)
        n_points = np.empty(n, np.int64)
        changes = (self._undo or Undo()).changes_for(self.sizes["points"])
        arguments = (
            self.state, as_argument(X), as_argument(weight), learns, self.rule,
            self.work, changes, said, scores, margin, n_points,
        )  # fmt: skip
        if self._entry is None:
            self._entry = entry_point(scan, *arguments)
        self._entry(*arguments)
        return Scanned(scores, margin, said, n_points)

    def _seen(self, X: Any, weight: np.ndarray, learns: bool) -> np.ndarray:
        """What the members see of rows; a sketch learns from them."""
        if not self.is_sparse:
            return X.astype(np.float64, copy=False)
        if not self.sizes["sketched"]:
            return X.toarray()
        out = np.empty((X.shape[0], self.sizes["features"]))
        state = self.state
        sketch(
            state.seed[0], state.entry_square, state.n_rows[0], X.indptr, X.indices, X.data, weight,
            learns, out,
        )  # fmt: skip
        return out

    # --- all or nothing --------------------------------------------------------------------------

    def begin(self) -> None:
        """Be ready to undo whatever is learned from now on."""
        if self._undo is not None:
            self._undo.begin(self.state, self.declared, self.sizes["points"])

    def commit(self) -> None:
        """Keep what was learned since `begin`. A draft is a machine like any other from now on."""
        if self._undo is None:
            self._undo = Undo()
        self._undo.commit()

    def roll_back(self) -> bool:
        """Undo what was learned since `begin`; whether there was anything to undo."""
        if self._undo is None:
            return True  # this is a draft, which nobody will look at
        if not self._undo.is_open:
            return False
        self._undo.roll_back()
        return True

    def copy(self) -> "NoveltyMachine":
        """The same with arrays of its own."""
        copy = object.__new__(NoveltyMachine)
        copy.__dict__.update(self.__dict__)
        copy.state, copy.work = snapshot(self.state), new_work(self.sizes)
        copy.gate, copy._undo, copy._entry = Gate(), Undo(), None
        return copy

    def as_draft(self) -> "NoveltyMachine":
        """This one, which nobody has seen yet: it is thrown away if it fails."""
        self._undo = None
        return self

    def __getstate__(self) -> dict[str, Any]:
        with self.gate:
            copy = dict(self.copy().__dict__)
        del copy["gate"], copy["work"], copy["_undo"], copy["_entry"]
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, gate=Gate(), _undo=Undo(), _entry=None)
        self.state = snapshot(self.state)  # what was loaded may be read-only
        self.work = new_work(self.sizes)

    # --- growing, and files ----------------------------------------------------------------------

    def widen(self, n_features: int) -> None:
        """Give long sparse rows more features, or take such away; refuse that where rows are dense.

        Projections and whitening belong to a number of features.
        """
        if n_features == self.n_features:
            return
        sizes = sizes_of(n_features, self.is_sparse, self.most_points)
        if not (self.sizes["sketched"] and sizes["sketched"]):
            raise ValueError(
                f"AutoDetector has begun with rows of {self.n_features} features and cannot learn "
                f"from {n_features}: let every row have all features from the first one on, or "
                "use NoveltyDetector(scaling='running')."
            )
        square, n = np.zeros(n_features), min(n_features, self.n_features)
        square[:n] = self.state.entry_square[:n]
        self.sizes, self.state = sizes, self.state._replace(entry_square=square)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that it knows, as arrays by name."""
        return dict(state_arrays(self.state))

    def fill(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `to_arrays` gave, checked.

        Raises
        ------
        ValueError
            If an array makes no sense. The machine is then of no use.
        """
        walk = zip(state_arrays(self.state), state_fields(declared()), strict=True)
        for (name, array), (_, field) in walk:
            may_lack = field.later or not array.size
            saved = arrays.get(name, array) if may_lack else arrays[name]
            if saved.shape != array.shape or saved.dtype.kind != array.dtype.kind:
                raise ValueError(f"{name} is of type {saved.dtype} and shape {saved.shape}")
            array[...] = saved
        check_entries(self.state, self.declared, self.sizes)
        state = self.state
        if not 0 < state.n_points[0] <= state.n_rows[0] < state.renewal[0]:
            raise ValueError(f"there are {self.n_points} rows of {self.n_seen}")
        if not (state.total[0] > 0.0 and state.members.count[0] <= state.total[0]):
            raise ValueError(f"the rows have the weight {state.total[0]}")
