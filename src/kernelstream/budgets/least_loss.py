"""The budget that projects the point whose loss changes f least."""

from kernelstream.budgets.projection import LeastLossRule, ProjectingBudget
from kernelstream.parts import integer_at_least, number, parameters, part

__all__ = ["LeastLoss"]


@part("budget")
@parameters
class LeastLoss(ProjectingBudget):
    """Project the point on the others whose loss changes f least.

    When a new point comes, the point j goes, the new one included, with the least
    ``|alpha_j|^2 / (K^-1)_jj``: the squared distance from f to the nearest function without j. Its
    coefficients move to the others, and ``||f||^2`` and ``<f, v>`` stay exact at no cost. It
    keeps far more of f than dropping does, for O(size^2) work at every row that becomes a point.

    Parameters
    ----------
    size : int, default=256
        How many points are kept.
    tolerance : float, default=1e-6
        A new point whose squared distance from the span of the others is at most this share of its
        own squared norm is projected at once, also while there is room. An old point that a new one
        brings as close to the span of the others gives up its place to it. So the inverse of the
        kernel values stays bounded, and with it the coefficients.

    Examples
    --------
    >>> from kernelstream.budgets import LeastLoss
    >>> LeastLoss(64).limit()
    64
    """

    size: int = 256
    tolerance: float = 1e-6

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)
        number("tolerance", self.tolerance, above=0, below=1)

    def to_rule(self) -> LeastLossRule:
        self.check()
        return LeastLossRule(int(self.size), float(self.tolerance), True, 0.0, 1.0)
