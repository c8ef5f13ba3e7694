"""The machine: parts, state and a store of points, as one object that learns and scores.

Everything else stands on its public methods: estimators, fleets, evaluation, files. It knows
nothing of scikit-learn, and nothing of the names of labels.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from kernelstream.compiled import as_argument, entry_point
from kernelstream.expansion import AllChanges, scoring
from kernelstream.kernels import Kernel
from kernelstream.learner import second_order
from kernelstream.learner.gate import Gate
from kernelstream.learner.kernel_rows import largest_norm2, norm2_of
from kernelstream.learner.learn import Trail, Work, new_trail, new_work
from kernelstream.learner.learner import Learner
from kernelstream.learner.loops import Loop, loop_named
from kernelstream.learner.plan import (
    Model,
    Parts,
    corrects_norms,
    declaration_of,
    first_slots,
    keeps_nonzeros,
    most_touched_of,
    refuse_beyond,
    rules_of,
    sizes_of,
    slots_of,
    versions_of,
)
from kernelstream.learner.renewal import metric_of, renew_after, rows_until_renewal
from kernelstream.learner.row_path import RowPath
from kernelstream.learner.rows import (
    TOO_LARGE_A_STEP,
    BadRow,
    extreme_target,
    largest_kernel,
    refuse_extreme,
    refuse_large,
)
from kernelstream.learner.scaled import (
    in_units,
    scaled,
    scaled_in_order,
    scaled_targets,
    targets_in_order,
    unscaled_scores,
)
from kernelstream.learner.state import (
    State,
    allocate,
    check_values,
    copied,
    first_outputs,
    memory_of,
    n_bytes,
    only_nonzeros,
    remembered,
    resize,
    snapshot,
)
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.learner.undo import Undo
from kernelstream.parts import Field
from kernelstream.scalings import UNSCALED
from kernelstream.stores import STAGED_ROWS, Store, Values, store_class
from kernelstream.threads import each, rows_of_a_piece, threads_for

__all__ = [
    "READOUTS", "Machine", "Model", "Parts", "corrects_norms", "first_slots", "refuse_beyond",
    "slots_of",
]  # fmt: skip

_GROWING = ("points", "tile")  # axes of which a file has what is in use
_MANY_SLOTS = 1024  # of a dictionary without limit: beyond, the user is warned
_PREDICT_ROWS = 512  # rows scored at a time: bounds the memory of `scores`
_SCORES_OF_A_TILE = 2**18

# What predicts: the model as it is, the average of all models so far, or their vote.
READOUTS = {"last": scoring.scores, "averaged": scoring.averaged, "voted": scoring.votes}


class Block(NamedTuple):
    """Rows as loops are given them."""

    X: Any
    x: np.ndarray  # the row cache
    y: np.ndarray
    weight: np.ndarray


class Alike(NamedTuple):
    """Rows that are scaled by the same numbers, but for those that change with every row."""

    stop: int  # where they end in their block
    rows: "Block"
    units: np.ndarray | None  # of the targets, see `targets_in_order`


class Machine(Learner):
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
        self.model = rules_of(parts)
        self.scaling, self.target_scaling = parts.scaling.to_rule(), parts.target_scaling.to_rule()
        n_slots, self.limit = slots_of(parts, n_features, n_slots)
        self._most_touched = most_touched_of(parts)
        self._declared = tuple(
            declaration_of(parts, self.model, dtype, sparse, touched, stores_gram)
            for touched in (False, True)
        )
        declared = self._declared[keeps_nonzeros(self._most_touched, n_outputs)]
        sizes = sizes_of(self._most_touched, n_outputs, n_slots, n_features)
        kind = store_class(parts.budget.is_folded, parts.kernel.feature_store, sparse, parts.device)
        needed = n_bytes(declared, sizes) + kind.n_bytes(parts.kernel, n_slots, n_features, dtype)
        refuse_beyond(max_bytes, needed, "the model")
        self.state: State = allocate(declared, sizes, kind.zeros)
        self.store: Store = kind(parts.kernel, n_slots, n_features, dtype)
        self._corrects_norms = corrects_norms(parts, self.model)
        self.state.expansion.n_points[0] = self.store.n_first
        self.gate = Gate()
        self.scratch: dict[str, Any] = {}  # working memory of the loops, never saved
        self._room: State | None = None  # the memory that `state` begins
        self._undo = Undo()

    # --- sizes -----------------------------------------------------------------------------------

    @property
    def loop(self) -> Loop:
        """The way of learning."""
        return loop_named(self.parts.loop)

    @property
    def kernel(self) -> Kernel:
        """The kernel with all its numbers."""
        return self.store.kernel

    @property
    def n_points(self) -> int:
        """How many slots have been taken."""
        return int(self.state.expansion.n_points[0])

    @property
    def n_outputs(self) -> int:
        """How many scores a row gets."""
        return len(self.state.intercept.b)

    @property
    def n_slots(self) -> int:
        """How many points there is room for."""
        return self.store.n_slots

    @property
    def n_features(self) -> int:
        """How long a row is."""
        return self.store.n_features

    @property
    def dtype(self) -> np.dtype:
        """The precision of rows and kernel values."""
        return self.store.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse."""
        return self.store.is_sparse

    @property
    def keeps_few_outputs(self) -> bool:
        """Whether a point keeps only the coefficients that its row touched."""
        return keeps_nonzeros(self._most_touched, self.n_outputs)

    @property
    def learns_from_streams(self) -> bool:
        """Whether it learns from a stream."""
        return bool(self.parts.update.in_streams(self.parts.budget))

    @property
    def declared(self) -> State:
        """What each array of the state spans, as its part declared it."""
        return self._declared[keeps_nonzeros(self._most_touched, self.n_outputs)]

    def sizes(self, n_outputs: int | None = None, n_slots: int | None = None) -> dict[str, int]:
        """What the axes of the state's arrays stand for, now or with other numbers."""
        return sizes_of(
            self._most_touched,
            self.n_outputs if n_outputs is None else n_outputs,
            self.n_slots if n_slots is None else n_slots,
            self.n_features,
        )

    # --- what a person can read ------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """How many rows were learned."""
        return int(self.state.expansion.n_seen[0])

    @property
    def step_size(self) -> float:
        """Where the step size eta is now."""
        return float(self.state.step_size.eta[0])

    @property
    def n_capped(self) -> int:
        """At how many rows a smaller step than eta was taken."""
        return int(self.parts.update.n_capped(self.state.update) or 0)

    @property
    def drift_score(self) -> float:
        """How far the step size has risen above its recent mean, as a logarithm."""
        return float(self.state.drift.score[0])

    @property
    def margin(self) -> float:
        """Where the margin is now."""
        return float(self.state.margin.epsilon[0])

    @property
    def averaged_margin(self) -> float:
        """The mean of the margins of all models so far, where their average is kept."""
        return scoring.averaged_margin(self.state.expansion)

    @property
    def kept(self) -> np.ndarray:
        """The slots that hold a point, in the order in which they are shown."""
        return self.model.budget.kept_slots(self.state.budget, self.state.expansion)

    @property
    def truncation_error(self) -> float | None:
        """A bound on the norm of what was dropped, where the budget keeps one."""
        return self.parts.budget.truncation_error(self.state.budget)

    def support(self) -> Any:
        """The rows of the points, as kernels see them: scaled, where there is a scaling."""
        return self.store.stored(self.n_points)[self.kept]

    def coefficients(self) -> np.ndarray:
        """The coefficients alpha of the points, of shape (outputs, points)."""
        return scoring.coefficients(self.state.expansion, self.n_outputs)[:, self.kept]

    def weights(self) -> np.ndarray:
        """The weights of explicit features, of shape (outputs, features)."""
        return scoring.coefficients(self.state.expansion, self.n_outputs)

    def weight_steps(self) -> np.ndarray:
        """The step size of every weight, where each has its own, of shape (outputs, features)."""
        if not self.parts.step_size.per_weight:
            raise AttributeError(
                f"step_size={self.parts.step_size!r} is one for all weights: see step_size."
            )
        return self.state.step_size.steps.copy()

    def metric(self) -> np.ndarray:
        """The squared metric A^2 that kernels see rows through, of shape (features, features)."""
        return metric_of(self)

    def intercept(self) -> np.ndarray:
        """The intercepts, of shape (outputs,)."""
        return self.state.intercept.b.copy()

    # --- learning --------------------------------------------------------------------------------

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, new_outputs: Sequence[int] = (),
        keep_scores: bool = True, tile_rows: int | None = None, *, readout: str = "last",
    ) -> list[Trail]:  # fmt: skip
        """Learn the rows of X in order; return what happened at each.

        A `BadRow` leaves the rows before it learned: `begin` first, then `roll_back`.

        Parameters
        ----------
        X : ndarray or csr_array of shape (rows, features)
        y, weight : ndarray of shape (rows,)
        new_outputs : sequence of int, default=()
            Rows at which another output begins to exist, in order. There is one trail up to each
            of them, and one after the last.
        keep_scores : bool, default=True
            Whether trails keep every score, which takes memory.
        tile_rows : int, default=None
            How many rows share a matrix product: it changes the speed, not the result.
        readout : {"last", "averaged", "voted"}, default="last"
            What says the scores that trails keep, and the margin: see `scores`. Only the last model
            is known for a tile of rows at once; the others are asked row by row.

        Returns
        -------
        list of Trail
        """
        X, y, weight = self._as_rows(X), as_argument(y), as_argument(weight)
        ends, start, trails = [*new_outputs, X.shape[0]], 0, []
        tile_rows = tile_rows if readout == "last" else 1
        with self.threads(X.shape[0], tile_rows, n_new=X.shape[0]):
            for piece, end in enumerate(ends):
                if piece > 0:
                    self.add_outputs(1)
                if start == end:
                    continue
                trail, begin = new_trail(end - start, self.n_outputs if keep_scores else 0), start
                while start < end:
                    first, n_before = start, self.n_seen
                    alike = self._scaled_alike(X, y, weight, start, end)
                    while start < alike.stop:
                        stop = min(alike.stop, start + (tile_rows or self._tile_rows()))
                        self.make_room(stop - start)
                        own = _piece(trail, start - begin, stop - begin)
                        rows = _piece(alike.rows, start - first, stop - first)
                        said = None if readout == "last" else self._said(rows, readout)
                        try:
                            done = self.loop.learn(self, rows.X, rows.x, rows.y, rows.weight, own)
                            if done < stop - start:
                                raise BadRow(done, TOO_LARGE_A_STEP)
                        except BadRow as bad:  # which counted from the beginning of the tile
                            raise BadRow(start + bad.row, bad.reason) from None
                        if said is not None:
                            own.scores[:], own.margin[:] = said
                        start = stop
                    if alike.units is not None and keep_scores:
                        in_units(trail.scores[first - begin : start - begin], alike.units)
                    renew_after(self, n_before)
                trails.append(trail)
        return trails

    def _scaled_alike(
        self, X: Any, y: np.ndarray, weight: np.ndarray, start: int, end: int
    ) -> "Alike":
        """Rows from `start` on up to the next renewal of a scaling, or to `end`, scaled."""
        stop = start + rows_until_renewal(self, weight[start:end])
        X, y, weight = X[start:stop], y[start:stop], weight[start:stop]
        try:
            X = scaled_in_order(self, X, weight)
            x = self.store.row_cache_of(X)
            refuse_large(self.kernel, self.dtype, X, x)
            refuse_extreme(y, weight)
        except BadRow as bad:  # which counted from the first of these rows
            raise BadRow(start + bad.row, bad.reason) from None
        y, units = targets_in_order(self, y, weight)
        return Alike(stop, Block(X, x, y, weight), units)

    def _said(self, rows: "Block", readout: str) -> tuple[np.ndarray, float] | None:
        """The scores of rows that are about to be learned, and the margin; None of the first."""
        if self.n_seen == 0:
            return None
        basis = self.store.basis(self.n_points, rows.X, rows.x)
        scores = READOUTS[readout](self.state.expansion, self.state.intercept.b, basis)
        return scores, self.averaged_margin if readout == "averaged" else self.margin

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
        x = self.checked_row(X)
        self.make_room(1)
        n_before = self.n_seen
        if not self.loop.learn(self, X, x, target, weight, trail):
            raise BadRow(0, TOO_LARGE_A_STEP)
        renew_after(self, n_before)
        if units is not None:
            in_units(trail.scores, units)
        return trail.scores[0]

    def row_path(self) -> RowPath | None:
        """The short way for single rows, where there is one; a draft would make it for one row."""
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
        X, y, weight = self._as_rows(X), as_argument(y), as_argument(weight)
        refuse_extreme(y, weight)
        # all rows are there, and are scaled alike
        scaled_in_order(self, X, weight)
        X = scaled(self, X)
        if targets_in_order(self, y, weight)[1] is not None:
            y = scaled_targets(self, y)
        refuse_large(self.kernel, self.dtype, X, self.kernel.row_cache(X))
        solver = loop_named(self.parts.update.solver(self.parts.budget))
        return solver.fit(self, X, y, weight, orders)

    def finish(self) -> float:
        """Finish what a stream has left open; the violation that is left."""
        return self.loop.finish(self)

    def _as_rows(self, X: Any) -> Any:
        return self.store.taken(X)

    def _tile_rows(self) -> int:
        until_due = self.parts.update.tile_rows(self.n_seen)
        if until_due is not None:
            return until_due
        # With many outputs the scores of a tile should still fit into the processor's cache.
        return max(32, min(self.loop.tile_rows(self), _SCORES_OF_A_TILE // max(self.n_outputs, 1)))

    def threads(self, n_rows: int, most: int | None, n_new: int = 0) -> Any:
        """A context with as many threads of BLAS as products of so many rows, or `most`, are worth.

        None: as many as a tile has. `n_new` rows may become points meanwhile. Where something is
        due after a whole tile, it takes products of as many rows, however few are left until then.
        """
        whole_tile = self.parts.update.tile_rows(0) if n_new else None
        n = self.n_points + n_new
        n = n if self.limit is None else min(n, self.limit)
        if whole_tile is not None:
            n_rows = whole_tile
        elif n_rows > 32:
            n_rows = min(n_rows, most or self._tile_rows())
        # neither sparse rows nor outputs of which a point touches few take a product
        n_features = 0 if self.is_sparse else self.n_features
        n_lines = self.state.expansion.coef.shape[0]
        n_terms = max(n_features, n_lines, n * self.parts.update.is_second_order)
        return threads_for(n_rows, n + n_rows, n_terms)

    # --- for the loops ---------------------------------------------------------------------------

    def kernel_tile(
        self, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Kernel values of the points and of the rows themselves with each row, all finite.

        `lines` are those of the points that are read; None: all of them.
        """
        coef = self.state.expansion.coef
        values = self.store.tile(self.n_points, X, x, y, weight, coef, lines)
        if not self.kernel.is_bounded_by_cache and not np.isfinite(values.k).all():
            raise BadRow(0, f"{self.kernel!r} is not finite for it or for a row after it")
        return values

    def lines_read(self, n_rows: int) -> list[slice] | None:
        """The points whose kernel values the loop reads when it learns n rows; None: of all."""
        if self._corrects_norms or not self.kernel.is_bounded_by_cache:
            return None
        return self.parts.budget.lines_read(self.state.budget, self.n_points, n_rows)

    def loop_state(self) -> State:
        """The state as loops are given it: the same code learns with and without a scaling."""
        if not self._is_scaled():
            return self.state
        nothing = UNSCALED.state()
        return self.state._replace(scaling=nothing, target_scaling=nothing)

    def work(self) -> Work:
        """Memory for one row at a time, kept until an output joins."""
        n_functions = self.state.expansion.coef.shape[1]
        return self.memory(new_work, self.n_outputs, n_functions, STAGED_ROWS)

    def memory(self, make: Any, *sizes: int) -> Any:
        """Working memory of a loop, kept until its sizes change."""
        kept, memory = self.scratch.get("work", (None, None))
        if kept != sizes:
            memory = make(*sizes)
            self.scratch["work"] = sizes, memory
        return memory

    def largest_norm2(self) -> float:
        """A squared norm up to which rows need no other check; zero: there is none."""
        if "largest" not in self.scratch:
            self.scratch["largest"] = largest_norm2(self)
        return self.scratch["largest"]

    def changes(self) -> AllChanges:
        """Where the loops mark what they write."""
        return self._undo.changes_for(self.n_slots)

    def call(self, name: str, function: Any, *arguments: Any) -> Any:
        """Call compiled code whose arguments have the same types throughout a machine's life."""
        if name not in self.scratch:
            self.scratch[name] = entry_point(function, *arguments)
        return self.scratch[name](*arguments)

    # --- all or nothing --------------------------------------------------------------------------

    def _remember(self) -> None:
        self._undo.begin(self.state, self.declared, self.n_slots, self._waiting()[0])
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
        self._room, self._undo = None, Undo()

    _not_pickled = ("scratch", "_undo")

    def _make_usable(self) -> None:
        self.state, self.store = snapshot(self.state), self.store.copy(self.n_points)
        self.scratch, self._undo = {}, Undo()

    # --- scoring ---------------------------------------------------------------------------------

    def scores(self, X: Any, readout: str = "last") -> np.ndarray:
        """The scores of every row, of shape (rows, outputs).

        Parameters
        ----------
        X : ndarray or csr_array of shape (rows, features)
        readout : {"last", "averaged", "voted"}, default="last"
            What predicts; the others must have been kept from the first row on.

        Returns
        -------
        ndarray of shape (rows, outputs)
        """
        X = self.store.taken(scaled(self, X))
        x, read = self.store.row_cache_of(X), READOUTS[readout]
        refuse_large(self.kernel, self.dtype, X, x)
        expansion, b = self.state.expansion, self.state.intercept.b

        n_rows, n_terms = X.shape[0], max(self.n_features, self.n_outputs)
        n_of_piece = rows_of_a_piece(n_rows, self.n_points, n_terms, _PREDICT_ROWS)

        def scores_from(start: int) -> np.ndarray:
            rows = slice(start, start + n_of_piece)
            return read(expansion, b, self.store.basis(self.n_points, X[rows], x[rows]))

        result, starts = np.empty((n_rows, self.n_outputs)), range(0, n_rows, n_of_piece)
        with self.threads(n_rows, _PREDICT_ROWS):
            for start, said in zip(starts, each(scores_from, starts, repeatable=True), strict=True):
                result[start : start + n_of_piece] = said
        return unscaled_scores(self, result)

    def variances(self, X: Any) -> np.ndarray:
        """The variance of f at every row, of shape (rows,), where the update knows it.

        The same for all outputs. Raises a `ValueError` where nothing was learned yet.
        """
        machine = second_order.closed(self)
        result, X = np.empty(X.shape[0]), self.store.taken(scaled(self, X))
        x, n = self.store.row_cache_of(X), self.n_points
        refuse_large(self.kernel, self.dtype, X, x)
        diagonal = self.kernel.diagonal(x)
        with self.threads(X.shape[0], _PREDICT_ROWS):
            for start in range(0, X.shape[0], _PREDICT_ROWS):
                rows = slice(start, start + _PREDICT_ROWS)
                piece = X[rows]
                if diagonal is None:
                    own = np.empty((piece.shape[0], piece.shape[0]), self.dtype)
                    self.kernel.block(piece, piece, x[rows], x[rows], own)
                    k_xx = own.diagonal()
                else:
                    k_xx = np.broadcast_to(diagonal, (X.shape[0],))[rows]
                block = self.store.basis(n, piece, x[rows])
                result[rows] = second_order.variances(machine, block, k_xx)
        return result * self._target_unit() ** 2

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of a row of weight one, where the update knows it."""
        return second_order.unit_of(self) / self.model.loss_weight * self._target_unit() ** 2

    def scores_and_deviations(self, X: Any, readout: str = "last") -> tuple[np.ndarray, np.ndarray]:
        """The scores of every row, and the standard deviation of targets around them.

        By what f is not known there, and by the noise of the rows so far.
        """
        return self.scores(X, readout), np.sqrt(self.variances(X) + self.noise_variance)

    def no_deviations(self) -> str | None:
        """Why there are no `scores_and_deviations`, if so."""
        update = self.parts.update
        if update.is_second_order:
            return None
        return (
            f"update={update!r} does not know how certain its predictions are: use a committee, "
            "such as AutoRegressor, or ks.make('sog-svr', 'regressor') or ks.make('sog-svc', "
            "'classifier'), which are update=Dual() with budget=Independent(...)."
        )

    def _target_unit(self) -> float:
        if not self.parts.target_scaling.is_scaled:
            return 1.0
        return float(self.target_scaling.unit_of(self.state.target_scaling)[1])

    def score_row(self, X: Any) -> np.ndarray:
        """The scores of a block of one row, of shape (outputs,)."""
        path, X = self.row_path(), scaled(self, X)
        scores = None if path is None else path.scores(self, X)
        if scores is None:
            with self.threads(1, None):
                basis = self.store.basis(self.n_points, X, self.checked_row(X))
                scores = scoring.scores(self.state.expansion, self.state.intercept.b, basis)[0]
        return unscaled_scores(self, scores)

    def knows(self, readout: str) -> bool:
        """Whether what a readout needs has been kept from the first row on."""
        kept = {"averaged": self.parts.averaged, "voted": self.parts.dated}
        return kept.get(readout, True)

    def checked_row(self, X: Any) -> np.ndarray:
        """The row cache of one row, checked without the cost of checking a block."""
        largest = self.largest_norm2()
        if largest > 0.0:
            norm2 = norm2_of(X[0])
            if norm2 <= largest:  # NaN is not
                return np.array([norm2], self.dtype)
        x = self.store.row_cache_of(X)
        if not self.kernel.magnitude(x)[0] <= largest_kernel(self.dtype):
            refuse_large(self.kernel, self.dtype, X, x)
        return x

    # --- growing ---------------------------------------------------------------------------------

    def add_outputs(self, n: int) -> None:
        """Give the model n more outputs, all zero.

        There is room for as many again, so that outputs that come one by one are not all copied
        each time.
        """
        n_old, wanted = self.n_outputs, self.n_outputs + n
        if keeps_nonzeros(self._most_touched, wanted) and self.declared is self._declared[0]:
            self._keep_nonzeros(wanted)
            return
        # What undoes a block, or makes room for points, leaves a state that lies elsewhere.
        mine, room = memory_of(self.state.intercept.b), self._room
        if room is not None and memory_of(room.intercept.b) is not mine:
            self._room = None
        if self._room is None or len(self._room.intercept.b) < wanted:
            sizes = self.sizes(n_outputs=2 * wanted)
            if self.declared is self._declared[0]:  # which has a line for every output
                sizes["lines"] = 2 * wanted
            self._room = resize(self.state, self.declared, sizes, self.store.zeros)
        self.state = first_outputs(self._room, self.declared, wanted, n_old)

    def _keep_nonzeros(self, n_outputs: int) -> None:
        """Grow to so many outputs that a point keeps only the coefficients that its row touched."""
        sizes = self.sizes(n_outputs=n_outputs)
        larger = allocate(self._declared[1], sizes, self.store.zeros)
        old, average = self.state.expansion, self.parts.averaged
        coef, past, output = only_nonzeros(
            old.coef, old.average.past if average else None, sizes["lines"]
        )
        moved = {"expansion.coef": coef, "expansion.outputs.output": output}
        if past is not None:
            moved["expansion.average.past"] = past
        known = {**dict(state_arrays(self.state)), **moved}
        for name, array in state_arrays(larger):
            saved = known[name]
            array[tuple(slice(n) for n in saved.shape)] = saved
        self.state, self._room = larger, None
        self.scratch.pop("learn", None)  # which was compiled for the other kind of expansion

    @property
    def may_grow(self) -> bool:
        """Whether there may be more points than there is room for now."""
        return self.limit is None or self.n_slots < self.limit

    def make_room(self, n: int) -> None:
        """Make sure that n more points fit, as far as there may be so many."""
        wanted = self.n_points + n
        if self.may_grow and wanted > self.n_slots:
            n_before, n_slots = self.n_slots, max(wanted, 2 * self.n_slots)
            if self.limit is not None:  # it grows slowly, and memory with the square
                n_slots = min(self.limit, max(wanted, n_before + n_before // 4))
            self.resize_slots(n_slots)
            if n_before <= _MANY_SLOTS < n_slots:
                self._warn_of_size(max(n, self.n_points))

    def _warn_of_size(self, n_points: int) -> None:
        """Say that a dictionary becomes large, where there is one."""
        if self.parts.budget.is_dictionary:
            megabytes = n_bytes(self.declared, self.sizes()) / 2**20
            warnings.warn(
                f"the dictionary has grown to {n_points:,} points and may take {megabytes:,.0f} MB "
                "before it grows again: it has no limit, and memory and time grow with its square. "
                "Give it a size, budget=Independent(tolerance, size=512), or a larger tolerance, "
                "or scale the rows.",
                stacklevel=2,
            )

    def resize_slots(self, n_slots: int) -> None:
        """Change the number of slots to a larger one."""
        self.store.grow(n_slots)
        sizes = self.sizes(n_slots=n_slots)
        self.state = resize(self.state, self.declared, sizes, self.store.zeros)
        self._room = None

    def widen(self, n_features: int) -> None:
        """Give rows more features, which are zero in all that was learned; or take those away."""
        for name, part in (("kernel", self.kernel), ("scaling", self.parts.scaling)):
            if not part.may_widen:
                raise ValueError(
                    f"{name}={part!r} belongs to rows of {self.n_features} features, not "
                    f"{n_features}: let every row have all features, or use another {name}."
                )
        if self.parts.budget.is_folded:
            self.parts.update.check_size(int(self.kernel.n_explicit(n_features)))
        is_folded, is_second_order = self.parts.budget.is_folded, self.parts.update.is_second_order
        if is_second_order:
            second_order.close(self)
        self.store.widen(n_features)
        if is_folded or is_second_order or self.parts.scaling.is_scaled:
            self.state = resize(self.state, self.declared, self.sizes(), self.store.zeros)
            self._room = None
        if is_folded and self.store.n_first:  # of explicit features, which may be others now
            self.state.expansion.n_points[0] = self.limit = self.store.n_first

    # --- to and from arrays ----------------------------------------------------------------------

    def versions(self) -> dict[str, int]:
        """Return the version of each record of the state, for files."""
        return versions_of(self.parts)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that the machine knows, as arrays by name; of slots, those that have been taken."""
        n = self.n_points
        arrays, (n_rows, n_new) = self.store.to_arrays(n), self._waiting()
        for name, array, field in remembered(self.state, self.declared):
            n_known = n - n_new if field.beside_points else n
            taken = {"points": n_known, "tile": n_rows}
            arrays[name] = np.asarray(array[_taken(field, array.shape, taken)])
        return arrays

    def _waiting(self) -> tuple[int, int]:
        """How many rows, and points, wait until matrices over the points are brought up to date."""
        return self.parts.update.n_waiting(self.state.update)

    def fill(self, arrays: dict[str, np.ndarray], computes_gram: bool = False) -> None:
        """Take over what `to_arrays` gave, checked.

        `computes_gram`: kernel values between points are not there, and computed from the rows.

        Raises
        ------
        ValueError
            If an array makes no sense. The machine is then of no use.
        """
        for name, array, field in remembered(self.state, self.declared):
            if computes_gram and name == "gram.gram":
                continue
            saved = arrays[name]
            if saved.ndim != array.ndim:
                raise ValueError(f"{name} has {saved.ndim} axes")
            taken = dict.fromkeys(_GROWING, 0)
            for axis, size in zip(field.axes, saved.shape, strict=False):
                if axis in taken:
                    taken[axis] = max(taken[axis], size)
            array[_taken(field, array.shape, taken)] = saved
        check_values(self.state, self.declared, self.sizes())
        self.parts.update.check_state(self.state.update, self.n_points)
        if not self.store.n_first <= self.n_points <= self.n_slots:
            raise ValueError(f"there are {self.n_points} points in {self.n_slots} slots")
        self.store.fill(arrays, partial(self._checked_cache, arrays))
        if computes_gram:
            n = self.n_points
            for _, array in state_arrays(self.state.gram):
                array[:n, :n] = self.kernel(self.store.stored(n))

    def _checked_cache(self, arrays: dict[str, np.ndarray], rows: Any) -> np.ndarray:
        """The row cache of points from a file, after everything about them was checked."""
        n = self.n_points
        if rows.shape != (n, self.n_features):
            raise ValueError(f"there are {rows.shape} points of {n}")
        if rows.dtype != self.dtype:
            raise ValueError(f"the points are of type {rows.dtype}, not {self.dtype}")
        with np.errstate(over="ignore", invalid="ignore"):
            expected = self.kernel.row_cache(rows)
            refuse_large(self.kernel, self.dtype, rows, expected)
            cache = arrays.get("row_cache", expected)
            if cache.dtype != self.dtype or cache.shape != (n,):
                raise ValueError(f"the row cache is of type {cache.dtype} and shape {cache.shape}")
            if not np.allclose(cache, expected, rtol=1e-3, atol=1e-30):
                raise ValueError("the row cache is not that of the points")
        return cache.copy()


def _piece(columns: Any, start: int, stop: int) -> Any:
    """Some rows of a record of columns, or all of them: then nothing is to be cut."""
    if start == 0 and stop == columns[0].shape[0]:
        return columns
    return columns._make([column[start:stop] for column in columns])


def _taken(field: Field, shape: tuple[int, ...], taken: dict[str, int]) -> tuple[slice, ...]:
    """The part of an array that belongs to slots, and rows that wait, that have been taken."""
    axes = field.axes or ("one",)
    return tuple(slice(taken.get(axis, size)) for axis, size in zip(axes, shape, strict=True))
