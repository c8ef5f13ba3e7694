"""Prequential evaluation: predict each row, then learn it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from kernelstream.drift import LossWatch
from kernelstream.estimators import StreamEstimator
from kernelstream.estimators.labels import Labels, as_written, sound_labels
from kernelstream.estimators.many_classes import warn_of_ids
from kernelstream.learner.learn import Trail
from kernelstream.progress import progress_bar
from kernelstream.tables.frames import Table

__all__ = ["PrequentialResult", "prequential"]

_BLOCK = 1000


@dataclass(frozen=True)
class PrequentialResult:
    """What happened at each row of a stream, before the row was learned.

    Attributes
    ----------
    predictions : ndarray
        The label, the number, or +1 (familiar) and -1 (alarm).
    scores : ndarray
        One number per row, or one per class; NaN for a class that was not known yet.
    losses : ndarray
        The loss that was suffered.
    step_sizes : ndarray
        The step size eta that was used at the row.
    drift_scores : ndarray
        How far the step size had risen above its recent past, `drift_score_` after each row.
    events : ndarray
        Rows at which the stream had changed: the loss had risen above its mean over the last 300
        rows or so by more than chance explains (`kernelstream.drift`, docs/drift.md). Without a
        change there is at most one in 10,000 rows on average. The first 200 rows are left out.
    margins : ndarray
        The margin at the row.
    n_support : ndarray
        How many support vectors the model had after the row.
    errors : ndarray
        0/1 error, squared error, or 1 for an alarm.
    rows : ndarray
        Which rows these are: all, unless the model's ``on_bad_row`` left some out.
    """

    predictions: np.ndarray
    scores: np.ndarray
    losses: np.ndarray
    step_sizes: np.ndarray
    drift_scores: np.ndarray
    events: np.ndarray
    margins: np.ndarray
    n_support: np.ndarray
    errors: np.ndarray
    rows: np.ndarray

    @property
    def error_rate(self) -> float:
        """Return the mean error: share of errors, mean squared error, or share of alarms."""
        return float(self.errors.mean())

    @property
    def average_error(self) -> np.ndarray:
        """Return the running mean of the errors, as the papers plot it."""
        return np.cumsum(self.errors) / np.arange(1, len(self.errors) + 1)

    def __repr__(self) -> str:
        return f"PrequentialResult(n_rows={len(self.errors)}, error_rate={self.error_rate:.4g})"


def prequential(
    model: Any, X: Any, y: Any = None, progress: bool = False, declare_classes: bool = True
) -> PrequentialResult:
    """Predict each row, then learn it, in the order given.

    Parameters
    ----------
    model : KernelClassifier, KernelRegressor, NoveltyDetector or committee
        A new model, or one that has learned before and continues. It is changed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
        Left out for novelty. The classes in y are declared to a new classifier first.
    progress : bool, default=False
        Show a progress bar on the terminal.
    declare_classes : bool, default=True
        Whether a new classifier is told of the classes in y at the start. Otherwise they come with
        the stream, also where there are two; the score of a label that never came before is NaN, so
        that it is never predicted.

    Returns
    -------
    PrequentialResult

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import kernelstream as ks
    >>> X, y = load_digits(return_X_y=True)
    >>> result = ks.prequential(ks.KernelClassifier(gamma=0.001), X, y)
    >>> result.error_rate < 0.15
    True
    """
    if not isinstance(model, StreamEstimator):
        raise TypeError(
            f"model={model!r} is not an estimator of this library, such as KernelClassifier."
        )
    n_rows = _num_samples(X)
    if n_rows == 0:
        raise ValueError("X has no rows: there is nothing to evaluate.")
    classes = None
    is_classifier, is_regressor = (model.task == task for task in ("classification", "regression"))
    if y is None and (is_classifier or is_regressor):
        raise ValueError(f"y is missing: {type(model).__name__} needs the target of each row.")
    if y is not None:
        y = np.asarray(as_written(y) if is_classifier else y)
        if len(y) != n_rows:
            raise ValueError(f"X has {n_rows} rows, y has {len(y)}: they must match.")
    if declare_classes and is_classifier and not model.__sklearn_is_fitted__():
        classes = sound_labels(y)
        warn_of_ids(len(classes), n_rows, classes.dtype.kind in "iuf")
        classes = classes if len(classes) > 1 else None
    labels = model.labels_known() if model.__sklearn_is_fitted__() else None
    n_labels = None if labels is None else len(labels)
    # A model keeps what is known of its losses, so that streams can be cut anywhere.
    watch: LossWatch = model.loss_watch
    trails: list[Trail] = []
    learned: list[np.ndarray] = []
    events: list[np.ndarray] = []
    with progress_bar(n_rows, type(model).__name__, progress) as show:
        for start in range(0, n_rows, _BLOCK):
            rows = slice(start, min(start + _BLOCK, n_rows))
            target = None if y is None else y[rows]
            piece = X if n_rows <= _BLOCK else _rows(X, rows)
            found, kept = model.learn_block(piece, target, classes)
            trails += found
            places = start + (np.arange(rows.stop - start) if kept is None else kept)
            learned.append(places)
            if found:
                watch, at = watch.look(np.concatenate([trail.loss for trail in found]))
                model.loss_watch = watch
                events.append(places[at])
            if model.__sklearn_is_fitted__():
                classes = None
            show(rows.stop)
    all_rows = np.concatenate(learned)
    if not all_rows.size:
        raise ValueError("no row of X could be learned: there is nothing to evaluate.")
    targets = None if y is None else y[all_rows]
    if n_labels is None:
        n_labels = _n_declared(model.labels_known())
    return _result(model, targets, trails, all_rows, np.concatenate(events), n_labels)


def _rows(X: Any, rows: slice) -> Any:
    return X[rows] if isinstance(X, Table) else _safe_indexing(X, rows)


def _n_declared(labels: Labels | None) -> int:
    """Return how many labels were known before the first row, of which there is one in any case."""
    return 1 if labels is None else max(len(labels) - labels.n_late, 1)


def _result(
    model: Any, y: Any, trails: list[Trail], rows: np.ndarray, events: np.ndarray, n_labels: int
) -> PrequentialResult:
    found = [model.per_label(trail.scores) for trail in trails]
    width = max(piece.shape[1] for piece in found)
    scores = np.full((sum(map(len, found)), width), np.nan)
    start = 0
    for piece in found:
        scores[start : start + len(piece), : piece.shape[1]] = piece
        if len(piece):
            scores[start, n_labels : piece.shape[1]] = np.nan  # nobody could know that label yet
            n_labels = max(n_labels, piece.shape[1])
        start += len(piece)
    margins = np.concatenate([trail.margin for trail in trails])
    predictions = model.decode(scores, margins)
    if model.task == "classification":
        errors = (predictions != y).astype(float)
    elif model.task == "regression":
        errors = (predictions - y) ** 2
    else:
        errors = (predictions < 0).astype(float)
    return PrequentialResult(
        predictions=predictions,
        scores=scores[:, 0] if width == 1 else scores,
        losses=np.concatenate([trail.loss for trail in trails]),
        step_sizes=np.concatenate([trail.eta for trail in trails]),
        drift_scores=np.concatenate([trail.drift for trail in trails]),
        events=events,
        margins=margins,
        n_support=np.concatenate([trail.n_points for trail in trails]),
        errors=errors,
        rows=rows,
    )
