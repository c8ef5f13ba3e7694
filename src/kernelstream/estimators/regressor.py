"""Regression."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from kernelstream.estimators.base import Rows, StreamEstimator
from kernelstream.estimators.intake import first_row
from kernelstream.estimators.learning import learn_block, learn_row
from kernelstream.estimators.single import KernelEstimator
from kernelstream.learner.rows import extreme_target
from kernelstream.parts import parameters

__all__ = ["KernelRegressor", "Regressing"]

_FAR = 10.0  # times the largest target: predictions beyond have nothing to do with targets


class Regressing(RegressorMixin, StreamEstimator):
    """What regressors share."""

    task = "regression"

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
        def problem(y: Any) -> str | None:
            try:
                if not math.isfinite(float(y)):
                    return f"its target is {y!r}"
                return extreme_target(float(y))
            except OverflowError:  # an integer that is larger than any float
                return extreme_target(math.inf)
            except (TypeError, ValueError):
                return f"its target {y!r} is not a number"

        return problem

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows of a block, in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight zero is as good as absent.

        Returns
        -------
        self
        """
        learn_block(self, X, y, None, sample_weight, keep_scores=False)
        return self

    def checked(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, whole_data: bool = False
    ) -> Rows:
        if y is not None and np.asarray(y).dtype.kind in "OSU":
            for target in np.ravel(np.asarray(y)).tolist():
                _as_number(target)
        rows = self.intake().take(X, y, sample_weight, whole_data, y_numeric=True)
        return rows._replace(y=rows.y.astype(float))

    def learn_one(self, x: np.ndarray, y: float) -> Self:
        """Learn one row: `partial_fit` without its overhead.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
        y : float

        Returns
        -------
        self
        """
        with self.turn:
            learned = self.learned
            if learned is None or not self._learns_in_place(learned):
                return self.partial_fit(first_row(x), np.asarray([y]))
            self.refuse_stream()
            try:
                y = _as_number(y)
                if not math.isfinite(y):
                    raise ValueError(f"y={y!r} is not finite: leave this row out.")
                learn_row(self, learned, x, y)
            except (TypeError, ValueError) as error:
                self._refused(error)
        return self

    def predict(self, X: Any, return_std: bool = False, *, ids: Any = None) -> Any:
        """Return the predicted number of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to say how certain that is. This needs a committee, such as `AutoRegressor`, or
            a second-order learner, such as `ks.make("sog-svr", "regressor")`.
        ids : sequence of str or int, default=None
            One for each row, under which it waits for its target: see `learn_labels`. At most
            `waiting_rows` rows wait; beyond, the first go, and are counted in `n_expired_`.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predictions; with `return_std` a pair of these and of the standard deviations that y
            has around them. A committee knows these from its errors on the last rows, and from how
            much its members differ here; a second-order learner from what is not known of f here,
            and from the noise of the rows so far.

        Examples
        --------
        >>> import numpy as np
        >>> import kernelstream as ks
        >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=500)
        >>> model = ks.make("sog-svr", "regressor").partial_fit(X, y)
        >>> mean, std = model.predict([[0.0], [6.0]], return_std=True)
        >>> bool(0.09 < std[0] < 0.13 and std[1] > 0.3)
        True
        """
        if return_std and ids is None:
            scores, std, _ = self._read_deviations(X)
            return scores[:, 0], std
        predictions = self._read(X, ids)[0][:, 0]
        return (predictions, self._read_deviations(X)[1]) if return_std else predictions

    def decode(self, scores: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """Return the score is the prediction."""
        return scores[:, 0]

    def predict_one(self, x: np.ndarray) -> float:
        """Return the predicted number of one row, without the overhead of `predict`.

        Parameters
        ----------
        x : ndarray of shape (n_features,)

        Returns
        -------
        float
        """
        return float(self._read_one(x)[0][0])


def _as_number(target: Any) -> float:
    """Return a target as a number, or an error in words that scikit-learn's checks do not have."""
    try:
        return float(target)
    except (TypeError, ValueError):
        raise ValueError(
            f"y contains {target!r}, which is not a number: leave this row out. For labels use a "
            "classifier (AutoClassifier, KernelClassifier)."
        ) from None


@parameters
class KernelRegressor(Regressing, KernelEstimator):
    """An online kernel regressor that sets its own step size.

    It takes the steps of `KernelClassifier`, ``f <- (1 - eta c) f - eta xi k(x, .)`` (28), where xi
    is the derivative of its loss: ``xi = f(x) - y`` with squared errors.

    Parameters
    ----------
    kernel, gamma, degree, coef0
        As in `KernelClassifier`.
    loss : {"squared_error", "epsilon_insensitive", "huber"}, default="squared_error"
    margin : float or margin part, default=1.0
        Half the width of the zone: epsilon of "epsilon_insensitive", sigma of "huber". In the units
        of y, or of `target_scaling`.
    nu : float in (0, 1), default=None
        Short for ``margin=Nu(nu)``: move the zone until a share nu of the residuals lies outside.
    step_size : {"smd", "sqrt_decay", "constant"}, float or step size part, default="smd"
        "smd" is ``SMD(meta=0.03, normalized=True)`` here, which does not depend on the units of y.
    update, budget, C, regularization, fit_intercept, n_epochs, random_state, missing,
    waiting_rows, on_bad_row
        As in `KernelClassifier`.
    predictor : {"last", "averaged"}, default="last"
        What predicts: the model as it is now, or the average of all models so far, as in
        `KernelClassifier`.
    scaling : {"running", "renewed"}, scaling part or None, default=None
        What kernels see of a row, as in `KernelClassifier`.
    target_scaling : {"running"}, scaling part or None, default=None
        The units in which the model learns y. "running", recommended unless y is about as large as
        one: each target minus the mean of those before it, over their standard deviation; scores
        are turned back into units of y by what is known when they are asked for. What the model
        learned before is not changed as the mean and the deviation settle. `margin`, losses,
        `dual_coef_` and `intercept_` are then in units of that deviation. None: y as it is.
    device : str, `Device` or None, default=None
        Where points live and kernel values are made, as in `KernelClassifier`.

    Attributes
    ----------
    n_seen_, step_size_, n_capped_, drift_score_, margin_, support_vectors_, dual_coef_,
    intercept_, n_support_, kernel_, n_skipped_, skipped_
        As in `KernelClassifier`, with a single output.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (1000, 1))
    >>> y = np.sin(X[:, 0])
    >>> model = KernelRegressor(gamma=1.0).partial_fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _: KW_ONLY
    loss: str = "squared_error"
    fit_intercept: bool = False
    target_scaling: Any = None
    waiting_rows: int = 10_000

    def shown_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return `coef_`, of shape (features,), as linear regressors of scikit-learn do."""
        return weights[0]

    def has_diverged(self, scores: np.ndarray, targets: np.ndarray) -> bool:
        largest = max(abs(targets).max(), np.finfo(float).tiny)
        return bool(np.median(abs(scores)) > _FAR * largest)

    def worse_than_baseline(
        self, scores: np.ndarray, y: np.ndarray, before: np.ndarray
    ) -> tuple[float, float]:
        own, constant = abs(scores[:, 0] - y), abs(before.mean() - y)
        largest = max(own.max(), constant.max(), np.finfo(float).tiny)  # whose square may overflow
        if np.sum((own / largest) ** 2) <= np.sum((constant / largest) ** 2):
            return 0.0, float(len(y))
        return float((own > constant).sum()), float((own < constant).sum())
