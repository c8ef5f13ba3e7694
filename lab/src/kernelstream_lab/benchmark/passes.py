"""One pass over a stream, by learners of each library: every row is predicted, then learned.

Each function takes a learner, the task, X, y and `wait`: labels arrive together after `wait` rows.
It returns the prediction of each row before it was learned (a label, a number, or a score that is
higher for anomalies), and the seconds of processor time that this took.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import kernelstream as ks

__all__ = ["by_baseline", "by_kernelstream", "by_river", "by_scikit_learn"]

_BLOCK = 10  # rows that scikit-learn's learners predict and then learn together
_FIRST = 200  # rows by which Nystroem chooses its features
UNKNOWN = -1  # a label that is none of a stream's


def _bunches(n_rows: int, size: int) -> Iterator[slice]:
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def by_kernelstream(
    model: Any, task: str, X: np.ndarray, y: np.ndarray, wait: int
) -> tuple[np.ndarray, float]:
    """Pass by `prequential` in blocks of 1,000; with delayed labels predict, then `partial_fit`."""
    begin = time.process_time()
    if task == "novelty":
        result = ks.prequential(model, X)
        said = result.margins - result.scores
    elif wait == 1:
        said = ks.prequential(model, X, y).predictions
    else:
        said = np.full(len(y), UNKNOWN, dtype=y.dtype)
        known = {"classes": np.unique(y)} if task == "classify" else {}
        for rows in _bunches(len(y), wait):
            if rows.start:
                said[rows] = model.predict(X[rows])
                known = {}
            model.partial_fit(X[rows], y[rows], **known)
    return said, time.process_time() - begin


def by_river(
    model: Any, task: str, X: np.ndarray, y: np.ndarray, wait: int
) -> tuple[np.ndarray, float]:
    """Pass row by row. The rows are converted to dictionaries before the time is measured."""
    dictionaries = [dict(enumerate(row)) for row in X.tolist()]
    targets = y.tolist()
    said = []
    begin = time.process_time()
    for bunch in _bunches(len(y), wait):
        if task == "novelty":
            said += [model.score_one(row) for row in dictionaries[bunch]]
            for row in dictionaries[bunch]:
                model.learn_one(row)
            continue
        found = [model.predict_one(row) for row in dictionaries[bunch]]
        said += [UNKNOWN if label is None else label for label in found]
        for row, target in zip(dictionaries[bunch], targets[bunch], strict=True):
            model.learn_one(row, target)
    return np.array(said, dtype=float), time.process_time() - begin


def by_scikit_learn(
    steps: tuple[Any, Any, Any], task: str, X: np.ndarray, y: np.ndarray, wait: int
) -> tuple[np.ndarray, float]:
    """Pass in blocks of 10 with a scaler, features (or None) of the first rows, and a model.

    Until the first block has been learned, or the features have been chosen, the mean or the most
    frequent label is predicted. Numbers are scaled by the mean and the deviation of earlier ones.
    """
    scaler, features, model = steps
    known = {"classes": np.unique(y)} if task == "classify" else {}
    first = 1 if features is None else _FIRST
    said = np.full(len(y), UNKNOWN, dtype=float)
    begin = time.process_time()
    centre, spread, learned = 0.0, 1.0, False
    for rows in _bunches(len(y), max(wait, _BLOCK)):
        if learned:
            seen = scaler.transform(X[rows])
            inputs = seen if features is None else features.transform(seen)
            said[rows] = model.predict(inputs) * spread + centre
        elif rows.start:
            said[rows] = centre if task == "regress" else np.bincount(y[: rows.start]).argmax()
        scaler.partial_fit(X[rows])
        if task == "regress":
            centre, spread = y[: rows.stop].mean(), y[: rows.stop].std() or 1.0
        if rows.stop < first:
            continue
        fresh = slice(rows.start if learned else 0, rows.stop)
        inputs = scaler.transform(X[fresh])
        if features is not None:
            inputs = features.transform(inputs) if learned else features.fit_transform(inputs)
        target = y[fresh] if task == "classify" else (y[fresh] - centre) / spread
        model.partial_fit(inputs, target, **known)
        learned = True
    return said, time.process_time() - begin


def by_baseline(
    kind: str, task: str, X: np.ndarray, y: np.ndarray, wait: int
) -> tuple[np.ndarray, float]:
    """Predict without a learner: the majority, the mean, the last target, or z-scores."""
    begin = time.process_time()
    said = _z_scores(X) if kind == "z-score" else _from_targets(kind, y, wait)
    return said, time.process_time() - begin


def _from_targets(kind: str, y: np.ndarray, wait: int) -> np.ndarray:
    said = np.full(len(y), UNKNOWN, dtype=float)
    counts: Counter = Counter()
    total = 0.0
    answers = {
        "last": lambda n: y[n - 1],
        "mean": lambda n: total / n,
        "majority": lambda n: counts.most_common(1)[0][0],
    }
    for rows in _bunches(len(y), wait):
        if rows.start:
            said[rows] = answers[kind](rows.start)
        if kind == "majority":
            counts.update(y[rows].tolist())
        total += math.fsum(y[rows])
    return said


def _z_scores(X: np.ndarray) -> np.ndarray:
    """Return the length of each vector of z-scores, by the mean and variance of earlier rows."""
    n, d = X.shape
    mean, squares, said = np.zeros(d), np.zeros(d), np.zeros(n)
    for t, x in enumerate(X):
        away = x - mean
        if t > 1:
            # a constant feature tells nothing; rounding must not make it vary
            varies = squares > t * (1e-12 * np.abs(mean)) ** 2
            z = away[varies] / np.sqrt(squares[varies] / t)
            said[t] = math.sqrt(z @ z)
        mean += away / (t + 1)
        squares += away * (x - mean)
    return said
