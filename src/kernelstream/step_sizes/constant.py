"""The step size that stays."""

from kernelstream.parts import number, parameters, part
from kernelstream.step_sizes.schedule import Schedule, ScheduleRule

__all__ = ["Constant"]


@part("step_size", "constant")
@parameters
class Constant(Schedule):
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

    initial: float = 0.1

    is_constant = True

    def check(self) -> None:
        number("initial", self.initial, above=0)

    def to_rule(self) -> ScheduleRule:
        self.check()
        return ScheduleRule(float(self.initial), 1.0, 0.0)
