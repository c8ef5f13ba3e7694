"""LASVM."""

from typing import Any, NamedTuple

from kernelstream.parts import Choice, Field, Unused, number, parameters, part, rule
from kernelstream.updates.base import OWN_STEP, Update, UpdateRule, check_classic

__all__ = ["LASVM"]


class ActiveState(NamedTuple):
    """What LASVM remembers of the rows in its active set, which are the points."""

    y: Any  # (points,)
    limit: Any  # (points,): the largest coefficient, C over the regularization times the weight
    row: Any  # (points,): the row's number in the stream
    gradients: Any  # (outputs, points): of the dual objective, margin y - f


class StoredActiveState(NamedTuple):
    """The same, with kernel values between points, where compiled code cannot compute them."""

    y: Any
    limit: Any
    row: Any
    gradients: Any
    gram: Any  # (points, points)


@rule(defaults=UpdateRule)
class ActiveRule(NamedTuple):
    """Numbers of LASVM; `kernelstream.learner.lasvm` is its loop."""

    tolerance: float
    cache_mb: float


@part("update")
@parameters
class LASVM(Update):
    """LASVM: the support vector machine's own problem, solved online on an active set.

    PROCESS takes in a row that violates the optimality conditions, with the point that it
    contradicts most; REPROCESS takes a step on the worst pair of the active set,
    ``alpha_i += s, alpha_j -= s`` with ``s = (g_i - g_j) / (k_ii + k_jj - 2 k_ij)`` inside the box,
    and drops points without a coefficient that are beyond the others. Each row of a stream is
    processed, then comes one REPROCESS; the intercept is half way between the extreme gradients.
    FINISHING repeats REPROCESS until no pair violates more than the tolerance: at the end of `fit`,
    and in a stream whenever a model's `finish` is called. With more than two classes each is
    learned against the rest.

    Where the budget has a size (``OldestOut`` or ``SmallestOut``) and the active set is full, a
    point goes before another comes: one without a coefficient, if there is any; otherwise the
    oldest, or that of the smallest coefficients. Its coefficients move to other points, each time
    to where the dual objective loses least: so they sum to zero and stay in the box all the time.
    ``OldestOut`` follows a stream that changes. ``SmallestOut`` is for labels with little noise:
    a wrong label keeps a coefficient of C, and those would stay for ever.

    Parameters
    ----------
    tolerance : float, default=0.001
        How much the gradients of a pair may differ at the end.
    cache_mb : float, default=256
        Memory for kernel values. It changes the speed, not the result.

    References
    ----------
    Bordes, Ertekin, Weston, Bottou: Fast Kernel Classifiers with Online and Active Learning.
    JMLR 6, 2005.

    Examples
    --------
    >>> from kernelstream.updates import LASVM
    >>> LASVM(tolerance=0.01)
    LASVM(cache_mb=256, tolerance=0.01)
    """

    tolerance: float = 0.001
    cache_mb: float = 256

    loop = "active"
    folds = False
    finishes = True
    keeps_sum = False

    def check(self) -> None:
        number("tolerance", self.tolerance, above=0)
        number("cache_mb", self.cache_mb, above=0)

    def check_with(self, choice: Choice) -> None:
        check_classic(self, choice, "hinge")
        budget = choice.budget
        ages = budget.projects or budget.expires or budget.fades()
        if ages or budget.limit() == 1:
            raise ValueError(
                f"update={self!r} keeps the rows of pairs: use budget=None, or SmallestOut(size) "
                f"or OldestOut(size) with at least two points and no more, not {budget!r}."
            )
        if not choice.margin.is_fixed:
            nu = choice.given["nu"]
            raise ValueError(f"LASVM needs a fixed margin: leave nu={nu!r} out.")
        if not choice.fit_intercept:
            raise ValueError(f"update={self!r} solves for an intercept: use fit_intercept=True.")

    def solver(self, budget: Any) -> str:
        return "active"

    def touches_all(self) -> bool:
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {"step_size": OWN_STEP}

    def state(self, first_margin: float, compiles: bool) -> Any:
        points = ("points",)
        own = ActiveState(
            y=Field(points, 0.0),
            limit=Field(points, 0.0),
            row=Field(points, 0, int),
            # to a class that comes late all points are of the rest
            gradients=Field(("outputs", "points"), -first_margin),
        )
        if compiles:
            return own
        return StoredActiveState(*own, gram=Field(("points", "points"), 0.0))

    def to_rule(self) -> ActiveRule:
        self.check()
        return ActiveRule(float(self.tolerance), float(self.cache_mb))
