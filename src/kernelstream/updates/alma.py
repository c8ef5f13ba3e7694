"""The approximate large margin algorithm."""

import math
from typing import Any, NamedTuple

from kernelstream.parts import Unused, make, number, parameters, part, rule
from kernelstream.updates.base import OWN_STEP, Decay, UpdateRule
from kernelstream.updates.own_margin import OwnMargin

__all__ = ["ALMA"]


@rule(defaults=UpdateRule)
class ALMARule(NamedTuple):
    """A perceptron step of length ``sqrt(2 / k)``, then back into the unit ball.

    k - 1 corrections came before, which the margin tells: it is ``scale R / sqrt(k)``. Rows have
    the norm R, one, or sqrt(2) where two labels' scores are compared.
    """

    scale: float

    def move(self, model, row, eta, with_intercept, out):
        radius2 = 1.0 if row.xi.shape[0] == 1 else 2.0
        taken = math.sqrt(2.0 / radius2) * row.margin / self.scale
        norm2, corrected = row.norm2, False
        for k in range(row.xi.shape[0]):
            out.alpha[k] = 0.0 - taken * row.xi[k] / math.sqrt(radius2)
            norm2 += out.alpha[k] * (2.0 * row.f[k] + row.k_xx * out.alpha[k])
            corrected = corrected or row.xi[k] != 0.0
        keep = 1.0 / math.sqrt(max(norm2, 1.0)) if corrected else 1.0
        for k in range(row.xi.shape[0]):
            out.alpha[k] *= keep
            out.beta[k] = 0.0
        return Decay(taken, keep, 0.0, 0.0)


@part("update")
@parameters
class ALMA(OwnMargin):
    """The approximate large margin algorithm, ALMA_2: perceptron steps inside the unit ball.

    A row is corrected where its margin is at most ``(1 - alpha) B / sqrt(k)``, with
    ``B = sqrt(8) / alpha``, at the k-th correction:
    ``f <- f + sqrt(2 / k) y k(x, .)``, then ``f <- f / max(1, ||f||)``. Rows have unit length: a
    kernel with another diagonal is normalized.

    Parameters
    ----------
    alpha : float in (0, 1), default=0.9
        How much of the largest margin may be given up: where labels can be separated by a margin
        gamma, at most ``2 / gamma^2 (2 / alpha - 1)^2 + 8 / alpha - 4`` corrections are made, and
        passing over the rows until none is left gives a margin of (1 - alpha) gamma.

    References
    ----------
    Gentile: A New Approximate Maximal Margin Classification Algorithm. JMLR 2, 2001.

    Examples
    --------
    >>> from kernelstream.updates import ALMA
    >>> ALMA()
    ALMA(alpha=0.9)
    """

    alpha: float = 0.9

    only_loss = "hinge"

    def check(self) -> None:
        number("alpha", self.alpha, above=0, below=1)

    def first_margin(self) -> float:
        """Return (1 - alpha) B."""
        return (1.0 - self.alpha) * math.sqrt(8.0) / self.alpha

    def own_kernel(self, kernel: Any, fit_intercept: bool) -> Any:
        return kernel if kernel.has_unit_diagonal else make("Normalized", kernel=kernel)

    def own_margin(self, single_output: bool) -> Any:
        first = self.first_margin() * (1.0 if single_output else math.sqrt(2.0))
        return make("Shrinking", initial=first)

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {"step_size": OWN_STEP}

    def to_rule(self) -> ALMARule:
        self.check()
        return ALMARule(self.first_margin())
