"""What all classifiers share: names of labels to outputs, and scores to labels."""

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError

from kernelstream.estimators.available import available_unless
from kernelstream.estimators.base import Learned, Rows, StreamEstimator
from kernelstream.estimators.class_weights import class_weighted
from kernelstream.estimators.intake import first_row
from kernelstream.estimators.labels import (
    Labels,
    as_block,
    as_labels,
    as_written,
    class_probabilities,
    kind_of,
    problem_of,
    shown,
)
from kernelstream.estimators.learning import learn_block, learn_row
from kernelstream.estimators.many_classes import refuse_many_classes, warn_of_ids
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least

__all__ = ["Classifying"]

_NO_LABEL = (
    "no label has been learned yet, since no row had a sample_weight above zero: learn such a row "
    "first."
)


class Classifying(ClassifierMixin, StreamEstimator):
    """What classifiers share: names of labels to outputs, and scores to labels."""

    task = "classification"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn all of X, in `n_epochs` passes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        return self._fit_all(X, y, sample_weight)

    def target_check(self) -> Callable[[Any], str | None]:
        structure, known, kind = self.structure(), None, None
        labels = None if self.learned is None else self.learned.labels
        if structure is not None:
            known = set(structure.label_names())
        elif labels is not None and labels.names:
            known = set(labels.names) if labels.single_output else None
            kind = kind_of(labels.names[0])

        def problem(y: Any) -> str | None:
            nonlocal kind
            if y is None or (isinstance(y, float) and not math.isfinite(y)):
                return f"its label is {y!r}"
            wrong = problem_of(y)
            if wrong is not None:
                return f"its label is {shown(y)}, and {wrong}"
            if known is not None and y not in known:
                return f"its label {y!r} is unknown"
            kind = kind_of(y) if kind is None else kind  # that of the first label counts
            if kind_of(y) != kind:
                return "its label is a string and others are numbers, or the other way round"
            return None

        return problem

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows of a block, in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, default=None
            All classes, where they are known, in the first call. Exactly two make a model with a
            single output. Left out, classes come with the stream.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight zero is as good as absent.

        Returns
        -------
        self
        """
        learn_block(self, X, y, classes, sample_weight, keep_scores=False)
        return self

    def checked(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, whole_data: bool = False
    ) -> Rows:
        rows = self.intake().take(X, as_written(y), sample_weight, whole_data)
        y, weight = as_labels(rows.y), rows.weight
        if whole_data:
            _require_two_classes(y[weight > 0])
            classes = np.unique(y)
        learned, counts = self.learned, None
        if learned is None or learned.labels is None:
            labels = Labels(classes, self.structure())
        else:
            labels, counts = learned.labels, learned.class_counts
            if classes is not None:
                _check_declared(classes, labels)
        if sample_weight is None:
            labels, codes, new = labels.including(y)
        else:  # a label that only comes without weight does not exist
            labels, codes, new = _of_weight(labels, y, np.flatnonzero(weight > 0))
        if self.class_weight is not None:
            weight, counts = class_weighted(
                self.class_weight, labels, codes, weight, counts, whole_data
            )
        if whole_data:
            self._warn_of_ids(labels, len(labels), len(y))
        elif new:
            n_before = 0 if learned is None else learned.machine.n_seen
            self._warn_of_ids(labels, labels.n_late, n_before + len(y))
        # a new class exists from its own row on
        return rows._replace(
            y=codes, weight=weight, labels=labels, class_counts=counts,
            new_outputs=new,
        )  # fmt: skip

    def _warn_of_ids(self, labels: Labels, n_classes: int, n_rows: int) -> None:
        """Warn once, before they are learned, of labels that look like ids or numbers."""
        are_numbers = labels.dtype is not None and labels.dtype.kind in "iuf"
        if "_warned_of_ids" not in self.__dict__ and warn_of_ids(n_classes, n_rows, are_numbers):
            self._warned_of_ids = True

    def check_machine(self, machine: Learner, rows: Rows) -> None:
        if rows.new_outputs and rows.labels is not None:
            refuse_many_classes(machine, len(rows.labels))

    def _known_labels(self) -> Labels:
        labels = self.known().labels
        assert labels is not None
        return labels

    def no_probabilities(self) -> str | None:
        """Return why there is no `predict_proba`, or None."""
        return None

    def learn_one(self, x: np.ndarray, y: Any) -> Self:
        """Learn one row: `partial_fit` without its overhead.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
        y : label

        Returns
        -------
        self
        """
        with self.turn:
            learned = self.learned
            labels = None if learned is None else learned.labels
            code = None if labels is None else labels.code(y)
            # the first row, a new class, or a row that is not learned as it is
            if learned is None or code is None or not self._learns_in_place(learned):
                return self.partial_fit(first_row(x), as_block(y))
            self.refuse_stream()
            try:
                learn_row(self, learned, x, code)
            except (TypeError, ValueError) as error:
                self._refused(error)
        return self

    def _learns_in_place(self, learned: Learned) -> bool:
        return self.class_weight is None and super()._learns_in_place(learned)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score per row for two classes (positive: the second), or one per class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores, labels = self._scores(X)
        if labels.single_output:
            return scores[:, 0]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any, *, ids: Any = None) -> np.ndarray:
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        ids : sequence of str or int, default=None
            One for each row, under which it waits for its target: see `learn_labels`. At most
            `waiting_rows` rows wait; beyond, the first go, and are counted in `n_expired_`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores, labels = self._scores(X, ids)
        return labels.as_array()[labels.predicted(scores)]

    def predict_one(self, x: np.ndarray) -> Any:
        """Return the most likely label of one row, without the overhead of `predict`.

        Parameters
        ----------
        x : ndarray of shape (n_features,)

        Returns
        -------
        label
        """
        scores, learned = self._read_one(x)
        labels = learned.labels
        assert labels is not None
        if not labels.names:
            raise NotFittedError(_NO_LABEL)
        if self.structure() is not None:
            scores = self.per_label(scores[None])[0]
        return labels.names[int(scores[0] > 0.0 if labels.single_output else scores.argmax())]

    @available_unless(lambda model: model.no_probabilities())
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes.

        With ``loss="log_loss"`` those of the model (22). A second-order learner fits the labels by
        least squares, and knows how certain its scores are: then a class is as probable as it is
        that its score is the highest.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores, labels = self._log_odds(X)
        return class_probabilities(scores, labels.single_output)

    @available_unless(lambda model: model.no_probabilities())
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return the probabilities of one row, by class.

        Parameters
        ----------
        x : ndarray of shape (n_features,) or dict

        Returns
        -------
        dict
        """
        labels = self._known_labels()
        probabilities = self.predict_proba(first_row(x))[0]
        return dict(zip(labels.names, probabilities.tolist(), strict=True))

    def _log_odds(self, X: Any) -> tuple[np.ndarray, Labels]:
        """Return numbers whose softmax are the probabilities, and the labels they belong to."""
        return self._scores(X)

    def label_scores(self, X: Any) -> np.ndarray:
        """Return the scores of rows, one per label; for two declared labels, the second's.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, 1)
        """
        return self._scores(X)[0]

    def _scores(self, X: Any, ids: Any = None) -> tuple[np.ndarray, Labels]:
        """Return the scores of every label, and the labels they belong to."""
        scores, learned = self._read(X, ids)
        assert learned.labels is not None
        if not learned.labels.names:
            raise NotFittedError(_NO_LABEL)
        return self.per_label(scores), learned.labels

    def decode(self, scores: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """Return the label with the highest score; NaN marks a label not known yet."""
        labels = self._known_labels()
        return labels.as_array()[labels.predicted(np.where(np.isnan(scores), -np.inf, scores))]

    def top_k(self, X: Any, k: int) -> np.ndarray:
        """Return the k most likely labels of each row, the best first.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        k : int

        Returns
        -------
        ndarray of shape (n_samples, k)
        """
        scores, labels = self._scores(X)
        if labels.single_output:
            scores = np.column_stack([-scores, scores])
        if integer_at_least("k", k, 1) > scores.shape[1]:
            raise ValueError(f"k={k!r} is out of range: the model has {scores.shape[1]} classes.")
        return labels.as_array()[np.argsort(-scores, axis=1, kind="stable")[:, :k]]

    def top_k_score(self, X: Any, y: Any, k: int = 5) -> float:
        """Return the share of rows whose label is among the k most likely.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        k : int, default=5

        Returns
        -------
        float
        """
        found = self.top_k(X, k) == np.asarray(y)[:, None]
        return float(found.any(axis=1).mean())

    def mean_distance(self, X: Any, y: Any) -> float:
        """Return how far the predicted labels are from the true ones, on average.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        float
            The mean distance of the label structure; without one, the share of wrong labels.
        """
        structure, predicted = self.structure(), self.predict(X)
        if structure is None:
            return float((predicted != np.asarray(y)).mean())
        return float(structure.distances(y, predicted).mean())

    @property
    def classes_(self) -> np.ndarray:
        """Return the labels."""
        labels = None if self.learned is None else self.learned.labels
        if labels is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'classes_'")
        return labels.as_array()


def _of_weight(
    labels: Labels, y: np.ndarray, rows: np.ndarray
) -> tuple[Labels, np.ndarray, list[int]]:
    """Apply `Labels.including` to the rows that have a weight."""
    try:
        labels, found, new = labels.including(y[rows])
    except BadRow as bad:  # which counted these rows
        raise BadRow(int(rows[bad.row]), bad.reason) from None
    codes = np.zeros(len(y))
    codes[rows] = found
    return labels, codes, rows[new].tolist()


def _require_two_classes(y: np.ndarray) -> None:
    present = np.unique(y)
    if len(present) < 2:
        raise ValueError(
            f"y has only one class with a positive sample_weight, {present.tolist()!r}: "
            "a classifier needs at least two classes to fit. To begin a stream with a "
            "single class use partial_fit."
        )


def _check_declared(classes: Any, labels: Labels) -> None:
    declared = Labels(classes)
    unknown = [name for name in declared.names if labels.code(name) is None]
    if unknown:
        raise ValueError(
            f"classes={classes!r} is not what this model was first told: {unknown!r} is new. "
            "Declare classes in the first call; later ones come with the stream."
        )
