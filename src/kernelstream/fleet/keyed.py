"""A model per key: sensors, customers, cards or shops that come and go."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelstream.estimators.bad_rows import with_reasons
from kernelstream.estimators.labels import Labels
from kernelstream.files.bytes import FileError
from kernelstream.fleet.column_names import in_order
from kernelstream.fleet.fleet_models import Members
from kernelstream.fleet.key_index import NOWHERE, KeyIndex
from kernelstream.fleet.keyed_files import SavedByKey
from kernelstream.fleet.keyed_rows import KeyedRows, sifted_rows
from kernelstream.fleet.keys import as_keys
from kernelstream.fleet.models_by_key import FIRST_PLACES, kind_of
from kernelstream.fleet.record_loop import RowsBefore
from kernelstream.learner.rows import NOT_FINITE, TOO_LARGE_A_STEP, BadRow
from kernelstream.threads import between_steps

__all__ = ["KeyedFleet"]


class KeyedFleet(SavedByKey):
    """A model for every key: one per sensor, customer, card or shop, as keys come and go.

    A model is born with the first row of its key. Rows of one key are learned in their order, and
    keys do not influence each other: each model is, bit for bit, a `Fleet` of one model that
    learned the rows of its key alone. With a `ModelStore`, models that have been idle are moved to
    a file and come back with the next row of their key, so that the number of keys is not bounded
    by memory.

    Parameters
    ----------
    preset : str or estimator
        One of ``kernelstream.presets.names()``, with a budget that has a limit; or an estimator,
        such as ``AutoRegressor()``. Presets that a `Fleet` can hold are records in a few large
        arrays. Others, and committees, are estimators side by side, which takes far more memory
        (`bytes_per_model`) and time.
    task : {"classifier", "regressor", "novelty"}
    n_features : int, default=None
        How long a row is. None: as long as those of the first block.
    classes : array-like, default=None
        Of classifiers: all labels that may come. None: those of the first block.
    dtype : {"float64", "float32"}, default="float64"
        Of rows and kernel values. Coefficients are float64.
    n_jobs : int, default=None
        Threads. None or -1: as many as there are cores.
    max_models : int, default=None
        How many models stay in memory after a block; those that have been idle longest are moved
        to the store. None: no limit.
    idle_rows : int, default=None
        A model is moved to the store when so many rows of other keys have been learned since its
        last one. None: never for that reason.
    store : ModelStore, default=None
        Where idle models go.
    max_waiting : int, default=10_000
        How many predicted rows may wait for their targets (`learn_labels`).
    **params
        Parameters of the estimator, such as ``gamma`` and ``budget``. With ``on_bad_row="skip"``
        rows that cannot be learned are left out and counted, and their scores are NaN.

    Attributes
    ----------
    classes_ : ndarray
        Of classifiers.
    n_rows_ : int
        How many rows were learned.
    n_skipped_ : int
        How many rows were left out.
    skipped_ : dict
        How many rows were left out, by reason.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> random = np.random.default_rng(0)
    >>> fleet = ks.KeyedFleet("silk", "novelty", gamma=10.0, budget=20)
    >>> for _ in range(50):
    ...     scores = fleet.learn(["hall", "cellar"], random.normal([[20.0], [8.0]], 0.05))
    >>> fleet.predict(["hall", "cellar", "cellar"], [[20.0], [20.0], [8.0]])
    array([ 1, -1,  1])
    >>> len(fleet), "attic" in fleet, fleet.model("hall").n_seen_
    (2, False, 50)
    """

    # --- learning --------------------------------------------------------------------------------

    def learn(self, keys: Any, X: Any, y: Any = None, *, sample_weight: Any = None) -> np.ndarray:
        """Score each row by the model of its key, then learn it.

        Parameters
        ----------
        keys : array-like of shape (n_rows,)
            Strings, integers, or tuples of them. (A table of several columns makes tuples.)
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Left out for novelty.
        sample_weight : array-like of shape (n_rows,), default=None
            A row of weight zero is scored only.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            The scores before each row was learned.

        Raises
        ------
        BadRow
            If a row or its key cannot be learned, unless ``on_bad_row="skip"``. No model has then
            learned anything. Only where the step that a row asks for is too large to be
            represented, all models have learned their other rows.
        """
        return self._learn_block(keys, X, y, sample_weight)[0]

    def prequential(
        self, keys: Any, X: Any, y: Any = None, *, sample_weight: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict each row by the model of its key as it was before this row, then learn it.

        Parameters
        ----------
        keys : array-like of shape (n_rows,)
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Left out for novelty.
        sample_weight : array-like of shape (n_rows,), default=None
            A row of weight zero is scored only.

        Returns
        -------
        predictions : ndarray of shape (n_rows,)
            As those of `predict`. A row that was left out has none: NaN, None among labels, or 0
            for novelty.
        scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
            As those of `learn`.

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=8)
        >>> predictions, scores = fleet.prequential(["a", "a"], [[1.0], [1.0]], [2.0, 2.0])
        >>> bool(predictions[0] == 0.0 < predictions[1])
        True
        """
        with self._turn:
            scores, margins = self._learn_block(keys, X, y, sample_weight)
            return self._decoded(scores, margins, self._labels()), scores

    def _learn_block(
        self, keys: Any, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Learn rows. Return the scores and margins before each of them."""
        with self._turn:
            self._require_store()
            if self._owes_store:  # which refuses the rows if the store fails again
                self._move_out()
            rows = sifted_rows(self, keys, X, y, sample_weight)
            bad, refused = rows.bad, np.zeros(0, bool)
            scores, margins = np.empty((0, 1)), np.empty(0)
            if rows.keys:
                between_steps()
                before, unfit = self._learn(rows)
                scores, margins, refused = before.scores, before.margins, before.refused
                between_steps()
                bad = [
                    *bad,
                    *(BadRow(int(row), "its numbers are not finite, or too large")
                      for row in rows.kept[unfit]),
                    *(BadRow(int(row), TOO_LARGE_A_STEP) for row in rows.kept[refused]),
                ]  # fmt: skip
            try:
                self._move_out()
            except (OSError, FileError):  # the rows are learned: an error would have them repeated
                self._owes_store = True
            if refused.any() and not self.prototype.skips_bad_rows():
                raise BadRow(int(rows.kept[refused][0]), TOO_LARGE_A_STEP)
            self._report(sorted(bad, key=lambda refused: refused.row))
            if len(rows.kept) == rows.n_rows:
                return scores, margins
            all_scores = np.full((rows.n_rows, *scores.shape[1:]), np.nan)
            all_margins = np.zeros(rows.n_rows)
            all_scores[rows.kept], all_margins[rows.kept] = scores, margins
            return all_scores, all_margins

    def target_check(self) -> Callable[[Any], str | None]:
        """Return a function that says what is wrong with a target; None if nothing is."""
        check, labels = self.prototype.target_check(), self._labels()
        known = None if labels is None else set(labels.names)
        if known is None and self.classes is not None:
            known = set(np.asarray(self.classes).tolist())

        def problem(y: Any) -> str | None:
            wrong = check(y)
            if wrong is None and known is not None and y not in known:
                return f"its label {y!r} is unknown"
            return wrong

        return problem

    def _learn(self, rows: KeyedRows) -> tuple[RowsBefore, np.ndarray]:
        """Learn rows; keys that are new, or come back from the store, get a position."""
        fleet = self._first_fleet(rows) if self.fleet_ is None else self.fleet_
        places = self._index.of(rows.keys)
        missing = np.flatnonzero(places < 0)
        absent = list(dict.fromkeys([rows.keys[row] for row in missing]))
        back = {} if self.store is None else self.store.read(absent)
        given = self._room_for(fleet, absent, back)
        for row in missing:
            places[row] = given[rows.keys[row]]
        before, unfit = fleet.learn_rows(rows.X, rows.y, places, rows.weight)
        if self.fleet_ is None and not (~unfit & ~before.refused).any():
            return before, unfit  # a block that is refused decides neither labels nor width
        # a model is born when it has learned a row
        n_seen = fleet.n_seen_
        born = {key: at for key, at in given.items() if key in back or n_seen[at] > 0}
        with self._publishing:
            self.fleet_, self.n_features = fleet, fleet.n_features
            self.feature_names_ = rows.names
            self.n_rows_ += int((~unfit & ~before.refused).sum())
            self._index.settle(born, self.n_rows_)
            self._index.learned(places, self.n_rows_)
            self._taken.update(back)
        return before, unfit

    def _first_fleet(self, rows: KeyedRows) -> Any:
        X = np.asarray(rows.X)
        if X.ndim != 2:
            raise ValueError(
                f"X has {X.ndim} axes: give rows of numbers, of shape (rows, features)."
            )
        classes = self.classes
        if self.task == "classifier" and classes is None and self.prototype.structure() is None:
            classes = rows.y
        fleet = self._new_fleet(self.n_features or X.shape[1], classes, FIRST_PLACES)
        self._index = KeyIndex()
        self._index.add(FIRST_PLACES)
        if self.store is not None:
            self.store.check_kind(kind_of(fleet))
        return fleet

    def _report(self, bad: list[BadRow]) -> None:
        """Count rows that were left out while learning, and tell whoever wants to know."""
        with self._publishing:
            self.skipped_ = with_reasons(self.skipped_, bad)
        self._tell(bad)

    def _tell(self, bad: list[BadRow]) -> None:
        """Hand rows that were left out to `on_bad_row`, if that is a function."""
        if callable(self.prototype.on_bad_row):
            for refused in bad:
                self.prototype.on_bad_row(refused)

    # --- scoring ---------------------------------------------------------------------------------

    def score_samples(self, keys: Any, X: Any) -> np.ndarray:
        """Return the scores of rows by the models of their keys, without learning.

        Parameters
        ----------
        keys : array-like of shape (n_rows,)
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            NaN for rows that cannot be scored, with ``on_bad_row="skip"``.
        """
        return self._scored(keys, X)[0]

    def predict_proba(self, keys: Any, X: Any) -> np.ndarray:
        """Return the probability of every class by the models of the keys.

        The models must know probabilities: ``loss="log_loss"``, or a committee such as
        `AutoClassifier`.

        Parameters
        ----------
        keys : array-like of shape (n_rows,)
        X : array-like or data frame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`; NaN for rows that cannot be scored, with
            ``on_bad_row="skip"``.

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "classifier", loss="log_loss", budget=8)
        >>> scores = fleet.learn(["a"] * 4, [[0.0], [9.0], [0.0], [9.0]], ["no", "yes"] * 2)
        >>> fleet.predict_proba(["a"], [[9.0]]).shape
        (1, 2)
        """
        if self.task != "classifier":
            raise ValueError(f"predict_proba is for classifiers, and task={self.task!r}.")
        problem = self.prototype.no_probabilities()
        if problem is not None:
            raise ValueError(problem)
        found = self._scored(keys, X, probabilities=True)[0]
        return found if found.ndim > 1 else np.full((len(found), len(self.classes_)), np.nan)

    def predict(self, keys: Any, X: Any, ids: Any = None) -> np.ndarray:
        """Return labels, numbers, or +1 (familiar) and -1 (alarm), by the models of the keys.

        Parameters
        ----------
        keys : array-like of shape (n_rows,)
        X : array-like of shape (n_rows, n_features)
        ids : sequence of str or int, default=None
            Ids under which the rows wait for their targets, see `learn_labels`. A key may then be
            new: its model is born when the target has come.

        Returns
        -------
        ndarray of shape (n_rows,)
            Where there is no prediction (a new key with `ids`; a bad row or an unknown key with
            ``on_bad_row="skip"``): NaN, None among labels, or 0 for novelty.
        """
        scores, margins, labels, names, X = self._scored(keys, X, ids is not None)
        if ids is not None:
            with self._turn:
                self._admit(ids, names, X)
        return self._decoded(scores, margins, labels)

    def _decoded(
        self, scores: np.ndarray, margins: np.ndarray, labels: Labels | None
    ) -> np.ndarray:
        """Return predictions from scores; none where a score is NaN."""
        missing = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
        nothing = {"classifier": None, "regressor": np.nan, "novelty": 0}[self.task]
        if self.fleet_ is None or missing.all():
            return np.full(len(scores), nothing)
        found = self.fleet_.decoded(np.where(np.isnan(scores), 0.0, scores), margins, labels)
        if missing.any():
            found = found.astype(object) if nothing is None else found
            found[missing] = nothing
        return found

    def _scored(
        self, keys: Any, X: Any, may_be_new: bool = False, probabilities: bool = False
    ) -> Any:
        """Return scores (or probabilities), margins, labels, keys and rows."""
        self._require_store()
        X, _ = in_order(X, self.feature_names_, self.prototype.skips_bad_rows())
        names, problems = as_keys(keys)
        if len(names) != len(X):
            raise ValueError(f"keys has {len(names)} entries, but X has {len(X)} rows.")
        with self._publishing:
            fleet = self.fleet_
            if fleet is None:
                self._refuse(names, problems, np.full(len(names), NOWHERE), may_be_new)
                return np.full(len(names), np.nan), np.zeros(len(names)), None, names, X
            places = self._index.of(names)
            absent = list({names[row] for row in np.flatnonzero(places < 0)} - {None})
            back = {} if self.store is None else self.store.read(absent)
            here = fleet.known()
            here.models.gate.__enter__()  # nothing in it changes until we leave
        try:
            groups = [(here, np.flatnonzero(places >= 0), places[places >= 0])]
            if back:
                at = {key: i for i, key in enumerate(back)}
                rows = np.array([row for row in np.flatnonzero(places < 0) if names[row] in at])
                moved = Members(fleet.unpacked(list(back.values())), here.labels)
                groups.append((moved, rows, np.array([at[names[row]] for row in rows])))
                places[rows] = 0
            self._refuse(names, problems, places, may_be_new)
            X = np.asarray(X)
            scores, margins = np.full(len(names), np.nan), np.zeros(len(names))
            read = fleet.probable if probabilities else fleet.scored
            for members, rows, which in groups:
                found, margin = read(X[rows], which, members)
                if found.ndim > 1 and scores.ndim == 1:
                    scores = np.full((len(names), found.shape[1]), np.nan)
                scores[rows], margins[rows] = found, margin
        finally:
            here.models.gate.__exit__()
        return scores, margins, here.labels, names, X

    def _refuse(
        self, names: list[Any], problems: dict[int, str], places: np.ndarray, may_be_new: bool
    ) -> None:
        """Refuse keys that are none and unknown keys, or tell `on_bad_row` of them."""
        bad = dict(problems)
        if not may_be_new:
            for row in np.flatnonzero(places < 0).tolist():
                bad.setdefault(row, f"its key {names[row]!r} is unknown: no row of it was learned")
        if not bad:
            return
        if not self.prototype.skips_bad_rows():
            row = min(bad)
            raise BadRow(row, bad[row])
        self._tell([BadRow(row, bad[row]) for row in sorted(bad)])

    def decoded(self, keys: list[Any], scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return predictions from the scores that `learn` returned, of some rows."""
        fleet = self.fleet_
        if fleet is None:
            return np.zeros(0)
        margins = np.zeros(len(keys))
        if self.task == "novelty":  # as they are now: they change slowly
            models = fleet.known().models
            margins = fleet.readable("margin_", models)[self._index.of(keys)]
        return fleet.decoded(scores[rows], margins[rows], self._labels())

    # --- targets that come later -----------------------------------------------------------------

    def _admit(self, ids: Any, names: list[Any], X: Any) -> None:
        if self.task == "novelty":
            raise ValueError("ids: novelty detectors learn without targets. Call learn(keys, X).")
        ids, X = list(ids), np.asarray(X, dtype=np.float64)
        if len(ids) != len(names):
            raise ValueError(f"ids has {len(ids)} entries, but X has {len(names)} rows.")
        n_features = self.n_features or X.shape[-1]
        if X.ndim != 2 or X.shape[1] != n_features:
            raise ValueError(
                f"X has the shape {X.shape}, but these models learn from rows of {n_features}."
            )
        fills = self.prototype.missing != "error"
        finite = (~np.isinf(X) if fills else np.isfinite(X)).all(axis=1)
        if not (finite.all() or self.prototype.skips_bad_rows()):
            raise BadRow(int(np.flatnonzero(~finite)[0]), NOT_FINITE)
        sound = [row for row, key in enumerate(names) if key is not None and finite[row]]
        self.waiting.add([ids[row] for row in sound], X[sound], [names[row] for row in sound])
        self.n_features = n_features

    def learn_labels(self, ids: Any, y: Any, *, sample_weight: Any = None) -> np.ndarray:
        """Learn rows that `predict` was given earlier, now that their targets have come.

        Parameters
        ----------
        ids : sequence of str or int
            As they were given to `predict`.
        y : array-like of shape (n_ids,)
        sample_weight : array-like of shape (n_ids,), default=None

        Returns
        -------
        ndarray
            As `learn`.

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=8)
        >>> fleet.predict(["a", "b"], [[0.0], [1.0]], ids=[101, 102])
        array([nan, nan])
        >>> scores = fleet.learn_labels([102], [5.0])  # three days later
        >>> len(fleet), fleet.n_waiting_
        (1, 1)
        """
        with self._turn:
            ids = list(ids)
            X, keys = self.waiting.rows_of(ids), self.waiting.keys_of(ids)
            scores = self.learn(keys, X, y, sample_weight=sample_weight)
            self.waiting.remove(ids)
        return scores

    @property
    def n_waiting_(self) -> int:
        """Return how many rows wait for their targets."""
        return len(self.waiting)
