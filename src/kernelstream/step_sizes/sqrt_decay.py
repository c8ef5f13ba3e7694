"""NORMA's schedule."""

from kernelstream.parts import number, parameters, part
from kernelstream.step_sizes.schedule import Schedule, ScheduleRule

__all__ = ["SqrtDecay"]


@part("step_size", "sqrt_decay")
@parameters
class SqrtDecay(Schedule):
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

    initial: float = 1.0
    tau: float = 100

    def check(self) -> None:
        number("initial", self.initial, above=0)
        number("tau", self.tau, above=0)

    def to_rule(self) -> ScheduleRule:
        self.check()
        return ScheduleRule(float(self.initial), float(self.tau), 0.5)
