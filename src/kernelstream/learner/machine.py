"""The machine: parts, state and a store of points, as one object that learns and scores.

Everything else stands on its public methods: estimators, fleets, evaluation, files. It knows
nothing of scikit-learn, and nothing of the names of labels.
"""

from typing import Any, Self

import numpy as np

from kernelstream.compile import entry_point
from kernelstream.expansion import AllChanges, scoring
from kernelstream.learner.blocks import fit_block, learn_block, threads_of_tiles
from kernelstream.learner.gate import Gate
from kernelstream.learner.growth import make_room, widen
from kernelstream.learner.kernel_rows import checked_row, largest_norm2
from kernelstream.learner.learn import Work, new_trail, new_work
from kernelstream.learner.learner import Learner
from kernelstream.learner.loops import Loop, loop_named
from kernelstream.learner.plan import (
    Model,
    Parts,
    corrects_norms,
    refuse_beyond,
    rules_of,
    slots_of,
    versions_of,
)
from kernelstream.learner.predicting import deviations_of, scores_of, why_no_deviations
from kernelstream.learner.readings import Readings
from kernelstream.learner.renewal import metric_of, renew_after
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.rows import (
    TOO_LARGE_A_STEP,
    BadRow,
    extreme_target,
)
from kernelstream.learner.scaled import (
    in_units,
    scaled,
    scaled_in_order,
    targets_in_order,
    unscaled_scores,
)
from kernelstream.learner.serialization import fill, to_arrays
from kernelstream.learner.sizing import Sizing
from kernelstream.learner.state import (
    State,
    allocate,
    copied,
    n_bytes,
    snapshot,
)
from kernelstream.learner.undo import Undo
from kernelstream.scalings import UNSCALED
from kernelstream.stores import STAGED_ROWS, Store, Values, store_class

__all__ = ["Machine", "Model", "Parts"]


class Machine(Readings, Learner):
    """Parts that learn.

    Parameters
    ----------
    parts : Parts
    n_features, n_outputs : int
    dtype : numpy.dtype
        Of rows and kernel values.
    sparse : bool, default=False
        Whether rows are sparse.
    max_bytes : int, default=None
        The most memory that it may take.
    stores_gram : bool, default=True
        Whether kernel values between points are kept where dropped points need them; otherwise
        only where points are projected.
    n_slots : int, default=None
        How many points there is room for. None: as many as the budget allows, or a few where it
        has no limit.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> model = ks.KernelRegressor().partial_fit([[0.0], [1.0]], [0.0, 1.0])
    >>> machine = model.machine_
    >>> machine.learn(np.array([[2.0]]), np.array([1.0]), np.ones(1))[0].loss.round(1)
    array([0.5])
    >>> machine.n_seen
    3
    """

    def __init__(
        self, parts: Parts, n_features: int, n_outputs: int, dtype: np.dtype,
        sparse: bool = False, max_bytes: int | None = None, stores_gram: bool = True,
        n_slots: int | None = None,
    ):  # fmt: skip
        self.parts = parts
        self.learns_from_streams = bool(parts.update.in_streams(parts.budget))
        self.model = rules_of(parts)
        self.scaling, self.target_scaling = parts.scaling.to_rule(), parts.target_scaling.to_rule()
        n_slots, self.limit = slots_of(parts, n_features, n_slots)
        self.sizing = Sizing(parts, self.model, dtype, sparse, stores_gram)
        declared = self.sizing.declared(n_outputs)
        sizes = self.sizing.sizes(n_outputs, n_slots, n_features)
        kind = store_class(parts.budget.is_folded, parts.kernel.feature_store, sparse, parts.device)
        needed = n_bytes(declared, sizes) + kind.n_bytes(parts.kernel, n_slots, n_features, dtype)
        refuse_beyond(max_bytes, needed, "the model")
        self.state: State = allocate(declared, sizes, kind.zeros)
        self.store: Store = kind(parts.kernel, n_slots, n_features, dtype)
        self._corrects_norms = corrects_norms(parts, self.model)
        self.state.expansion.n_points[0] = self.store.n_first
        self.gate = Gate()
        self.scratch: dict[str, Any] = {}  # working memory of the loops, never saved
        self._undo = Undo()

    @property
    def loop(self) -> Loop:
        """Return the way of learning."""
        return loop_named(self.parts.loop)

    @property
    def keeps_few_outputs(self) -> bool:
        """Return whether a point keeps only the coefficients that its row touched."""
        return self.sizing.keeps_few(self.n_outputs)

    @property
    def declared(self) -> State:
        """Return the axes of each array of the state, as its part declared them."""
        return self.sizing.declared(self.n_outputs)

    def sizes(self, n_slots: int | None = None) -> dict[str, int]:
        """Return the sizes of the axes of the state, now or with another number of slots."""
        n_slots = self.n_slots if n_slots is None else n_slots
        return self.sizing.sizes(self.n_outputs, n_slots, self.n_features)

    # --- learning --------------------------------------------------------------------------------

    learn = learn_block

    def learn_at_once(self, X: Any, y: float) -> bool:
        """Learn a block of one row in a single call of compiled code; False: it takes more.

        Nothing can interrupt it half way: there is room for the row, the code is compiled, and the
        loop itself writes the row.
        """
        path = self.row_path()
        if path is not None:
            return path.learn(self, X, y)
        room = not self.may_grow or self.n_points < self.n_slots
        is_ready = "learn" in self.scratch and self.store.writes_in_loop
        is_due = self.parts.update.tile_rows(self.n_seen) == 1  # something, after this row
        # statistics come before the row, which may have to be undone
        changes_more = self._is_scaled() or is_due or self.parts.update.finishes
        if not room or not is_ready or changes_more:
            return False
        self.learn_row(X, y)
        return True

    def _is_scaled(self) -> bool:
        return bool(self.parts.scaling.is_scaled or self.parts.target_scaling.is_scaled)

    def learn_row(self, X: Any, y: float) -> np.ndarray:
        """Learn a block of one row: `learn` without what only longer blocks need.

        Answers the scores before the row was learned, of shape (outputs,), in memory that the next
        row uses again.
        """
        path = self.row_path()
        if path is not None and path.learn(self, X, y):
            return path.said
        problem = extreme_target(y)
        if problem is not None:
            raise BadRow(0, problem)
        n_outputs = self.n_outputs
        if "row" not in self.scratch or self.scratch["row"][2].scores.shape[1] != n_outputs:
            self.scratch["row"] = np.empty(1), np.ones(1), new_trail(1, n_outputs)
        target, weight, trail = self.scratch["row"]
        target[0] = y
        target, units = targets_in_order(self, target, weight)
        X = scaled_in_order(self, X, weight)
        x = checked_row(self, X)
        self.make_room(1)
        n_before = self.n_seen
        if not self.loop.learn(self, X, x, target, weight, trail):
            raise BadRow(0, TOO_LARGE_A_STEP)
        renew_after(self, n_before)
        if units is not None:
            in_units(trail.scores, units)
        return trail.scores[0]

    def row_path(self) -> RowPath | None:
        """Return the short path for single rows, if any; a draft has none."""
        if self._is_draft:
            return None
        path = self.scratch.get("row path", self)
        if path is None:
            return None
        if path is self or not path.serves(self):
            path = self.scratch["row path"] = self.loop.row_path(self)
        return path

    def fit(self, X: Any, y: np.ndarray, weight: np.ndarray, orders: Any) -> tuple[int, float]:
        """Fit a machine that has learned nothing by a solver that revisits its rows.

        `orders` are the orders of the rows in each pass. Answers how many passes there were, and
        by how much the conditions of the optimum are violated at the end, where that is known.
        """
        return fit_block(self, X, y, weight, orders)

    def finish(self) -> float:
        """Finish what a stream has left open; the violation that is left."""
        return self.loop.finish(self)

    def threads(self, n_rows: int, most: int | None, n_new: int = 0) -> Any:
        """Limit the threads of BLAS while products of so many rows, or of `most`, are made.

        `most=None` stands for the rows of a tile. `n_new` rows may become points meanwhile.
        """
        return threads_of_tiles(self, n_rows, most, n_new)

    # --- for the loops ---------------------------------------------------------------------------

    def kernel_tile(
        self, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return kernel values of the points and of the rows themselves with each row, all finite.

        `lines` are those of the points that are read; None: all of them.
        """
        coef = self.state.expansion.coef
        values = self.store.tile(self.n_points, X, x, y, weight, coef, lines)
        if not self.kernel.is_bounded_by_cache and not np.isfinite(values.k).all():
            raise BadRow(0, f"{self.kernel!r} is not finite for it or for a row after it")
        return values

    def lines_read(self, n_rows: int) -> list[slice] | None:
        """Return the points whose kernel values the loop reads for n rows; None: all of them."""
        if self._corrects_norms or not self.kernel.is_bounded_by_cache:
            return None
        return self.parts.budget.lines_read(self.state.budget, self.n_points, n_rows)

    def loop_state(self) -> State:
        """Return the state without scalings, so that the same loop learns with and without them."""
        if not self._is_scaled():
            return self.state
        nothing = UNSCALED.state()
        return self.state._replace(scaling=nothing, target_scaling=nothing)

    def work(self) -> Work:
        """Return memory for one row at a time, kept until an output joins."""
        n_functions = self.state.expansion.coef.shape[1]
        return self.memory(new_work, self.n_outputs, n_functions, STAGED_ROWS)

    def memory(self, make: Any, *sizes: int) -> Any:
        """Return working memory of a loop, kept until its sizes change."""
        kept, memory = self.scratch.get("work", (None, None))
        if kept != sizes:
            memory = make(*sizes)
            self.scratch["work"] = sizes, memory
        return memory

    def largest_norm2(self) -> float:
        """Return a squared norm up to which rows need no other check; zero: there is none."""
        if "largest" not in self.scratch:
            self.scratch["largest"] = largest_norm2(self)
        return self.scratch["largest"]

    def changes(self) -> AllChanges:
        """Return where the loops mark what they write."""
        return self._undo.changes_for(self.n_slots)

    def call(self, name: str, function: Any, *arguments: Any) -> Any:
        """Call compiled code whose arguments have the same types throughout a machine's life."""
        if name not in self.scratch:
            self.scratch[name] = entry_point(function, *arguments)
        return self.scratch[name](*arguments)

    # --- all or nothing --------------------------------------------------------------------------

    def _remember(self) -> None:
        self._undo.begin(
            self.state,
            self.declared,
            self.n_slots,
            self.parts.update.n_waiting(self.state.update)[0],
        )
        self.store.begin()

    def _forget(self) -> None:
        self._undo.commit()
        self.store.end()

    @property
    def _is_open(self) -> bool:
        return self._undo.is_open

    def _go_back(self) -> None:
        self.store.undo()
        declared = self.declared
        self.state, self.store.n_slots = self._undo.roll_back()
        self.store.end()
        if self.declared is not declared:
            self.scratch.pop("learn", None)  # which was compiled for the other kind of expansion

    @property
    def undoes(self) -> bool:
        """Return whether what is learned now will be undone if it fails, or is a draft."""
        return self._is_draft or self._undo.is_open

    def copy(self) -> Self:
        """Return the same machine with arrays of its own; they share working memory."""
        twin = super().copy()
        # kernel values of points that the copy may exchange: there is one who keeps them
        self.scratch.pop("lines", None)
        return twin

    def _own_arrays(self) -> None:
        self.state, self.store = copied(self.state), self.store.copy(self.n_points)
        self.scratch = dict(self.scratch)
        self.sizing, self._undo = self.sizing.copy(), Undo()

    _not_pickled = ("scratch", "_undo")

    def _make_usable(self) -> None:
        self.state, self.store = snapshot(self.state), self.store.copy(self.n_points)
        self.scratch, self._undo = {}, Undo()

    # --- scoring ---------------------------------------------------------------------------------

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """Return the scores of every row, of shape (rows, outputs).

        `readout` is "last", or "averaged" or "voted" where these were kept from the first row on.
        """
        return scores_of(self, X, readout)

    def scores_and_deviations(self, X: Any, readout: str = "last") -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of every row, and the standard deviation of targets around them.

        The deviation has two causes: f is uncertain at the row, and rows have noise.
        """
        return self.scores(X, readout), deviations_of(self, X)

    def no_deviations(self) -> str | None:
        """Return why there are no `scores_and_deviations`, or None."""
        return why_no_deviations(self.parts.update)

    def score_row(self, X: Any) -> np.ndarray:
        """Return the scores of a block of one row, of shape (outputs,)."""
        path, X = self.row_path(), scaled(self, X)
        scores = None if path is None else path.scores(self, X)
        if scores is None:
            with self.threads(1, None):
                basis = self.store.basis(self.n_points, X, checked_row(self, X))
                scores = scoring.scores(self.state.expansion, self.state.intercept.b, basis)[0]
        return unscaled_scores(self, scores)

    def knows(self, readout: str) -> bool:
        """Return whether what a readout needs has been kept from the first row on."""
        kept = {"averaged": self.parts.averaged, "voted": self.parts.dated}
        return kept.get(readout, True)

    # --- growing ---------------------------------------------------------------------------------

    def metric(self) -> np.ndarray:
        """Return the squared metric A^2 of the kernel, of shape (features, features)."""
        return metric_of(self)

    def add_outputs(self, n: int) -> None:
        """Give the model n more outputs, all zero."""
        declared = self.declared
        self.state = self.sizing.with_more_outputs(
            self.state, n, self.n_slots, self.n_features, self.store.zeros
        )
        if self.declared is not declared:
            self.scratch.pop("learn", None)  # which was compiled for the other kind of expansion

    @property
    def may_grow(self) -> bool:
        """Return whether there may be more points than there is room for now."""
        return self.limit is None or self.n_slots < self.limit

    def make_room(self, n: int) -> None:
        """Make sure that n more points fit, as far as there may be so many."""
        make_room(self, n)

    def widen(self, n_features: int) -> None:
        """Give rows more features, which are zero in all that was learned; or remove some."""
        widen(self, n_features)

    # --- to and from arrays ----------------------------------------------------------------------

    def versions(self) -> dict[str, int]:
        """Return the version of each record of the state, for files."""
        return versions_of(self.parts)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything that was learned as arrays by name; of the slots, only those in use."""
        return to_arrays(self)

    def fill(self, arrays: dict[str, np.ndarray], computes_gram: bool = False) -> None:
        """Take over what `to_arrays` returned, checked.

        `computes_gram`: kernel values between points are not there, and computed from the rows.

        Raises
        ------
        ValueError
            If an array makes no sense. The machine is then of no use.
        """
        fill(self, arrays, computes_gram)
