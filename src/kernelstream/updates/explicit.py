"""Explicit gradient steps."""

import math
from typing import Any, NamedTuple

from kernelstream.parts import Field, parameters, part, rule
from kernelstream.updates.base import Decay, Update, UpdateRule

__all__ = ["Explicit"]

# eta c stays below one: at one an explicit step forgets all of f.
LARGEST_DECAY = 1.0 - 2.0**-10


class ExplicitState(NamedTuple):
    """What explicit steps remember."""

    n_capped: Any  # rows at which a smaller step than eta was taken


@rule(defaults=UpdateRule)
class ExplicitRule(NamedTuple):
    """The gradient step of NORMA and SVMD."""

    capped: bool

    def largest_step(self, model, row, with_intercept):
        # At one, a step goes to the bottom of the loss; the intercept's goes there as well.
        room = 0.5 if with_intercept else 1.0
        c, limit = model.regularization, math.inf
        if self.capped and c + row.rho * row.k_xx > 0.0:
            limit = room / (c + row.rho * row.k_xx)
        if self.capped and c > 0.0:
            limit = min(limit, LARGEST_DECAY / c)
        return limit

    def move(self, model, row, eta, with_intercept, out):
        for k in range(row.xi.shape[0]):
            # zero minus, so that no -0.0 comes about
            out.alpha[k] = 0.0 - eta * row.xi[k]  # (32)
            out.beta[k] = 0.0 - eta * (row.xi[k] + row.chi[k])  # (42)
        c = model.regularization
        keep = 1.0 - eta * c  # (28)
        return Decay(eta, keep, keep * model.step_size.trace_decay(), -eta * c)  # (35)

    def intercept_limit(self, rho):
        """Return the largest step of an intercept that is safe."""
        return 0.5 / rho if self.capped and rho > 0.0 else math.inf

    def largest_intercept_move(self, model, row):
        limit = self.intercept_limit(row.rho)
        return model.intercept.largest_move(model.step_size, row.xi, limit)

    def move_intercept(self, model, intercept_state, row, out, eta, proposal):
        limit = self.intercept_limit(row.rho)
        return model.intercept.adapt_intercept(
            intercept_state, model.step_size, row, proposal, limit
        )

    def note_capped(self, update_state):
        update_state.n_capped[0] += 1


@part("update", "explicit")
@parameters
class Explicit(Update):
    """Explicit gradient steps, ``f <- (1 - eta c) f - eta xi k(x, .)`` (28).

    Parameters
    ----------
    capped : bool, default=True
        Cut a step that is too long for its row, whatever the step size part says, `Constant` and
        schedules included: on a curved loss, whose second derivative is rho, so that
        ``eta (c + rho k(x, x)) <= 1`` (half of that where an intercept moves the score as well, and
        then ``eta_b rho <= 1/2``), and always so that ``eta c < 1``. False: never, as in the
        papers. A step that cannot be represented makes a bad row either way.

    Notes
    -----
    At one, a step goes to the minimum of the row's loss. Up to two a single step still does not
    increase it; but it then jumps across the minimum, and with points being dropped those jumps can
    add up. A fitted model counts the rows at which a step was cut in ``n_capped_``; the step sizes
    that `prequential` reports are those that were taken, and ``step_size_`` is what the step size
    part remembers for the next row.

    Examples
    --------
    >>> from kernelstream.updates import Explicit
    >>> Explicit()
    Explicit(capped=True)
    """

    capped: bool = True

    is_explicit = True
    has_intercept_step = True
    keeps_coefficients = True

    def state(self, first_margin: float, compiles: bool) -> ExplicitState:
        return ExplicitState(n_capped=Field((), 0, int))

    def n_capped(self, state: Any) -> Any:
        return state.n_capped[..., 0]

    def to_rule(self) -> ExplicitRule:
        return ExplicitRule(bool(self.capped))
