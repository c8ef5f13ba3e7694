"""AdaGrad: a step size per weight that falls with the gradients that the weight has seen."""

import math
from typing import NamedTuple

from kernelstream.parts import number, parameters, part, rule
from kernelstream.step_sizes.base import StepSizeRule
from kernelstream.step_sizes.per_weight import PerWeight, PerWeightRule

__all__ = ["AdaGrad"]


@rule(defaults=StepSizeRule)
@rule(defaults=PerWeightRule)
class AdaGradRule(NamedTuple):
    """``p = rate / sqrt(start + sum g^2)``, as a recursion for p itself."""

    initial: float
    per_rate: float
    least: float

    def step_of_weight(self, step, gradient, trace, per_unit, most):
        # 1 / p^2 grows by (g / rate)^2
        grown = step * gradient * self.per_rate
        return min(step / math.sqrt(1.0 + grown * grown), most)

    def least_gradient(self):
        return self.least


@part("step_size", "adagrad")
@parameters
class AdaGrad(PerWeight):
    """A step size per weight, ``p = rate / sqrt(start + sum g^2)``.

    For models on explicit features. The sum is over the gradients g of that weight, the present one
    included. At a row where a feature is zero, its weights decay by ``1 - p c``, and their step
    sizes stay. Steps are cut as with `VectorSMD`.

    Parameters
    ----------
    rate : float, default=0.1
        About how far a weight goes at its first steps.
    start : float, default=0.01
        Where the sums begin: gradients that are small beside its root hardly shorten a step.
    least : float, default=0.0
        Gradients of the loss by a score that are smaller are taken for zero. Of many classes most
        are certain not to be that of a row: with 0.003, models on `Forest` learn in half the time.

    References
    ----------
    Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization. JMLR 2011.

    Examples
    --------
    >>> from kernelstream.step_sizes import AdaGrad
    >>> AdaGrad().initial
    1.0
    """

    rate: float = 0.1
    start: float = 0.01
    least: float = 0.0

    @property
    def initial(self) -> float:
        """Return the first step size of every weight."""
        return self.rate / math.sqrt(self.start)

    def check(self) -> None:
        number("rate", self.rate, above=0)
        number("start", self.start, above=0)
        number("least", self.least, at_least=0)

    def to_rule(self) -> AdaGradRule:
        self.check()
        return AdaGradRule(float(self.initial), 1.0 / self.rate, float(self.least))
