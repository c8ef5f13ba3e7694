"""Compares the models of a fleet with predictions that ignore the row, and warns once.

Every model counts its targets: the mean and the variance of numbers, or how often each label came.
The loop writes the error of the model and that of this baseline for each row. A fleet whose total
error is not below that of the baseline has learned nothing, and says so.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np

from kernelstream.parts import LARGEST_SQUARE, Field, rule

__all__ = ["Comparison", "NoBaseline", "baseline_of"]

_TARGETS = 50  # of a model, before its rows are compared
_ROWS = 1000  # that are compared before the first verdict; twice as many before each later one
_LARGEST = 100.0  # of a squared error in units of the variance: one row alone decides nothing
_LITTLE = 0.99  # of the baseline's error: what counts as "not below"
_RARE = 0.05  # error rates of a baseline below which nearly all rows have the same label


class NumbersSeen(NamedTuple):
    """The statistics of a model's targets."""

    n: Any
    mean: Any
    square: Any  # the sum of squared deviations from the mean


class LabelsSeen(NamedTuple):
    """How often each label came."""

    counts: Any


@rule
class NoBaseline(NamedTuple):
    """Nothing is compared: rule and record in one."""

    def compare(self, seen, y, scores, errors):
        """Write the error of the model and of the baseline, once enough targets were seen."""
        return

    def note_target(self, seen, y):
        """Count the target of a row that was learned."""
        return


@rule
class MeanOfTargets(NamedTuple):
    """Squared errors, in units of the variance of the model's targets."""

    def compare(self, seen, y, scores, errors):
        """Write the error of the model and of the baseline, once enough targets were seen."""
        if seen.n[0] >= _TARGETS and seen.square[0] > 0.0:
            variance = seen.square[0] / seen.n[0]
            errors[0] = min((y - scores[0]) ** 2 / variance, _LARGEST)
            errors[1] = min((y - seen.mean[0]) ** 2 / variance, _LARGEST)

    def note_target(self, seen, y):
        """Count the target of a row that was learned."""
        seen.n[0] += 1
        away = y - seen.mean[0]
        seen.mean[0] += away / seen.n[0]
        seen.square[0] += away * (y - seen.mean[0])


@rule
class MostFrequentLabel(NamedTuple):
    """Misclassified rows, of the model and of the label that came most often."""

    single_output: bool

    def compare(self, seen, y, scores, errors):
        """Write the error of the model and of the baseline, once enough targets were seen."""
        n, best, told = 0, 0, 0
        for label in range(seen.counts.shape[0]):
            n += seen.counts[label]
            if seen.counts[label] > seen.counts[best]:
                best = label
        if n < _TARGETS:
            return
        if self.single_output:
            told = 1 if scores[0] > 0.0 else 0
            label = 1 if y > 0.0 else 0
        else:
            for output in range(scores.shape[0]):
                if scores[output] > scores[told]:
                    told = output
            label = int(y)
        errors[0] = 1.0 if told != label else 0.0
        errors[1] = 1.0 if best != label else 0.0

    def note_target(self, seen, y):
        """Count the target of a row that was learned."""
        if self.single_output:
            seen.counts[1 if y > 0.0 else 0] += 1
        else:
            seen.counts[int(y)] += 1


def baseline_of(task: str, single_output: bool, is_structured: bool) -> tuple[Any, Any]:
    """Return the rule of a task's baseline, and the fields of what it remembers."""
    if task == "novelty" or is_structured:
        return NoBaseline(), NoBaseline()
    if task == "regressor":
        return MeanOfTargets(), NumbersSeen(
            n=Field((), 0, int),
            mean=Field((), 0.0),
            square=Field((), 0.0, least=0.0, largest=LARGEST_SQUARE),
        )
    return MostFrequentLabel(single_output), LabelsSeen(Field(("labels",), 0, int))


class Comparison:
    """The errors of a fleet and of its baselines since the last verdict."""

    def __init__(self) -> None:
        self._errors = np.zeros(2)
        self._n_rows, self._next = 0, _ROWS
        self._is_over = False

    def look(self, errors: np.ndarray, model: Any) -> None:
        """Count the errors of some rows, and warn if the models are no better than the baseline.

        Parameters
        ----------
        errors : ndarray of shape (rows, 2)
            Of the models and of the baselines; NaN for rows that are not compared.
        model : estimator
            With the parameters of the models.
        """
        if self._is_over:
            return
        compared = errors[~np.isnan(errors[:, 1])]
        self._errors = self._errors + compared.sum(axis=0)
        self._n_rows += len(compared)
        if self._n_rows < self._next:
            return
        own, trivial = self._errors / self._n_rows
        is_rare = model.task == "classification" and trivial < _RARE
        if own >= _LITTLE * trivial and not is_rare:
            self._is_over = True
            warnings.warn(_message(model, self._n_rows, own / trivial), stacklevel=5)
        self._errors, self._n_rows, self._next = np.zeros(2), 0, 2 * self._next


def _message(model: Any, n_rows: int, ratio: float) -> str:
    errors, baseline = {
        "classification": ("the error rate", "of the most frequent label"),
        "regression": ("the squared error", "of the mean of earlier targets"),
    }[model.task]
    params = model.get_params(deep=False)
    unscaled = [name for name in ("scaling", "target_scaling") if params.get(name, "") is None]
    remedy = " and ".join(f"{name}='running'" for name in unscaled)
    remedy = f"Pass {remedy}, or give" if unscaled else "Give"
    return (
        f"the models of this fleet have learned nothing: over {n_rows:,} rows {errors} was "
        f"{ratio:.0%} of that {baseline} of each model. {remedy} another gamma, a larger budget or "
        "another preset."
    )
