"""No points: a weight for each explicit feature."""

from typing import NamedTuple

import numpy as np

from kernelstream.budgets.base import Budget, BudgetRule
from kernelstream.expansion import SUMMING
from kernelstream.parts import part, rule

__all__ = ["Folded"]


@rule
class Nothing(NamedTuple):
    """What weights remember beside themselves."""


@rule(defaults=BudgetRule)
class FoldedRule(NamedTuple):
    """Every row is added to the weights."""

    def make_room(self, budget_state, expansion, tile, i, point):
        return SUMMING

    def n_kept(self, budget_state, expansion):
        return 0

    def kept_slots(self, budget_state, expansion):
        return np.arange(0)


@part("budget")
class Folded(Budget):
    """No points: f is a weight for each explicit feature of the kernel.

    Where ``k(x, z) = <phi(x), phi(z)>`` with a phi that can be written down (`Linear`,
    `RandomFourier`, ...), ``f = <W, phi(x)>``. Nothing is dropped, memory is that of W whatever the
    length of the stream, and the model equals the one that keeps every point. This is what
    ``budget="auto"`` means for such kernels. The weights are in ``coef_``; there are no support
    vectors.

    Examples
    --------
    >>> import kernelstream as ks
    >>> model = ks.KernelRegressor("linear", budget=ks.budgets.Folded())
    >>> model.partial_fit([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]).coef_.shape
    (2,)
    """

    is_folded = True

    def limit(self) -> int | None:
        return None

    def check_with(self, choice):
        if not choice.kernel.has_features:
            raise ValueError(
                f"budget={self!r} needs a kernel with explicit features, such as Linear or "
                f"RandomFourier, but kernel={choice.kernel!r}: give a number of points."
            )
        if not choice.update.folds:
            raise ValueError(
                f"budget={self!r} does not go with update={choice.update!r}, which looks at its "
                "points again: give a number of points."
            )
        if choice.given.get("predictor") == "voted":
            raise ValueError(
                "predictor='voted' needs every point, in the order in which they came: give "
                "budget=None, or predictor='averaged'."
            )

    def state(self) -> Nothing:
        return Nothing()

    def n_kept(self, state, expansion):
        return np.zeros_like(expansion.n_points[..., 0])

    def to_rule(self) -> FoldedRule:
        return FoldedRule()
