"""Is there a bias? None, or one per output, each with its own step size."""

from typing import NamedTuple

from kernelstream.parts import SLACK, Field, rule

__all__ = ["Intercept", "InterceptState"]


class InterceptState(NamedTuple):
    """One offset per output, with its step size and trace.

    Attributes
    ----------
    b : ndarray
        One offset per output.
    eta : ndarray
        The step size of each.
    felt : ndarray
        How much the objective depends on log eta.
    trace : ndarray
        Of each offset.
    """

    b: object
    eta: object
    felt: object
    trace: object


@rule
class InterceptRule(NamedTuple):
    """Offsets b added to the scores, learned by (50)-(52); held at zero if not fitted."""

    fitted: bool
    first_step: float

    def is_fitted(self):
        return self.fitted

    def adapt_intercept(self, intercept_state, step_size, row, proposal, limit):
        """Move the offsets; return whether `limit` cut a step."""
        if not self.fitted:
            return False
        own = step_size.of_intercept()
        capped, xi, chi, unit = False, row.xi, row.chi, proposal.unit
        for k in range(xi.shape[0]):
            trace, before = intercept_state.trace[k], intercept_state.eta[k]
            correlation, felt = xi[k] * trace, intercept_state.felt[k]
            eta = own.next_step(
                self.first_step, before, felt, row.n_seen, correlation / unit
            )  # (51)
            taken = min(eta, limit)
            capped = capped or taken < eta * (1.0 - SLACK)
            intercept_state.b[k] -= taken * xi[k]  # (50)
            intercept_state.trace[k] = own.trace_decay() * trace - taken * (xi[k] + chi[k])  # (52)
            intercept_state.eta[k] = own.remembered_step(self.first_step, before, eta, taken)
            if xi[k] != 0.0:
                intercept_state.felt[k] = own.next_felt(felt, correlation, proposal.objective)
        return capped

    def largest_move(self, step_size, xi, limit):
        """Return how far an offset can move at most."""
        if not self.fitted:
            return 0.0
        farthest = 0.0
        for k in range(xi.shape[0]):
            farthest = max(farthest, abs(xi[k]))
        return farthest * min(step_size.largest(), limit)


class Intercept:
    """The intercept of a model: `fitted` or zero. Its first step is that of f.

    It takes gradient steps ``b <- b - eta_b xi`` (50), with a step size of its own that adapts as
    that of f does (51), (52).

    Parameters
    ----------
    fitted : bool
        Whether there is one; otherwise it is zero.
    first_step : float
        The step size that it begins with.

    Examples
    --------
    >>> from kernelstream.intercepts import Intercept
    >>> Intercept(True, 0.1).fitted
    True
    """

    version = 1  # of its arrays, as of every part

    def __init__(self, fitted: bool, first_step: float):
        self.fitted = bool(fitted)
        self.first_step = float(first_step)

    def to_rule(self) -> InterceptRule:
        return InterceptRule(self.fitted, self.first_step)

    def state(self) -> InterceptState:
        return InterceptState(
            b=Field(("outputs",), 0.0), eta=Field(("outputs",), self.first_step),
            felt=Field(("outputs",), 0.0), trace=Field(("outputs",), 0.0),
        )  # fmt: skip
