"""How does a gradient become coefficients?

An update turns the loss at the current row into a move of f, of its trace v and of the intercept,

    f <- keep f + alpha . k(x, .)
    v <- keep_v v + cross f + beta . k(x, .)

It answers ``(keep, keep_v, cross)`` and writes the rest into a `Move`; the loop does what remains,
the same way for every update. `touches_all` tells whether a step may give a coefficient to outputs
that the loss's gradient leaves alone.
"""

import math
from typing import Any, NamedTuple

from kernelstream.parts import Field, Part, number, one_of, rule

__all__ = [
    "Dual",
    "DualRule",
    "DualState",
    "Explicit",
    "Implicit",
    "Move",
    "Row",
    "as_update",
    "dual_fields",
]

# eta c stays below one: at one an explicit step forgets all of f.
LARGEST_DECAY = 1.0 - 2.0**-10


class Row(NamedTuple):
    """What an update knows of the current row. Arrays have one number an output."""

    y: Any
    margin: Any
    weight: Any  # of the loss: C times the row's own
    k_xx: Any
    f: Any  # scores of f, without intercept
    v: Any  # scores of its trace
    b: Any  # intercept
    b_trace: Any
    xi: Any  # gradient at f, weighted
    chi: Any  # curvature at f times the slope v + b_trace, weighted


class Move(NamedTuple):
    """What an update decides, one number an output."""

    alpha: Any  # coefficients of the new point in f
    beta: Any  # and in v
    xi: Any  # gradient that moves the intercept, weighted
    slope: Any  # working memory
    dual: Any  # what the loss's `proximal` leaves for its `follow`


@rule
class ExplicitRule(NamedTuple):
    """The gradient step of NORMA and SVMD."""

    unused: bool = False

    def largest_step(self, c, rho, k_xx, with_intercept):
        # At one, a step goes to the bottom of the loss; the intercept's goes there as well.
        room = 0.5 if with_intercept else 1.0
        limit = math.inf
        if c + rho * k_xx > 0.0:
            limit = room / (c + rho * k_xx)
        if c > 0.0:
            limit = min(limit, LARGEST_DECAY / c)
        return limit

    def move(self, loss, row, eta, c, decay, traced, with_intercept, out):
        for k in range(row.xi.shape[0]):
            # zero minus, so that no -0.0 comes about
            out.alpha[k] = 0.0 - eta * row.xi[k]  # (32)
            out.beta[k] = 0.0 - eta * (row.xi[k] + decay * row.chi[k])  # (42)
        keep = 1.0 - eta * c  # (28)
        return keep, keep * decay, -eta * c  # (35)

    def move_intercept(
        self, intercept, intercept_state, step_size, n_seen, row, out, unit, rho, eta
    ):
        limit = 0.5 / rho if rho > 0.0 else math.inf
        intercept.adapt_intercept(intercept_state, step_size, n_seen, row.xi, row.chi, unit, limit)


@rule
class ImplicitRule(NamedTuple):
    """The proximal step of ILK, SILK and PA-I; equations of the ILK paper."""

    exact: bool

    def largest_step(self, c, rho, k_xx, with_intercept):
        return math.inf

    def move(self, loss, row, eta, c, decay, traced, with_intercept, out):
        keep = 1.0 / (1.0 + eta * c)  # 1 - tau
        weight_b = eta * row.weight if with_intercept else 0.0  # the intercept is not decayed
        weight_f = keep * eta * row.weight
        step = weight_f * row.k_xx + weight_b
        for k in range(row.f.shape[0]):
            out.slope[k] = keep * row.f[k] + row.b[k]
        if step > 0.0:
            loss.proximal(out.slope, row.y, row.margin, step, self.exact, out.xi, out.dual)
        else:  # k(x, x) = 0: nothing that is learned at x would change a score
            out.xi[:] = 0.0
        keep_v, cross = keep * decay, -keep * keep * eta * c
        # docs/implicit.md: slope of the new score, first as if the gradient stayed, then with it
        for k in range(row.f.shape[0]):
            out.alpha[k] = 0.0 - weight_f * out.xi[k]  # (12)
            out.beta[k] = keep * out.alpha[k]
            out.slope[k] = keep_v * row.v[k] + cross * row.f[k] + row.k_xx * out.beta[k]
            if with_intercept:
                out.slope[k] += decay * row.b_trace[k] - weight_b * out.xi[k]
            row.chi[k] = out.slope[k]
        if traced and step > 0.0:
            loss.follow(row.y, row.margin, step, out.xi, out.dual, out.slope)
            for k in range(row.f.shape[0]):
                row.chi[k] = (row.chi[k] - out.slope[k]) / step
                out.beta[k] -= weight_f * row.chi[k]
        else:
            row.chi[:] = 0.0
        return keep, keep_v, cross

    def move_intercept(
        self, intercept, intercept_state, step_size, n_seen, row, out, unit, rho, eta
    ):
        if not intercept.is_fitted():
            return
        decay = step_size.trace_decay()
        for k in range(row.f.shape[0]):
            change = eta * row.weight * (out.xi[k] + row.chi[k])
            intercept_state.b[k] -= eta * row.weight * out.xi[k]
            intercept_state.trace[k] = decay * intercept_state.trace[k] - change
            intercept_state.eta[k] = eta


class Explicit(Part):
    """Explicit gradient steps, ``f <- (1 - eta c) f - eta xi k(x, .)`` (28).

    Examples
    --------
    >>> from kernelstream.updates import Explicit
    >>> Explicit()
    Explicit()
    """

    def touches_all(self) -> bool:
        return False

    def to_rule(self) -> ExplicitRule:
        return ExplicitRule()


class Implicit(Part):
    """Implicit steps: the gradient is taken where the step arrives.

    ``f <- argmin 1/2 ||f' - f||^2 + eta (c/2 ||f'||^2 + C l(f'))``, which is
    ``f <- (1 - tau) f - (1 - tau) eta C xi' k(x, .)`` with ``tau = eta c / (1 + eta c)`` and the
    gradient xi' at the new f. No step, however large, overshoots. An intercept takes part with the
    step size of f.

    Parameters
    ----------
    exact : bool, default=True
        For several labels: the exact minimum (a sort), or the closed form of the paper, which looks
        at one runner-up only.

    References
    ----------
    Cheng, Vishwanathan, Schuurmans, Wang, Caelli: Implicit Online Learning with Kernels. NIPS 2006.

    Examples
    --------
    >>> from kernelstream.updates import Implicit
    >>> Implicit()
    Implicit(exact=True)
    """

    def __init__(self, exact: bool = True):
        self.exact = exact

    def touches_all(self) -> bool:
        return bool(self.exact)

    def to_rule(self) -> ImplicitRule:
        return ImplicitRule(bool(self.exact))


class DualState(NamedTuple):
    """What a dual update remembers; empty for the others. A^T A and so on are the paper's."""

    values: Any  # (outputs, points): f at the points, K beta
    covariance: Any  # (points, points): (C A^T A + c K^-1)^-1, or (A^T A)^-1
    products: Any  # (points, points): A^T A, for the paper's direction
    moments: Any  # (outputs, points): A^T y
    ones: Any  # (points,): A^T e
    star: Any  # (outputs, points): alpha*, where there is a box
    plain: Any  # (outputs, points): alpha


def dual_fields(update: Any) -> DualState:
    """The declaration of a dual update's state."""
    lines, square, nothing = ("outputs", "points"), ("points", "points"), ("none", "none")
    dual = isinstance(update, Dual)
    gradient = dual and update.direction == "gradient"
    boxed = gradient and update.box is not None
    return DualState(
        values=Field(lines if dual else nothing, 0.0),
        covariance=Field(square if dual else nothing, 0.0),
        products=Field(square if gradient else nothing, 0.0),
        moments=Field(lines if gradient else nothing, 0.0),
        ones=Field(("points",) if gradient else ("none",), 0.0),
        star=Field(lines if boxed else nothing, 0.0),
        plain=Field(lines if boxed else nothing, 0.0),
    )


@rule
class DualRule(NamedTuple):
    """Numbers of a dual update; `learner.dictionary` is its loop."""

    newton: bool
    step: float  # zero: the best one
    box: float  # zero: none


class Dual(Part):
    """Updates of all coefficients at once, over a dictionary of points (SOG-SVR and beyond).

    For regression, and for classification as regression on the labels. With the budget
    `Independent`, which says what rows join the dictionary, the others are combinations a of it.
    With A the matrix of these, f is fitted to **all** rows so far in O(m^2) a row, m the size of
    the dictionary. With ``budget=None``, in `fit`, every row has a coefficient of its own (SVRseq,
    table 1). An intercept is part of f: ``fit_intercept=True`` adds one to the kernel, and
    `kernels.Homogenized` says how much (2.7).

    Where `Independent` has a size, "newton" lets a row that is independent take the place of the
    point whose loss changes f least, and forgets what only that point told; "gradient" projects
    such a row.

    Parameters
    ----------
    direction : {"newton", "gradient"}, default="newton"
        "newton" goes to the minimum of ``C/2 sum (y - f)^2 + c/2 ||f||^2`` over the dictionary at
        every row (recursive least squares): one pass is enough. "gradient" is the paper's own rule
        (4.12), one step along ``A^T (y - f)``.
    step : float or None, default=None
        Of "gradient": eta. None: the best step along the gradient, ``g^T P g / g^T K g`` with
        ``P = (A^T A)^-1``.
    box : float or None, default=None
        Of "gradient": keep every entry of alpha* and alpha between -box and box (4.22); epsilon is
        the margin.

    References
    ----------
    Engel, Mannor, Meir: Sparse Online Greedy Support Vector Regression. ECML 2002.

    Examples
    --------
    >>> from kernelstream.updates import Dual
    >>> Dual()
    Dual(box=None, direction='newton', step=None)
    """

    def __init__(
        self, direction: str = "newton", step: float | None = None, box: float | None = None
    ):
        self.direction = direction
        self.step = step
        self.box = box
        self.check()

    def check(self) -> None:
        newton = one_of("direction", self.direction, ["newton", "gradient"]) == "newton"
        for name, value in (("step", self.step), ("box", self.box)):
            if value is not None:
                number(name, value, above=0)
                if newton:
                    raise ValueError(f"{name}={value!r} goes with direction='gradient' only.")

    def touches_all(self) -> bool:
        return True

    def to_rule(self) -> DualRule:
        self.check()
        return DualRule(self.direction == "newton", float(self.step or 0.0), float(self.box or 0.0))


_BY_NAME = {"explicit": Explicit, "implicit": Implicit}


def as_update(update: Any) -> Any:
    """An update part from its name or itself."""
    if isinstance(update, Explicit | Implicit | Dual):
        return update
    return _BY_NAME[one_of("update", update, list(_BY_NAME))]()
