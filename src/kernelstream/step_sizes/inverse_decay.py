"""Pegasos' schedule."""

from typing import Any

from kernelstream.parts import number, parameters, part
from kernelstream.step_sizes.schedule import Schedule, ScheduleRule

__all__ = ["InverseDecay"]


@part("step_size", "inverse_decay")
@parameters
class InverseDecay(Schedule):
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
    >>> InverseDecay().for_model(0.01, with_distance=False)
    InverseDecay(initial=50.0, tau=2)
    """

    initial: Any = None
    tau: float = 2

    def check(self) -> None:
        if self.initial is not None:
            number("initial", self.initial, above=0)
        number("tau", self.tau, above=0)

    def for_model(self, regularization: float, with_distance: bool) -> "InverseDecay":
        if self.initial is not None:
            return self
        if regularization == 0.0:
            raise ValueError(
                "InverseDecay takes its first step from the regularization, which is 0: give "
                "regularization=1e-4, say, or InverseDecay(initial=...)."
            )
        return InverseDecay(1.0 / (self.tau * regularization), self.tau)

    def to_rule(self) -> ScheduleRule:
        self.check()
        return ScheduleRule(float(self.initial), float(self.tau), 1.0)
