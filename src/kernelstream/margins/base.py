"""What margins share."""

from typing import Any, NamedTuple, Protocol

from kernelstream.parts import Field, Part

__all__ = ["Margin", "MarginRule", "MarginState"]


class MarginState(NamedTuple):
    """The margin epsilon, its step size and the trace of log epsilon.

    Attributes
    ----------
    epsilon : ndarray
        The margin.
    eta : ndarray
        Its step size.
    trace : ndarray
        Of log epsilon.
    """

    epsilon: Any
    eta: Any
    trace: Any


class MarginRule(Protocol):
    """What a margin's rule answers."""

    def current_margin(self, margin_state, norm2):
        """Return the margin at the present row; norm2 is ||f||^2."""
        return margin_state.epsilon[0]

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        """Move the margin after a row that violated it or not.

        `direction` is the loss's: which way a violation moves the margin.
        """
        return


class Margin(Part):
    """Base of the margins. A rule begins with the fields `initial` and `first_step`."""

    adapts = False  # until a share of the rows violates it
    is_fixed = False

    def has_step_size(self) -> bool:
        """Return whether the margin has a step size that follows that of the model."""
        return False

    def to_rule(self, first_step: float) -> Any:
        """Return the compiled rule; `first_step` is the step size of f, for margins without one."""
        raise TypeError(f"{type(self).__name__} must say its rule.")

    def state(self, first_step: float) -> MarginState:
        """Return the record of what it remembers, a named tuple of `Field`."""
        lowered = self.to_rule(first_step)
        return MarginState(
            epsilon=Field((), lowered.initial), eta=Field((), lowered.first_step),
            trace=Field((), 0.0),
        )  # fmt: skip
