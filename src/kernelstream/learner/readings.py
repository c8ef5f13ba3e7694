"""What a person can read of a machine."""

from abc import ABC
from typing import Any

import numpy as np

from kernelstream.expansion import scoring
from kernelstream.kernels import Kernel
from kernelstream.learner.plan import Model, Parts
from kernelstream.learner.state import State
from kernelstream.stores import Store

__all__ = ["Readings"]


class Readings(ABC):
    """Numbers of a model, from its parts, its state and its store of points."""

    parts: Parts
    model: Model
    state: State
    store: Store

    # --- sizes -----------------------------------------------------------------------------------

    @property
    def n_points(self) -> int:
        """Return how many slots are in use."""
        return int(self.state.expansion.n_points[0])

    @property
    def n_outputs(self) -> int:
        """Return how many scores a row gets."""
        return len(self.state.intercept.b)

    @property
    def n_slots(self) -> int:
        """Return how many points there is room for."""
        return self.store.n_slots

    @property
    def n_features(self) -> int:
        """Return how long a row is."""
        return self.store.n_features

    @property
    def dtype(self) -> np.dtype:
        """Return the precision of rows and kernel values."""
        return self.store.dtype

    @property
    def is_sparse(self) -> bool:
        """Return whether rows are sparse."""
        return self.store.is_sparse

    # --- the model -------------------------------------------------------------------------------

    @property
    def kernel(self) -> Kernel:
        """Return the kernel with all its numbers."""
        return self.store.kernel

    @property
    def n_seen(self) -> int:
        """Return how many rows were learned."""
        return int(self.state.expansion.n_seen[0])

    @property
    def step_size(self) -> float:
        """Return the present step size eta."""
        return float(self.state.step_size.eta[0])

    @property
    def n_capped(self) -> int:
        """Return the number of rows at which a step was capped."""
        return int(self.parts.update.n_capped(self.state.update) or 0)

    @property
    def drift_score(self) -> float:
        """Return how far the step size has risen above its recent mean, as a logarithm."""
        return float(self.state.drift.score[0])

    @property
    def margin(self) -> float:
        """Return the present margin."""
        return float(self.state.margin.epsilon[0])

    @property
    def averaged_margin(self) -> float:
        """Return the mean of the margins of all models so far, where their average is kept."""
        return scoring.averaged_margin(self.state.expansion)

    @property
    def kept(self) -> np.ndarray:
        """Return the slots that hold a point, in display order."""
        return self.model.budget.kept_slots(self.state.budget, self.state.expansion)

    @property
    def truncation_error(self) -> float | None:
        """Return a bound on the norm of the dropped points, where the budget keeps one."""
        return self.parts.budget.truncation_error(self.state.budget)

    def support(self) -> Any:
        """Return the rows of the points, as the kernel sees them: scaled, if there is a scaling."""
        return self.store.stored(self.n_points)[self.kept]

    def coefficients(self) -> np.ndarray:
        """Return the coefficients alpha of the points, of shape (outputs, points)."""
        return scoring.coefficients(self.state.expansion, self.n_outputs)[:, self.kept]

    def weights(self) -> np.ndarray:
        """Return the weights of explicit features, of shape (outputs, features)."""
        return scoring.coefficients(self.state.expansion, self.n_outputs)

    def weight_steps(self) -> np.ndarray:
        """Return the step size of every weight, of shape (outputs, features)."""
        if not self.parts.step_size.per_weight:
            raise AttributeError(
                f"step_size={self.parts.step_size!r} is one for all weights: see step_size."
            )
        return self.state.step_size.steps.copy()

    def intercept(self) -> np.ndarray:
        """Return the intercepts, of shape (outputs,)."""
        return self.state.intercept.b.copy()
