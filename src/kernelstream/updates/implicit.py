"""Implicit steps."""

from typing import NamedTuple

from kernelstream.parts import Choice, parameters, part, rule
from kernelstream.updates.base import Decay, Update, UpdateRule

__all__ = ["Implicit"]


@rule(defaults=UpdateRule)
class ImplicitRule(NamedTuple):
    """The proximal step of ILK, SILK and PA-I; equations of the ILK paper."""

    exact: bool

    def move(self, model, row, eta, with_intercept, out):
        c, decay = model.regularization, model.step_size.trace_decay()
        keep = 1.0 / (1.0 + eta * c)  # 1 - tau
        weight_b = eta * row.weight if with_intercept else 0.0  # the intercept is not decayed
        weight_f = keep * eta * row.weight
        step = weight_f * row.k_xx + weight_b
        for k in range(row.f.shape[0]):
            out.slope[k] = keep * row.f[k] + row.b[k]
        if step > 0.0:
            model.loss.proximal(
                out.slope, row.scores, row.y, row.margin, step, self.exact, out.xi, out.dual
            )
        else:  # k(x, x) = 0: nothing that is learned at x would change a score
            out.xi[:] = 0.0
        keep_v, cross = keep * decay, -keep * keep * eta * c
        # docs/implicit.md: slope of the new score, first as if the gradient stayed, then with it
        for k in range(row.f.shape[0]):
            out.alpha[k] = 0.0 - weight_f * out.xi[k]  # (12)
            out.beta[k] = keep * out.alpha[k]
            out.slope[k] = keep_v * row.v[k] + cross * row.f[k] + row.k_xx * out.beta[k]
            if with_intercept:
                out.slope[k] += decay * row.b_trace[k] - weight_b * out.xi[k]
            out.chi[k] = out.slope[k]
        if model.step_size.is_traced() and step > 0.0:
            model.loss.follow(row.y, row.margin, step, out.xi, out.dual, out.slope)
            for k in range(row.f.shape[0]):
                out.chi[k] = (out.chi[k] - out.slope[k]) / step
                out.beta[k] -= weight_f * out.chi[k]
        else:
            out.chi[:] = 0.0
        return Decay(eta, keep, keep_v, cross)

    def move_intercept(self, model, intercept_state, row, out, eta, proposal):
        if not model.intercept.is_fitted():
            return False
        decay = model.step_size.trace_decay()
        for k in range(row.f.shape[0]):
            change = eta * row.weight * (out.xi[k] + out.chi[k])
            intercept_state.b[k] -= eta * row.weight * out.xi[k]
            intercept_state.trace[k] = decay * intercept_state.trace[k] - change
            intercept_state.eta[k] = eta
        return False


@part("update", "implicit")
@parameters
class Implicit(Update):
    """Implicit steps: the gradient is taken where the step arrives.

    ``f <- argmin 1/2 ||f' - f||^2 + eta (c/2 ||f'||^2 + C l(f'))``, which is
    ``f <- (1 - tau) f - (1 - tau) eta C xi' k(x, .)`` with ``tau = eta c / (1 + eta c)`` and the
    gradient xi' at the new f. No step, however large, overshoots. An intercept takes part with the
    step size of f.

    Parameters
    ----------
    exact : bool, default=True
        For several labels: the exact minimum (a sort), or the closed form of the paper, which looks
        at one runner-up only.

    References
    ----------
    Cheng, Vishwanathan, Schuurmans, Wang, Caelli: Implicit Online Learning with Kernels. NIPS 2006.

    Examples
    --------
    >>> from kernelstream.updates import Implicit
    >>> Implicit()
    Implicit(exact=True)
    """

    exact: bool = True

    def check_with(self, choice: Choice) -> None:
        if not choice.loss.accepts_implicit:
            raise ValueError(
                f"update='implicit' does not go with loss={choice.loss.name!r}, which has no "
                "margin: from a model at zero an implicit step never moves. Use loss='hinge', or "
                "update='explicit'."
            )

    def touches_all(self) -> bool:
        return bool(self.exact)

    def to_rule(self) -> ImplicitRule:
        return ImplicitRule(bool(self.exact))
