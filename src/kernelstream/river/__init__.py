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
from typing import Any

import numpy as np
from sklearn.utils.extmath import softmax

import kernelstream as ks

try:
    from river import base
except ModuleNotFoundError as error:
    if error.name != "river":
        raise
    raise ModuleNotFoundError(
        "kernelstream.river needs River: pip install 'kernelstream[river]'", name="river"
    ) from None
from kernelstream.river.adapter import Adapter, like

__all__ = [
    "AutoClassifier", "AutoDetector", "AutoRegressor", "KernelClassifier", "KernelRegressor",
    "NoveltyDetector", "make",
]  # fmt: skip

# What `fit` needs, and predictions with ids.
_ONLY_FOR_BLOCKS: tuple[str, ...] = "random_state", "waiting_rows"
# Rows of River lack features, which then count as zero; one that is NaN is an error.
_NOT_FOR_ROWS: tuple[str, ...] = *_ONLY_FOR_BLOCKS, "n_epochs", "missing"


class KernelClassifier(Adapter, base.MiniBatchClassifier):
    """An online kernel classifier that sets its own step size, for River.

    Parameters are those of `kernelstream.KernelClassifier`. `predict_proba_one` returns
    probabilities with ``loss="log_loss"``; otherwise it returns the softmax of the scores, which
    only ranks the labels.

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
    _left_out = _NOT_FOR_ROWS

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn a row and its label."""
        self._learn_one(x, y)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each label that was seen."""
        if not self._is_fitted:
            return {}
        row = self._row(x)
        probabilities = self._probabilities([row] if self._has_tables else row[None])
        return dict(zip(self._names(), probabilities[0].tolist(), strict=True))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the most likely label, or None before the first row."""
        return self._model.predict_one(self._row(x)) if self._is_fitted else None

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame, with the result of learning them one by one."""
        self._learn_many(X, y)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of each label, a row each."""
        if not self._is_fitted:
            return like(X, {})
        probabilities = self._probabilities(self._block(X))
        return like(X, dict(zip(self._names(), probabilities.T, strict=True)))

    def predict_many(self, X: Any) -> Any:
        """Return the most likely label of each row."""
        if not self._is_fitted:
            return like(X, [None] * len(X))
        return like(X, self._model.predict(self._block(X)))

    def _names(self) -> list[Any]:
        return self._model.classes_.tolist()

    def _probabilities(self, rows: Any) -> np.ndarray:
        return softmax(self._model.label_scores(rows))


class KernelRegressor(Adapter, base.MiniBatchRegressor):
    """An online kernel regressor that sets its own step size, for River.

    Parameters are those of `kernelstream.KernelRegressor`.

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
    _left_out = _NOT_FOR_ROWS

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn a row and its number."""
        self._learn_one(x, y)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the predicted number; zero before the first row."""
        return self._model.predict_one(self._row(x)) if self._is_fitted else 0.0

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame, with the result of learning them one by one."""
        self._learn_many(X, y)

    def predict_many(self, X: Any) -> Any:
        """Return the predicted number of each row."""
        if not self._is_fitted:
            return like(X, np.zeros(len(X)))
        return like(X, self._model.predict(self._block(X)))


class _Detecting(Adapter, base.AnomalyDetector):
    """What novelty detectors share. A score above zero is an alarm."""

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn a row."""
        self._learn_one(x)

    def score_one(self, x: dict[Any, Any]) -> float:
        """Return how far below the threshold a row is: above zero it is an alarm."""
        if not self._is_fitted:
            return 0.0
        return float(self._model.offset_ - self._model.score_one(self._row(x)))

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame, with the result of learning them one by one."""
        self._learn_many(X)

    def score_many(self, X: Any) -> Any:
        """Return `score_one` of each row."""
        if not self._is_fitted:
            return like(X, np.zeros(len(X)))
        return like(X, -self._model.decision_function(self._block(X)))


class NoveltyDetector(_Detecting):
    """An online kernel novelty detector with a threshold that adapts, for River.

    Parameters are those of `kernelstream.NoveltyDetector`. A score above zero is an alarm; a share
    `nu` of the rows raises one.

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
    _left_out = _NOT_FOR_ROWS


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

    _estimator = ks.AutoClassifier
    _left_out = _ONLY_FOR_BLOCKS
    _width_is_final = True


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

    _estimator = ks.AutoRegressor
    _left_out = _ONLY_FOR_BLOCKS
    _width_is_final = True


_BY_TASK = {
    "classifier": KernelClassifier, "regressor": KernelRegressor, "novelty": NoveltyDetector
}  # fmt: skip


def make(preset: str, task: str, **params: Any) -> Any:
    """Return a learner for River by the name of its algorithm, as `kernelstream.make`.

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
