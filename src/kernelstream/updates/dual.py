"""Updates of all coefficients at once, over a dictionary: equations of the SOG-SVR paper (2002)."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import (
    LARGEST_SQUARE,
    SLACK,
    Choice,
    Field,
    Unused,
    make,
    number,
    one_of,
    parameters,
    part,
    rule,
)
from kernelstream.updates.base import Update

__all__ = ["PERIOD", "Dual", "DualRule", "OpenTile", "with_constant"]

_LARGEST_STEP = 1e60

# After so many rows of a stream, and after as many again, Newton's direction prunes its dictionary
# and forgets. Up to then there are as many points more than the dictionary's size. Pruning costs
# what some hundred rows would, so that it should not come often, and points should not wait long.
PERIOD = 64


class OpenTile(NamedTuple):
    """Rows that came alone since P and K^-1 were brought up to date (`learner/open_tile.py`).

    Lines are rows. The first points are those that P and K^-1 know; new points are the rows that
    joined since then, numbered in their order.
    """

    n_rows: Any
    n_joined: Any
    joined: Any  # (tile,): which row each new point is
    x: Any  # (tile, features): the row, as kernels see it
    norm2: Any  # (tile,): its squared norm
    a: Any  # (tile, points): its coordinates over the first points
    told: Any  # (tile, points): the covariance of f at the row with f at the first points
    earlier: Any  # (tile, tile): with f at each earlier row, when that one was learned
    joint: Any  # (tile, tile): with f at each new point
    column: Any  # (tile, tile): what each new point expresses of the row, beyond those before it
    numbers: Any  # (tile, six numbers): precision, fresh, variance, delta, noise, settled
    rest: Any  # (outputs, tile): f at each new point beyond what the points before it express


def tile_fields(has_rows: bool) -> OpenTile:
    """Return the declaration of `OpenTile`; without rows, where no row is learned alone."""
    tile = "tile" if has_rows else "none"

    def field(*axes: str) -> Field:
        return Field(axes, 0.0, largest=LARGEST_SQUARE)

    count = Field((), 0, int, below="tile")
    return OpenTile(
        n_rows=count, n_joined=count, joined=count._replace(axes=(tile,)),
        x=field(tile, "features"), norm2=field(tile), a=field(tile, "points"),
        told=field(tile, "points"), earlier=field(tile, "tile"), joint=field(tile, "tile"),
        column=field(tile, "tile"), numbers=field(tile, "six"), rest=field("outputs", "tile"),
    )  # fmt: skip


class NewtonState(NamedTuple):
    """What Newton's direction remembers."""

    values: Any  # (outputs, points): f at the points, K beta
    covariance: Any  # (points, points): (C A^T A + c K^-1)^-1, up to the open tile
    squared: Any  # the sum of squared errors, each over its variance, of the mean output
    counted: Any  # and of how many rows
    bar: Any  # what the cheapest point of a full dictionary costs
    tile: Any  # `OpenTile`


class GradientState(NamedTuple):
    """What the paper's direction remembers."""

    values: Any  # (outputs, points): f at the points, K beta
    covariance: Any  # (points, points): (A^T A)^-1
    products: Any  # (points, points): A^T A
    moments: Any  # (outputs, points): A^T y
    ones: Any  # (points,): A^T e
    star: Any  # (outputs, points): alpha*, where there is a box
    plain: Any  # (outputs, points): alpha


class DualRule(Protocol):
    """What the rule of the paper's direction answers, in the loop over a dictionary.

    `dual` is the update's own record; `a` is a row as a combination of the n points.
    """

    def score_of_row(self, expansion, tile, i, k, n):
        """Return the score of row i by output k."""
        raise NotImplementedError

    def add_to_value(self, dual, expansion, tile, i, k, m, slot):
        """Add to f at the new point in `slot` what point m tells of it."""
        raise NotImplementedError

    def learn_targets(self, state, row, a, n, slot, share, gain, memory, both):
        """Move the coefficients after row `row`, whose P has been updated by share gain^T."""
        raise NotImplementedError


@rule
class NewtonRule(NamedTuple):
    """To the minimum over all rows so far (`kernelstream.learner.second_order`)."""

    forgetting: float


@rule(defaults=DualRule)
class GradientRule(NamedTuple):
    """One step along ``A^T (y - f)`` (4.12)."""

    step: float  # zero: the best one
    box: float  # zero: none

    def score_of_row(self, expansion, tile, i, k, n):
        total = 0.0
        for m in range(n):
            total += expansion.coef[k, 0, m] * tile.k[m, i]
        return total

    def add_to_value(self, dual, expansion, tile, i, k, m, slot):
        dual.values[k, slot] += tile.k[m, i] * expansion.coef[k, 0, m]  # values are K beta

    def learn_targets(self, state, row, a, n, slot, share, gain, memory, both):
        dual, expansion = state.update, state.expansion
        take(dual, n, a, row.weight, row.target)
        epsilon = state.margin.epsilon[0]
        for k in range(row.target.shape[0]):
            if n == 1 and slot == 0:
                begin(expansion, dual, k, row.target[k], row.k_xx, self.box)
            else:
                ascend(
                    self,
                    expansion,
                    state.budget.gram,
                    dual,
                    n,
                    k,
                    memory,
                    both,
                    epsilon,
                    share,
                    gain,
                )


@helper
def begin(expansion, dual, k, target, k_xx, box):
    """Initialize the first point with all of its target (table 2).

    The table prints alpha = min(0, -y / k), by which f would be twice a positive target and none of
    a negative one; with max, f(x) = y.
    """
    beta = target / k_xx
    if box > 0.0:  # (4.22)
        dual.star[k, 0] = min(max(beta, 0.0), box)
        dual.plain[k, 0] = min(max(-beta, 0.0), box)
        beta = dual.star[k, 0] - dual.plain[k, 0]
    expansion.coef[k, 0, 0] = beta
    dual.values[k, 0] = beta * k_xx


@helper
def take(dual, n, a, weight, target):
    """Let a row into A^T A, A^T y and A^T e."""
    for m in range(n):
        dual.ones[m] += weight * a[m]
        for j in range(n):
            dual.products[m, j] += weight * a[m] * a[j]
        for k in range(target.shape[0]):
            dual.moments[k, m] += weight * a[m] * target[k]


@helper
def ascend(update, expansion, gram, dual, n, k, g, both, epsilon, share, gain):
    """Step along g = A^T (y - f) (4.12) for output k; f at the points moves by K times it."""
    for m in range(n):
        g[m] = dual.moments[k, m]
        for j in range(n):
            g[m] -= dual.products[m, j] * dual.values[k, j]
    step = 2.0 * update.step  # alpha* and alpha both move by eta
    if update.box > 0.0:
        move_both(update, gram, dual, n, k, g, both, epsilon, share, gain)
        step = 1.0
    elif step == 0.0:
        slope, bend = 0.0, 0.0
        for m in range(n):
            for j in range(n):
                slope += g[m] * (dual.covariance[m, j] - share[m] * gain[j]) * g[j]
                bend += g[m] * gram[m, j] * g[j]
        step = slope / bend if bend > 0.0 else 0.0
    for m in range(n):
        if g[m] != 0.0:
            expansion.coef[k, 0, m] += step * g[m]
            for j in range(n):
                dual.values[k, j] += step * g[m] * gram[m, j]


@helper
def move_both(update, gram, dual, n, k, g, both, epsilon, share, gain):
    """Move alpha* and alpha inside their box (4.22); g becomes the change of their difference."""
    to, rise, box = both[:2], both[2:], update.box
    rise[:, :n] = 0.0
    slope, bend = 0.0, 0.0
    for m in range(n):  # (4.12), by which the reduced dual (4.18) rises with the slope (4.20)
        to[0, m] = g[m] - epsilon * dual.ones[m]
        to[1, m] = -g[m] - epsilon * dual.ones[m]
    for m in range(n):
        for j in range(n):
            p = dual.covariance[m, j] - share[m] * gain[j]
            rise[0, m] += p * to[0, j]
            rise[1, m] += p * to[1, j]
            bend += 4.0 * g[m] * gram[m, j] * g[j]
        slope += to[0, m] * rise[0, m] + to[1, m] * rise[1, m]
    step, best = update.step, update.step == 0.0
    if best:  # (g^T P g + epsilon^2 1^T P 1) / 2 g^T K g, where 1 is A^T e
        step = slope / bend if slope < _LARGEST_STEP * bend else _LARGEST_STEP
    for m in range(n):
        to[0, m] = min(max(dual.star[k, m] + step * to[0, m], -box), box) - dual.star[k, m]
        to[1, m] = min(max(dual.plain[k, m] + step * to[1, m], -box), box) - dual.plain[k, m]
    kept = share_in_box(gram, n, to, rise) if best else 1.0
    for m in range(n):
        dual.star[k, m] = min(max(dual.star[k, m] + kept * to[0, m], -box), box)
        dual.plain[k, m] = min(max(dual.plain[k, m] + kept * to[1, m], -box), box)
        g[m] = kept * (to[0, m] - to[1, m])


@helper
def share_in_box(gram, n, to, rise):
    """Return the share of a step that the box bent: all, if the dual rises to its end."""
    slope, bend = 0.0, 0.0
    for m in range(n):
        slope += to[0, m] * rise[0, m] + to[1, m] * rise[1, m]
        for j in range(n):
            bend += (to[0, m] - to[1, m]) * gram[m, j] * (to[0, j] - to[1, j])
    if slope <= 0.0:
        return 0.0
    return 1.0 if slope >= bend * (1.0 - SLACK) else slope / bend


def with_constant(kernel: Any) -> Any:
    """Return the kernel with an intercept in it (2.7), unless it has one already."""
    return kernel if kernel.has_constant else make("Homogenized", kernel=kernel, offset=1.0)


@part("update")
@parameters
class Dual(Update):
    """Updates of all coefficients at once, over a dictionary of points (SOG-SVR and beyond).

    For regression, and for classification as regression on the labels. With the budget
    `Independent`, which says what rows join the dictionary, the others are combinations a of it.
    With A the matrix of these, f is fitted to **all** rows so far in O(m^2) a row, m the size of
    the dictionary. With ``budget=None``, in `fit`, every row has a coefficient of its own (SVRseq,
    table 1). An intercept is part of f: ``fit_intercept=True`` adds one to the kernel, and
    `kernels.Homogenized` says how much (2.7).

    Where `Independent` has a size, "newton" prunes the dictionary down to it after every 64th row:
    the points go whose loss costs least of what is being minimised, and f is fitted anew to all
    rows on those that stay. Up to then there may be 64 more: rows that lower the minimum by at
    least ``(worth - 1) / 4`` times what the cheapest point did; others would hardly stay.
    "gradient" projects a row for which there is no place.

    It fits squared errors, whatever the `loss` is called; margin, nu and step size have nothing to
    say, nor do C and the regularization along the gradient. Parameters that would change nothing
    are refused.

    Parameters
    ----------
    direction : {"newton", "gradient"}, default="newton"
        "newton" goes to the minimum of ``C/2 sum (y - f)^2 + c/2 ||f||^2`` over the dictionary at
        every row (recursive least squares): one pass is enough. "gradient" is the paper's own rule
        (4.12), one step along ``A^T (y - f)``, from table 2's first point on, which takes all of
        its target; there a row of weight w counts as w rows.
    step : float or None, default=None
        Of "gradient": eta. None: the best step along the gradient, ``g^T P g / g^T K g`` with
        ``P = (A^T A)^-1``.
    box : float or None, default=None
        Of "gradient": keep every entry of alpha* and alpha between -box and box (4.22); epsilon is
        the margin. The best step is then that of both, ``(g^T P g + epsilon^2 1^T P 1) / g^T K g``
        with ``1 = A^T e``, and where the box cuts it, as much of what remains as helps.
    forgetting : float, default=1.0
        Of "newton", to follow a drift: how much of what a row told is left one row later, between 0
        and 1. What is forgotten goes back to the prior, ``P <- a P + (1 - a) K / c`` and ``w <-
        sqrt(a) w``, after every 64th row with a = forgetting^64. It needs a regularization.

    References
    ----------
    Engel, Mannor, Meir: Sparse Online Greedy Support Vector Regression. ECML 2002.
    Van Vaerenbergh, Lazaro-Gredilla, Santamaria: Kernel Recursive Least-Squares Tracker for
    Time-Varying Regression. IEEE Transactions on Neural Networks and Learning Systems, 2012.

    Examples
    --------
    >>> from kernelstream.updates import Dual
    >>> Dual(forgetting=0.999)
    Dual(box=None, direction='newton', forgetting=0.999, step=None)
    """

    direction: str = "newton"
    step: float | None = None
    box: float | None = None
    forgetting: float = 1.0

    folds = False
    intercept_in_kernel = True
    keeps_sum = False

    def check(self) -> None:
        newton = one_of("direction", self.direction, ["newton", "gradient"]) == "newton"
        for name, value in (("step", self.step), ("box", self.box)):
            if value is not None:
                number(name, value, above=0)
                if newton:
                    raise ValueError(f"{name}={value!r} goes with direction='gradient' only.")
        if number("forgetting", self.forgetting, above=0, at_most=1) < 1 and not newton:
            raise ValueError(f"forgetting={self.forgetting!r} goes with direction='newton' only.")

    @property
    def loop(self) -> str:  # type: ignore[override]
        """Return which loop learns by it."""
        return "second_order" if self.direction == "newton" else "dictionary"

    @property
    def is_second_order(self) -> bool:  # type: ignore[override]
        """Return whether it knows how certain f is."""
        return self.direction == "newton"

    def tile_rows(self, n_seen: int) -> int | None:
        return PERIOD - n_seen % PERIOD if self.direction == "newton" else None

    def n_waiting(self, state: Any) -> tuple[int, int]:
        if self.direction != "newton":
            return 0, 0
        return int(state.tile.n_rows[0]), int(state.tile.n_joined[0])

    def check_state(self, state: Any, n_points: int) -> None:
        if self.direction == "newton":
            tile, n = state.tile, int(state.tile.n_joined[0])
            joined = tile.joined[:n]
            if n > n_points or not (np.diff(joined, prepend=-1, append=tile.n_rows[0]) > 0).all():
                raise ValueError(f"{n} points of {n_points} came with rows that are not there")

    def spare_slots(self, budget: Any) -> int:
        return PERIOD if self.direction == "newton" and not budget.keeps_all else 0

    def check_with(self, choice: Choice) -> None:
        budget = choice.budget
        if not (budget.is_dictionary or budget.keeps_all):
            raise ValueError(
                f"update={self!r} works on a dictionary, budget=Independent(...), or, in fit, on "
                f"all rows, budget=None; not with {budget!r}."
            )
        if budget.keeps_all and choice.task != "regression":
            raise ValueError(f"update={self!r} with budget=None (SVRseq) is for regression.")
        if choice.task == "novelty" or choice.structured:
            raise ValueError(f"update={self!r} is for regression, and for plain labels.")
        if self.direction == "gradient" and budget.worth != 1:
            raise ValueError(
                f"budget={budget!r}: along the gradient a full dictionary keeps its points, so "
                "leave worth out."
            )
        if self.forgetting < 1 and choice.given.get("regularization") == 0:
            raise ValueError(
                f"forgetting={self.forgetting!r} goes back to a prior, which regularization=0 does "
                "not have: give a regularization above zero."
            )

    def solver(self, budget: Any) -> str | None:
        return "sequential" if budget.keeps_all else None

    def in_streams(self, budget: Any) -> bool:
        return not budget.keeps_all

    def own_kernel(self, kernel: Any, fit_intercept: bool) -> Any:
        return with_constant(kernel) if fit_intercept else kernel

    def touches_all(self) -> bool:
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        step = Unused("give update=Dual('gradient', step=...)")
        fixed = Unused("there is no margin to adapt, so leave it out")
        if all_rows:
            loss = Unused("use loss='epsilon_insensitive'", ("epsilon_insensitive",))
            box = Unused("with budget=None the box is C / regularization, so set these")
            return {"loss": loss, "nu": fixed, "step_size": step, "update__box": box}
        loss = Unused("it fits squared errors, so leave it out", ("squared_error",))
        if self.direction == "newton":
            margin = Unused("squared errors have none, so leave it out")
            own_step = Unused("it goes to the minimum at every row, so leave it out")
            return {"loss": loss, "margin": margin, "nu": fixed, "step_size": own_step}
        weight = Unused("the paper's rule has a box in its place, Dual('gradient', box=...)")
        found = {"nu": fixed, "step_size": step, "C": weight, "regularization": weight}
        if self.box is not None:
            return {"loss": Unused(loss.remedy, ("epsilon_insensitive",)), **found}
        margin = Unused("epsilon cancels unless there is a box, Dual('gradient', box=...)")
        return {"loss": loss, "margin": margin, **found}

    def state(self, first_margin: float, compiles: bool) -> Any:
        lines, square = Field(("outputs", "points"), 0.0), Field(("points", "points"), 0.0)
        if self.direction == "newton":
            sums = Field((), 0.0, least=0.0, largest=LARGEST_SQUARE)
            return NewtonState(
                values=lines, covariance=square, squared=sums, counted=sums, bar=sums,
                tile=tile_fields(compiles),
            )  # fmt: skip
        return GradientState(
            values=lines, covariance=square, products=square, moments=lines,
            ones=Field(("points",), 0.0), star=lines, plain=lines,
        )  # fmt: skip

    def to_rule(self) -> Any:
        self.check()
        if self.direction == "newton":
            return NewtonRule(float(self.forgetting))
        return GradientRule(float(self.step or 0.0), float(self.box or 0.0))
