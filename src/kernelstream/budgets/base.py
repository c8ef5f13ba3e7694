"""What budgets share: their state, and the base of the public classes."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.parts import LARGEST_SQUARE, SLACK, Field, Part

__all__ = [
    "NO_LIMIT", "Budget", "BudgetState", "first_to_go", "halvings", "norm2_of", "smallest",
]  # fmt: skip

NO_LIMIT = 2**62
_IDLE = 8.0  # points with which nothing is merged fade so many times as fast
_MOST_HALVINGS = 200.0  # far below what a double can tell


class BudgetState(NamedTuple):
    """What budgets remember. Arrays that a budget has no use for are empty."""

    oldest: Any  # the slot of the oldest point
    gram: Any  # k(points, points)
    inverse: Any  # its inverse
    weights: Any  # of the last projection, on the points and on the new one
    column: Any  # working memory
    share: Any  # of the last merger
    replaced: Any  # how often a point was replaced, or had to hold its place
    queue: Any  # slots in the order in which their points came, a ring that begins at `oldest`
    spare: Any  # slots whose points have gone without another's taking their place
    n_spare: Any
    diagonal: Any  # (points,): k(x, x) of every point
    since: Any  # (points,): what `replaced` was when the point came; of a merged one, the mean
    touched: Any  # (points,): what `replaced` was when something was last merged with the point


@register_jitable
def smallest(sizes, n):
    """Index of the smallest of the first n; near-ties go to the lowest index."""
    best = 0
    for j in range(1, n):
        if sizes[j] < sizes[best]:
            best = j
    for j in range(best):
        if sizes[j] <= sizes[best] * (1.0 + SLACK):
            return j
    return best


@register_jitable
def halvings(budget_state, j, half_life):
    """How often the coefficients of point j have been halved in the competition for its place.

    What is compared fades, f does not. Without it a point that nothing touches any more, with a
    coefficient beyond all that are to come, would hold its place for ever.
    """
    now = budget_state.replaced[0]
    count = max(now - budget_state.since[j], 0.0) / half_life
    if budget_state.touched.size > 0:
        count += max(now - budget_state.touched[j], 0.0) / half_life * _IDLE
    return int(min(count, _MOST_HALVINGS))


@register_jitable
def first_to_go(budget_state, expansion, n, half_life, sizes):
    """The point with the smallest faded coefficients, near-ties to the lowest index.

    The squared norms of the faded raw coefficients are left in `sizes`.
    """
    for j in range(n):
        sizes[j] = expansion.size2[j] * 0.25 ** halvings(budget_state, j, half_life)
    return smallest(sizes, n)


@register_jitable
def norm2_of(x):
    """Squared norm of a short vector."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
    return total


class Budget(Part):
    """Base of the budgets."""

    size: int

    def limit(self) -> int | None:
        """The most points a model may hold; None where there is no limit."""
        return int(self.size)

    def keeps_gram(self, trace_decay: float) -> bool:
        """Whether to keep k(points, points), to correct ||f||^2 and <f, v> for dropped points."""
        return False

    def projects(self) -> bool:
        """Whether what goes is projected on what stays, which needs kernel values and memory."""
        return False

    def expires(self) -> bool:
        """Whether points go without another's coming; then it is known when each came, and what all
        that went still amounts to."""
        return False

    def merges(self) -> bool:
        """Whether what goes may become one point with another."""
        return False

    def fades(self) -> bool:
        """Whether what a point counts in the competition for its place falls with its age."""
        return False

    def state(self, trace_decay: float | None, dtype: np.dtype) -> BudgetState:
        """`trace_decay` is None where the model uses neither ||f||^2 nor <f, v>."""
        keeps = trace_decay is not None and self.keeps_gram(trace_decay)
        square, nothing = ("points", "points"), ("none", "none")
        projects = self.projects()
        ring = ("points_and_one",) if self.expires() else ("none",)
        return BudgetState(
            oldest=Field((), 0, int, below="points"),
            gram=Field(square if keeps or projects else nothing, 0.0, float if projects else dtype),
            inverse=Field(square if projects else nothing, 0.0, largest=LARGEST_SQUARE),
            weights=Field(("points_and_one",) if projects else ("none",), 0.0),
            column=Field(("points_and_one",) if projects or self.fades() else ("none",), 0.0),
            share=Field((), 0.0),
            replaced=Field((), 0, int),
            queue=Field(ring, 0, int, below="points"),
            spare=Field(ring, 0, int, below="points"),
            n_spare=Field((), 0, int, below="points_and_one"),
            diagonal=Field(("points",) if self.expires() else ("none",), 0.0),
            since=Field(("points",) if self.fades() else ("none",), 0.0),
            touched=Field(("points",) if self.merges() else ("none",), 0.0),
        )
