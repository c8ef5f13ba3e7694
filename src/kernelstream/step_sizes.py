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
    mean_loss: object
    log_level: object  # running mean of log eta
    drift: object  # log eta beyond that: how much the step size has risen


_WINDOW = 100  # rows over which the mean loss is taken
_LEVEL_WINDOW = 50  # and the mean of log eta


@register_jitable
def note_drift(step_state, eta, n_seen):
    """Keep the drift score: how far log eta is above its mean over the last rows."""
    log_eta = math.log(eta)
    step_state.drift[0] = log_eta - step_state.log_level[0]
    step_state.log_level[0] += step_state.drift[0] / min(n_seen + 1, _LEVEL_WINDOW)


@rule
class ScheduleRule(NamedTuple):
    """A step that falls as a power of time, ``initial (tau / (tau + t))^power``; 0: never, (59)."""

    initial: float
    tau: float
    power: float

    def next_step(self, first, eta, n_seen, correlation):
        return first * (self.tau / (self.tau + n_seen)) ** self.power

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
    normalized: bool

    def next_step(self, first, eta, n_seen, correlation):
        eta *= max(0.5, 1.0 - self.meta * correlation)  # (33), (51), (57)
        return min(max(eta, first * self.lowest), first * self.highest)

    def next_mean_loss(self, mean_loss, loss, n_seen):
        return mean_loss + (loss - mean_loss) / min(n_seen + 1, _WINDOW)

    def unit(self, mean_loss):
        # The present loss is in the mean already, so that an outlier cannot jolt the step size.
        return max(mean_loss, 1e-300) if self.normalized else 1.0

    def is_traced(self):
        return True

    def trace_decay(self):
        return self.decay


class _StepSize(Part):
    initial: float

    def for_regularization(self, c: float) -> "_StepSize":
        """The same with all its numbers, where some come from the regularization."""
        return self

    def state(self) -> StepState:
        return StepState(
            eta=Field((), float(self.initial)),
            mean_loss=Field((), 0.0),
            log_level=Field((), math.log(self.initial)),
            drift=Field((), 0.0),
        )


class Constant(_StepSize):
    """The same step at every row.

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
        Bounds on eta as multiples of the first step, so that it can always come back.
    normalized : bool or None, default=None
        Divide ``<g, v>`` by a running mean of the loss, so that `meta` means the same whatever the
        units of the loss: the step size then follows its relative change. For losses with units of
        their own: those of y in regression, those of the distance between labels. None: where
        there is a label structure. False is the papers' rule (33).

    Notes
    -----
    Whatever the rule, a step on a curved loss is also cut so that ``eta (c + rho k(x, x)) <= 1``
    (half of that, where an intercept moves the score as well), and always ``eta c < 1``. Up to 2 a
    single step still does not increase the loss; but it then jumps across the minimum, and with
    points being dropped those jumps can add up.

    Examples
    --------
    >>> from kernelstream.step_sizes import SMD
    >>> SMD(initial=0.1, meta=0.1, decay=0.99).decay
    0.99
    """

    def __init__(
        self, initial: float = 0.1, meta: float = 0.1, decay: float = 0.99,
        lowest: float = 1e-4, highest: float = 1e6, normalized: bool | None = None,
    ):  # fmt: skip
        self.initial = initial
        self.meta = meta
        self.decay = decay
        self.lowest = lowest
        self.highest = highest
        self.normalized = normalized
        self.check()

    def check(self) -> None:
        number("initial", self.initial, above=0)
        number("meta", self.meta, at_least=0)
        number("decay", self.decay, at_least=0, at_most=1)
        number("lowest", self.lowest, above=0, at_most=1)
        number("highest", self.highest, at_least=1)

    def to_rule(self) -> SMDRule:
        self.check()
        return SMDRule(
            float(self.initial), float(self.meta), float(self.decay),
            float(self.lowest), float(self.highest), bool(self.normalized),
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
