"""What step sizes share."""

from typing import Any, NamedTuple, Protocol

from kernelstream.parts import Part

__all__ = ["Proposal", "StepSize", "StepSizeRule"]


class Proposal(NamedTuple):
    """The step that a rule wants to take at a row, and what it would remember of the row.

    Attributes
    ----------
    eta : float
        The step size.
    correlation : float
        <g, v>: the slope of the objective in log eta.
    mean_loss : float
        Over the last rows.
    objective : float
        That, and the regularizer.
    unit : float
        In which slopes are measured.
    """

    eta: float
    correlation: float
    mean_loss: float
    objective: float
    unit: float


class StepSizeRule(Protocol):
    """What a step size's rule answers.

    One rule serves every parameter of a model. f asks by `propose`, before anything is written, and
    tells by `accept` what was done. Each intercept, and the margin, keep an eta and a trace of
    their own, and ask by `next_step`.
    """

    initial: float

    def propose(self, step_state, n_seen, loss, regularizer, correlation):
        """Return the `Proposal` for f at a row, from the row's loss and <g, v>."""
        raise NotImplementedError

    def accept(self, step_state, proposal, taken, capped, has_gradient):
        """Return the update took a step, a smaller one than proposed where it was `capped`."""
        raise NotImplementedError

    def next_step(self, first, eta, felt, n_seen, slope):
        """Return the next step size, from `first` and the present eta; (33), (51), (57)."""
        raise NotImplementedError

    def next_felt(self, felt, correlation, objective):
        """Return how much the objective depends on a parameter's step size, after one more row."""
        return felt

    def remembered_step(self, first, before, eta, taken):
        """Return the corrected state of a step that was taken in part."""
        return eta

    def largest(self):
        """Return the largest step that there can be."""
        return self.initial

    def of_intercept(self):
        """Return the rule of the intercepts' own step sizes."""
        return self

    def of_margin(self):
        """Return the rule of the margin's own step size."""
        return self

    def is_traced(self):
        """Return whether there is a trace v."""
        return False

    def trace_decay(self):
        """Return lambda, by which the trace decays."""
        return 0.0


class StepSize(Part):
    """Base of the step sizes. Each declares its own state record, with `eta` among it."""

    initial: Any
    is_constant = False
    per_weight = False  # whether every weight has a step size of its own: explicit features only

    def check_use(self, by_intercept: bool, by_margin: bool) -> None:
        """Refuse parameters for step sizes that a model does not have."""

    def for_model(self, regularization: float, with_distance: bool) -> "StepSize":
        """Return the same with all its numbers, where some depend on the model.

        `with_distance`: the loss has the units of a distance between labels.
        """
        return self

    def for_task(self, task: str) -> "StepSize":
        """Return the same as it suits a task, where a user gave only its name."""
        return self

    def floor(self) -> float | None:
        """Return the lowest value of an adaptive step size."""
        return None

    def state(self) -> Any:
        """Return the record of what it remembers, a named tuple of `Field`."""
        raise TypeError(f"{type(self).__name__} must say what it remembers.")

    def to_rule(self) -> Any:
        """Return the compiled rule, of `StepSizeRule`."""
        raise TypeError(f"{type(self).__name__} must say its rule.")
