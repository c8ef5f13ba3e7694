"""The budget whose size is the data's own: a dictionary of points that are not dependent."""

from kernelstream.budgets.base import NO_LIMIT
from kernelstream.budgets.projection import LeastLossRule, ProjectingBudget
from kernelstream.parts import integer_at_least, number, parameters, part

__all__ = ["Independent"]


@part("budget")
@parameters
class Independent(ProjectingBudget):
    """Keep a point only if the others cannot stand in for it (SOG-SVR, section 3).

    A new point whose squared distance from the span of the points is at most `tolerance` is
    replaced by its best combination of them, ``a = (K + ridge I)^-1 k`` (3.9)-(3.10); otherwise it
    joins. How many points there are then depends on the data, not on the length of the stream.

    Parameters
    ----------
    tolerance : float, default=0.01
        nu in the paper. Zero keeps every point that rounding can tell from the others.
    size : int or None, default=None
        The most points. A full dictionary gives up the point whose projection on the others
        changes f least, as `LeastLoss` does. (With `Dual`, after every 64th row.)
    ridge : float, default=0.0
        gamma in the paper: keeps combinations small where points nearly depend on each other.
        ``||f||^2`` and ``<f, v>`` are then approximate.
    worth : float, default=1.0
        How many times as much as the cheapest point of a full dictionary a new point must be worth
        to take its place. More than one makes the points change less often.
    relative : bool, default=False
        Whether the tolerance is a share of k(x, x), for kernels whose rows differ in size.

    References
    ----------
    Engel, Mannor, Meir: Sparse Online Greedy Support Vector Regression. ECML 2002.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).uniform(-10, 10, size=(2000, 1))
    >>> model = ks.KernelRegressor(gamma=1 / 18, budget=ks.budgets.Independent(0.01))
    >>> bool(model.partial_fit(X, np.sinc(X[:, 0])).n_support_ < 20)
    True
    """

    tolerance: float = 0.01
    size: int | None = None
    ridge: float = 0.0
    worth: float = 1.0
    relative: bool = False

    is_dictionary = True

    def check(self) -> None:
        number("tolerance", self.tolerance, at_least=0)
        number("ridge", self.ridge, at_least=0)
        number("worth", self.worth, at_least=1)
        if not isinstance(self.relative, bool):
            raise TypeError(f"relative={self.relative!r} is not True or False.")
        if self.size is not None:
            integer_at_least("budget", self.size, 1)
        elif self.worth != 1:
            raise ValueError(
                f"worth={self.worth!r} is about the places of a full dictionary: give it a size, "
                "or leave worth out."
            )

    def limit(self) -> int | None:
        return None if self.size is None else int(self.size)

    def to_rule(self) -> LeastLossRule:
        self.check()
        size = NO_LIMIT if self.size is None else int(self.size)
        return LeastLossRule(
            size, float(self.tolerance), bool(self.relative), float(self.ridge), float(self.worth)
        )  # fmt: skip
