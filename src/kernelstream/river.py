"""Kernel machines for River: rows are dictionaries, features come and go.

``pip install 'kernelstream[river]'``. The same learners as elsewhere, in the classes that River
knows, for its pipelines and its evaluation:

>>> from river import datasets, evaluate, metrics, preprocessing
>>> from kernelstream.river import KernelClassifier
>>> model = preprocessing.StandardScaler() | KernelClassifier(gamma=0.1)
>>> evaluate.progressive_val_score(datasets.Phishing().take(500), model, metrics.Accuracy())
Accuracy: 84.77%

A feature that a row does not have counts as zero; a new one is zero in all that came before. So
put a scaler in front. A feature that is not a number is an error: encode it first. One that is NaN
or None is an error too.

The Auto estimators differ. Their first row should have every feature; one that comes later is left
out, with a warning. They fill in NaN and None by the mean so far. They also take texts and dates as
they are, if the first row has one: rows are then those of a table, whose columns are known from the
first row on (docs/tables.md).

Scores of novelty detectors have no limits. So measure them by River's `RollingROCAUC`, which ranks
them: its `ROCAUC` takes scores to be between 0 and 1.

A row that cannot be learned (a feature or a target that is no number, a label that is None or NaN)
is an error, or, with ``on_bad_row="skip"``, is left out and counted in `n_skipped_`. Either way the
model is as if that row had not come: it has no new feature and no new label.

``device="cuda"`` keeps the points on a GPU (docs/gpu.md), where it pays to learn many rows at a
time (`learn_many`).
"""

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.extmath import softmax

import kernelstream as ks
from kernelstream.estimators.bad_rows import BadRowPolicy
from kernelstream.learner.rows import BadRow
from kernelstream.tables.columns import numbers_in_order
from kernelstream.tables.frames import as_table
from kernelstream.tables.values import as_number, kind_of

try:
    from river import base
except ModuleNotFoundError as error:
    if error.name != "river":
        raise
    raise ModuleNotFoundError(
        "kernelstream.river needs River: pip install 'kernelstream[river]'", name="river"
    ) from None

__all__ = [
    "AutoClassifier", "AutoDetector", "AutoRegressor", "KernelClassifier", "KernelRegressor",
    "NoveltyDetector", "make",
]  # fmt: skip


class _Adapter(BadRowPolicy, base.Estimator):
    """Dictionaries to rows of a model that widens as features appear."""

    _estimator: Any  # a StreamEstimator
    _width_is_final = False  # whether features may not come late
    missing: Any = "error"

    def _begin(self) -> None:
        self._columns: dict[Any, int] = {}
        self._model: Any = None
        self._skipped: dict[str, int] = {}
        self._has_told_of_late = False
        self._has_tables = False  # then rows go to the model as they are

    @property
    def model(self) -> Any:
        """The scikit-learn estimator behind, or None before the first row."""
        return self._model

    def _new_model(self) -> Any:
        params = {k: v for k, v in self._get_params().items() if k != "on_bad_row"}
        if params.get("gamma", "given") is None:
            # of the first row's number of features, which is what "auto" says
            del params["gamma"]
        return self._estimator(**params)

    def _allows_nan(self) -> bool:
        return self.missing != "error"

    def _number(self, name: Any, value: Any) -> float:
        if self._allows_nan() and (value is None or value != value):  # NaN
            return math.nan
        return _number(name, value)

    @property
    def n_skipped_(self) -> int:
        """How many rows were left out by ``on_bad_row``."""
        return sum(self._skipped.values())

    @property
    def skipped_(self) -> dict[str, int]:
        """The same by reason."""
        return dict(self._skipped)

    def _learn_one(self, x: dict[Any, Any], *target: Any) -> None:
        """Learn a row, or do with it what `on_bad_row` says."""
        try:
            if self._are_table(x):
                self._learn_table([self._known(x, x)], *([y] for y in target))
                return
            if not x and self._width_is_final and not self._is_fitted:
                raise ValueError("the first row has no features: begin with one that has all.")
            values = {name: self._number(name, value) for name, value in x.items()}
            with self._widened(values):
                self._model.learn_one(self._placed(values), *target)
        except (TypeError, ValueError) as error:
            self._refused(error)

    def _learn_many(self, X: Any, *target: Any) -> None:
        """Learn the rows of a frame, or do with bad ones what `on_bad_row` says."""
        y = np.asarray(target[0]) if target else None

        def learn(rows: np.ndarray, y: Any) -> None:
            with self._widened(names):
                self._model.partial_fit(self._spread(names, rows), *([] if y is None else [y]))

        if self._are_table(X):
            if not self.skips_bad_rows():
                self._learn_table(self._known(X, X.columns), *target)
                return
            records = X.to_dicts() if hasattr(X, "to_dicts") else X.to_dict("records")
            for i, x in enumerate(records):
                self._learn_one(x, *([] if y is None else [y[i]]))
            return
        names = list(X.columns)
        rows = numbers_in_order(X, None)
        if not self.skips_bad_rows():
            learn(rows, y)
            return
        sifted = self._sifted(rows, y, None)
        while sifted.kept.size:
            sound, targets, _ = sifted.sound()
            try:
                learn(sound, targets)
                break
            except BadRow as refused:
                sifted.leave_out(refused)
        self._report(sifted.bad)

    def _are_table(self, rows: Any) -> bool:
        """Whether a row or a frame is a table, as the first one was: not all of it are numbers."""
        if self._is_fitted or not self._allows_nan():
            return self._has_tables
        if isinstance(rows, dict):
            return any(map(_is_text_or_date, rows.values()))
        table = as_table(rows)
        return table is not None and any(kind != "number" for kind in table.kinds())

    def _learn_table(self, rows: Any, *target: Any) -> None:
        model = self._model if self._is_fitted else self._new_model()
        model.partial_fit(rows, *target)
        self._model, self._has_tables = model, True

    def target_check(self) -> Callable[[Any], str | None]:
        model = self._new_model() if self._model is None else self._model
        return model.target_check()

    @contextmanager
    def _widened(self, names: Any) -> Iterator[None]:
        """Every name has a place in the rows; if what follows fails, all is as it was before."""
        columns, model, width = dict(self._columns), self._model, self._width()
        try:
            self._add_columns(names)
            yield
        except BaseException:
            self._columns, self._model = columns, model
            if self._is_fitted and self._width() != width:
                model.widen(width)
            raise

    def _known(self, table: Any, names: Any) -> Any:
        """A row or a frame that is to be learned, without columns that the first one did not have.

        It is told once that there are such.
        """
        if not self._is_fitted:
            return table
        known = set(self._model.feature_names_in_)
        late = [name for name in names if str(name) not in known]
        if late:
            self._tell_of_late(late)
        return self._row(table) if isinstance(table, dict) else self._block(table)

    def _row(self, x: dict[Any, Any]) -> Any:
        """A row for a prediction; features that were never learned play no part."""
        if self._has_tables:
            names = set(self._model.feature_names_in_)
            return {name: value for name, value in x.items() if str(name) in names}
        known = {name: value for name, value in x.items() if name in self._columns}
        return self._placed({name: self._number(name, value) for name, value in known.items()})

    def _placed(self, values: dict[Any, float]) -> np.ndarray:
        row = np.zeros(self._width())
        for name, value in values.items():
            if name in self._columns:
                row[self._columns[name]] = value
        return row

    def _width(self) -> int:
        if self._model is None or not self._model.__sklearn_is_fitted__():
            return max(len(self._columns), 1)
        return self._model.n_features_in_

    def _add_columns(self, names: Any) -> None:
        new = [name for name in names if name not in self._columns]
        if new and self._width_is_final and self._is_fitted:
            self._tell_of_late(new)
            return
        for name in sorted(new, key=repr):  # the same places whatever the order of a dictionary
            self._columns[name] = len(self._columns)
        if self._model is None:
            self._model = self._new_model()
        elif new and len(self._columns) > self._width() and self._model.__sklearn_is_fitted__():
            self._model.widen(max(len(self._columns), 2 * self._width()))

    def _tell_of_late(self, names: list[Any]) -> None:
        """Say once that features are left out which the first row did not have."""
        if not self._has_told_of_late:
            self._has_told_of_late = True
            warnings.warn(
                f"feature {names[0]!r} is left out: {type(self).__name__} has places for the "
                "features of its first row. Begin with a row that has every feature, or use "
                "KernelClassifier, KernelRegressor or NoveltyDetector, which take new ones.",
                stacklevel=7,
            )

    def _block(self, X: Any) -> Any:
        """The rows of a frame for predictions; features that were never learned play no part."""
        if self._has_tables:
            names = set(self._model.feature_names_in_)
            return X[[name for name in X.columns if str(name) in names]]
        return self._spread(list(X.columns), numbers_in_order(X, None))

    def _spread(self, names: list[Any], values: np.ndarray) -> np.ndarray:
        """The columns of a block in the model's places."""
        block = np.zeros((len(values), self._width()))
        for k, name in enumerate(names):
            if name in self._columns:
                block[:, self._columns[name]] = values[:, k]
        return block

    @property
    def _is_fitted(self) -> bool:
        return self._model is not None and self._model.__sklearn_is_fitted__()


def _is_text_or_date(value: Any) -> bool:
    """Return whether a feature is a text that is no number, or a date."""
    return kind_of(value) in ("category", "date")


def _number(name: Any, value: Any) -> float:
    try:
        number = as_number(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"the feature {name!r} is {value!r}, which is not a number: encode it first, for "
            "example with river.preprocessing.OneHotEncoder."
        ) from None
    if not math.isfinite(number):
        raise ValueError(f"the feature {name!r} is {value!r}: leave this row out or fill it in.")
    return number


def _like(X: Any, values: Any, name: str | None = None) -> Any:
    """Values as a series (one-dimensional) or frame of the library that X comes from."""
    if hasattr(X, "index") and not callable(X.index):
        import pandas as pd

        if isinstance(values, dict):
            return pd.DataFrame(values, index=X.index)
        return pd.Series(values, index=X.index, name=name)
    import polars as pl

    if isinstance(values, dict):
        return pl.DataFrame({str(k): v for k, v in values.items()})
    return pl.Series(name or "", list(values))


class KernelClassifier(_Adapter, base.MiniBatchClassifier):
    """An online kernel classifier that sets its own step size, for River.

    Parameters are those of `kernelstream.KernelClassifier`; `gamma` left out is 1 / the number of
    features of the first row. `predict_proba_one` is meant as a probability with
    ``loss="log_loss"``; otherwise it is the softmax of the scores, which ranks labels and means
    little beyond that.

    Examples
    --------
    >>> from kernelstream.river import KernelClassifier
    >>> model = KernelClassifier()
    >>> for x, y in [({"a": 0.0}, "low"), ({"a": 3.0}, "high")] * 5:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"a": 2.9})
    'high'
    """

    _estimator = ks.KernelClassifier

    def __init__(
        self, kernel: Any = "rbf", gamma: float | None = None, loss: str = "hinge",
        label_structure: Any = None, margin: Any = 1.0, nu: float | None = None,
        step_size: Any = "smd", update: Any = "explicit", budget: Any = "auto", C: float = 1.0,
        regularization: float | None = None, fit_intercept: bool = False, predictor: str = "last",
        scaling: Any = None, device: Any = None, on_bad_row: Any = "raise",
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.loss = loss
        self.label_structure = label_structure
        self.margin = margin
        self.nu = nu
        self.step_size = step_size
        self.update = update
        self.budget = budget
        self.C = C
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.predictor = predictor
        self.scaling = scaling
        self.device = device
        self.on_bad_row = on_bad_row
        self._begin()

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn a row and its label."""
        self._learn_one(x, y)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each label that was seen."""
        if not self._is_fitted:
            return {}
        row = self._row(x)
        probabilities = self._probabilities([row] if self._has_tables else row[None])
        return dict(zip(self._names(), probabilities[0].tolist(), strict=True))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """The most likely label, or None before the first row."""
        return self._model.predict_one(self._row(x)) if self._is_fitted else None

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame, with the result of learning them one by one."""
        self._learn_many(X, y)

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of each label, a row each."""
        if not self._is_fitted:
            return _like(X, {})
        probabilities = self._probabilities(self._block(X))
        return _like(X, dict(zip(self._names(), probabilities.T, strict=True)))

    def predict_many(self, X: Any) -> Any:
        """The most likely label of each row."""
        if not self._is_fitted:
            return _like(X, [None] * len(X))
        return _like(X, self._model.predict(self._block(X)))

    def _names(self) -> list[Any]:
        return self._model.classes_.tolist()

    def _probabilities(self, rows: Any) -> np.ndarray:
        return softmax(self._model.label_scores(rows))


class KernelRegressor(_Adapter, base.MiniBatchRegressor):
    """An online kernel regressor that sets its own step size, for River.

    Parameters are those of `kernelstream.KernelRegressor`; `gamma` left out is 1 / the number of
    features of the first row.

    Examples
    --------
    >>> from kernelstream.river import KernelRegressor
    >>> model = KernelRegressor()
    >>> for x, y in [({"a": 0.0}, 1.0), ({"a": 3.0}, 5.0)] * 50:
    ...     model.learn_one(x, y)
    >>> round(model.predict_one({"a": 3.0}))
    5
    """

    _estimator = ks.KernelRegressor

    def __init__(
        self, kernel: Any = "rbf", gamma: float | None = None, loss: str = "squared_error",
        margin: Any = 1.0, nu: float | None = None, step_size: Any = "smd",
        update: Any = "explicit", budget: Any = "auto", C: float = 1.0,
        regularization: float | None = None, fit_intercept: bool = False,
        scaling: Any = None, target_scaling: Any = None, device: Any = None,
        on_bad_row: Any = "raise",
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.loss = loss
        self.margin = margin
        self.nu = nu
        self.step_size = step_size
        self.update = update
        self.budget = budget
        self.C = C
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.target_scaling = target_scaling
        self.device = device
        self.on_bad_row = on_bad_row
        self._begin()

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn a row and its number."""
        self._learn_one(x, y)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The predicted number; zero before the first row."""
        return self._model.predict_one(self._row(x)) if self._is_fitted else 0.0

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame, with the result of learning them one by one."""
        self._learn_many(X, y)

    def predict_many(self, X: Any) -> Any:
        """The predicted number of each row."""
        if not self._is_fitted:
            return _like(X, np.zeros(len(X)))
        return _like(X, self._model.predict(self._block(X)))


class _Detecting(_Adapter, base.AnomalyDetector):
    """What novelty detectors share. A score above zero is an alarm."""

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn a row."""
        self._learn_one(x)

    def score_one(self, x: dict[Any, Any]) -> float:
        """How far below the threshold a row is: above zero it is an alarm."""
        if not self._is_fitted:
            return 0.0
        return float(self._model.offset_ - self._model.score_one(self._row(x)))

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame, with the result of learning them one by one."""
        self._learn_many(X)

    def score_many(self, X: Any) -> Any:
        """`score_one` of each row."""
        if not self._is_fitted:
            return _like(X, np.zeros(len(X)))
        return _like(X, -self._model.decision_function(self._block(X)))


class NoveltyDetector(_Detecting):
    """An online kernel novelty detector with a threshold that adapts, for River.

    Parameters are those of `kernelstream.NoveltyDetector`; `gamma` left out is 1 / the number of
    features of the first row. A score above zero is an alarm; a share `nu` of the rows raises one.

    Examples
    --------
    >>> from kernelstream.river import NoveltyDetector
    >>> model = NoveltyDetector(nu=0.1)
    >>> for i in range(200):
    ...     model.learn_one({"a": 0.1 * (i % 5)})
    >>> model.score_one({"a": 0.2}) < 0 < model.score_one({"a": 9.0})
    True
    """

    _estimator = ks.NoveltyDetector

    def __init__(
        self, kernel: Any = "rbf", gamma: float | None = None, nu: float = 0.05,
        step_size: Any = "smd", update: Any = "explicit", budget: Any = "auto", C: float = 1.0,
        regularization: float | None = None, scaling: Any = None, device: Any = None,
        on_bad_row: Any = "raise",
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.nu = nu
        self.step_size = step_size
        self.update = update
        self.budget = budget
        self.C = C
        self.regularization = regularization
        self.scaling = scaling
        self.device = device
        self.on_bad_row = on_bad_row
        self._begin()


class AutoDetector(_Detecting):
    """Novelty detection with nothing to tune, for River.

    Parameters are those of `kernelstream.AutoDetector`. No scaler is needed in front. A score above
    zero is an alarm; a share `nu` of the rows raises one. The first row should have every feature:
    one that comes later is left out, with a warning. One that a row does not have counts as zero.

    Examples
    --------
    >>> from kernelstream.river import AutoDetector
    >>> model = AutoDetector(nu=0.1)
    >>> for i in range(200):
    ...     model.learn_one({"a": 100.0 * (i % 5)})
    >>> model.score_one({"a": 200.0}) < 0 < model.score_one({"a": 9000.0})
    True
    """

    _estimator = ks.AutoDetector
    _width_is_final = True

    def __init__(
        self, nu: float = 0.05, budget: int | None = None, random_state: Any = None,
        missing: Any = "mean", on_bad_row: Any = "raise",
    ):  # fmt: skip
        self.nu = nu
        self.budget = budget
        self.random_state = random_state
        self.missing = missing
        self.on_bad_row = on_bad_row
        self._begin()


class AutoClassifier(KernelClassifier):
    """Classification with nothing to tune, for River.

    A committee of machines, mixed online. Parameters are those of `kernelstream.AutoClassifier`. No
    scaler is needed in front. The first row should have every feature: one that comes later is left
    out, with a warning.

    ``prompt_targets=True`` helps where the target of each row is learned before the next row is
    predicted, as in `progressive_val_score` without a delay, and tells much about the next target.

    Examples
    --------
    >>> from kernelstream.river import AutoClassifier
    >>> model = AutoClassifier()
    >>> for i in range(50):
    ...     model.learn_one({"a": float(i % 2), "b": 1000.0 * i}, "odd" if i % 2 else "even")
    >>> model.predict_one({"a": 1.0, "b": 60000.0})
    'odd'
    """

    _estimator: Any = ks.AutoClassifier
    _width_is_final = True

    def __init__(
        self, budget: int = 512, prompt_targets: bool = False, n_jobs: int | None = None,
        device: Any = None, class_weight: Any = None, missing: Any = "mean",
        on_bad_row: Any = "raise",
    ):  # fmt: skip
        self.budget = budget
        self.prompt_targets = prompt_targets
        self.n_jobs = n_jobs
        self.device = device
        self.class_weight = class_weight
        self.missing = missing
        self.on_bad_row = on_bad_row
        self._begin()


class AutoRegressor(KernelRegressor):
    """Regression with nothing to tune, for River.

    A committee of machines, mixed online. Parameters are those of `kernelstream.AutoRegressor`. No
    scaler is needed in front. The first row should have every feature: one that comes later is left
    out, with a warning.

    ``prompt_targets=True`` helps where the target of each row is learned before the next row is
    predicted, as in `progressive_val_score` without a delay, and tells much about the next target.

    Examples
    --------
    >>> from kernelstream.river import AutoRegressor
    >>> model = AutoRegressor()
    >>> for i in range(100):
    ...     model.learn_one({"a": float(i % 10)}, 3.0 * (i % 10))
    >>> abs(model.predict_one({"a": 5.0}) - 15.0) < 1.0
    True
    """

    _estimator: Any = ks.AutoRegressor
    _width_is_final = True

    def __init__(
        self, budget: int = 224, prompt_targets: bool = False, n_jobs: int | None = None,
        device: Any = None, missing: Any = "mean", on_bad_row: Any = "raise",
    ):  # fmt: skip
        self.budget = budget
        self.prompt_targets = prompt_targets
        self.n_jobs = n_jobs
        self.device = device
        self.missing = missing
        self.on_bad_row = on_bad_row
        self._begin()


_BY_TASK = {
    "classifier": KernelClassifier, "regressor": KernelRegressor, "novelty": NoveltyDetector
}  # fmt: skip


def make(preset: str, task: str, **params: Any) -> Any:
    """A learner for River by the name of its algorithm, as `kernelstream.make`.

    Parameters
    ----------
    preset, task : str
        As in `kernelstream.make`.
    **params
        Those of the learner.

    Examples
    --------
    >>> from kernelstream import river
    >>> type(river.make("smd-linear", "classifier", scaling="running")).__name__
    'KernelClassifier'
    """
    model = ks.make(preset, task, **params)
    cls = _BY_TASK[task]
    known, usual = set(inspect.signature(cls).parameters), type(model)()
    chosen = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name in params or value != getattr(usual, name)
    }
    unknown = sorted(set(chosen) - known)
    if unknown:
        raise ValueError(
            f"River's {cls.__name__} has no parameter {unknown[0]!r}: leave it out, or use "
            "kernelstream.make."
        )
    return cls(**chosen)
