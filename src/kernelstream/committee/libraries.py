"""How estimators of other libraries are asked about a row, and taught it."""

import copy
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor

from kernelstream.estimators import StreamEstimator

__all__ = ["Library", "MemberError", "OfRiver", "OfScikitLearn", "library_of"]

_LEAST_PROBABILITY = 1e-4  # smaller ones count as this: no estimator is that sure for good reason


class MemberError(ValueError):
    """An estimator cannot learn what it is given, whatever the row says."""


class Library(ABC):
    """An estimator for one task, as its library wants it to be called.

    Rows are arrays of shape (1, features) or sparse. Labels are counted from zero.
    """

    learns_new_classes: ClassVar[bool]  # or has to begin again when there is one

    def __init__(self, estimator: Any, task: str) -> None:
        self.given, self.task = estimator, task

    @staticmethod
    @abstractmethod
    def suits(estimator: Any, task: str) -> bool:
        """Return whether an estimator can be called like this, for a task."""

    @abstractmethod
    def new(self) -> Any:
        """Return an estimator that has learned nothing."""

    def taught(self) -> Any:
        """Return the estimator that learns, of several that rows pass."""
        return self.given

    def name(self) -> str:
        """Return the display name of the estimator."""
        return type(self.taught()).__name__

    def no_file(self) -> str:
        """Return why the estimator cannot be written to a file."""
        return f"{self.name()} belongs to another library, and files hold numbers and no code"

    @cached_property
    @abstractmethod
    def takes_weights(self) -> bool:
        """Return whether rows may have weights."""

    @abstractmethod
    def score(self, estimator: Any, X: Any, n_classes: int) -> np.ndarray:
        """Return its scores of rows, of shape (rows, outputs), which may be infinite or NaN.

        Of a regressor: predictions. Of a detector: the larger, the more familiar. Of a classifier:
        logarithms of probabilities or, without any, decisions; two classes have a single one.
        """

    @abstractmethod
    def learn(self, estimator: Any, X: Any, y: float | int, n_classes: int, weight: float) -> None:
        """Learn a row, with a weight if that is another than one: not all have such a parameter."""


class OfScikitLearn(Library):
    """An estimator of scikit-learn, or with the same methods."""

    learns_new_classes = False

    @staticmethod
    def suits(estimator: Any, task: str) -> bool:
        kinds = {
            "classification": is_classifier, "regression": is_regressor,
            "novelty": is_outlier_detector,
        }  # fmt: skip
        is_estimator = hasattr(estimator, "get_params") and hasattr(estimator, "partial_fit")
        return is_estimator and bool(kinds[task](estimator))

    def new(self) -> Any:
        return clone(self.given)

    @cached_property
    def takes_weights(self) -> bool:
        return "sample_weight" in inspect.signature(self.given.partial_fit).parameters

    def score(self, estimator: Any, X: Any, n_classes: int) -> np.ndarray:
        if self.task == "regression":
            said = estimator.predict(X)
        elif self.task == "novelty":
            reads_samples = hasattr(estimator, "score_samples")
            said = (estimator.score_samples if reads_samples else estimator.decision_function)(X)
        elif hasattr(estimator, "predict_proba"):
            said = _logarithms(estimator.predict_proba(X))
        elif hasattr(estimator, "decision_function"):
            said = estimator.decision_function(X)
        else:
            said = _votes(estimator.predict(X), n_classes)
        return np.reshape(np.asarray(said, np.float64), (X.shape[0], -1))

    def learn(self, estimator: Any, X: Any, y: float | int, n_classes: int, weight: float) -> None:
        weights = {} if weight == 1.0 else {"sample_weight": np.array([weight])}
        if self.task == "novelty":
            estimator.partial_fit(X, **weights)
        elif self.task == "regression":
            estimator.partial_fit(X, np.array([y]), **weights)
        elif n_classes > 1:  # one class is not enough for most; at the next, it begins again anyway
            estimator.partial_fit(X, np.array([y]), classes=np.arange(n_classes), **weights)


class OfRiver(Library):
    """An estimator of River, or with the same methods."""

    learns_new_classes = True

    @staticmethod
    def suits(estimator: Any, task: str) -> bool:
        if not hasattr(estimator, "learn_one"):
            return False
        if "river" in sys.modules:
            from river import base

            kinds = {
                "classification": base.Classifier, "regression": base.Regressor,
                "novelty": base.AnomalyDetector,
            }  # fmt: skip
            if isinstance(estimator, base.Base):
                return isinstance(estimator, kinds[task])
        asks = {
            "classification": ["predict_proba_one", "predict_one"], "regression": ["predict_one"],
            "novelty": ["score_one"],
        }  # fmt: skip
        return any(hasattr(estimator, name) for name in asks[task])

    def new(self) -> Any:
        given = self.given
        return given.clone() if hasattr(given, "clone") else copy.deepcopy(given)

    def taught(self) -> Any:
        """Return the last step of a pipeline."""
        step = self.given
        while isinstance(getattr(step, "steps", None), dict):
            step = list(step.steps.values())[-1]
        return step

    @cached_property
    def takes_weights(self) -> bool:
        """Return a pipeline drops what its last step does not ask for."""
        parameters = inspect.signature(self.taught().learn_one).parameters.values()
        return any(p.name == "w" or p.kind is p.VAR_KEYWORD for p in parameters)

    def score(self, estimator: Any, X: Any, n_classes: int) -> np.ndarray:
        ask = {
            "classification": self._decisions, "regression": lambda x, *_: estimator.predict_one(x),
            "novelty": lambda x, *_: -estimator.score_one(x),
        }[self.task]  # fmt: skip
        said = [ask(x, estimator, n_classes) for x in _dictionaries(X)]
        return np.reshape(np.array(said, np.float64), (X.shape[0], -1))

    @staticmethod
    def _decisions(x: dict[int, float], estimator: Any, n_classes: int) -> np.ndarray:
        if hasattr(estimator, "predict_proba_one"):
            try:
                said = estimator.predict_proba_one(x)
                return _logarithms(np.array([said.get(k, 0.0) for k in range(n_classes)]))
            except NotImplementedError:  # as of one that only votes
                pass
        return _votes([estimator.predict_one(x)], n_classes)[0]

    def learn(self, estimator: Any, X: Any, y: float | int, n_classes: int, weight: float) -> None:
        if n_classes > 2 and not getattr(estimator, "_multiclass", True):
            raise MemberError(
                f"{self.name()} tells two classes apart, and there are {n_classes}: "
                "give river.multiclass.OneVsRestClassifier(...) of it."
            )
        targets = [] if self.task == "novelty" else [y]
        estimator.learn_one(*_dictionaries(X), *targets, **({} if weight == 1.0 else {"w": weight}))


def library_of(estimator: Any, task: str) -> type[Library] | None:
    """Return how an estimator is called for a task, if there is a way."""
    if isinstance(estimator, type | StreamEstimator):  # a class, or one of this library
        return None
    libraries: Sequence[type[Library]] = (OfScikitLearn, OfRiver)
    return next((library for library in libraries if library.suits(estimator, task)), None)


def _logarithms(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities, _LEAST_PROBABILITY))


def _votes(labels: Any, n_classes: int) -> np.ndarray:
    """Return one for the label that was predicted, and zero for the others."""
    return (np.asarray(labels)[:, None] == np.arange(n_classes)).astype(float)


def _dictionaries(X: Any) -> list[dict[int, float]]:
    """Yield rows as River has them: dictionaries by feature, without zeros if sparse."""
    if not sparse.issparse(X):
        return [dict(enumerate(row)) for row in X.tolist()]
    ends = X.indptr.tolist()
    rows = [slice(*ends[i : i + 2]) for i in range(X.shape[0])]
    return [dict(zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True)) for row in rows]
