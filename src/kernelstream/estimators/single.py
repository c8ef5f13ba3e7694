"""What the estimators of a single machine share: parameters that choose its parts."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kernelstream.estimators.base import Learned, Rows, StreamEstimator
from kernelstream.estimators.choices import (
    kernel_of,
    learns_from_streams,
    parts_of,
    refuse_unused,
    solver_of,
)
from kernelstream.estimators.health import Health
from kernelstream.estimators.intake import Intake
from kernelstream.learner.machine import Machine
from kernelstream.parts import one_of, parameters, warn_user

__all__ = ["KernelEstimator"]


def _with_points(learned: Learned) -> Machine:
    """Return the machine, if it keeps points."""
    if learned.machine.parts.budget.is_folded:
        raise AttributeError(
            "this model keeps no support vectors but a weight for each feature: see coef_, or give "
            "budget=512, say."
        )
    return learned.machine


def _weights_of(model: StreamEstimator, learned: Learned) -> np.ndarray:
    """Return the weights of explicit features, of shape (outputs, features)."""
    if not learned.machine.parts.budget.is_folded:
        raise AttributeError(
            "coef_ is known of models with a weight for each feature: kernel='linear', say, with "
            "budget='auto'. This model keeps points: see support_vectors_ and dual_coef_."
        )
    return model.per_label(learned.machine.weights().T).T


def _truncation_error(model: StreamEstimator, learned: Learned) -> float:
    error = learned.machine.truncation_error
    if error is None:
        raise AttributeError(
            "truncation_error_ is known with budget=OldestOut(..., max_age=...) or max_error=... "
            "only; max_error=0.0 just keeps it."
        )
    return error


READABLE: dict[str, Callable[[Any, Learned], Any]] = {
    **StreamEstimator.readable,
    "step_size_": lambda model, learned: learned.machine.step_size,
    "n_capped_": lambda model, learned: learned.machine.n_capped,
    "drift_score_": lambda model, learned: learned.machine.drift_score,
    "margin_": lambda model, learned: learned.machine.margin,
    "support_vectors_": lambda model, learned: _with_points(learned).support(),
    "dual_coef_": lambda model, learned: model.per_label(_with_points(learned).coefficients().T).T,
    "coef_": lambda model, learned: model.shown_weights(_weights_of(model, learned)),
    "intercept_": lambda model, learned: model.per_label(learned.machine.intercept()[None])[0],
    "n_support_": lambda model, learned: len(learned.machine.kept),
    "truncation_error_": _truncation_error,
    "metric_": lambda model, learned: learned.machine.metric(),
    "kernel_": lambda model, learned: learned.machine.kernel,
}


@parameters
class KernelEstimator(StreamEstimator):
    """Base of the estimators of one machine."""

    kernel: Any = "rbf"
    _: KW_ONLY
    gamma: Any = "auto"
    degree: int = 3
    coef0: float = 0.0
    loss: str = "hinge"
    margin: Any = 1.0
    nu: float | None = None
    step_size: Any = "smd"
    update: Any = "explicit"
    budget: Any = "auto"
    C: float = 1.0
    regularization: float | None = None
    n_epochs: int = 1
    random_state: Any = None
    predictor: str = "last"
    scaling: Any = None
    device: Any = None
    missing: Any = "error"
    on_bad_row: Any = "raise"

    readable = READABLE
    default_margin: ClassVar[Any] = 1.0
    predictors: ClassVar[tuple[str, ...]] = ("last", "averaged")

    def shown_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return `coef_` from the weights of every output."""
        return weights

    def comparable_targets(self, rows: Rows) -> np.ndarray:
        """Return the targets of rows as `worse_than_baseline` compares them."""
        return rows.y

    def worse_than_baseline(
        self, scores: np.ndarray, y: np.ndarray, before: np.ndarray
    ) -> tuple[float, float]:
        """Count the rows at which scores are worse, and better, than earlier targets.

        Scores have a row each.
        """
        raise TypeError(f"{type(self).__name__} must say how it compares with a baseline.")

    def has_diverged(self, scores: np.ndarray, targets: np.ndarray) -> bool:
        """Return whether scores are far beyond all that targets have been."""
        return False

    def look_before(self, learned: Learned, rows: Rows) -> None:
        if "_watched" not in self.__dict__:
            self._watched = Health()
        if learned.machine.n_seen >= self._watched.next_look:
            self._watched.probe(self, learned.machine, rows)

    def may_go_to_device(self, X: Any) -> bool:
        if type(X) is not np.ndarray or "feature_names_in_" in self.__dict__:
            return False
        return X.dtype in (np.float64, np.float32) and X.flags.carray

    def new_machine(self, rows: Rows, whole_data: bool) -> Machine:
        """Return a machine that has learned nothing."""
        X, labels = rows.X, rows.labels
        is_sparse, single = sparse.issparse(X), labels is None or labels.single_output
        kernel = kernel_of(self, X.shape[1], X if whole_data else None)
        parts = parts_of(self, kernel, single, is_sparse)
        refuse_unused(self)
        n_late = len(rows.new_outputs)
        n_outputs = 1 if labels is None else labels.n_outputs() - n_late
        dtype = X.dtype if parts.device is None else np.dtype(parts.device.dtype)
        return Machine(parts, X.shape[1], n_outputs, dtype, is_sparse)

    def learn_passes(self, machine: Any, rows: Rows) -> int | None:
        if solver_of(self) is None:
            return super().learn_passes(machine, rows)
        n_passes, violation = machine.fit(rows.X, rows.y, rows.weight, self.passes(len(rows.y)))
        self._warn_unfinished(machine, violation)
        return n_passes

    def finish(self) -> Any:
        """Finish what a stream has left open, on the points that the model keeps.

        LASVM takes one REPROCESS step at every row of a stream; this takes as many as there are to
        take, until the SVM's problem on the rows of the active set is solved to the tolerance. A
        stream may go on after it. `fit` finishes by itself. For learners that leave nothing open,
        which are all the others, this does nothing.

        Returns
        -------
        self
        """
        if self.machine_.parts.update.finishes:
            with self.turn:
                learned = self.known()
                machine = learned.machine.copy()
                violation = machine.finish()
                self._knowledge = learned._replace(machine=machine)
            self._warn_unfinished(machine, violation)
        return self

    def _warn_unfinished(self, machine: Machine, violation: float) -> None:
        tolerance = machine.parts.update.get_params().get("tolerance", np.inf)
        if violation > tolerance:
            name = type(machine.parts.update).__name__
            warn_user(
                f"{name} stopped with a pair that violates the optimality conditions by "
                f"{violation:.3g}: scale the rows, or give a smaller C or a tolerance above "
                f"{tolerance!r}.",
                ConvergenceWarning,
            )

    def refuse_stream(self) -> None:
        learned = self.learned
        if not (learns_from_streams(self) if learned is None
                else learned.machine.learns_from_streams):  # fmt: skip
            raise ValueError(
                f"update={self.update!r} with budget=None revisits its rows and works in fit only: "
                "for a stream choose another preset, such as 'sog-svr' or 'svmd'."
            )

    def readout(self) -> str:
        """Return the predictor, if it was kept from the first row on."""
        name = one_of("predictor", self.predictor, list(type(self).predictors))
        if self.learned is not None and not self.learned.machine.knows(name):
            raise ValueError(
                f"predictor={name!r} was set after this model had begun to learn, and its earlier "
                "models are forgotten: set it before the first row, or use predictor='last'."
            )
        return name

    def _score_one(self, learned: Learned, x: Any) -> np.ndarray:
        """Return the scores of one row by a machine in whose gate the caller is."""
        machine, row = learned.machine, Intake(self, learned).row(x)
        if self.predictor == "last":
            return machine.score_row(row)
        return machine.scores(row, self.readout())[0]
