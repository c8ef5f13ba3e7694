"""What step sizes that follow a schedule share."""

from typing import Any, NamedTuple

from kernelstream.parts import Field, rule
from kernelstream.step_sizes.base import Proposal, StepSize, StepSizeRule

__all__ = ["Schedule", "ScheduleRule"]


class ScheduleState(NamedTuple):
    """Where a schedule is."""

    eta: Any


@rule(defaults=StepSizeRule)
class ScheduleRule(NamedTuple):
    """A step that falls as a power of time, ``initial (tau / (tau + t))^power``; 0: never, (59)."""

    initial: float
    tau: float
    power: float

    def propose(self, step_state, n_seen, loss, regularizer, correlation):
        eta = self.next_step(self.initial, step_state.eta[0], 0.0, n_seen, correlation)
        return Proposal(eta, correlation, 0.0, 0.0, 1.0)

    def accept(self, step_state, proposal, taken, capped, has_gradient):
        # a schedule goes on, whatever step was taken
        step_state.eta[0] = proposal.eta if capped else taken

    def next_step(self, first, eta, felt, n_seen, slope):
        return first * (self.tau / (self.tau + n_seen)) ** self.power


class Schedule(StepSize):
    """A step size that depends on the number of rows alone."""

    def state(self) -> ScheduleState:
        return ScheduleState(eta=Field((), float(self.initial), least=1e-300))
