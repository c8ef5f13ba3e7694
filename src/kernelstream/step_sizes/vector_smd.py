"""Stochastic meta-descent with a step size per weight: section 2 of the SVMD paper."""

import math
from typing import NamedTuple

from kernelstream.parts import number, parameters, part, rule
from kernelstream.step_sizes.base import Proposal, StepSizeRule
from kernelstream.step_sizes.per_weight import PerWeight, PerWeightRule

__all__ = ["VectorSMD"]

_WINDOW = 100  # rows over which the mean loss is taken


@rule(defaults=StepSizeRule)
@rule(defaults=PerWeightRule)
class VectorSMDRule(NamedTuple):
    """Steps that descend the loss's gradient with respect to their own logarithms."""

    initial: float
    meta: float
    decay: float
    lowest: float
    highest: float
    normalized: bool
    growth: float  # the largest factor of a step size at one row

    def propose(self, step_state, n_seen, loss, regularizer, correlation):
        mean_loss = step_state.mean_loss[0]
        mean_loss += (loss - mean_loss) / min(n_seen + 1, _WINDOW)
        # The present loss is in the mean already, so that an outlier cannot jolt the step sizes.
        unit = max(mean_loss, 1e-300) if self.normalized else 1.0
        return Proposal(step_state.eta[0], correlation, mean_loss, mean_loss, unit)

    def next_step(self, first, eta, felt, n_seen, slope):
        factor = min(max(1.0 - self.meta * slope, 0.5), self.growth)  # (57)
        return min(max(eta * factor, first * self.lowest), first * self.highest)

    def step_of_weight(self, step, gradient, trace, per_unit, most):
        factor = max(1.0 - self.meta * trace * gradient * per_unit, 0.5)  # (4)
        return min(max(step * min(factor, self.growth), self.initial * self.lowest), most)

    def least_step(self):
        return self.initial * self.lowest

    def largest(self):
        return self.initial * self.highest

    def is_traced(self):
        return True

    def trace_decay(self):
        return self.decay


@part("step_size", "vector-smd")
@parameters
class VectorSMD(PerWeight):
    """Stochastic meta-descent with a step size per weight, for models on explicit features.

    Element by element ``p <- p max(1/2, 1 - meta v g)`` (4), ``w <- w - p g`` (1) and
    ``v <- decay v - p (g + decay H v)`` (7), where g is the gradient of a row's loss and of
    ``c/2 |w|^2``, H the second derivative of the two, and the trace v how the weights depend on
    their past step sizes. An intercept is one more weight, without regularization.

    Parameters
    ----------
    initial : float, default=0.3
        The first step size of every weight. It suits rows whose length is about one; where rows
        are longer, steps on curved losses are cut (see the notes).
    meta : float, default=0.3
        The meta step mu: how fast log p moves.
    decay : float in [0, 1], default=0.99
        The time scale lambda of the trace; 1 is for stationary data only.
    lowest, highest : float, default=1e-3 and 10
        Bounds on every step size, as multiples of the first.
    normalized : bool, default=False
        Divide ``v g`` by a running mean of the loss, so that `meta` means the same whatever the
        units of the loss. ``step_size="vector-smd"`` does so in regression, where these are the
        units of y, with a `meta` of 0.03.
    growth : float or None, default=2.0
        The largest factor by which a step size grows at one row. None: no limit, as in (4) of the
        paper; `highest` still holds. The limit keeps a single outlier from taking a step size to
        its upper bound.

    Notes
    -----
    At a row where a feature is zero, its weights decay by ``1 - p c``, their traces follow by (7),
    and their step sizes stay. For sparse rows this is done when a feature is next needed, in closed
    form, so that a row costs what its nonzeros cost. With a regularization every weight has to be
    brought up to date before it predicts: then a block also costs what all features cost.

    A step size is at most ``1 / (2 c)``. Where the loss is curved, with second derivative rho, and
    ``rho sum_j p_j x_j^2 > 1`` (the intercept counts as x = 1), the loss's share of a step is
    divided by that, output by output: it leads to the minimum of the row's loss at most. The p that
    are remembered are not cut. ``updates.Explicit(capped=False)`` turns this off. With it the
    trace is a sum that decays of steps that are bounded: it needs no bound of its own.

    Examples
    --------
    >>> from kernelstream.step_sizes import VectorSMD
    >>> VectorSMD(0.3).highest
    10.0
    """

    version = 2

    initial: float = 0.3
    meta: float = 0.3
    decay: float = 0.99
    lowest: float = 1e-3
    highest: float = 10.0
    normalized: bool = False
    growth: float | None = 2.0

    def check(self) -> None:
        number("initial", self.initial, above=0)
        number("meta", self.meta, at_least=0)
        number("decay", self.decay, at_least=0, at_most=1)
        number("lowest", self.lowest, above=0, at_most=1)
        number("highest", self.highest, at_least=1)
        if self.growth is not None:
            number("growth", self.growth, at_least=1)

    def for_task(self, task: str) -> "VectorSMD":
        # losses of regression have the units of y
        return VectorSMD(meta=0.03, normalized=True) if task == "regression" else self

    def default_regularization(self, task: str) -> float | None:
        """Return a regularization above zero: without it weights drift on smooth series."""
        return 3e-3 if task == "regression" else None

    def to_rule(self) -> VectorSMDRule:
        self.check()
        return VectorSMDRule(
            float(self.initial), float(self.meta), float(self.decay), float(self.lowest),
            float(self.highest), bool(self.normalized),
            math.inf if self.growth is None else float(self.growth),
        )  # fmt: skip
