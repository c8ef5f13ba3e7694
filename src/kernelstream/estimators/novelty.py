"""Novelty detection."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from kernelstream.estimators.base import Rows, StreamEstimator
from kernelstream.estimators.intake import Intake, first_row
from kernelstream.estimators.learning import learn_block, learn_row
from kernelstream.estimators.single import KernelEstimator
from kernelstream.learner.machine import Machine
from kernelstream.margins import Nu
from kernelstream.parts import parameters

__all__ = ["Detecting", "NoveltyDetector"]


class Detecting(OutlierMixin, StreamEstimator):
    """What novelty detectors share."""

    task = "novelty"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything and learn all of X, in `n_epochs` passes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        return self._fit_all(X, None, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows of a block, in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight zero is as good as absent.

        Returns
        -------
        self
        """
        learn_block(self, X, None, None, sample_weight, keep_scores=False)
        return self

    def checked(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, whole_data: bool = False
    ) -> Rows:
        return self.intake().take(X, "no_validation", sample_weight, whole_data)

    def learn_one(self, x: np.ndarray, y: Any = None) -> Self:
        """Learn one row: `partial_fit` without its overhead.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
        y : ignored

        Returns
        -------
        self
        """
        with self.turn:
            learned = self.learned
            if learned is None or not self._learns_in_place(learned):
                return self.partial_fit(first_row(x))
            try:
                learn_row(self, learned, x, 1.0)
            except (TypeError, ValueError) as error:
                self._refused(error)
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the score f(x) of each row: the larger, the more familiar.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.outputs(X)[:, 0]

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score beyond the threshold: negative for an alarm.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        learned = self.known()
        rows = Intake(self, learned).ask(X)
        with learned.machine.gate:  # scores and threshold of the same moment
            scores = learned.machine.scores(rows, self.readout())
            return scores[:, 0] - self._threshold(learned.machine)

    def decode(self, scores: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """Return +1 where the score reaches the margin, otherwise -1."""
        return np.where(scores[:, 0] >= margins, 1, -1)

    def predict(self, X: Any) -> np.ndarray:
        """Return +1 for a familiar row, -1 for an alarm.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def score_one(self, x: np.ndarray) -> float:
        """Return the score f(x) of one row, without the overhead of `score_samples`.

        Parameters
        ----------
        x : ndarray of shape (n_features,)

        Returns
        -------
        float
        """
        return float(self._read_one(x)[0][0])

    def predict_one(self, x: np.ndarray) -> int:
        """Return +1 or -1 for one row, without the overhead of `predict`.

        Parameters
        ----------
        x : ndarray of shape (n_features,)

        Returns
        -------
        int
        """
        learned = self.known()
        machine = learned.machine
        with machine.gate:  # score and threshold of the same moment
            return 1 if self._score_one(learned, x)[0] >= self._threshold(machine) else -1

    def _threshold(self, machine: Any) -> float:
        """Return the score below which a row is an alarm."""
        return machine.margin

    @property
    def offset_(self) -> float:
        """Return the threshold on `score_samples` below which a row is an alarm."""
        machine = self.machine_
        with machine.gate:
            return self._threshold(machine)


@parameters
class NoveltyDetector(Detecting, KernelEstimator):
    """An online one-class support vector machine: is this row like what came before?

    A row whose score f(x) falls below the margin is an alarm, and the model learns from it, by
    steps on the loss ``max(0, margin - f(x))``: ``f <- (1 - eta c) f + eta k(x, .)`` (28). Other
    rows only let f decay. The nu-trick moves the margin so that a share nu of the stream raises an
    alarm.

    Parameters
    ----------
    kernel, gamma, degree, coef0
        As in `KernelClassifier`.
    loss : {"novelty"}, default="novelty"
    margin : float or margin part, default=None
        None: ``Nu(0.05)``.
    nu : float in (0, 1), default=None
        Short for ``margin=Nu(nu)``: the share of alarms.
    step_size, update, budget, C, regularization, n_epochs, random_state, missing, on_bad_row
        As in `KernelClassifier`.
    predictor : {"last", "averaged"}, default="last"
        What predicts: the model as it is now, or the average of all models so far, as in
        `KernelClassifier`; the threshold is then the average of theirs.
    scaling : {"running", "renewed"}, scaling part or None, default=None
        What kernels see of a row, as in `KernelClassifier`.
    device : str, `Device` or None, default=None
        Where points live and kernel values are made, as in `KernelClassifier`.

    Attributes
    ----------
    offset_ : float
        The threshold, which is the margin: ``decision_function = score_samples - offset_``. With
        ``predictor="averaged"`` it is the average margin of all models so far.
    n_seen_, step_size_, n_capped_, drift_score_, margin_, support_vectors_, dual_coef_,
    n_support_, kernel_
        As in `KernelClassifier`, with a single output.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import NoveltyDetector
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = NoveltyDetector(gamma=0.5, nu=0.05).partial_fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _: KW_ONLY
    loss: str = "novelty"
    margin: Any = None

    default_margin = Nu(0.05)

    def _threshold(self, machine: Machine) -> float:
        if self.predictor == "averaged":
            self.readout()
            return machine.averaged_margin
        return machine.margin
