"""The nu-trick: equations (53)-(58) of the SVMD paper, and rules that hold nu."""

import math
from typing import Any, NamedTuple

from kernelstream.compile import helper
from kernelstream.margins.base import Margin, MarginRule
from kernelstream.parts import Choice, number, one_of, parameters, part, rule

__all__ = ["Nu"]

# An adaptive margin keeps within these multiples of where it began, whatever the stream does: with
# a single class nothing is ever violated, and epsilon would grow for ever.
_SMALLEST, _LARGEST = 1e-9, 1e9
_LARGEST_TRACE = 1e60


@helper
def _excess(violated, nu):
    return (1.0 if violated else 0.0) - nu  # -(xi + nu) in the paper's words


@helper
def _scaled(epsilon, exponent, initial):
    """Return ``epsilon exp(exponent)`` within its bounds."""
    epsilon *= math.exp(min(max(exponent, -50.0), 50.0))
    return min(max(epsilon, _SMALLEST * initial), _LARGEST * initial)


@rule(defaults=MarginRule)
class RelativeRule(NamedTuple):
    """``log eps += step (nu - [violated])``: tracks the nu-quantile, whatever its scale."""

    initial: float
    first_step: float
    nu: float

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        move = self.first_step * direction * weight * _excess(violated, self.nu)
        margin_state.epsilon[0] = _scaled(margin_state.epsilon[0], move, self.initial)


@rule(defaults=MarginRule)
class PaperRule(NamedTuple):
    """``log eps += eta eps (nu - [violated])`` with its own eta and trace, (53)-(58)."""

    initial: float
    first_step: float
    nu: float

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


@rule(defaults=MarginRule)
class LinearRule(NamedTuple):
    """``eps += eta (nu - [violated])`` with its own eta and trace: NORMA's rule."""

    initial: float
    first_step: float
    nu: float

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        trace = margin_state.trace[0]
        gradient = -direction * weight * _excess(violated, self.nu)
        own = step_size.of_margin()
        eta = own.next_step(self.first_step, margin_state.eta[0], 0.0, n_seen, gradient * trace)
        margin_state.trace[0] = own.trace_decay() * trace - eta * gradient
        margin_state.eta[0] = eta
        limit = _LARGEST * self.initial
        margin_state.epsilon[0] = min(max(margin_state.epsilon[0] - eta * gradient, -limit), limit)


_RULES = {"relative": RelativeRule, "paper": PaperRule, "linear": LinearRule}


@part("margin")
@parameters
class Nu(Margin):
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

    nu: float
    rule: str = "relative"
    initial: float = 1.0
    step: float | None = None

    adapts = True

    def check(self) -> None:
        number("nu", self.nu, above=0, below=1)
        one_of("rule", self.rule, list(_RULES))
        number("initial", self.initial, above=0)
        if self.step is not None:
            number("step", self.step, above=0)

    def check_with(self, choice: Choice) -> None:
        if not choice.loss.accepts_nu:
            raise ValueError(
                f"nu={self.nu!r} does not go with loss={choice.loss.name!r}, which has no margin "
                "to adapt: leave nu out, or choose hinge, novelty, epsilon_insensitive or huber."
            )

    def default_regularization(self, task: str) -> float | None:
        # with nu the papers fix c at 1 (53), except in regression
        return None if task == "regression" else 1.0

    def has_step_size(self) -> bool:
        return self.rule != "relative"

    def to_rule(self, first_step: float) -> Any:
        self.check()
        own = {"relative": 0.3, "paper": 1.0, "linear": first_step}[self.rule]
        step = own if self.step is None else float(self.step)
        return _RULES[self.rule](float(self.initial), step, float(self.nu))
