"""Is there a bias? None, or one per output, each with its own step size."""

from typing import NamedTuple

from kernelstream.parts import Field, rule

__all__ = ["Intercept", "InterceptState"]


class InterceptState(NamedTuple):
    """One offset a output, with its step size and trace."""

    b: object
    eta: object
    trace: object


@rule
class InterceptRule(NamedTuple):
    """Offsets b added to the scores, learned by (50)-(52); held at zero if not fitted."""

    fitted: bool
    first_step: float

    def is_fitted(self):
        return self.fitted

    def adapt_intercept(self, intercept_state, step_size, n_seen, xi, chi, unit, limit):
        if not self.fitted:
            return
        decay = step_size.trace_decay()
        for k in range(xi.shape[0]):
            trace = intercept_state.trace[k]
            eta = step_size.next_step(
                self.first_step, intercept_state.eta[k], n_seen, xi[k] * trace / unit
            )  # (51)
            eta = min(eta, limit)
            intercept_state.b[k] -= eta * xi[k]  # (50)
            intercept_state.trace[k] = decay * trace - eta * (xi[k] + decay * chi[k])  # (52)
            intercept_state.eta[k] = eta


class Intercept:
    """The intercept of a model: `fitted` or zero. Its first step is that of f."""

    def __init__(self, fitted: bool, first_step: float):
        self.fitted = bool(fitted)
        self.first_step = float(first_step)

    def to_rule(self) -> InterceptRule:
        return InterceptRule(self.fitted, self.first_step)

    def state(self) -> InterceptState:
        return InterceptState(
            b=Field(("outputs",), 0.0), eta=Field(("outputs",), self.first_step),
            trace=Field(("outputs",), 0.0),
        )  # fmt: skip
