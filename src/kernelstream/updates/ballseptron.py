"""The Ballseptron."""

import math
from typing import Any, NamedTuple

from kernelstream.parts import SLACK, make, number, parameters, part, rule
from kernelstream.updates.base import Decay, UpdateRule
from kernelstream.updates.own_margin import OwnMargin

__all__ = ["Ballseptron"]


@rule(defaults=UpdateRule)
class BallseptronRule(NamedTuple):
    """A perceptron step with the row, or with the worst point of the ball around it."""

    radius: float

    def move(self, model, row, eta, with_intercept, out):
        ahead, size = 0.0, row.weight
        for k in range(row.xi.shape[0]):
            out.alpha[k] = 0.0 - eta * row.xi[k]
            out.beta[k] = 0.0
            ahead -= row.xi[k] * row.f[k]
            size += abs(row.xi[k] * row.f[k])
        keep = 1.0
        if ahead > SLACK * size:  # right, but the ball is not: x - y radius f / ||f|| comes in
            keep = max(0.0, 1.0 - eta * row.weight * self.radius / math.sqrt(row.norm2))
        return Decay(eta, keep, 0.0, 0.0)


@part("update")
@parameters
class Ballseptron(OwnMargin):
    """The Ballseptron: a perceptron that also learns from rows whose ball crosses the boundary.

    A mistake is a perceptron's, ``f <- f + y k(x, .)``. A row that is right, but closer to the
    boundary than the radius r, gives its worst neighbour within r:
    ``f <- (1 - r / ||f||) f + y k(x, .)``.

    Parameters
    ----------
    radius : float, default=0.02
        r, in the units of the kernel's space, where rows have the length sqrt(k(x, x)). Where
        labels can be separated by a margin gamma > r, m mistakes and n other steps satisfy
        ``(m gamma + n (gamma - r))^2 <= m R^2 + n (R^2 + r^2)``, R the length of the longest row.

    References
    ----------
    Shalev-Shwartz, Singer: A New Perspective on an Old Perceptron Algorithm. COLT 2005.

    Examples
    --------
    >>> from kernelstream.updates import Ballseptron
    >>> Ballseptron(0.05)
    Ballseptron(radius=0.05)
    """

    radius: float = 0.02

    only_loss = "perceptron"

    def check(self) -> None:
        number("radius", self.radius, at_least=0)

    def own_margin(self, single_output: bool) -> Any:
        return make("Ball", radius=self.radius)

    def to_rule(self) -> BallseptronRule:
        self.check()
        return BallseptronRule(float(self.radius))
