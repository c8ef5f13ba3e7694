"""A fleet: many small models of one kind, learning side by side."""

import threading
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from kernelstream import persistence, presets
from kernelstream.backends import cpu
from kernelstream.backends import fleet as backend
from kernelstream.estimators import KernelClassifier, KernelRegressor
from kernelstream.estimators.bad_rows import unmasked
from kernelstream.estimators.files import from_json, labels_from_header, may_lack, params_to_json
from kernelstream.estimators.labels import Labels, as_labels
from kernelstream.learner.model import build
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.learner.state import check_values
from kernelstream.parts import integer_at_least, one_of
from kernelstream.updates import Dual

__all__ = ["Fleet"]


class Fleet:
    """Many small models at once: one a sensor, a user, a machine, a pixel.

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

    def __init__(
        self, preset: str, task: str, n_models: int, n_features: int, *, classes: Any = None,
        dtype: Any = "float64", n_jobs: int | None = None, **params: Any,
    ):  # fmt: skip
        self._describe(preset, task, n_models, n_features, dtype, n_jobs, params)
        structure = self._prototype._structure()
        if not isinstance(self._prototype, KernelClassifier):
            if classes is not None:
                raise ValueError(f"classes={classes!r} is for task='classifier' only.")
            self._begin(None)
        elif classes is not None or structure is not None:
            self._begin(Labels(classes, structure))
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
        if isinstance(self._prototype.update, Dual):
            raise ValueError(
                f"preset={preset!r} fits a dictionary, which a fleet cannot: choose another preset."
            )
        if self._prototype._revisits_rows():
            raise ValueError(
                f"preset={preset!r} revisits its rows, which a fleet cannot: choose another preset."
            )
        if self._prototype.predictor != "last":
            raise ValueError(
                f"predictor={self._prototype.predictor!r}: the models of a fleet predict by their "
                "last state; choose another preset, or leave predictor out."
            )
        self._n_asked = integer_at_least("n_models", n_models, 0)
        if self._n_asked:  # the models of a file are what they are
            self._prototype._refuse_unused()
        self._labels: Labels | None = None
        self._models: backend.Models | None = None
        self._turn = threading.RLock()  # for which learning calls of several threads wait

    def _begin(self, labels: Labels | None, max_bytes: int | None = None) -> None:
        """Make models that have seen nothing."""
        model = self._prototype
        kernel = model._kernel(np.empty((0, self.n_features)), whole_data=False)
        kernel.to_rule()  # refuses kernels that do not compile
        single = labels is None or labels.single_output
        parts = model._parts(kernel, single)
        if parts.budget.limit() is None:
            raise ValueError(
                f"budget={parts.budget!r} has no limit, which a fleet needs: give budget=20, say."
            )
        n_outputs = 1 if labels is None else labels.n_outputs()
        self._parts, self._labels = parts, labels
        self._models = backend.Models(
            parts, self.n_features, n_outputs, self.dtype, self._n_asked, max_bytes
        )

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
            return self._learn(X, y, models, sample_weight)

    def _learn(self, X: Any, y: Any, models: Any, sample_weight: Any) -> np.ndarray:
        members = self._members(X, models)
        y = self._checked_targets(y, len(X))
        draft = self  # rows that are not learned declare no classes
        if self._models is None:
            draft = self._like(None)
            draft._begin(Labels(y))
        targets = draft._targets(y, len(X))
        X, bad = draft._rows(X)
        weight = self._prototype._weights(sample_weight, X)
        targets, weight = self._without_extremes(targets, weight, bad)
        scores, refused, learned = backend.learn(
            draft._fitted(), X, targets, weight, members, self._threads()
        )
        self.__dict__.update(_parts=draft._parts, _labels=draft._labels, _models=learned)
        self._count(bad, refused)
        return self._shaped(scores, bad)

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
        return self._scores(X, models)[0]

    def _scores(self, X: Any, models: Any) -> tuple[np.ndarray, np.ndarray]:
        """The scores of rows, and the margins of their models at that moment."""
        members = self._members(X, models)
        fleet = self._fitted()
        X, bad = self._rows(X)
        with fleet.gate:
            scores = backend.scores(fleet, X, members, self._threads())
            margins = fleet.view("margin.epsilon")[:, 0]
            margins = margins.copy() if members is None else margins[members]
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
        scores, margins = self._scores(X, models)
        if self._labels is not None:
            scores = scores.reshape(len(scores), -1)
            return self._labels.as_array()[self._labels.predicted(scores)]
        if isinstance(self._prototype, KernelRegressor):
            return scores
        return np.where(scores >= margins, 1, -1)

    # --- models ----------------------------------------------------------------------------------

    @property
    def n_models(self) -> int:
        """How many models there are."""
        return self._n_asked if self._models is None else len(self._models)

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
        fleet = self._fitted()
        with fleet.gate:
            fleet = fleet.select([range(len(fleet))[index]])
        index = 0
        model = presets.make(self.preset, self.task, **self.params)
        learner = build(self._parts, self.n_features, fleet.learner.n_outputs, self.dtype)
        for name, array in state_arrays(learner.state):
            known = fleet.view(name)[index]
            if known.shape == array.shape:
                array[...] = known
        n = learner.n_points
        rows = np.ascontiguousarray(fleet.points[index].T[:n])
        learner.points.restore(rows, learner.points.kernel.numbers(rows))
        gram = learner.state.budget.gram
        if gram.shape != fleet.view("budget.gram").shape[1:]:  # computed where it was needed
            gram[:n, :n] = learner.points.kernel(rows)
        model._learner, model.n_features_in_ = learner, self.n_features
        if self._labels is not None:
            model._labels = self._labels
        return model

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
        fleet = self._fitted()
        with fleet.gate:
            return self._like(fleet.select(chosen))

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
            fleet = self._fitted()
            if isinstance(models, Fleet):
                if models._kind() != self._kind():
                    raise ValueError(f"models={models!r} is not of the kind of {self!r}.")
                others = models._fitted()
            else:
                n = integer_at_least("models", models, 0)
                n_outputs = fleet.learner.n_outputs
                others = backend.Models(self._parts, self.n_features, n_outputs, self.dtype, n)
            with others.gate:
                self._models = fleet.extend(others)
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
            fleet = self._fitted()
            stays = np.ones(len(fleet), dtype=bool)
            stays[np.asarray(models)] = False
            self._models = fleet.select(stays)
        return self

    def _like(self, models: backend.Models | None) -> "Fleet":
        fleet = object.__new__(Fleet)
        fleet.__dict__.update(self.__dict__, _models=models, _turn=threading.RLock())
        return fleet

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _turn=threading.RLock())

    def _kind(self) -> tuple[Any, ...]:
        labels = None if self._labels is None else self._labels.names
        return repr(self._prototype), self.task, self.n_features, self.dtype, labels

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fleet to a file: arrays and JSON, nothing executable. `load` reads it.

        Parameters
        ----------
        path : str or path-like
        """
        persistence.write(path, self._to_bytes())

    def _to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """The content of a file; `beside` joins the header."""
        fleet = self._fitted()
        with fleet.gate:
            fleet = fleet.select(slice(None))
        arrays = {name: fleet.view(name) for name, _ in state_arrays(fleet.learner.state)}
        arrays["points"] = fleet.points
        header = {
            **(beside or {}),
            "class": "Fleet",
            "preset": self.preset,
            "task": self.task,
            "params": params_to_json(self.params, arrays),
            "n_models": len(fleet),
            "n_features": self.n_features,
            "dtype": self.dtype.name,
            "labels": None if self._labels is None else self._labels.to_json(),
            "n_skipped": self.n_skipped_,
        }
        return persistence.to_bytes(header, arrays)

    @classmethod
    def _rebuild(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> "Fleet":
        """The fleet that `save` described, checked down to every number."""
        params = {k: from_json(v, arrays, None) for k, v in header["params"].items()}
        fleet = object.__new__(cls)
        fleet._describe(
            header["preset"], header["task"], header["n_models"], header["n_features"],
            header["dtype"], None, params,
        )  # fmt: skip
        labels = labels_from_header(header, fleet._prototype._structure(), max_bytes)
        if (labels is None) == isinstance(fleet._prototype, KernelClassifier):
            raise persistence.FileError(f"the file has the labels {header['labels']!r}.")
        fleet._begin(labels, max_bytes)
        models = fleet._fitted()
        names = {name for name, _ in state_arrays(models.learner.state)}
        for name, array in [*((name, models.view(name)) for name in names),
                            ("points", models.points)]:  # fmt: skip
            if name not in arrays and may_lack(name, array):
                continue
            if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                raise persistence.FileError(f"the array {name!r} is not one of such a fleet.")
            array[...] = arrays[name]
        learner = models.learner
        state = models.layout.state(models.floats, models.integers)
        check_values(state, learner.fields, learner.sizes())
        if (models.view("expansion.n_points") > learner.n_slots).any():
            raise persistence.FileError("a model of the file has more points than fit.")
        rows = models.points.transpose(0, 2, 1).reshape(-1, fleet.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            cpu.refuse_large(learner, rows, learner.points.kernel.numbers(rows))
        fleet.n_skipped_ = int(header["n_skipped"])
        return fleet

    # --- rows in, scores out ---------------------------------------------------------------------

    def _fitted(self) -> backend.Models:
        if self._models is None:
            raise ValueError(
                "this fleet does not know its classes yet: give classes= when it is made, or let "
                "it learn first."
            )
        return self._models

    def _members(self, X: Any, models: Any) -> np.ndarray | None:
        n_rows = len(X)
        if models is None:
            if n_rows != self.n_models:
                raise ValueError(
                    f"X has {n_rows} rows for {self.n_models} models: give one row for each, or "
                    "say with models= which model each row is for."
                )
            return None
        members = np.asarray(models)
        if members.shape != (n_rows,) or members.dtype.kind not in "iu":
            raise ValueError(
                f"models has the shape {members.shape} and the type {members.dtype}: give one "
                f"whole number for each of the {n_rows} rows."
            )
        if n_rows and (members.min() < 0 or members.max() >= self.n_models):
            raise ValueError(
                f"models={models!r} names models that there are not: they go from 0 to "
                f"{self.n_models - 1}."
            )
        return members.astype(np.int64)

    def _rows(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the models keep them, and which of them are bad (and zero now)."""
        skips = self._prototype._skips()
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
        learner = self._fitted().learner
        bad = np.zeros(len(X), dtype=bool)
        if skips:
            with np.errstate(over="ignore", invalid="ignore"):
                bad = cpu.too_large(learner, learner.points.kernel.numbers(X))
            X = np.where(bad[:, None], 0.0, X).astype(self.dtype)
        return X, bad

    def _checked_targets(self, y: Any, n_rows: int) -> np.ndarray:
        """One target for each row: labels, or finite numbers."""
        is_classifier = isinstance(self._prototype, KernelClassifier)
        if not is_classifier and not isinstance(self._prototype, KernelRegressor):
            return np.ones(n_rows)
        if y is None:
            raise ValueError(f"y is missing: task={self.task!r} needs the target of each row.")
        y = unmasked(y)
        if is_classifier:
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

    def _targets(self, y: np.ndarray, n_rows: int) -> np.ndarray:
        """Targets as numbers."""
        if self._labels is None:
            return y
        _, codes, new = self._labels.including(y)
        if new:
            raise ValueError(
                f"y contains the label {y[new[0]]!r}, but the classes of this fleet are "
                f"{self._labels.names!r}: declare every class with classes=."
            )
        return codes

    def _without_extremes(
        self, y: np.ndarray, weight: np.ndarray, bad: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights in which bad rows have none; rows with extreme ones join `bad`."""
        if not self._prototype._skips():
            cpu.refuse_extreme(y, weight)
        bad |= cpu.extreme(y, weight)
        return np.where(bad, 0.0, y), np.where(bad, 0.0, weight)

    def _count(self, bad: np.ndarray, refused: np.ndarray) -> None:
        if refused.any() and not self._prototype._skips():
            raise cpu.BadRow(int(np.flatnonzero(refused)[0]), cpu.TOO_LARGE_A_STEP)
        self.n_skipped_ += int(bad.sum() + refused.sum())

    def _shaped(self, scores: np.ndarray, bad: np.ndarray) -> np.ndarray:
        scores[bad] = np.nan
        scores = self._prototype._per_label(scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return backend.n_cores()
        return integer_at_least("n_jobs", self.n_jobs, 1)

    # --- state to read ---------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        """The labels, of classifiers."""
        if self._labels is None:
            raise AttributeError("this fleet has no classes, or does not know them yet")
        return self._labels.as_array()

    def __getattr__(self, name: str) -> Any:
        place, models = _READABLE.get(name), self.__dict__.get("_models")
        if place is None or models is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with models.gate:
            numbers = models.view(place)[:, 0].copy()
            if name == "n_support_":
                numbers -= models.view("budget.n_spare")[:, 0]
        return numbers

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_READABLE]

    def __repr__(self) -> str:
        shown = {"n_models": self.n_models, "n_features": self.n_features, **self.params}
        pairs = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"Fleet({self.preset!r}, {self.task!r}, {pairs})"


_READABLE = {
    "n_seen_": "expansion.n_seen",
    "step_size_": "step_size.eta",
    "n_capped_": "step_size.n_capped",
    "drift_score_": "step_size.drift",
    "margin_": "margin.epsilon",
    "n_support_": "expansion.n_points",
}
