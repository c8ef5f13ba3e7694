"""How far to go?

One step size rule serves every parameter of a model: f itself, each intercept, the margin. Each of
them keeps its own step ``eta`` and its own trace ``v``, the derivative of that parameter with
respect to the logarithm of its past step sizes; the rule only says how they move.
"""

import math
from typing import Any, NamedTuple

from numba.extending import register_jitable

from kernelstream.parts import Field, Part, number, one_of, rule

__all__ = [
    "SMD",
    "Constant",
    "InverseDecay",
    "SqrtDecay",
    "StepState",
    "as_step_size",
    "note_drift",
    "smd_for",
]


class StepState(NamedTuple):
    """The step size of f, a running mean of the loss, and where the step size has been lately."""

    eta: object
    felt: object  # running mean of |<g, v>| over the objective: how much that depends on log eta
    mean_loss: object
    log_level: object  # running mean of log eta
    drift: object  # log eta beyond that: how much the step size has risen
    n_capped: object  # rows at which the update took a smaller step than eta


_WINDOW = 100  # rows over which the mean loss is taken
_LEVEL_WINDOW = 50  # and the mean of log eta
_FELT_WINDOW = 20  # and how much the step size is felt
# Where a step size is felt less than the first number, it grows by the second at every row (see
# `SMD`). No row counts more than the third, so that large ones are forgotten quickly.
_UNFELT, _WAKING, _MOST_FELT = 0.01, 1.03, 0.1


@register_jitable
def note_drift(step_state, n_seen):
    """Keep the drift score: how far log eta is above its mean over the last rows."""
    log_eta = math.log(step_state.eta[0])
    step_state.drift[0] = log_eta - step_state.log_level[0]
    step_state.log_level[0] += step_state.drift[0] / min(n_seen + 1, _LEVEL_WINDOW)


@rule
class ScheduleRule(NamedTuple):
    """A step that falls as a power of time, ``initial (tau / (tau + t))^power``; 0: never, (59)."""

    initial: float
    tau: float
    power: float

    def next_step(self, first, eta, felt, n_seen, correlation):
        return first * (self.tau / (self.tau + n_seen)) ** self.power

    def next_felt(self, felt, correlation, objective):
        return felt

    def remembered_step(self, first, before, eta, taken):
        return eta  # a schedule goes on, whatever step was taken

    def largest(self):
        return self.initial

    def of_intercept(self):
        return self

    def of_margin(self):
        return self

    def next_mean_loss(self, mean_loss, loss, n_seen):
        return mean_loss

    def unit(self, mean_loss):
        return 1.0

    def is_traced(self):
        return False

    def trace_decay(self):
        return 0.0


@rule
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

    def next_step(self, first, eta, felt, n_seen, correlation):
        factor = max(0.5, 1.0 - self.meta * correlation)  # (33), (51), (57)
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

    def next_mean_loss(self, mean_loss, loss, n_seen):
        return mean_loss + (loss - mean_loss) / min(n_seen + 1, _WINDOW)

    def unit(self, mean_loss):
        # The present loss is in the mean already, so that an outlier cannot jolt the step size.
        return max(mean_loss, 1e-300) if self.normalized else 1.0

    def is_traced(self):
        return True

    def trace_decay(self):
        return self.decay


_OWN_OF_INTERCEPT = ("intercept_meta", "intercept_decay")
_OWN_OF_MARGIN = ("margin_meta", "margin_decay")


class _StepSize(Part):
    initial: float

    def check_use(self, by_intercept: bool, by_margin: bool) -> None:
        """Refuse parameters for step sizes that a model does not have."""

    def for_regularization(self, c: float) -> "_StepSize":
        """The same with all its numbers, where some come from the regularization."""
        return self

    def state(self) -> StepState:
        return StepState(
            eta=Field((), float(self.initial)),
            felt=Field((), 0.0),
            mean_loss=Field((), 0.0),
            log_level=Field((), math.log(self.initial)),
            drift=Field((), 0.0),
            n_capped=Field((), 0, int),
        )


class Constant(_StepSize):
    """The same step at every row.

    With explicit updates a step that is too long for a row is cut: see `updates.Explicit`.

    Parameters
    ----------
    initial : float, default=0.1
        The step size eta.

    Examples
    --------
    >>> from kernelstream.step_sizes import Constant
    >>> Constant(0.1)
    Constant(initial=0.1)
    """

    def __init__(self, initial: float = 0.1):
        self.initial = initial
        self.check()

    def check(self) -> None:
        number("initial", self.initial, above=0)

    def to_rule(self) -> ScheduleRule:
        self.check()
        return ScheduleRule(float(self.initial), 1.0, 0.0)


class SqrtDecay(_StepSize):
    """NORMA's schedule, ``eta_t = initial * sqrt(tau / (tau + t))`` with t = 0, 1, ... (59).

    With explicit updates a step that is too long for a row is cut: see `updates.Explicit`.

    Parameters
    ----------
    initial : float, default=1.0
        The first step size.
    tau : float, default=100
        How many rows it takes until the step has fallen to 0.71 of the first.

    Examples
    --------
    >>> from kernelstream.step_sizes import SqrtDecay
    >>> SqrtDecay(1.0, tau=10)
    SqrtDecay(initial=1.0, tau=10)
    """

    def __init__(self, initial: float = 1.0, tau: float = 100):
        self.initial = initial
        self.tau = tau
        self.check()

    def check(self) -> None:
        number("initial", self.initial, above=0)
        number("tau", self.tau, above=0)

    def to_rule(self) -> ScheduleRule:
        self.check()
        return ScheduleRule(float(self.initial), float(self.tau), 0.5)


class InverseDecay(_StepSize):
    """A schedule ``eta_t = initial * tau / (tau + t)`` with t = 0, 1, ...; Pegasos' by default.

    With explicit updates a step that is too long for a row is cut: see `updates.Explicit`.

    Parameters
    ----------
    initial : float or None, default=None
        The first step size. None: ``1 / (tau c)`` with the regularization c, which makes the
        schedule ``1 / (c (tau + t))``.
    tau : float, default=2

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: Primal Estimated Sub-Gradient Solver for SVM.
    Mathematical Programming 127, 2011.

    Examples
    --------
    >>> from kernelstream.step_sizes import InverseDecay
    >>> InverseDecay().for_regularization(0.01)
    InverseDecay(initial=50.0, tau=2)
    """

    def __init__(self, initial: float | None = None, tau: float = 2):
        self.initial = initial  # type: ignore[assignment]
        self.tau = tau
        self.check()

    def check(self) -> None:
        if self.initial is not None:
            number("initial", self.initial, above=0)
        number("tau", self.tau, above=0)

    def for_regularization(self, c: float) -> "InverseDecay":
        if self.initial is not None:
            return self
        if c == 0.0:
            raise ValueError(
                "InverseDecay takes its first step from the regularization, which is 0: give "
                "regularization=1e-4, say, or InverseDecay(initial=...)."
            )
        return InverseDecay(1.0 / (self.tau * c), self.tau)

    def to_rule(self) -> ScheduleRule:
        self.check()
        return ScheduleRule(float(self.initial), float(self.tau), 1.0)


class SMD(_StepSize):
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

    def __init__(
        self, initial: float = 0.1, meta: float = 0.1, decay: float = 0.99,
        lowest: float = 1e-4, highest: float = 1e6, wake_below: float = 0.1,
        normalized: bool | None = None,
        intercept_meta: float | None = None, intercept_decay: float | None = None,
        margin_meta: float | None = None, margin_decay: float | None = None,
    ):  # fmt: skip
        self.initial = initial
        self.meta = meta
        self.decay = decay
        self.lowest = lowest
        self.highest = highest
        self.wake_below = wake_below
        self.normalized = normalized
        self.intercept_meta = intercept_meta
        self.intercept_decay = intercept_decay
        self.margin_meta = margin_meta
        self.margin_decay = margin_decay
        self.check()

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
    """SMD as it suits a task: normalized for regression, whose losses have the units of y."""
    own = {"meta": 0.03, "normalized": True} if task == "regression" else {}
    return SMD(**{**own, **params})


def as_step_size(step_size: Any, task: str, with_distance: bool = False) -> Any:
    """A step size part from what a user may give: a name, a number (constant), a part.

    `with_distance`: the loss has the units of a distance between labels.
    """
    if isinstance(step_size, str):
        name = one_of("step_size", step_size, ["smd", "sqrt_decay", "constant"])
        part = {"smd": smd_for(task), "sqrt_decay": SqrtDecay(), "constant": Constant()}[name]
    elif isinstance(step_size, _StepSize):
        step_size.check()
        part = step_size
    else:
        part = Constant(number("step_size", step_size, above=0))
    if isinstance(part, SMD) and part.normalized is None and with_distance:
        return SMD(**{**part.get_params(), "normalized": True})
    return part
