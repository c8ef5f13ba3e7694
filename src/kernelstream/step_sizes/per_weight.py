"""What step sizes share that every weight has for itself."""

from typing import Any, NamedTuple, Protocol

from kernelstream.parts import Choice, Field
from kernelstream.step_sizes.base import Proposal, StepSize

__all__ = ["LARGEST_DECAY", "PerWeight", "PerWeightRule"]

LARGEST_DECAY = 0.5  # of a weight at one row: p c


class PerWeightState(NamedTuple):
    """The step size of every weight, and what it depends on."""

    eta: Any  # what the last row felt of them: the mean of the steps, weighted by x_j^2
    steps: Any  # (outputs, features): p
    caught_up: Any  # (features,): up to which row each weight and its trace are what they should be
    mean_loss: Any


class PerWeightRule(Protocol):
    """What the rule of a step size per weight answers, beside `StepSizeRule`."""

    initial: float

    def propose(self, step_state, n_seen, loss, regularizer, correlation):
        return Proposal(step_state.eta[0], correlation, 0.0, 0.0, 1.0)

    def accept(self, step_state, proposal, taken, capped, has_gradient):
        step_state.eta[0] = taken
        step_state.mean_loss[0] = proposal.mean_loss

    def next_step(self, first, eta, felt, n_seen, slope):
        """Return the step size of an adaptive margin: its first one."""
        return first

    def step_of_weight(self, step, gradient, trace, per_unit, most):
        """Return the next step size of a weight, at most `most`, from its gradient and its trace.

        `per_unit` is one over the unit in which losses are measured.
        """
        raise NotImplementedError

    def least_gradient(self):
        """Return the size below which a derivative of the loss counts as zero."""
        return 0.0

    def least_step(self):
        """Return the smallest step size that there can be."""
        return 0.0


class PerWeight(StepSize):
    """Base of the step sizes that every weight has for itself."""

    per_weight = True

    def check_with(self, choice: Choice) -> None:
        if not choice.budget.is_folded:
            raise ValueError(
                f"step_size={self!r} is for a weight per feature: use kernel='linear', or another "
                f"kernel with explicit features, with budget='auto', not {choice.budget!r}."
            )
        if choice.given.get("predictor", "last") != "last":
            raise ValueError(
                f"predictor={choice.given['predictor']!r} does not go with step_size={self!r}, "
                "where weights decay one by one: use predictor='last'."
            )
        if not choice.update.is_explicit:
            raise ValueError(
                f"step_size={self!r} takes explicit steps: use update='explicit', not "
                f"{choice.update!r}."
            )

    def for_model(self, regularization: float, with_distance: bool) -> "PerWeight":
        if regularization * self.initial > LARGEST_DECAY:
            raise ValueError(
                f"regularization={regularization!r} is too large for step_size={self!r}: weights "
                f"would change their sign as they decay. Choose one of at most "
                f"{LARGEST_DECAY / self.initial:g}, or a smaller first step size."
            )
        return self

    def state(self) -> PerWeightState:
        first = self.to_rule().initial
        return PerWeightState(
            eta=Field((), first, least=1e-300),
            steps=Field(("outputs", "points"), first, least=1e-300),
            caught_up=Field(("points",), 0, int),
            mean_loss=Field((), 0.0),
        )
