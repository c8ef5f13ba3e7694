"""A model per key: sensors, customers, cards or shops that come and go."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from kernelstream import presets
from kernelstream.estimators import StreamEstimator
from kernelstream.estimators.bad_rows import Sifted, problems_of_rows
from kernelstream.estimators.files import most_bytes
from kernelstream.estimators.labels import Labels
from kernelstream.files.bytes import FileError, strange_headers, to_bytes, write
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.files.parts import from_json, params_to_json, to_json
from kernelstream.fleet.estimators import EstimatorFleet
from kernelstream.fleet.fleet import Fleet, Members, why_no_records
from kernelstream.fleet.keys import (
    as_keys,
    keys_from_array,
    keys_to_array,
    part_of,
    with_tuples,
)
from kernelstream.fleet.places import NOWHERE, Places
from kernelstream.fleet.records import RowsBefore
from kernelstream.fleet.store import ModelStore
from kernelstream.learner.rows import NOT_FINITE, TOO_LARGE_A_STEP, BadRow
from kernelstream.parts import integer_at_least, one_of
from kernelstream.waiting import WaitingRoom

__all__ = ["KeyedFleet"]

_VERSION = 1  # of what a file says of keys
_FIRST_PLACES = 64
_GROWTH = 1.5
_COLUMNS = ["n_seen", "drift_score", "step_size", "margin", "n_support"]


class Rows(NamedTuple):
    """The rows of a block that may be learned, each with its key."""

    keys: list[Any]
    X: Any
    y: Any
    weight: Any
    kept: np.ndarray  # which rows of the block they are
    bad: list[BadRow]  # the others
    n_rows: int  # of the block


class KeyedFleet:
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

    def __init__(
        self, preset: str, task: str, *, n_features: int | None = None, classes: Any = None,
        dtype: Any = "float64", n_jobs: int | None = None, max_models: int | None = None,
        idle_rows: int | None = None, store: ModelStore | None = None, max_waiting: int = 10_000,
        **params: Any,
    ):  # fmt: skip
        self.preset, self.task, self.params = preset, task, params
        self.n_features = None if n_features is None else integer_at_least(
            "n_features", n_features, 1
        )  # fmt: skip
        self.classes, self.dtype, self.n_jobs = classes, np.dtype(dtype), n_jobs
        self.max_models = None if max_models is None else integer_at_least(
            "max_models", max_models, 1
        )  # fmt: skip
        self.idle_rows = None if idle_rows is None else integer_at_least("idle_rows", idle_rows, 1)
        self.prototype = _prototype(preset, task, params)
        self.prototype.skips_bad_rows()  # refuses what on_bad_row cannot be
        declares = task != "classifier" or classes is not None or self.prototype.structure()
        self._new_fleet(self.n_features or 1, classes if declares else [0, 1])  # refuses the rest
        if store is None and not (max_models is None and idle_rows is None):
            raise ValueError(
                f"max_models={max_models!r}, idle_rows={idle_rows!r}: models that leave memory "
                "need a place to go. Give store=ModelStore(path)."
            )
        self.n_rows_ = 0
        self.skipped_: dict[str, int] = {}
        self.fleet_: Any = None  # until the first rows have come
        self._places = Places()  # of the keys in memory
        self._taken: set[Any] = set()  # keys in memory whose models the store has not closed yet
        self._mark: dict[str, Any] | None = None  # where the store stood, of a fleet from a file
        self.waiting = WaitingRoom(max_waiting)
        self._locks()
        self.store: ModelStore | None = None
        if store is not None:
            self.attach(store)

    def _locks(self) -> None:
        self._turn = threading.RLock()  # for which learning calls of several threads wait
        self._publishing = threading.RLock()  # places of keys are read and changed inside it

    def _new_fleet(self, n_features: int, classes: Any, n_models: int = 1) -> Any:
        """Models as records where they can be, otherwise as estimators."""
        if not self._has_records():
            return EstimatorFleet(
                self.prototype, self.task, n_models, n_features, classes, self.dtype
            )
        return Fleet(
            self.preset, self.task, n_models, n_features, classes=classes, dtype=self.dtype,
            n_jobs=self.n_jobs, **self.params,
        )  # fmt: skip

    def _has_records(self) -> bool:
        return isinstance(self.preset, str) and why_no_records(self.prototype) is None

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
        """Learn rows; scores and margins before each of them."""
        with self._turn:
            self._require_store()
            rows = self._sifted(keys, X, y, sample_weight)
            bad, refused = rows.bad, np.zeros(0, bool)
            scores, margins = np.empty((0, 1)), np.empty(0)
            if rows.keys:
                (scores, margins, refused), unfit = self._learn(rows)
                bad = [
                    *bad,
                    *(BadRow(int(row), "its numbers are not finite, or too large")
                      for row in rows.kept[unfit]),
                    *(BadRow(int(row), TOO_LARGE_A_STEP) for row in rows.kept[refused]),
                ]  # fmt: skip
            self._move_out()
            if refused.any() and not self.prototype.skips_bad_rows():
                raise BadRow(int(rows.kept[refused][0]), TOO_LARGE_A_STEP)
            self._report(sorted(bad, key=lambda refused: refused.row))
            if len(rows.kept) == rows.n_rows:
                return scores, margins
            all_scores = np.full((rows.n_rows, *scores.shape[1:]), np.nan)
            all_margins = np.zeros(rows.n_rows)
            all_scores[rows.kept], all_margins[rows.kept] = scores, margins
            return all_scores, all_margins

    def _sifted(self, keys: Any, X: Any, y: Any, weight: Any) -> Rows:
        """The rows that may be learned."""
        names, problems = as_keys(keys)
        n_rows = X.shape[0] if hasattr(X, "shape") and X.shape else len(X)
        if len(names) != n_rows:
            raise ValueError(f"keys has {len(names)} entries, but X has {n_rows} rows.")
        if not self.prototype.skips_bad_rows():
            for row, problem in problems.items():
                raise BadRow(row, problem)
            return Rows(names, X, y, weight, np.arange(n_rows), [], n_rows)
        sifted = Sifted(
            X, y, weight, lambda X: problems_of_rows(X, self.n_features), self.target_check()
        )
        is_bad = {bad.row for bad in sifted.bad}
        sifted.kept = sifted.kept[[row not in problems for row in sifted.kept.tolist()]]
        bad = [BadRow(row, text) for row, text in problems.items() if row not in is_bad]
        names = [names[row] for row in sifted.kept.tolist()]
        return Rows(names, *sifted.sound(), sifted.kept, [*sifted.bad, *bad], n_rows)

    def target_check(self) -> Callable[[Any], str | None]:
        """A function that tells what is wrong with a target, if anything is."""
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

    def _learn(self, rows: Rows) -> tuple[RowsBefore, np.ndarray]:
        """Learn rows; keys that are new, or come back from the store, get a place."""
        fleet = self._first_fleet(rows) if self.fleet_ is None else self.fleet_
        places = self._places.of(rows.keys)
        missing = np.flatnonzero(places < 0)
        absent = list(dict.fromkeys([rows.keys[row] for row in missing]))
        back = {} if self.store is None else self.store.read(absent)
        given = self._room_for(fleet, absent, back)
        for row in missing:
            places[row] = given[rows.keys[row]]
        before, unfit = fleet.learn_rows(rows.X, rows.y, places, rows.weight)
        # a model is born when it has learned a row
        n_seen = fleet.n_seen_
        born = {key: at for key, at in given.items() if key in back or n_seen[at] > 0}
        with self._publishing:
            self.fleet_, self.n_features = fleet, fleet.n_features
            self.n_rows_ += int((~unfit & ~before.refused).sum())
            self._places.settle(born, self.n_rows_)
            self._places.learned(places, self.n_rows_)
            self._taken.update(back)
        return before, unfit

    def _first_fleet(self, rows: Rows) -> Any:
        X = np.asarray(rows.X)
        if X.ndim != 2:
            raise ValueError(
                f"X has {X.ndim} axes: give rows of numbers, of shape (rows, features)."
            )
        classes = self.classes
        if self.task == "classifier" and classes is None and self.prototype.structure() is None:
            classes = rows.y
        fleet = self._new_fleet(self.n_features or X.shape[1], classes, _FIRST_PLACES)
        self._places = Places()
        self._places.add(_FIRST_PLACES)
        if self.store is not None:
            self.store.be_of_kind(_kind_of(fleet))
        return fleet

    def _room_for(self, fleet: Any, keys: list[Any], back: dict[Any, bytes]) -> dict[Any, int]:
        """Places for keys whose models are new or come back; they do not have them yet."""
        n_missing = len(keys) - self._places.n_free
        if n_missing > 0:
            n_more = max(n_missing, int((_GROWTH - 1) * len(fleet)))
            fleet.add(n_more)
            self._places.add(n_more)
        given = self._places.offered(keys)
        new = [at for key, at in given.items() if key not in back]
        if new:
            fleet.put(np.array(new))
        if back:
            fleet.put(np.array([given[key] for key in back]), list(back.values()))
        return given

    def _report(self, bad: list[BadRow]) -> None:
        """Count rows that were left out, and tell whoever wants to know."""
        for refused in bad:
            with self._publishing:
                self.skipped_[refused.reason] = self.skipped_.get(refused.reason, 0) + 1
            if callable(self.prototype.on_bad_row):
                self.prototype.on_bad_row(refused)

    # --- models that are idle --------------------------------------------------------------------

    def attach(self, store: ModelStore) -> "KeyedFleet":
        """Let idle models go to a store; a fleet from a file is given the one it was saved with.

        The store is put back to the moment at which the fleet was saved.

        Parameters
        ----------
        store : ModelStore

        Returns
        -------
        self
        """
        with self._turn:
            if self.store is not None and self.store is not store:
                raise ValueError(f"this fleet has a store already, {self.store!r}.")
            if self.store is None:
                store.begin(self._mark)
                if self.fleet_ is not None:
                    store.be_of_kind(_kind_of(self.fleet_))
            self.store, self._mark = store, None
        return self

    def _require_store(self) -> None:
        if self._mark is not None:
            raise ValueError(
                "some models of this fleet were in a ModelStore when it was saved: attach() it "
                "first."
            )

    def _move_out(self) -> None:
        """Move idle models to the store: one transaction, also for those that have come back."""
        store, fleet = self.store, self.fleet_
        if store is None or fleet is None:
            return
        before = None if self.idle_rows is None else self.n_rows_ - self.idle_rows
        goes = self._places.idle(before, self.max_models)
        if not (goes.size or self._taken):
            return
        moved = dict(zip(self._places.keys_at(goes), fleet.packed(goes), strict=True))
        store.exchange(self._taken, moved)
        with self._publishing:
            self._taken = set()
            self._places.leave(goes)

    # --- scoring ---------------------------------------------------------------------------------

    def score_samples(self, keys: Any, X: Any) -> np.ndarray:
        """The scores of rows by the models of their keys, without learning.

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

    def predict(self, keys: Any, X: Any, ids: Any = None) -> np.ndarray:
        """Labels, numbers, or +1 (familiar) and -1 (alarm), by the models of the keys.

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
        """Predictions from scores; none where a score is NaN."""
        missing = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
        nothing = {"classifier": None, "regressor": np.nan, "novelty": 0}[self.task]
        if self.fleet_ is None or missing.all():
            return np.full(len(scores), nothing)
        found = self.fleet_.decoded(np.where(np.isnan(scores), 0.0, scores), margins, labels)
        if missing.any():
            found = found.astype(object) if nothing is None else found
            found[missing] = nothing
        return found

    def _scored(self, keys: Any, X: Any, may_be_new: bool = False) -> Any:
        """Scores, margins, labels, keys and rows."""
        self._require_store()
        names, problems = as_keys(keys)
        if len(names) != len(X):
            raise ValueError(f"keys has {len(names)} entries, but X has {len(X)} rows.")
        with self._publishing:
            fleet = self.fleet_
            if fleet is None:
                self._refuse(names, problems, np.full(len(names), NOWHERE), may_be_new)
                return np.full(len(names), np.nan), np.zeros(len(names)), None, names, X
            places = self._places.of(names)
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
            for members, rows, which in groups:
                found, margin = fleet.scored(X[rows], which, members)
                if found.ndim > 1 and scores.ndim == 1:
                    scores = np.full((len(names), found.shape[1]), np.nan)
                scores[rows], margins[rows] = found, margin
        finally:
            here.models.gate.__exit__()
        return scores, margins, here.labels, names, X

    def _refuse(
        self, names: list[Any], problems: dict[int, str], places: np.ndarray, may_be_new: bool
    ) -> None:
        """Refuse, or count, keys that are none and such that nobody knows."""
        bad = dict(problems)
        if not may_be_new:
            for row in np.flatnonzero(places < 0).tolist():
                bad.setdefault(row, f"its key {names[row]!r} is unknown: no row of it was learned")
        if not bad:
            return
        if not self.prototype.skips_bad_rows():
            row = min(bad)
            raise BadRow(row, bad[row])
        self._report([BadRow(row, bad[row]) for row in sorted(bad)])

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
        finite = np.isfinite(X).all(axis=1)
        if not (finite.all() or self.prototype.skips_bad_rows()):
            raise BadRow(int(np.flatnonzero(~finite)[0]), NOT_FINITE)
        sound = [row for row, key in enumerate(names) if key is not None and finite[row]]
        self.waiting.admit([ids[row] for row in sound], X[sound], [names[row] for row in sound])
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
            self.waiting.discharge(ids)
        return scores

    @property
    def n_waiting_(self) -> int:
        """How many rows wait for their targets."""
        return len(self.waiting)

    # --- models ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        with self._publishing:
            self._require_store()
            moved = 0 if self.store is None else len(self.store)
            return len(self._places) + moved - len(self._taken)

    def __contains__(self, key: Any) -> bool:
        (name,), problems = as_keys([key])
        if problems:
            return False
        with self._publishing:
            self._require_store()
            return name in self._places or (self.store is not None and name in self.store)

    def __iter__(self) -> Iterator[Any]:
        """All keys: those in memory, then those in the store."""
        with self._publishing:
            self._require_store()
            here = self._places.keys()
        yield from here
        if self.store is not None:
            known = set(here)
            yield from (key for key in self.store if key not in known)

    def chunks(self) -> Iterator[tuple[list[Any], list[bytes]]]:
        """All keys and their models as bytes, some at a time."""
        with self._publishing:
            self._require_store()
            here, places = self._places.keys(), self._places.taken()
            contents = [] if self.fleet_ is None else self.fleet_.packed(places)
        yield here, contents
        known = set(here)
        if self.store is not None:
            for keys, moved in self.store.chunks():
                both = [(k, m) for k, m in zip(keys, moved, strict=True) if k not in known]
                yield [k for k, _ in both], [m for _, m in both]

    def model(self, key: Any) -> Any:
        """The model of a key as an estimator of its own, a copy.

        Parameters
        ----------
        key : str, int or tuple

        Returns
        -------
        KernelClassifier, KernelRegressor or NoveltyDetector
        """
        (name,), problems = as_keys([key])
        with self._publishing:
            self._require_store()
            if self.fleet_ is not None and not problems:
                if name in self._places:
                    return self.fleet_.model(int(self._places.of([name])[0]))
                moved = {} if self.store is None else self.store.read([name])
                if moved:
                    return self.fleet_.estimator_of(self.fleet_.unpacked([moved[name]]))
        raise KeyError(f"there is no model of the key {key!r}: no row of it was learned.")

    def bytes_per_model(self, n_features: int | None = None) -> int:
        """How much memory one model takes, which is known before anything is learned.

        Parameters
        ----------
        n_features : int, default=None
            How long a row is; None where the fleet knows it.

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=32)
        >>> fleet.bytes_per_model(n_features=10)
        3496
        """
        n_features = self.n_features if n_features is None else n_features
        if n_features is None:
            raise ValueError("n_features is not known yet: say bytes_per_model(n_features=...).")
        if self.task == "classifier" and self.classes is None and self.fleet_ is None:
            raise ValueError("the classes are not known yet: give classes= when the fleet is made.")
        fleet = self.fleet_
        if fleet is None:
            fleet = self._new_fleet(n_features, self.classes)
        return fleet.bytes_per_model()

    def in_memory(self, name: str) -> np.ndarray:
        """A number of each model in memory, such as ``n_seen_`` or ``step_size_``."""
        with self._publishing:
            if self.fleet_ is None:
                return np.zeros(0)
            models = self.fleet_.known().models
            with models.gate:
                return self.fleet_.readable(name, models)[self._places.taken()]

    def decoded(self, keys: list[Any], scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Predictions from the scores that `learn` gave, of some rows."""
        fleet = self.fleet_
        if fleet is None:
            return np.zeros(0)
        margins = np.zeros(len(keys))
        if self.task == "novelty":  # as they are now: they change slowly
            models = fleet.known().models
            margins = fleet.readable("margin_", models)[self._places.of(keys)]
        return fleet.decoded(scores[rows], margins[rows], self._labels())

    def table(self) -> dict[str, Any]:
        """What can be read of every model, by column: a list of keys, and arrays."""
        columns: dict[str, list[Any]] = {name: [] for name in ["key", *_COLUMNS]}
        with self._turn:
            fleet, n_here = self.fleet_, len(self._places)
            for keys, contents in self.chunks():
                if fleet is None or not keys:
                    continue
                models = fleet.unpacked(contents)
                columns["key"] += keys
                for name in _COLUMNS:
                    columns[name].append(fleet.readable(f"{name}_", models))
            idle = np.full(len(columns["key"]), -1)
            idle[:n_here] = self.n_rows_ - self._places.last[self._places.taken()]
        found: dict[str, Any] = {"key": columns["key"]}
        for name in _COLUMNS:
            found[name] = np.concatenate(columns[name]) if columns[name] else np.zeros(0)
        return {**found, "idle_rows": idle, "moved_out": idle < 0}

    def leading(self, n: int, column: str = "idle_rows") -> dict[str, Any]:
        """The columns of `table` for a few of the models in memory.

        Parameters
        ----------
        n : int
            How many at most.
        column : {"idle_rows", "drift_score"}, default="idle_rows"
            Those that learned last come first, or those that drift most.
        """
        one_of("column", column, ["idle_rows", "drift_score"])
        with self._publishing:
            fleet, places = self.fleet_, self._places.taken()
            if fleet is None:
                return {"key": [], **{name: np.zeros(0) for name in [*_COLUMNS, "idle_rows"]}}
            keys, idle = self._places.keys(), self.n_rows_ - self._places.last[places]
            models = fleet.known().models
            with models.gate:
                first = idle
                if column == "drift_score":
                    first = -fleet.readable("drift_score_", models)[places]
                chosen = np.argsort(first, kind="stable")[:n]
                found = {
                    name: fleet.readable(f"{name}_", models)[places[chosen]] for name in _COLUMNS
                }
        return {"key": [keys[i] for i in chosen.tolist()], **found, "idle_rows": idle[chosen]}

    def to_pandas(self) -> Any:
        """A table with a line for every key: counts, drift scores, step sizes, margins.

        Returns
        -------
        pandas.DataFrame
            With the keys as its index, and the columns n_seen, drift_score (how far the step size
            has risen above its recent mean: high where the stream has changed), step_size, margin,
            n_support, idle_rows (rows of other keys since its last one; -1 in the store) and
            moved_out.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas.") from None
        found = self.table()
        keys = pandas.Index(found.pop("key"), name="key", tupleize_cols=False)
        return pandas.DataFrame(found, index=keys)

    # --- cutting and merging ---------------------------------------------------------------------

    def split(self, n: int) -> list["KeyedFleet"]:
        """Cut the fleet by keys into n others, as copies without a store.

        Which part a key goes to depends on the key alone (`part_of`), so that all fleets are cut in
        the same way. Rows that wait for their targets go with their keys.

        Parameters
        ----------
        n : int

        Returns
        -------
        list of KeyedFleet
        """
        n = integer_at_least("n", n, 1)
        with self._turn:
            parts = [self.alike() for _ in range(n)]
            for keys, contents in self.chunks():
                where = [part_of(key, n) for key in keys]
                for p, part in enumerate(parts):
                    chosen = [i for i, q in enumerate(where) if q == p]
                    part.adopt([keys[i] for i in chosen], [contents[i] for i in chosen])
            for id in self.waiting.ids:
                key = self.waiting.keys_of([id])
                part = parts[part_of(key[0], n)]
                part.waiting.admit([id], self.waiting.rows_of([id]), key)
        return parts

    def join(self, *others: "KeyedFleet") -> "KeyedFleet":
        """Take over the models of other fleets of the same kind, whose keys are others.

        Parameters
        ----------
        *others : KeyedFleet

        Returns
        -------
        self
        """
        with self._turn:
            for other in others:
                self._check_alike(other)
            for other in others:
                if self.fleet_ is None and other.fleet_ is not None:
                    self.fleet_ = other.empty_fleet()
                    self.n_features = self.fleet_.n_features
                    self._places = Places()
                    self._places.add(len(self.fleet_))
                for keys, contents in other.chunks():
                    self.adopt(keys, contents)
                for id in other.waiting.ids:
                    self.waiting.admit(
                        [id], other.waiting.rows_of([id]), other.waiting.keys_of([id])
                    )
                self.n_rows_ += other.n_rows_
                for reason, count in other.skipped_.items():
                    self.skipped_[reason] = self.skipped_.get(reason, 0) + count
            self._move_out()
        return self

    def _check_alike(self, other: "KeyedFleet") -> None:
        kinds = {
            None if fleet.fleet_ is None else _kind_of(fleet.fleet_) for fleet in (self, other)
        } - {None}
        if (self.preset, self.task, repr(self.prototype)) != (
            other.preset, other.task, repr(other.prototype)
        ) or len(kinds) > 1:  # fmt: skip
            raise ValueError(f"{other!r} is not of the kind of {self!r}.")
        both = next((key for key in other if key in self), None)
        if both is not None:
            raise ValueError(
                f"both fleets have a model of the key {both!r}, and which one learned first is not "
                "known: fleets that are joined must have different keys."
            )

    def empty_fleet(self) -> Any:
        """A fleet of models that have seen nothing."""
        empty = self.fleet_.subset(slice(0, 1)).add(_FIRST_PLACES - 1)
        empty.put(np.arange(1))
        return empty

    def alike(self) -> "KeyedFleet":
        """A fleet of the same kind without models."""
        other = KeyedFleet(
            self.preset, self.task, n_features=self.n_features, classes=self.classes,
            dtype=self.dtype, n_jobs=self.n_jobs, max_waiting=self.waiting.max_rows, **self.params,
        )  # fmt: skip
        if self.fleet_ is not None:
            other.fleet_ = self.empty_fleet()
            other._places.add(len(other.fleet_))
        return other

    def adopt(self, keys: list[Any], contents: list[bytes]) -> None:
        """Take over models of keys that have none here."""
        if not keys:
            return
        fleet = self.fleet_
        if fleet is None:
            fleet = self.fleet_ = self._new_fleet(self.n_features or 0, self.classes, _FIRST_PLACES)
            self._places.add(_FIRST_PLACES)
        given = self._room_for(fleet, keys, dict(zip(keys, contents, strict=True)))
        with self._publishing:
            self._places.settle(given, self.n_rows_)

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fleet to a file: arrays and JSON, nothing executable. `load` reads it.

        Models in a store stay there: a loaded fleet is given the store again by `attach`.

        Parameters
        ----------
        path : str or path-like
        """
        write(path, self.to_bytes())

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """The content of the file that `save` writes, with a version and a checksum.

        Parameters
        ----------
        beside : dict, default=None
            What joins the header, as JSON.

        Returns
        -------
        bytes
        """
        with self._turn:
            self._require_store()
            self._move_out()  # if that has failed before
            waiting, waiting_arrays = self.waiting.to_parts()
            places = self._places.taken()
            header: dict[str, Any] = {}
            arrays: dict[str, np.ndarray] = {}
            if self.fleet_ is not None:
                header, arrays = self.fleet_.subset(places).described({})
            else:
                header = {
                    "preset": to_json(self.preset, arrays), "task": self.task,
                    "dtype": self.dtype.name, "params": params_to_json(self.params, arrays),
                }  # fmt: skip
            header = {
                **(beside or {}), **header, "class": "KeyedFleet", "keyed_version": _VERSION,
                "n_features": self.n_features, "max_models": self.max_models,
                "idle_rows": self.idle_rows, "n_rows": self.n_rows_, "skipped": self.skipped_,
                "classes": None if self.classes is None else np.asarray(self.classes).tolist(),
                "is_empty": self.fleet_ is None, "waiting": waiting,
                "store": None if self.store is None else self.store.mark(),
            }  # fmt: skip
            arrays |= waiting_arrays
            arrays["keys"] = keys_to_array(self._places.keys())
            arrays["last"] = self._places.last[places]
        return to_bytes(header, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, max_bytes: Any = "auto") -> "KeyedFleet":
        """A fleet from what `to_bytes` gave.

        Anything else (bytes that are cut short or changed, or that come from a newer version) is a
        `FileError`.

        Parameters
        ----------
        content : bytes
        max_bytes : int, "auto" or None, default="auto"
            As in `kernelstream.load`.

        Returns
        -------
        KeyedFleet

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=8)
        >>> scores = fleet.learn(["a"], [[1.0]], [2.0])
        >>> list(ks.KeyedFleet.from_bytes(fleet.to_bytes()))
        ['a']
        """
        header, arrays = read_bytes(content)
        with strange_headers("the content"):
            if header["class"] != "KeyedFleet":
                raise FileError(f"the content is a {header['class']!r}, not a KeyedFleet.")
            return cls.rebuild(header, arrays, most_bytes(max_bytes, content))

    @classmethod
    def rebuild(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> "KeyedFleet":
        """The fleet that `save` described, checked down to every number."""
        if header["keyed_version"] > _VERSION:
            raise FileError(
                f"the file has version {header['keyed_version']} of keyed fleets, and this "
                f"kernelstream reads up to {_VERSION}: install a newer one."
            )
        params = {k: from_json(v, arrays, None) for k, v in header["params"].items()}
        fleet = cls(
            from_json(header["preset"], arrays, None), header["task"],
            n_features=header["n_features"], classes=header["classes"], dtype=header["dtype"],
            max_waiting=header["waiting"]["max_rows"], **params,
        )  # fmt: skip
        fleet._take_over(header, arrays, max_bytes)
        return fleet

    def _take_over(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> None:
        """Become the fleet that a file describes."""
        keys, last = keys_from_array(arrays["keys"]), arrays["last"]
        self.n_rows_ = integer_at_least("n_rows", header["n_rows"], 0)
        for name in ("max_models", "idle_rows"):
            if header[name] is not None:
                setattr(self, name, integer_at_least(name, header[name], 1))
        self.skipped_ = {str(reason): int(n) for reason, n in header["skipped"].items()}
        self._mark = header["store"]
        if not header["is_empty"]:
            self.fleet_ = self._fleet_from_file(header, arrays, max_bytes)
        n_models = 0 if self.fleet_ is None else len(self.fleet_)
        if len(keys) != n_models or last.shape != (n_models,):
            raise FileError(f"the file has {len(keys)} keys for {n_models} models.")
        if n_models and not (last.min() >= 0 and last.max() <= self.n_rows_):
            raise FileError("the file has models of later rows than it has seen.")
        self._places.add(n_models)
        self._places.settle({key: at for at, key in enumerate(keys)}, 0)
        self._places.last[:] = last
        waiting = header["waiting"]
        if waiting["keys"] is not None:
            waiting = {**waiting, "keys": list(map(with_tuples, waiting["keys"]))}
        self.waiting = WaitingRoom.from_parts(waiting, arrays, self.n_features or 0)

    def _fleet_from_file(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> Any:
        if self._has_records():
            return Fleet.rebuild(header, arrays, max_bytes)
        fleet = EstimatorFleet(
            self.prototype, self.task, 0, integer_at_least("n_features", self.n_features, 1),
            (header["labels"] or {}).get("names"), self.dtype,
        )  # fmt: skip
        fleet.take_over(header, arrays)
        return fleet

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_turn", "_publishing")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._locks()

    # --- state to read ---------------------------------------------------------------------------

    def _labels(self) -> Labels | None:
        return None if self.fleet_ is None else self.fleet_.known().labels

    @property
    def classes_(self) -> np.ndarray:
        """The labels, of classifiers."""
        labels = self._labels()
        if labels is None:
            raise AttributeError("this fleet has no classes, or does not know them yet")
        return labels.as_array()

    @property
    def n_skipped_(self) -> int:
        """How many rows were left out."""
        return sum(self.skipped_.values())

    def __repr__(self) -> str:
        shown = {"max_models": self.max_models, "idle_rows": self.idle_rows}
        pairs = [f"{name}={value!r}" for name, value in shown.items() if value is not None]
        pairs += [f"{name}={value!r}" for name, value in self.params.items()]
        return f"KeyedFleet({', '.join([repr(self.preset), repr(self.task), *pairs])})"


def _prototype(preset: Any, task: str, params: dict[str, Any]) -> Any:
    """An estimator with the parameters of the models."""
    if isinstance(preset, str):
        return presets.make(preset, task, **params)
    if not isinstance(preset, StreamEstimator) or presets.task_of(preset) != task:
        raise TypeError(
            f"preset={preset!r} is not a preset's name, nor an estimator of this library for "
            f"task={task!r}."
        )
    if params:
        raise ValueError(
            f"{', '.join(params)}: give parameters to the estimator itself, {preset!r}."
        )
    return clone(preset)


def _kind_of(fleet: Any) -> str:
    """What models must have in common to live in one fleet, as text."""
    return repr(fleet.kind())
