"""A fleet: many small models of one kind, learning side by side."""

from typing import Any

import numpy as np

from kernelstream.estimators.labels import Labels, class_probabilities
from kernelstream.estimators.rows import checked_weights
from kernelstream.files.bytes import to_bytes
from kernelstream.files.parts import from_json
from kernelstream.fleet import record_loop
from kernelstream.fleet.column_names import in_order, names_from_header
from kernelstream.fleet.fleet_files import described, fill_from_file, labels_of_file
from kernelstream.fleet.fleet_models import FleetModels, Members
from kernelstream.fleet.fleet_rows import (
    checked_members,
    checked_rows,
    checked_targets,
    target_numbers,
)
from kernelstream.learner.rows import TOO_LARGE_A_STEP, BadRow, extreme, refuse_extreme

__all__ = ["Fleet"]


class Fleet(FleetModels):
    """Many small models at once: one per sensor, user, machine or pixel.

    All models have the same parameters, and each learns from its own rows, exactly as the estimator
    with the parameters ``fleet.params`` does. The numbers of all models lie in a few large arrays;
    learning is compiled and runs on all cores.

    Parameters
    ----------
    preset : str
        One of ``kernelstream.presets.names()``, with a budget that has a limit.
    task : {"classifier", "regressor", "novelty"}
    n_models : int
    n_features : int
    classes : array-like, default=None
        Of classifiers: all labels that may come. None: those of the first `learn`. Two classes make
        models with a single output.
    dtype : {"float64", "float32"}, default="float64"
        The precision of rows and kernel values. Coefficients are float64.
    n_jobs : int, default=None
        The number of threads. None or -1: one per core.
    **params
        Parameters of the estimator, such as ``gamma`` and ``budget``. Two defaults are those for
        raw tables: ``scaling="running"`` unless ``gamma``, ``coef0`` or a kernel object is given,
        and ``target_scaling="running"`` for regressors unless ``margin`` is given. (These are
        numbers in the units of the rows, or of the targets.) With ``on_bad_row="skip"`` rows that
        cannot be learned are left out and counted, and their scores are NaN.

    Attributes
    ----------
    n_models, n_features : int
    params : dict
        The parameters of the models, with the scalings that were chosen.
    classes_ : ndarray
        Of classifiers.
    feature_names_ : list of str or None
        The columns of the first table that was learned. Later tables are read by these names.
    n_seen_, step_size_, n_capped_, drift_score_, margin_, n_support_ : ndarray of shape (n_models,)
        As in `KernelClassifier`, of every model.
    n_skipped_ : int
        The number of rows that were left out.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> random = np.random.default_rng(0)
    >>> fleet = ks.Fleet("silk", "novelty", n_models=100, n_features=1, gamma=10.0, budget=20)
    >>> for _ in range(50):
    ...     scores = fleet.learn(random.normal(0.5, 0.05, size=(100, 1)))
    >>> (fleet.predict(np.full((100, 1), 2.0)) == -1).all()
    np.True_
    """

    # --- learning and scoring --------------------------------------------------------------------

    def learn(
        self, X: Any, y: Any = None, *, models: Any = None, sample_weight: Any = None
    ) -> np.ndarray:
        """Score each row, then learn it.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            One row for each model; or any rows, with `models`.
        y : array-like of shape (n_rows,), default=None
            Left out for novelty.
        models : array-like of int of shape (n_rows,), default=None
            Which model each row is for. The rows of one model are learned in the order given.
        sample_weight : array-like of shape (n_rows,), default=None
            A row of weight zero is only scored.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            The scores before each row was learned.

        Raises
        ------
        BadRow
            If a row cannot be learned, unless ``on_bad_row="skip"``. No model has then learned
            anything. Only where the step that a row asks for is too large to be represented, all
            models have learned their other rows.
        """
        with self._turn:
            before, _ = self.learn_rows(X, y, models, sample_weight)
            refused = before.refused
            if refused.any() and not self.skips_bad_rows():
                raise BadRow(int(np.flatnonzero(refused)[0]), TOO_LARGE_A_STEP)
            return before.scores

    def learn_rows(
        self, X: Any, y: Any, models: Any, sample_weight: Any
    ) -> tuple[record_loop.RowsBefore, np.ndarray]:
        """Learn rows. Return their scores before that, and which rows are bad by themselves."""
        with self._turn:
            X, names = in_order(X, self.feature_names_, self.skips_bad_rows())
            which = checked_members(models, len(X), self.n_models)
            y = checked_targets(y, len(X), self.task)
            members = self._members
            if members is None:  # and stays so if the rows cannot be learned
                members = self._new_members(Labels(y))
            targets = target_numbers(y, members.labels)
            X, bad = checked_rows(X, members.models, self.skips_bad_rows())
            weight = checked_weights(sample_weight, len(X))
            targets, weight = self._without_extremes(targets, weight, bad)
            before, learned = record_loop.learn(
                members.models, X, targets, weight, which, self._threads()
            )
            self._members = members._replace(models=learned)
            self.feature_names_ = names
            n_bad = int(bad.sum() + before.refused.sum())
            self.n_skipped_ += n_bad if self.skips_bad_rows() else 0
            self._comparison.look(before.errors, self._prototype)
            return before._replace(scores=self._shaped(before.scores, bad)), bad

    def score_samples(self, X: Any, *, models: Any = None) -> np.ndarray:
        """Return the scores of rows, without learning.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
        models : array-like of int of shape (n_rows,), default=None
            Which model scores each row. None: one row for each model.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
        """
        return self.scored(X, models, self.known())[0]

    def scored(self, X: Any, models: Any, members: Members) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of rows by models of one moment, and the margins of these models."""
        fleet = members.models
        X, _ = in_order(X, self.feature_names_, self.skips_bad_rows())
        which = checked_members(models, len(X), len(fleet))
        X, bad = checked_rows(X, fleet, self.skips_bad_rows())
        with fleet.gate:
            scores = record_loop.scores(fleet, X, which, self._threads())
            margins = fleet.view("margin.epsilon")[:, 0]
            margins = margins.copy() if which is None else margins[which]
        return self._shaped(scores, bad), margins

    def predict(self, X: Any, *, models: Any = None) -> np.ndarray:
        """Return labels, numbers, or +1 (familiar) and -1 (alarm), as the estimators' `predict`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
        models : array-like of int of shape (n_rows,), default=None

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        members = self.known()
        return self.decoded(*self.scored(X, models, members), members.labels)

    def predict_proba(self, X: Any, *, models: Any = None) -> np.ndarray:
        """Return the probability of every class, of classifiers with ``loss="log_loss"``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
        models : array-like of int of shape (n_rows,), default=None

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        return self.probable(X, models, self.known())[0]

    def probable(self, X: Any, models: Any, members: Members) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of every class by models of one moment, and their margins."""
        self.require_probabilities()
        assert members.labels is not None
        scores, margins = self.scored(X, models, members)
        single = members.labels.single_output
        return class_probabilities(scores.reshape(len(scores), -1), single), margins

    def require_probabilities(self) -> None:
        """Raise an error that names the remedy if the models know no probabilities."""
        if self.task != "classifier":
            raise ValueError(f"predict_proba is for classifiers, and task={self.task!r}.")
        problem = self._prototype.no_probabilities()
        if problem is not None:
            raise ValueError(problem)

    def decoded(self, scores: np.ndarray, margins: np.ndarray, labels: Labels | None) -> np.ndarray:
        """Return predictions from scores."""
        if labels is not None:
            return labels.as_array()[labels.predicted(scores.reshape(len(scores), -1))]
        return self._prototype.decode(scores[:, None], margins)

    def skips_bad_rows(self) -> bool:
        """Return whether rows that cannot be learned are left out, as `on_bad_row` says."""
        return bool(self._prototype.skips_bad_rows())

    def _without_extremes(
        self, y: np.ndarray, weight: np.ndarray, bad: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Zero the targets and weights of bad rows; rows with extreme ones join `bad`."""
        if not self.skips_bad_rows():
            refuse_extreme(y, weight)
        bad |= extreme(y, weight)
        return np.where(bad, 0.0, y), np.where(bad, 0.0, weight)

    def _shaped(self, scores: np.ndarray, bad: np.ndarray) -> np.ndarray:
        scores[bad] = np.nan
        scores = self._prototype.per_label(scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    # --- files -----------------------------------------------------------------------------------

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """Return the content of the file that `save` writes.

        Parameters
        ----------
        beside : dict, default=None
            JSON that joins the header.

        Returns
        -------
        bytes
        """
        return to_bytes(*self.described(beside or {}))

    def described(self, beside: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays of the file that `save` writes."""
        return described(self, beside)

    @classmethod
    def rebuild(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> "Fleet":
        """Return the fleet of a file, with every number checked."""
        params = {k: from_json(v, arrays, None) for k, v in header["params"].items()}
        fleet = object.__new__(cls)
        fleet._describe(
            header["preset"], header["task"], header["n_models"], header["n_features"],
            header["dtype"], None, params,
        )  # fmt: skip
        labels = labels_of_file(header, fleet._prototype.structure(), max_bytes)
        fleet._members = fleet._new_members(labels, max_bytes)
        fill_from_file(fleet._members.models, labels, header, arrays)
        fleet.n_skipped_ = int(header["n_skipped"])
        fleet.feature_names_ = names_from_header(header, fleet.n_features)
        return fleet
