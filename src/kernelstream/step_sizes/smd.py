"""Stochastic meta-descent: sections 2 and 3 of the SVMD paper."""

from typing import Any, NamedTuple

from kernelstream.parts import Field, number, parameters, part, rule
from kernelstream.step_sizes.base import Proposal, StepSize, StepSizeRule

__all__ = ["SMD", "smd_for"]

_WINDOW = 100  # rows over which the mean loss is taken
_FELT_WINDOW = 20  # and how much the step size is felt
# Where a step size is felt less than the first number, it grows by the second at every row (see
# `SMD`). No row counts more than the third, so that large ones are forgotten quickly.
_UNFELT, _WAKING, _MOST_FELT = 0.01, 1.03, 0.1


class SMDState(NamedTuple):
    """The step size of f, and what it depends on."""

    eta: Any
    felt: Any  # running mean of |<g, v>| over the objective: how much that depends on log eta
    mean_loss: Any


@rule(defaults=StepSizeRule)
class SMDRule(NamedTuple):
    """A step that descends the loss's gradient with respect to its own logarithm."""

    initial: float
    meta: float
    decay: float
    lowest: float
    highest: float
    wake_below: float
    normalized: bool
    intercept_meta: float
    intercept_decay: float
    margin_meta: float
    margin_decay: float

    def propose(self, step_state, n_seen, loss, regularizer, correlation):
        mean_loss = step_state.mean_loss[0]
        mean_loss += (loss - mean_loss) / min(n_seen + 1, _WINDOW)
        # The present loss is in the mean already, so that an outlier cannot jolt the step size.
        unit = max(mean_loss, 1e-300) if self.normalized else 1.0
        eta = self.next_step(
            self.initial, step_state.eta[0], step_state.felt[0], n_seen, correlation / unit
        )
        return Proposal(eta, correlation, mean_loss, mean_loss + regularizer, unit)

    def accept(self, step_state, proposal, taken, capped, has_gradient):
        if has_gradient:
            step_state.felt[0] = self.next_felt(
                step_state.felt[0], proposal.correlation, proposal.objective
            )
        wanted = proposal.eta if capped else taken
        step_state.eta[0] = self.remembered_step(self.initial, step_state.eta[0], wanted, taken)
        step_state.mean_loss[0] = proposal.mean_loss

    def next_step(self, first, eta, felt, n_seen, slope):
        factor = max(0.5, 1.0 - self.meta * slope)  # (33), (51), (57)
        if felt < _UNFELT and eta < self.wake_below * first and self.meta > 0.0:
            factor *= _WAKING
        return min(max(eta * factor, first * self.lowest), first * self.highest)

    def next_felt(self, felt, correlation, objective):
        share = abs(correlation) / max(objective, 1e-300)
        return felt + (min(share, _MOST_FELT) - felt) / _FELT_WINDOW

    def remembered_step(self, first, before, eta, taken):
        # A row that needs a small step says little about the next one: half of it is remembered.
        return min(eta, max(taken, 0.5 * before, first * self.lowest))

    def largest(self):
        return self.initial * self.highest

    def of_intercept(self):
        return SMDRule(
            self.initial, self.intercept_meta, self.intercept_decay, self.lowest, self.highest,
            self.wake_below, self.normalized, self.intercept_meta, self.intercept_decay,
            self.margin_meta, self.margin_decay,
        )  # fmt: skip

    def of_margin(self):
        # It never wakes: no row is so large that it would drive this step size down.
        return SMDRule(
            self.initial, self.margin_meta, self.margin_decay, self.lowest, self.highest,
            0.0, self.normalized, self.intercept_meta, self.intercept_decay,
            self.margin_meta, self.margin_decay,
        )  # fmt: skip

    def is_traced(self):
        return True

    def trace_decay(self):
        return self.decay


_OWN_OF_INTERCEPT = ("intercept_meta", "intercept_decay")
_OWN_OF_MARGIN = ("margin_meta", "margin_decay")


@part("step_size", "smd")
@parameters
class SMD(StepSize):
    """Stochastic meta-descent: the step size is learned along with the model.

    ``eta <- eta max(1/2, 1 - meta <g, v>)`` (33), where the trace
    ``v <- decay v - eta (g + decay H v)`` (34) follows how the model depends on its past step
    sizes. With ``decay=0`` only the effect of the last step counts.

    Parameters
    ----------
    initial : float, default=0.1
        The first step size eta_0.
    meta : float, default=0.1
        The meta step mu: how fast log eta moves.
    decay : float in [0, 1], default=0.99
        The time scale lambda of the trace; 1 is for stationary data only.
    lowest, highest : float, default=1e-4 and 1e6
        Bounds on eta as multiples of the first step.
    wake_below : float, default=0.1
        Where eta is below this multiple of the first step, and so small that the loss does not
        feel it, it grows by 3 % per row (see the notes). 0: never, as in the papers. The margin's
        own step size never does.
    normalized : bool or None, default=None
        Divide ``<g, v>`` by a running mean of the loss, so that `meta` means the same whatever the
        units of the loss: the step size then follows its relative change. For losses with units of
        their own: those of y in regression, those of the distance between labels. None: where
        there is a label structure. False is the papers' rule (33).
    intercept_meta, intercept_decay : float or None, default=None
        The meta step and the decay of the intercepts' own step sizes, mu_b and lambda_b in (51)
        and (52), which explicit updates have. None: as `meta` and `decay`.
    margin_meta, margin_decay : float or None, default=None
        The same for the margin's own step size, mu_eps and lambda_eps in (57) and (58), which the
        "paper" and "linear" rules of `margins.Nu` have. None: as `meta` and `decay`.

    Notes
    -----
    An explicit update may take a smaller step than eta (see `updates.Explicit`). What is remembered
    of that is at most a halving per row: one huge row does not put an end to learning.

    The trace is about eta times a sum of gradients. A step size that is a thousandth of what it
    should be therefore moves a thousand times more slowly by (33): a few huge rows, or labels that
    come in runs, drive it down in a dozen rows, and it would take ten thousand to come back. Now
    ``<g, v>`` is the slope of the objective ``c/2 ||f||^2 + loss`` in log eta. Where, over the last
    20 or so rows with a gradient, its mean size is less than 1 % of the objective, eta could be
    twice as large and nothing would show; then it may as well be, and it grows until it is felt or
    reaches `wake_below`. Elsewhere (33) holds as it stands.

    Examples
    --------
    >>> from kernelstream.step_sizes import SMD
    >>> SMD(initial=0.1, meta=0.1, decay=0.99).decay
    0.99
    """

    initial: float = 0.1
    meta: float = 0.1
    decay: float = 0.99
    lowest: float = 1e-4
    highest: float = 1e6
    wake_below: float = 0.1
    normalized: bool | None = None
    intercept_meta: float | None = None
    intercept_decay: float | None = None
    margin_meta: float | None = None
    margin_decay: float | None = None

    def check(self) -> None:
        number("initial", self.initial, above=0)
        number("meta", self.meta, at_least=0)
        number("decay", self.decay, at_least=0, at_most=1)
        number("lowest", self.lowest, above=0, at_most=1)
        number("highest", self.highest, at_least=1)
        number("wake_below", self.wake_below, at_least=0, at_most=1)
        for name in _OWN_OF_INTERCEPT + _OWN_OF_MARGIN:
            value = getattr(self, name)
            if value is not None:
                number(name, value, at_least=0, at_most=1 if name.endswith("decay") else None)

    def check_use(self, by_intercept: bool, by_margin: bool) -> None:
        for names, used, who in (
            (_OWN_OF_INTERCEPT, by_intercept, "intercept with a step size of its own"),
            (_OWN_OF_MARGIN, by_margin, "margin with a step size of its own"),
        ):
            for name in names:
                if not used and getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} means nothing here: this model has no "
                        f"{who}. Leave it out."
                    )

    def for_model(self, regularization: float, with_distance: bool) -> "SMD":
        if self.normalized is None and with_distance:
            return SMD(**{**self.get_params(), "normalized": True})
        return self

    def for_task(self, task: str) -> "SMD":
        # losses of regression have the units of y
        return SMD(meta=0.03, normalized=True) if task == "regression" else self

    def floor(self) -> float:
        return self.initial * self.lowest

    def state(self) -> SMDState:
        return SMDState(
            eta=Field((), float(self.initial), least=1e-300),
            felt=Field((), 0.0),
            mean_loss=Field((), 0.0),
        )

    def to_rule(self) -> SMDRule:
        self.check()

        def own(name: str, shared: float) -> float:
            value = getattr(self, name)
            return float(shared if value is None else value)

        return SMDRule(
            float(self.initial), float(self.meta), float(self.decay),
            float(self.lowest), float(self.highest), float(self.wake_below), bool(self.normalized),
            own("intercept_meta", self.meta), own("intercept_decay", self.decay),
            own("margin_meta", self.meta), own("margin_decay", self.decay),
        )  # fmt: skip


def smd_for(task: str, **params: Any) -> SMD:
    """Return SMD for a task: normalized for regression, whose losses have the units of y.

    Parameters
    ----------
    task : {"classification", "regression", "novelty"}
    **params
        Those of `SMD`.

    Examples
    --------
    >>> from kernelstream.step_sizes import smd_for
    >>> smd_for("regression").normalized
    True
    """
    return SMD(**{**SMD().for_task(task).get_params(), **params})
