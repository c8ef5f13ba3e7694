"""Prequential evaluation: predict each row, then learn it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
from kernelstream.estimators.labels import as_written, sound_labels, warn_of_ids
from kernelstream.learner.learn import Trail
from kernelstream.progress import progress_bar

__all__ = ["PrequentialResult", "drift_events", "prequential"]

_BLOCK = 1000
_ALARM = 0.3  # of the drift score: the step size has risen by a third
_YOUNG = 200  # rows


@dataclass(frozen=True)
class PrequentialResult:
    """What happened at each row of a stream, before the row was learned.

    Attributes
    ----------
    predictions : ndarray
        The label, the number, or +1 (familiar) and -1 (alarm).
    scores : ndarray
        One number a row, or one a class; NaN for a class that was not known yet.
    losses : ndarray
        The loss that was suffered.
    step_sizes : ndarray
        The step size eta that was used at the row.
    drift_scores : ndarray
        How far the step size had risen above its recent past, `drift_score_` after each row.
    events : ndarray
        Rows at which the stream changed, as far as the step size tells: where the drift score rises
        above 0.3, the first 200 rows of a model's life left out.
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
        """Mean error over all rows: share of errors, mean squared error, or share of alarms."""
        return float(self.errors.mean())

    @property
    def average_error(self) -> np.ndarray:
        """The running mean of the errors, as the papers plot it."""
        return np.cumsum(self.errors) / np.arange(1, len(self.errors) + 1)

    def __repr__(self) -> str:
        return f"PrequentialResult(n_rows={len(self.errors)}, error_rate={self.error_rate:.4g})"


def prequential(
    model: Any, X: Any, y: Any = None, progress: bool = False, declare_classes: bool = True
) -> PrequentialResult:
    """Predict each row, then learn it, in the order given.

    Parameters
    ----------
    model : KernelClassifier, KernelRegressor or NoveltyDetector
        A new model, or one that goes on from where it is. It is changed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
        Left out for novelty. The classes in y are declared to a new classifier first.
    progress : bool, default=False
        Show a progress bar on the terminal.
    declare_classes : bool, default=True
        Whether a new classifier is told of the classes in y at the start. Otherwise they come with
        the stream, also where there are two.

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
    if not isinstance(model, KernelClassifier | KernelRegressor | NoveltyDetector):
        raise TypeError(
            f"model={model!r} is not one of KernelClassifier, KernelRegressor, NoveltyDetector."
        )
    n_rows = _num_samples(X)
    if n_rows == 0:
        raise ValueError("X has no rows: there is nothing to evaluate.")
    classes = None
    is_classifier, is_regressor = (
        isinstance(model, KernelClassifier),
        isinstance(model, KernelRegressor),
    )
    if y is None and (is_classifier or is_regressor):
        raise ValueError(f"y is missing: {type(model).__name__} needs the target of each row.")
    if y is not None:
        y = np.asarray(as_written(y) if is_classifier else y)
        if len(y) != n_rows:
            raise ValueError(f"X has {n_rows} rows, y has {len(y)}: they must match.")
    if declare_classes and is_classifier and not model.__sklearn_is_fitted__():
        classes = sound_labels(y)
        warn_of_ids(len(classes), n_rows)
        classes = classes if len(classes) > 1 else None
    # A model that does not predict by its last state is asked before every row, one by one.
    asked = is_classifier and model.predictor != "last"
    block = 1 if asked else _BLOCK
    fitted = model.__sklearn_is_fitted__()
    n_seen, armed = (model.n_seen_, model.drift_score_ < _ALARM) if fitted else (0, True)
    trails: list[Trail] = []
    learned: list[np.ndarray] = []
    with progress_bar(n_rows, type(model).__name__, progress) as show:
        for start in range(0, n_rows, block):
            rows = slice(start, min(start + block, n_rows))
            target, some = None if y is None else y[rows], _safe_indexing(X, rows)
            before = model._scores(some)[0] if asked and model.__sklearn_is_fitted__() else None
            found, kept = model._partial_fit(some, target, classes, keep_scores=True)
            if before is not None:
                found = [trail._replace(scores=before) for trail in found]
            trails += found
            learned.append(start + (np.arange(rows.stop - start) if kept is None else kept))
            if model.__sklearn_is_fitted__():
                classes = None
            show(rows.stop)
    all_rows = np.concatenate(learned)
    if not all_rows.size:
        raise ValueError("no row of X could be learned: there is nothing to evaluate.")
    return _result(model, None if y is None else y[all_rows], trails, all_rows, (n_seen, armed))


def drift_events(scores: np.ndarray, n_seen: int, armed: bool = True) -> np.ndarray:
    """Where drift scores rise above the alarm level, having been well below it in between.

    `n_seen` is how many rows the model had learned before: while it is young its step size moves
    for other reasons. `armed` is whether the scores before were well below the level.
    """
    events = []
    for i, score in enumerate(scores.tolist()):
        if score < _ALARM / 2:
            armed = True
        elif armed and score > _ALARM:
            armed = False
            if n_seen + i >= _YOUNG:
                events.append(i)
    return np.array(events, dtype=np.int64)


def _result(
    model: Any, y: Any, trails: list[Trail], rows: np.ndarray, before: tuple[int, bool]
) -> PrequentialResult:
    found = [model._per_label(trail.scores) for trail in trails]
    width = max(piece.shape[1] for piece in found)
    scores = np.full((sum(map(len, found)), width), np.nan)
    start = 0
    for piece in found:
        scores[start : start + len(piece), : piece.shape[1]] = piece
        start += len(piece)
    drift = np.concatenate([trail.drift for trail in trails])
    margins = np.concatenate([trail.margin for trail in trails])
    if isinstance(model, KernelClassifier):
        winners = model._labels.predicted(np.where(np.isnan(scores), -np.inf, scores))
        predictions = model.classes_[winners]
        errors = (predictions != y).astype(float)
    elif isinstance(model, KernelRegressor):
        predictions = scores[:, 0]
        errors = (predictions - y) ** 2
    else:
        predictions = np.where(scores[:, 0] >= margins, 1, -1)
        errors = (predictions < 0).astype(float)
    return PrequentialResult(
        predictions=predictions,
        scores=scores[:, 0] if width == 1 else scores,
        losses=np.concatenate([trail.loss for trail in trails]),
        step_sizes=np.concatenate([trail.eta for trail in trails]),
        drift_scores=drift,
        events=rows[drift_events(drift, *before)],
        margins=margins,
        n_support=np.concatenate([trail.n_points for trail in trails]),
        errors=errors,
        rows=rows,
    )
