"""The models of a keyed fleet: which key has which model, and what can be read of them."""

import threading
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from kernelstream import presets
from kernelstream.delayed_labels import PendingRows
from kernelstream.estimators import StreamEstimator
from kernelstream.estimators.labels import Labels
from kernelstream.fleet.estimators import EstimatorFleet
from kernelstream.fleet.fleet import Fleet
from kernelstream.fleet.key_index import KeyIndex
from kernelstream.fleet.keys import as_keys
from kernelstream.fleet.model_params import complete_params, why_no_records
from kernelstream.fleet.store import ModelStore
from kernelstream.parts import integer_at_least, one_of

__all__ = ["FIRST_PLACES", "ModelsByKey", "kind_of"]

FIRST_PLACES = 64
_GROWTH = 1.5
_COLUMNS = ["n_seen", "drift_score", "step_size", "margin", "n_support"]


class ModelsByKey:
    """A model for every key, in memory or in a store: the base of `KeyedFleet`."""

    def __init__(
        self, preset: str, task: str, *, n_features: int | None = None, classes: Any = None,
        dtype: Any = "float64", n_jobs: int | None = None, max_models: int | None = None,
        idle_rows: int | None = None, store: ModelStore | None = None, max_waiting: int = 10_000,
        **params: Any,
    ):  # fmt: skip
        self.preset, self.task = preset, task
        self.params = params = complete_params(preset, task, params)
        self.feature_names_: list[str] | None = None
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
        no_file = self.prototype.no_file()
        if no_file is not None:
            raise ValueError(
                f"{self.prototype!r} cannot be the model of each key, since these are moved to "
                f"files: {no_file}. Keep such models in a dict by key."
            )
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
        self._index = KeyIndex()  # of the keys in memory
        self._taken: set[Any] = set()  # keys in memory whose models the store has not closed yet
        self._owes_store = False  # whether models could not be moved out after the last block
        self._kind: str | None = None  # of the models in the store
        self._mark: dict[str, Any] | None = None  # where the store stood, of a fleet from a file
        self.waiting = PendingRows(max_waiting)
        self._locks()
        self.store: ModelStore | None = None
        if store is not None:
            self.attach(store)

    def _locks(self) -> None:
        self._turn = threading.RLock()  # for which learning calls of several threads wait
        self._publishing = threading.RLock()  # places of keys are read and changed inside it

    def _new_fleet(self, n_features: int, classes: Any, n_models: int = 1) -> Any:
        """Return models as records where possible, otherwise as estimators."""
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

    def _room_for(self, fleet: Any, keys: list[Any], back: dict[Any, bytes]) -> dict[Any, int]:
        """Return places for keys whose models are new or come back, without settling them."""
        n_missing = len(keys) - self._index.n_free
        if n_missing > 0:
            n_more = max(n_missing, int((_GROWTH - 1) * len(fleet)))
            fleet.add(n_more)
            self._index.add(n_more)
        given = self._index.offered(keys)
        new = [at for key, at in given.items() if key not in back]
        if new:
            fleet.put(np.array(new))
        if back:
            fleet.put(np.array([given[key] for key in back]), list(back.values()))
        return given

    # --- models that are idle --------------------------------------------------------------------

    def attach(self, store: ModelStore) -> Self:
        """Move idle models to a store. A fleet from a file needs the store it was saved with.

        That store is rolled back to the moment at which the fleet was saved.

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
                    store.check_kind(kind_of(self.fleet_))
            self.store, self._mark = store, None
        return self

    @property
    def lacks_store(self) -> bool:
        """Return whether some models are in a store that was not attached yet (`attach`)."""
        return self._mark is not None

    def _require_store(self) -> None:
        if self.lacks_store:
            raise ValueError(
                "some models of this fleet were in a ModelStore when it was saved: attach() it "
                "first."
            )

    def _move_out(self) -> None:
        """Move idle models to the store, in one transaction with those that have come back."""
        store, fleet = self.store, self.fleet_
        if store is None or fleet is None:
            return
        before = None if self.idle_rows is None else self.n_rows_ - self.idle_rows
        goes = self._index.idle(before, self.max_models)
        if not (goes.size or self._taken):
            return
        moved = dict(zip(self._index.keys_at(goes), fleet.packed(goes), strict=True))
        if moved:
            fleet.unpacked(list(moved.values()))  # what cannot be read back stays in memory
        if self._kind is None:
            self._kind = kind_of(fleet)
        store.exchange(self._taken, moved, self._kind)
        self._owes_store = False
        with self._publishing:
            self._taken = set()
            self._index.leave(goes)

    # --- models ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        with self._publishing:
            self._require_store()
            moved = 0 if self.store is None else len(self.store)
            return len(self._index) + moved - len(self._taken)

    def __contains__(self, key: Any) -> bool:
        (name,), problems = as_keys([key])
        if problems:
            return False
        with self._publishing:
            self._require_store()
            return name in self._index or (self.store is not None and name in self.store)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over all keys: those in memory, then those in the store."""
        with self._publishing:
            self._require_store()
            here = self._index.keys()
        yield from here
        if self.store is not None:
            known = set(here)
            yield from (key for key in self.store if key not in known)

    def chunks(self) -> Iterator[tuple[list[Any], list[bytes]]]:
        """Iterate over all keys and their models as bytes, some at a time."""
        with self._publishing:
            self._require_store()
            here, places = self._index.keys(), self._index.taken()
            contents = [] if self.fleet_ is None else self.fleet_.packed(places)
        yield here, contents
        known = set(here)
        if self.store is not None:
            for keys, moved in self.store.chunks():
                both = [(k, m) for k, m in zip(keys, moved, strict=True) if k not in known]
                yield [k for k, _ in both], [m for _, m in both]

    def model(self, key: Any) -> Any:
        """Return a copy of the model of a key as an estimator of its own.

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
                if name in self._index:
                    return self._named(self.fleet_.model(int(self._index.of([name])[0])))
                moved = {} if self.store is None else self.store.read([name])
                if moved:
                    found = self.fleet_.unpacked([moved[name]])
                    return self._named(self.fleet_.estimator_of(found))
        raise KeyError(f"there is no model of the key {key!r}: no row of it was learned.")

    def _named(self, model: Any) -> Any:
        """Return a model that reads tables by the names of the columns, where these are known."""
        if self.feature_names_ is not None:
            model.feature_names_in_ = np.array(self.feature_names_, dtype=object)
        return model

    def bytes_per_model(self, n_features: int | None = None) -> int:
        """Return how much memory one model takes, also before anything is learned.

        Parameters
        ----------
        n_features : int, default=None
            The length of a row; None if the fleet knows it.

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=32)
        >>> fleet.bytes_per_model(n_features=10)
        3816
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
        """Return a number of each model in memory, such as ``n_seen_`` or ``step_size_``."""
        with self._publishing:
            if self.fleet_ is None:
                return np.zeros(0)
            models = self.fleet_.known().models
            with models.gate:
                return self.fleet_.readable(name, models)[self._index.taken()]

    def table(self) -> dict[str, Any]:
        """Return the numbers of every model, by column: a list of keys, and arrays."""
        columns: dict[str, list[Any]] = {name: [] for name in ["key", *_COLUMNS]}
        with self._turn:
            fleet, n_here = self.fleet_, len(self._index)
            for keys, contents in self.chunks():
                if fleet is None or not keys:
                    continue
                models = fleet.unpacked(contents)
                columns["key"] += keys
                for name in _COLUMNS:
                    columns[name].append(fleet.readable(f"{name}_", models))
            idle = np.full(len(columns["key"]), -1)
            idle[:n_here] = self.n_rows_ - self._index.last[self._index.taken()]
        found: dict[str, Any] = {"key": columns["key"]}
        for name in _COLUMNS:
            found[name] = np.concatenate(columns[name]) if columns[name] else np.zeros(0)
        return {**found, "idle_rows": idle, "moved_out": idle < 0}

    def leading(self, n: int, column: str = "idle_rows") -> dict[str, Any]:
        """Return the columns of `table` for a few of the models in memory.

        Parameters
        ----------
        n : int
            The largest number of models.
        column : {"idle_rows", "drift_score"}, default="idle_rows"
            Those that learned last come first, or those that drift most.
        """
        one_of("column", column, ["idle_rows", "drift_score"])
        with self._publishing:
            fleet, places = self.fleet_, self._index.taken()
            if fleet is None:
                return {"key": [], **{name: np.zeros(0) for name in [*_COLUMNS, "idle_rows"]}}
            keys, idle = self._index.keys(), self.n_rows_ - self._index.last[places]
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
        """Return a table with a line for every key: counts, drift scores, step sizes, margins.

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
        """Return the labels, of classifiers."""
        labels = self._labels()
        if labels is None:
            raise AttributeError("this fleet has no classes, or does not know them yet")
        return labels.as_array()

    @property
    def n_skipped_(self) -> int:
        """Return the number of rows that were left out."""
        return sum(self.skipped_.values())

    def __repr__(self) -> str:
        shown = {"max_models": self.max_models, "idle_rows": self.idle_rows}
        pairs = [f"{name}={value!r}" for name, value in shown.items() if value is not None]
        pairs += [f"{name}={value!r}" for name, value in self.params.items()]
        return f"KeyedFleet({', '.join([repr(self.preset), repr(self.task), *pairs])})"


def _prototype(preset: Any, task: str, params: dict[str, Any]) -> Any:
    """Return an estimator with the parameters of the models."""
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


def kind_of(fleet: Any) -> str:
    """Return what models must have in common to live in one fleet, as text."""
    return repr(fleet.kind())
