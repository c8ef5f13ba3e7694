"""How much is enough?

The margin of hinge and novelty losses, epsilon or sigma in regression: fixed, or moved by the
nu-trick so that a share nu of the rows violates it. Two learners bring margins of their own: one
that shrinks (ALMA), and one that is a distance (Ballseptron).
"""

import math
from typing import Any, NamedTuple

from numba.extending import register_jitable

from kernelstream.parts import Field, Part, number, one_of, rule

__all__ = ["Ball", "Fixed", "MarginState", "Nu", "Shrinking", "as_margin"]


class MarginState(NamedTuple):
    """The margin epsilon, its step size and the trace of log epsilon."""

    epsilon: object
    eta: object
    trace: object


@rule
class FixedRule(NamedTuple):
    """A margin that stays."""

    initial: float
    first_step: float

    def current_margin(self, margin_state, norm2):
        return margin_state.epsilon[0]

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        return


# An adaptive margin keeps within these multiples of where it began, whatever the stream does: with
# a single class nothing is ever violated, and epsilon would grow for ever.
_SMALLEST, _LARGEST = 1e-9, 1e9
_LARGEST_TRACE = 1e60


@register_jitable
def _excess(violated, nu):
    return (1.0 if violated else 0.0) - nu  # -(xi + nu) in the paper's words


@register_jitable
def _scaled(epsilon, exponent, initial):
    """``epsilon exp(exponent)`` within its bounds."""
    epsilon *= math.exp(min(max(exponent, -50.0), 50.0))
    return min(max(epsilon, _SMALLEST * initial), _LARGEST * initial)


@rule
class RelativeRule(NamedTuple):
    """``log eps += step (nu - [violated])``: tracks the nu-quantile, whatever its scale."""

    initial: float
    first_step: float
    nu: float

    def current_margin(self, margin_state, norm2):
        return margin_state.epsilon[0]

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        move = self.first_step * direction * weight * _excess(violated, self.nu)
        margin_state.epsilon[0] = _scaled(margin_state.epsilon[0], move, self.initial)


@rule
class PaperRule(NamedTuple):
    """``log eps += eta eps (nu - [violated])`` with its own eta and trace, (53)-(58)."""

    initial: float
    first_step: float
    nu: float

    def current_margin(self, margin_state, norm2):
        return margin_state.epsilon[0]

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        epsilon, trace = margin_state.epsilon[0], margin_state.trace[0]
        gradient = -direction * weight * epsilon * _excess(violated, self.nu)  # (54)
        own = step_size.of_margin()
        eta = own.next_step(
            self.first_step, margin_state.eta[0], 0.0, n_seen, gradient * trace
        )  # (57)
        decay = own.trace_decay()
        # (58): in log epsilon the second derivative is the gradient itself
        trace = decay * trace - eta * gradient * (1.0 + decay * trace)
        # heavy rows multiply it, time and again
        margin_state.trace[0] = min(max(trace, -_LARGEST_TRACE), _LARGEST_TRACE)
        margin_state.eta[0] = eta
        margin_state.epsilon[0] = _scaled(epsilon, -eta * gradient, self.initial)  # (56)


@rule
class LinearRule(NamedTuple):
    """``eps += eta (nu - [violated])`` with its own eta and trace: NORMA's rule."""

    initial: float
    first_step: float
    nu: float

    def current_margin(self, margin_state, norm2):
        return margin_state.epsilon[0]

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        trace = margin_state.trace[0]
        gradient = -direction * weight * _excess(violated, self.nu)
        own = step_size.of_margin()
        eta = own.next_step(self.first_step, margin_state.eta[0], 0.0, n_seen, gradient * trace)
        margin_state.trace[0] = own.trace_decay() * trace - eta * gradient
        margin_state.eta[0] = eta
        limit = _LARGEST * self.initial
        margin_state.epsilon[0] = min(max(margin_state.epsilon[0] - eta * gradient, -limit), limit)


@rule
class ShrinkingRule(NamedTuple):
    """``eps_k = initial / sqrt(k)``, where k - 1 rows have violated it so far."""

    initial: float
    first_step: float

    def current_margin(self, margin_state, norm2):
        return margin_state.epsilon[0]

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        if violated:
            ratio = margin_state.epsilon[0] / self.initial
            margin_state.epsilon[0] /= math.sqrt(1.0 + ratio * ratio)


@rule
class BallRule(NamedTuple):
    """``radius ||f||``: a row is this far from where the score is zero."""

    initial: float
    first_step: float
    radius: float

    def current_margin(self, margin_state, norm2):
        return self.radius * math.sqrt(norm2)

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        return


_RULES = {"relative": RelativeRule, "paper": PaperRule, "linear": LinearRule}


class _Margin(Part):
    def has_step_size(self) -> bool:
        """Whether the margin has a step size that follows that of the model."""
        return False

    def to_rule(self, first_step: float) -> Any:
        """The compiled rule; `first_step` is that of f, for margins that have none of their own."""
        raise TypeError(f"{type(self).__name__} must say its rule.")

    def state(self, first_step: float) -> MarginState:
        lowered = self.to_rule(first_step)
        return MarginState(
            epsilon=Field((), lowered.initial), eta=Field((), lowered.first_step),
            trace=Field((), 0.0),
        )  # fmt: skip


class Fixed(_Margin):
    """A margin that stays where it is.

    Parameters
    ----------
    value : float, default=1.0
        The margin of hinge and novelty losses; epsilon or sigma in regression.

    Examples
    --------
    >>> from kernelstream.margins import Fixed
    >>> Fixed(0.5)
    Fixed(value=0.5)
    """

    def __init__(self, value: float = 1.0):
        self.value = value
        self.check()

    def check(self) -> None:
        number("margin", self.value, at_least=0)

    def to_rule(self, first_step: float) -> FixedRule:
        self.check()
        return FixedRule(float(self.value), 0.0)


class Nu(_Margin):
    """The nu-trick: a margin that moves until a share `nu` of the rows violates it.

    Parameters
    ----------
    nu : float in (0, 1)
        The share of rows that violate the margin.
    rule : {"relative", "paper", "linear"}, default="relative"
        How the margin epsilon moves when a row violates it or not:

        - "relative": ``log eps += step (nu - [violated])``, holds nu and keeps eps positive;
        - "paper": ``log eps += eta eps (nu - [violated])``, equations (53)-(58). It slows down as
          eps shrinks, and then lets more rows violate than nu says;
        - "linear": ``eps += eta (nu - [violated])``, NORMA's. In novelty and classification eps can
          become negative.

        In regression the sign is the opposite: a violation widens the zone.
    initial : float, default=1.0
        Where the margin starts.
    step : float, default=None
        The step of "relative" (None: 0.3), or the first step eta of "paper" (None: 1, as in the
        paper) and "linear" (None: that of the model), which then follow the model's step size.

    Notes
    -----
    A misclassified row violates every positive margin. In classification the share of violations
    therefore cannot fall below the error rate, however small the margin becomes, except by the
    "linear" rule, which gives up the positive margin.

    Examples
    --------
    >>> from kernelstream.margins import Nu
    >>> Nu(0.05, rule="paper").nu
    0.05
    """

    def __init__(
        self, nu: float, rule: str = "relative", initial: float = 1.0, step: float | None = None
    ):
        self.nu = nu
        self.rule = rule
        self.initial = initial
        self.step = step
        self.check()

    def check(self) -> None:
        number("nu", self.nu, above=0, below=1)
        one_of("rule", self.rule, list(_RULES))
        number("initial", self.initial, above=0)
        if self.step is not None:
            number("step", self.step, above=0)

    def has_step_size(self) -> bool:
        return self.rule != "relative"

    def to_rule(self, first_step: float) -> Any:
        self.check()
        own = {"relative": 0.3, "paper": 1.0, "linear": first_step}[self.rule]
        step = own if self.step is None else float(self.step)
        return _RULES[self.rule](float(self.initial), step, float(self.nu))


class Shrinking(_Margin):
    """A margin that shrinks whenever it is violated: ``initial / sqrt(k)`` at the k-th violation.

    ALMA's; `updates.ALMA` brings it.

    Parameters
    ----------
    initial : float, default=1.0

    Examples
    --------
    >>> from kernelstream.margins import Shrinking
    >>> Shrinking(2.0)
    Shrinking(initial=2.0)
    """

    def __init__(self, initial: float = 1.0):
        self.initial = initial
        self.check()

    def check(self) -> None:
        number("initial", self.initial, above=0)

    def to_rule(self, first_step: float) -> ShrinkingRule:
        self.check()
        return ShrinkingRule(float(self.initial), 0.0)


class Ball(_Margin):
    """A margin in the units of the kernel's space: ``radius ||f||``.

    Ballseptron's; `updates.Ballseptron` brings it.

    Parameters
    ----------
    radius : float, default=0.1

    Examples
    --------
    >>> from kernelstream.margins import Ball
    >>> Ball(0.1)
    Ball(radius=0.1)
    """

    def __init__(self, radius: float = 0.1):
        self.radius = radius
        self.check()

    def check(self) -> None:
        number("radius", self.radius, at_least=0)

    def to_rule(self, first_step: float) -> BallRule:
        self.check()
        return BallRule(0.0, 0.0, float(self.radius))


def as_margin(margin: Any, nu: Any, default: float | Nu) -> Any:
    """A margin part from `margin` (a number, a part, or None) and `nu` (a number or None)."""
    if nu is not None:
        if margin is not None:
            raise ValueError(
                f"nu={nu!r} and margin={margin!r} were both given: nu={nu!r} is short for "
                f"margin=Nu({nu!r}); keep one of the two."
            )
        return Nu(nu)
    if margin is None:
        margin = default
    if isinstance(margin, _Margin):
        margin.check()
        return margin
    return Fixed(number("margin", margin, at_least=0))
