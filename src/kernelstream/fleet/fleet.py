"""A fleet: many small models of one kind, learning side by side."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array

from kernelstream import presets
from kernelstream.estimators.bad_rows import unmasked
from kernelstream.estimators.base import Learned
from kernelstream.estimators.choices import (
    DEFAULT_SIZE,
    kernel_of,
    parts_of,
    refuse_unused,
    solver_of,
)
from kernelstream.estimators.files import RECORDS, labels_from_header
from kernelstream.estimators.labels import Labels, as_labels
from kernelstream.estimators.rows import checked_weights
from kernelstream.files.bytes import FileError, check_versions, to_bytes
from kernelstream.files.parts import from_json, params_to_json
from kernelstream.files.written import Written
from kernelstream.fleet import record_loop, records
from kernelstream.learner.machine import Machine
from kernelstream.learner.rows import (
    TOO_LARGE_A_STEP,
    BadRow,
    extreme,
    refuse_extreme,
)
from kernelstream.learner.scaled import unfit
from kernelstream.parts import integer_at_least, one_of
from kernelstream.scalings import as_scaling
from kernelstream.step_sizes import as_step_size
from kernelstream.threads import n_cores
from kernelstream.updates import as_update

__all__ = ["Fleet", "Members", "why_no_records"]


class Members(NamedTuple):
    """The models of a fleet, and the labels that they know, published together."""

    models: records.Models
    labels: Labels | None


class Fleet(Written):
    """Many small models at once: one per sensor, user, machine or pixel.

    All have the same parameters, and each learns from its own rows, exactly as the estimator of the
    same preset would. Their numbers lie in a few large arrays; learning is compiled and runs on
    all cores.

    Parameters
    ----------
    preset : str
        One of ``kernelstream.presets.names()``, with a budget that has a limit.
    task : {"classifier", "regressor", "novelty"}
    n_models : int
    n_features : int
    classes : array-like, default=None
        Of classifiers: all labels that may come. None: those of the first `learn`. Two make models
        with a single output.
    dtype : {"float64", "float32"}, default="float64"
        Of rows and kernel values. Coefficients are float64.
    n_jobs : int, default=None
        Threads. None or -1: as many as there are cores.
    **params
        Parameters of the estimator, such as ``gamma`` and ``budget``. With ``on_bad_row="skip"``
        rows that cannot be learned are left out and counted, and their scores are NaN.

    Attributes
    ----------
    n_models, n_features : int
    classes_ : ndarray
        Of classifiers.
    n_seen_, step_size_, n_capped_, drift_score_, margin_, n_support_ : ndarray of shape (n_models,)
        As in `KernelClassifier`, of every model.
    n_skipped_ : int
        How many rows were left out.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> random = np.random.default_rng(0)
    >>> fleet = ks.Fleet("silk", "novelty", n_models=100, n_features=1, gamma=10.0, budget=20)
    >>> for _ in range(50):
    ...     scores = fleet.learn(random.normal(0.5, 0.05, size=(100, 1)))
    >>> (fleet.predict(np.full((100, 1), 2.0)) == -1).all()
    np.True_
    """

    version = 1  # of what a file keeps of it
    _members: Members | None

    def __init__(
        self, preset: str, task: str, n_models: int, n_features: int, *, classes: Any = None,
        dtype: Any = "float64", n_jobs: int | None = None, **params: Any,
    ):  # fmt: skip
        self._describe(preset, task, n_models, n_features, dtype, n_jobs, params)
        structure = self._prototype.structure()
        if self.task != "classifier":
            if classes is not None:
                raise ValueError(f"classes={classes!r} is for task='classifier' only.")
            self._members = self._new_members(None)
        elif classes is not None or structure is not None:
            self._members = self._new_members(Labels(classes, structure))
        self._threads()

    def _describe(
        self, preset: str, task: str, n_models: int, n_features: int, dtype: Any,
        n_jobs: int | None, params: dict[str, Any],
    ) -> None:  # fmt: skip
        """Take and check the parameters; there are no models yet."""
        self.preset = preset
        self.task = task
        self.n_features = integer_at_least("n_features", n_features, 1)
        self.dtype = np.dtype(one_of("dtype", np.dtype(dtype).name, ["float64", "float32"]))
        self.n_jobs = n_jobs
        self.params = params
        self.n_skipped_ = 0
        self._prototype = presets.make(preset, task, **params)
        if self._prototype.budget == "auto":  # the models of a fleet keep points
            self._prototype.set_params(budget=DEFAULT_SIZE)
        problem = why_no_records(self._prototype)
        if problem is not None:
            raise ValueError(f"preset={preset!r}: {problem}")
        self._n_asked = integer_at_least("n_models", n_models, 0)
        if self._n_asked:  # the models of a file are what they are
            refuse_unused(self._prototype)
        self._members = None
        self._turn = threading.RLock()  # for which learning calls of several threads wait

    def _new_members(self, labels: Labels | None, max_bytes: int | None = None) -> Members:
        """Models that have seen nothing."""
        model = self._prototype
        kernel = kernel_of(model, self.n_features)
        kernel.to_rule()  # refuses kernels that do not compile
        parts = parts_of(model, kernel, labels is None or labels.single_output)
        if parts.budget.limit() is None:
            raise ValueError(
                f"budget={parts.budget!r} has no limit, which a fleet needs: give budget=20, say."
            )
        n_outputs = 1 if labels is None else labels.n_outputs()
        models = records.Models(
            parts, self.n_features, n_outputs, self.dtype, self._n_asked, max_bytes
        )
        return Members(models, labels)

    # --- learning and scoring --------------------------------------------------------------------

    def learn(
        self, X: Any, y: Any = None, *, models: Any = None, sample_weight: Any = None
    ) -> np.ndarray:
        """Score each row, then learn it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            One row for each model; or any rows, with `models`.
        y : array-like of shape (n_rows,), default=None
            Left out for novelty.
        models : array-like of int of shape (n_rows,), default=None
            Which model each row is for. A model's rows are learned in the order given.
        sample_weight : array-like of shape (n_rows,), default=None
            A row of weight zero is scored only.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            The scores before each row was learned.

        Raises
        ------
        BadRow
            If a row cannot be learned, unless ``on_bad_row="skip"``. No model has then learned
            anything. Only where the step that a row asks for is too large to be represented, all
            models have learned their other rows.
        """
        with self._turn:
            before, _ = self.learn_rows(X, y, models, sample_weight)
            refused = before.refused
            if refused.any() and not self.skips_bad_rows():
                raise BadRow(int(np.flatnonzero(refused)[0]), TOO_LARGE_A_STEP)
            return before.scores

    def learn_rows(
        self, X: Any, y: Any, models: Any, sample_weight: Any
    ) -> tuple[record_loop.RowsBefore, np.ndarray]:
        """What was said of the rows before they were learned, and which are bad by themselves."""
        with self._turn:
            which = self._which(X, models, self.n_models)
            y = self._checked_targets(y, len(X))
            members = self._members
            if members is None:  # and stays so if the rows cannot be learned
                members = self._new_members(Labels(y))
            targets = _as_numbers(y, members.labels)
            X, bad = self._rows(X, members.models)
            weight = checked_weights(sample_weight, len(X))
            targets, weight = self._without_extremes(targets, weight, bad)
            before, learned = record_loop.learn(
                members.models, X, targets, weight, which, self._threads()
            )
            self._members = members._replace(models=learned)
            n_bad = int(bad.sum() + before.refused.sum())
            self.n_skipped_ += n_bad if self.skips_bad_rows() else 0
            return before._replace(scores=self._shaped(before.scores, bad)), bad

    def score_samples(self, X: Any, *, models: Any = None) -> np.ndarray:
        """The scores of rows, without learning.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        models : array-like of int of shape (n_rows,), default=None
            Which model scores each row. None: one row for each model.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
        """
        return self.scored(X, models, self.known())[0]

    def scored(self, X: Any, models: Any, members: Members) -> tuple[np.ndarray, np.ndarray]:
        """The scores of rows by models of one moment, and the margins of these models."""
        fleet = members.models
        which = self._which(X, models, len(fleet))
        X, bad = self._rows(X, fleet)
        with fleet.gate:
            scores = record_loop.scores(fleet, X, which, self._threads())
            margins = fleet.view("margin.epsilon")[:, 0]
            margins = margins.copy() if which is None else margins[which]
        return self._shaped(scores, bad), margins

    def predict(self, X: Any, *, models: Any = None) -> np.ndarray:
        """Labels, numbers, or +1 (familiar) and -1 (alarm), as the estimators' `predict`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        models : array-like of int of shape (n_rows,), default=None

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        members = self.known()
        return self.decoded(*self.scored(X, models, members), members.labels)

    def decoded(self, scores: np.ndarray, margins: np.ndarray, labels: Labels | None) -> np.ndarray:
        """Predictions from scores."""
        if labels is not None:
            return labels.as_array()[labels.predicted(scores.reshape(len(scores), -1))]
        return self._prototype.decode(scores[:, None], margins)

    # --- models ----------------------------------------------------------------------------------

    @property
    def n_models(self) -> int:
        """How many models there are."""
        return self._n_asked if self._members is None else len(self._members.models)

    def __len__(self) -> int:
        return self.n_models

    def model(self, index: int) -> Any:
        """One model as an estimator of its own, a copy.

        Parameters
        ----------
        index : int

        Returns
        -------
        KernelClassifier, KernelRegressor or NoveltyDetector
        """
        fleet, _ = self.known()
        with fleet.gate:
            return self.estimator_of(fleet.select([range(len(fleet))[index]]))

    def estimator_of(self, fleet: records.Models) -> Any:
        """The first model of some records as an estimator."""
        labels, parts = self.known().labels, fleet.machine.parts
        machine = Machine(
            parts, self.n_features, fleet.machine.n_outputs, self.dtype,
            n_slots=fleet.machine.n_slots,
        )  # fmt: skip
        arrays = {name: fleet.view(name)[0] for name in fleet.layout.remembered}
        n = int(arrays["expansion.n_points"][0])
        arrays["points"] = np.ascontiguousarray(fleet.points[0].T[:n])
        machine.fill(arrays, computes_gram=True)
        model = presets.make(self.preset, self.task, **self.params)
        model.take_over(Learned(machine, labels))
        return model

    def packed(self, models: np.ndarray) -> list[bytes]:
        """All that each of some models knows, as bytes."""
        fleet, _ = self.known()
        with fleet.gate:
            return fleet.packed(models)

    def unpacked(self, contents: list[bytes]) -> records.Models:
        """Records from what `packed` gave, checked."""
        return self.known().models.unpacked(contents)

    def bytes_per_model(self) -> int:
        """How much memory a model takes."""
        return self.known().models.n_bytes_of_a_model()

    def put(self, models: np.ndarray, contents: list[bytes] | None = None) -> None:
        """Replace models by those that `packed` described; None: by such that have seen nothing."""
        with self._turn:
            fleet, labels = self.known()
            others = fleet.fresh(1) if contents is None else self.unpacked(contents)
            self._members = Members(fleet.replaced(models, others), labels)

    def subset(self, models: Any) -> "Fleet":
        """A fleet of some of the models, as copies.

        Parameters
        ----------
        models : array-like of int or bool, or slice

        Returns
        -------
        Fleet
        """
        chosen = models if isinstance(models, slice) else np.asarray(models)
        fleet, labels = self.known()
        with fleet.gate:
            return self._like(Members(fleet.select(chosen), labels))

    def add(self, models: "int | Fleet") -> "Fleet":
        """Add models behind the others.

        Parameters
        ----------
        models : int or Fleet
            How many new ones that have seen nothing; or those of another fleet of the same kind.

        Returns
        -------
        self
        """
        with self._turn:
            fleet, labels = self.known()
            if isinstance(models, Fleet):
                if models.kind() != self.kind():
                    raise ValueError(f"models={models!r} is not of the kind of {self!r}.")
                others = models.as_records()
            else:
                others = fleet.fresh(integer_at_least("models", models, 0))
            with others.gate:
                self._members = Members(fleet.extend(others), labels)
        return self

    def drop(self, models: Any) -> "Fleet":
        """Remove models; those behind them move up.

        Parameters
        ----------
        models : array-like of int

        Returns
        -------
        self
        """
        with self._turn:
            fleet, labels = self.known()
            stays = np.ones(len(fleet), dtype=bool)
            stays[np.asarray(models)] = False
            self._members = Members(fleet.select(stays), labels)
        return self

    def _like(self, members: Members) -> "Fleet":
        fleet = object.__new__(Fleet)
        fleet.__dict__.update(self.__dict__, _members=members, _turn=threading.RLock())
        return fleet

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _turn=threading.RLock())

    def kind(self) -> tuple[Any, ...]:
        """What fleets must have in common for their models to live in one."""
        labels = None if self._members is None else self._members.labels
        names = None if labels is None else labels.names
        models = clone(self._prototype).set_params(on_bad_row="raise")  # which may be a function
        versions = tuple(self.known().models.machine.versions().items())
        return repr(models), self.task, self.n_features, self.dtype, names, versions

    def as_records(self) -> records.Models:
        """The models as records, which learn in place."""
        return self.known().models

    # --- files -----------------------------------------------------------------------------------

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """The content of the file that `save` writes.

        Parameters
        ----------
        beside : dict, default=None
            What joins the header, as JSON.

        Returns
        -------
        bytes
        """
        return to_bytes(*self.described(beside or {}))

    def described(self, beside: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The header and the arrays of the file that `save` writes."""
        fleet, labels = self.known()
        with fleet.gate:
            fleet = fleet.select(slice(None))
        arrays = {name: fleet.view(name) for name in fleet.layout.remembered}
        arrays["points"] = fleet.points
        header = {
            **beside,
            "class": "Fleet",
            "preset": self.preset,
            "task": self.task,
            "params": params_to_json(self.params, arrays),
            "n_models": len(fleet),
            "n_features": self.n_features,
            "dtype": self.dtype.name,
            "labels": None if labels is None else labels.to_json(),
            "n_skipped": self.n_skipped_,
            "fleet_versions": self._versions(fleet.machine, labels),
        }
        return header, arrays

    @classmethod
    def _versions(cls, machine: Machine, labels: Labels | None) -> dict[str, int]:
        """Return the version of each record of a fleet's file."""
        found = {"Fleet": cls.version, **machine.versions()}
        return found if labels is None else {**found, "labels": RECORDS["labels"]}

    @classmethod
    def rebuild(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> "Fleet":
        """The fleet that `save` described, checked down to every number."""
        params = {k: from_json(v, arrays, None) for k, v in header["params"].items()}
        fleet = object.__new__(cls)
        fleet.take_over(header, arrays, params, max_bytes)
        return fleet

    def take_over(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], params: dict[str, Any],
        max_bytes: int | None,
    ) -> None:  # fmt: skip
        """Become the fleet that a file describes."""
        self._describe(
            header["preset"], header["task"], header["n_models"], header["n_features"],
            header["dtype"], None, params,
        )  # fmt: skip
        labels = labels_from_header(header, self._prototype.structure(), max_bytes)
        if (labels is None) == (self.task == "classifier"):
            raise FileError(f"the file has the labels {header['labels']!r}.")
        self._members = self._new_members(labels, max_bytes)
        models = self._members.models
        check_versions(header["fleet_versions"], self._versions(models.machine, labels))
        places = [(name, models.view(name)) for name in models.layout.remembered]
        for name, array in [*places, ("points", models.points)]:
            if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                raise FileError(f"the array {name!r} is not one of such a fleet.")
            array[...] = arrays[name]
        models.check()
        self.n_skipped_ = int(header["n_skipped"])

    # --- rows in, scores out ---------------------------------------------------------------------

    def known(self) -> Members:
        """The models of this moment, and the labels that they know."""
        if self._members is None:
            raise ValueError(
                "this fleet does not know its classes yet: give classes= when it is made, or let "
                "it learn first."
            )
        return self._members

    def _which(self, X: Any, models: Any, n_models: int) -> np.ndarray | None:
        n_rows = len(X)
        if models is None:
            if n_rows != n_models:
                raise ValueError(
                    f"X has {n_rows} rows for {n_models} models: give one row for each, or "
                    "say with models= which model each row is for."
                )
            return None
        members = np.asarray(models)
        if members.shape != (n_rows,) or members.dtype.kind not in "iu":
            raise ValueError(
                f"models has the shape {members.shape} and the type {members.dtype}: give one "
                f"whole number for each of the {n_rows} rows."
            )
        if n_rows and (members.min() < 0 or members.max() >= n_models):
            raise ValueError(
                f"models={models!r} names models that there are not: they go from 0 to "
                f"{n_models - 1}."
            )
        return members.astype(np.int64)

    def _rows(self, X: Any, models: records.Models) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the models keep them, and which of them are bad (and zero now)."""
        with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused later
            X = check_array(
                unmasked(X), dtype=self.dtype, order="C", ensure_all_finite=False,
                ensure_min_samples=0, input_name="X",
            )  # fmt: skip
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but these models learn from rows of "
                f"{self.n_features}."
            )
        bad = np.zeros(len(X), dtype=bool)
        if self.skips_bad_rows():
            with np.errstate(over="ignore", invalid="ignore"):
                bad = unfit(models.machine, X)
            X = np.where(bad[:, None], 0.0, X).astype(self.dtype)
        return X, bad

    def _checked_targets(self, y: Any, n_rows: int) -> np.ndarray:
        """One target for each row: labels, or finite numbers."""
        if self.task == "novelty":
            return np.ones(n_rows)
        if y is None:
            raise ValueError(f"y is missing: task={self.task!r} needs the target of each row.")
        y = unmasked(y)
        if self.task == "classifier":
            y = as_labels(y)
        else:
            y = check_array(
                y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y"
            )
        if y.shape != (n_rows,):
            raise ValueError(
                f"y has the shape {y.shape}, X has {n_rows} rows: give one target for each row."
            )
        return y

    def skips_bad_rows(self) -> bool:
        """Whether rows that cannot be learned are left out, as `on_bad_row` says."""
        return bool(self._prototype.skips_bad_rows())

    def _without_extremes(
        self, y: np.ndarray, weight: np.ndarray, bad: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights in which bad rows have none; rows with extreme ones join `bad`."""
        if not self.skips_bad_rows():
            refuse_extreme(y, weight)
        bad |= extreme(y, weight)
        return np.where(bad, 0.0, y), np.where(bad, 0.0, weight)

    def _shaped(self, scores: np.ndarray, bad: np.ndarray) -> np.ndarray:
        scores[bad] = np.nan
        scores = self._prototype.per_label(scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return n_cores()
        return integer_at_least("n_jobs", self.n_jobs, 1)

    # --- state to read ---------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        """The labels, of classifiers."""
        labels = None if self._members is None else self._members.labels
        if labels is None:
            raise AttributeError("this fleet has no classes, or does not know them yet")
        return labels.as_array()

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members")
        if name not in _READABLE or members is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with members.models.gate:
            return self.readable(name, members.models)

    @staticmethod
    def readable(name: str, models: records.Models) -> np.ndarray:
        """A number of each of some models, such as ``n_seen_``."""
        return _READABLE[name](models)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_READABLE]

    def __repr__(self) -> str:
        shown = {"n_models": self.n_models, "n_features": self.n_features, **self.params}
        pairs = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"Fleet({self.preset!r}, {self.task!r}, {pairs})"


def why_no_records(model: Any) -> str | None:
    """Why the models of a fleet cannot have the parameters of an estimator, if so."""
    if as_update(model.update).loop in ("dictionary", "second_order"):
        return "it fits a dictionary, which a fleet cannot: choose another preset."
    if (
        as_update(model.update).loop == "rls"
        or as_step_size(model.step_size, model.task).per_weight
    ):
        return "it has a weight per feature, which a fleet cannot: choose another preset."
    if solver_of(model) is not None:
        return "it revisits its rows, which a fleet cannot: choose another preset."
    if model.predictor != "last":
        return (
            f"predictor={model.predictor!r}: the models of a fleet predict by their last state; "
            "choose another preset, or leave predictor out."
        )
    if getattr(model, "target_scaling", None) is not None:
        return (
            f"target_scaling={model.target_scaling!r}: the models of a fleet learn y as it is; "
            "scale y before, and leave target_scaling out."
        )
    if getattr(model, "class_weight", None) is not None:
        return (
            f"class_weight={model.class_weight!r}: the rows of a fleet all count the same; leave "
            "class_weight out."
        )
    if model.missing != "error":
        return (
            f"missing={model.missing!r}: a fleet does not fill in what is missing; fill it in "
            "before, and leave missing out."
        )
    if as_scaling(model.scaling).renews:
        return (
            f"scaling={model.scaling!r}: the models of a fleet do not renew their scales; use "
            "scaling='running'."
        )
    if model.device is not None:
        return (
            f"device={model.device!r}: the models of a fleet are small and learn on the host; "
            "leave device out."
        )
    return None


def _as_numbers(y: np.ndarray, labels: Labels | None) -> np.ndarray:
    """Targets as numbers."""
    if labels is None:
        return y
    _, codes, new = labels.including(y)
    if new:
        raise ValueError(
            f"y contains the label {y.tolist()[new[0]]!r}, but the classes of this fleet are "
            f"{labels.names!r}: declare every class with classes=."
        )
    return codes


_READABLE: dict[str, Callable[[records.Models], np.ndarray]] = {
    "n_seen_": lambda models: models.view("expansion.n_seen")[:, 0].copy(),
    "step_size_": lambda models: models.view("step_size.eta")[:, 0].copy(),
    "n_capped_": lambda models: models.n_capped(),
    "drift_score_": lambda models: models.view("drift.score")[:, 0].copy(),
    "margin_": lambda models: models.view("margin.epsilon")[:, 0].copy(),
    "n_support_": lambda models: models.n_kept(),
}
