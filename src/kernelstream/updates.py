"""How does a gradient become coefficients?

An update turns the loss at the current row into a move of f, of its trace v and of the intercept,

    f <- keep f + alpha . k(x, .)
    v <- keep_v v + cross f + beta . k(x, .)

It answers ``(eta, keep, keep_v, cross)``, eta being the step that it took, and writes the rest into
a `Move`; the loop does what remains, the same way for every update. `touches_all` tells whether a
step may give a coefficient to outputs that the loss's gradient leaves alone, `uses_norm` whether it
looks at ||f||, which must then stay true when points are dropped.
"""

import math
from typing import Any, NamedTuple

from kernelstream.parts import SLACK, Field, Part, number, one_of, rule

__all__ = [
    "ALMA",
    "LASVM",
    "ActiveRule",
    "ActiveState",
    "Adatron",
    "Ballseptron",
    "Dual",
    "DualRule",
    "DualState",
    "Explicit",
    "Implicit",
    "Move",
    "Row",
    "SequentialRule",
    "Unused",
    "active_fields",
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
    chi: Any  # curvature at f times the decayed slope of the scores, weighted
    norm2: Any  # ||f||^2
    scores: Any  # f + b


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

    capped: bool

    def largest_step(self, c, rho, k_xx, with_intercept):
        # At one, a step goes to the bottom of the loss; the intercept's goes there as well.
        room = 0.5 if with_intercept else 1.0
        limit = math.inf
        if self.capped and c + rho * k_xx > 0.0:
            limit = room / (c + rho * k_xx)
        if self.capped and c > 0.0:
            limit = min(limit, LARGEST_DECAY / c)
        return limit

    def move(self, loss, row, eta, c, decay, traced, with_intercept, out):
        for k in range(row.xi.shape[0]):
            # zero minus, so that no -0.0 comes about
            out.alpha[k] = 0.0 - eta * row.xi[k]  # (32)
            out.beta[k] = 0.0 - eta * (row.xi[k] + row.chi[k])  # (42)
        keep = 1.0 - eta * c  # (28)
        return eta, keep, keep * decay, -eta * c  # (35)

    def intercept_limit(self, rho):
        return 0.5 / rho if self.capped and rho > 0.0 else math.inf

    def largest_intercept_move(self, intercept, step_size, row, rho):
        return intercept.largest_move(step_size, row.xi, self.intercept_limit(rho))

    def move_intercept(
        self, intercept, intercept_state, step_size, n_seen, row, out, unit, objective, rho, eta
    ):
        limit = self.intercept_limit(rho)
        return intercept.adapt_intercept(
            intercept_state, step_size, n_seen, row.xi, row.chi, unit, objective, limit
        )


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
            loss.proximal(
                out.slope, row.scores, row.y, row.margin, step, self.exact, out.xi, out.dual
            )
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
        return eta, keep, keep_v, cross

    def largest_intercept_move(self, intercept, step_size, row, rho):
        return 0.0

    def move_intercept(
        self, intercept, intercept_state, step_size, n_seen, row, out, unit, objective, rho, eta
    ):
        if not intercept.is_fitted():
            return False
        decay = step_size.trace_decay()
        for k in range(row.f.shape[0]):
            change = eta * row.weight * (out.xi[k] + row.chi[k])
            intercept_state.b[k] -= eta * row.weight * out.xi[k]
            intercept_state.trace[k] = decay * intercept_state.trace[k] - change
            intercept_state.eta[k] = eta
        return False


@rule
class ALMARule(NamedTuple):
    """A perceptron step of length ``sqrt(2 / k)``, then back into the unit ball.

    k - 1 corrections came before, which the margin tells: it is ``scale R / sqrt(k)``. Rows have
    the norm R, one, or sqrt(2) where two labels' scores are compared.
    """

    scale: float

    def largest_step(self, c, rho, k_xx, with_intercept):
        return math.inf

    def move(self, loss, row, eta, c, decay, traced, with_intercept, out):
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
        return taken, keep, 0.0, 0.0

    def largest_intercept_move(self, intercept, step_size, row, rho):
        return 0.0

    def move_intercept(
        self, intercept, intercept_state, step_size, n_seen, row, out, unit, objective, rho, eta
    ):
        return False


@rule
class BallseptronRule(NamedTuple):
    """A perceptron step with the row, or with the worst point of the ball around it."""

    radius: float

    def largest_step(self, c, rho, k_xx, with_intercept):
        return math.inf

    def move(self, loss, row, eta, c, decay, traced, with_intercept, out):
        ahead, size = 0.0, row.weight
        for k in range(row.xi.shape[0]):
            out.alpha[k] = 0.0 - eta * row.xi[k]
            out.beta[k] = 0.0
            ahead -= row.xi[k] * row.f[k]
            size += abs(row.xi[k] * row.f[k])
        keep = 1.0
        if (
            ahead > SLACK * size
        ):  # right, but the ball is not: x - y radius f / ||f|| takes its part
            keep = max(0.0, 1.0 - eta * row.weight * self.radius / math.sqrt(row.norm2))
        return eta, keep, 0.0, 0.0

    def largest_intercept_move(self, intercept, step_size, row, rho):
        return 0.0

    def move_intercept(
        self, intercept, intercept_state, step_size, n_seen, row, out, unit, objective, rho, eta
    ):
        return False


@rule
class SequentialRule(NamedTuple):
    """Nothing for the loop: `learner.sequential` revisits rows in `fit`."""

    unused: bool = False


class Unused(NamedTuple):
    """A parameter of an estimator that would change nothing: what to do instead."""

    remedy: str
    but: tuple[Any, ...] = ()  # values that only say what is done anyway


_OWN_STEP = Unused("its steps have a length of their own, so leave it out")


@rule
class ActiveRule(NamedTuple):
    """Numbers of LASVM; `learner.lasvm` is its loop."""

    tolerance: float
    cache_mb: float


class _Update(Part):
    uses_norm = False
    has_intercept_step = False  # whether intercepts have step sizes of their own
    brings_margin = False  # and then has no regularization, intercept and step size but its own
    revisits_rows = False  # each has a coefficient of its own, which `fit` visits in several passes
    in_streams = True  # as well as in `fit`
    finishes = False  # has something left to do after a stream, which `finish` does
    only_loss: str | None = None  # the one that it goes with, in classification
    keeps_sum = True  # whether the sum of all models can be kept: old coefficients only shrink

    def touches_all(self) -> bool:
        return False

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        """What would change nothing, by name; `all_rows`: every row has a coefficient."""
        return {}


class Explicit(_Update):
    """Explicit gradient steps, ``f <- (1 - eta c) f - eta xi k(x, .)`` (28).

    Parameters
    ----------
    capped : bool, default=True
        Cut a step that is too long for its row, whatever the step size part says, `Constant` and
        schedules included: on a curved loss, whose second derivative is rho, so that
        ``eta (c + rho k(x, x)) <= 1`` (half of that where an intercept moves the score as well, and
        then ``eta_b rho <= 1/2``), and always so that ``eta c < 1``. False: never, as in the
        papers. A step that cannot be represented makes a bad row either way.

    Notes
    -----
    At one, a step goes to the minimum of the row's loss. Up to two a single step still does not
    increase it; but it then jumps across the minimum, and with points being dropped those jumps can
    add up. A fitted model counts the rows at which a step was cut in ``n_capped_``; the step sizes
    that `prequential` reports are those that were taken, and ``step_size_`` is what the step size
    part remembers for the next row.

    Examples
    --------
    >>> from kernelstream.updates import Explicit
    >>> Explicit()
    Explicit(capped=True)
    """

    has_intercept_step = True

    def __init__(self, capped: bool = True):
        self.capped = capped

    def to_rule(self) -> ExplicitRule:
        return ExplicitRule(bool(self.capped))


class Implicit(_Update):
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


class ActiveState(NamedTuple):
    """What LASVM remembers of the rows in its active set, which are the points."""

    y: Any  # (points,)
    limit: Any  # (points,): the largest coefficient, C over the regularization times the weight
    row: Any  # (points,): the row's number in the stream
    gradients: Any  # (outputs, points): of the dual objective, margin y - f
    gram: Any  # (points, points): kernel values, where compiled code cannot compute them


def active_fields(margin: float, keeps_gram: bool) -> ActiveState:
    """The declaration of LASVM's state. To a class that comes late all points are of the rest."""
    points, nothing = ("points",), ("none", "none")
    return ActiveState(
        y=Field(points, 0.0),
        limit=Field(points, 0.0),
        row=Field(points, 0, int),
        gradients=Field(("outputs", "points"), -margin),
        gram=Field(("points", "points") if keeps_gram else nothing, 0.0),
    )


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


class Dual(_Update):
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

    References
    ----------
    Engel, Mannor, Meir: Sparse Online Greedy Support Vector Regression. ECML 2002.

    Examples
    --------
    >>> from kernelstream.updates import Dual
    >>> Dual()
    Dual(box=None, direction='newton', step=None)
    """

    keeps_sum = False

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

    def to_rule(self) -> DualRule:
        self.check()
        return DualRule(self.direction == "newton", float(self.step or 0.0), float(self.box or 0.0))


class ALMA(_Update):
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

    uses_norm = True
    brings_margin = True
    only_loss = "hinge"

    def __init__(self, alpha: float = 0.9):
        self.alpha = alpha
        self.check()

    def check(self) -> None:
        number("alpha", self.alpha, above=0, below=1)

    def first_margin(self) -> float:
        """(1 - alpha) B."""
        return (1.0 - self.alpha) * math.sqrt(8.0) / self.alpha

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {"step_size": _OWN_STEP}

    def to_rule(self) -> ALMARule:
        self.check()
        return ALMARule(self.first_margin())


class Ballseptron(_Update):
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

    uses_norm = True
    brings_margin = True
    only_loss = "perceptron"

    def __init__(self, radius: float = 0.02):
        self.radius = radius
        self.check()

    def check(self) -> None:
        number("radius", self.radius, at_least=0)

    def to_rule(self) -> BallseptronRule:
        self.check()
        return BallseptronRule(float(self.radius))


class Adatron(_Update):
    """Kernel-Adatron: several passes, in each a step on every row's own coefficient. `fit` only.

    ``alpha_i <- max(0, alpha_i + (1 - y_i f(x_i)) / k(x_i, x_i))``, at most C over the
    regularization. It converges to the largest margin, with C to the support
    vector machine without intercept; ``fit_intercept=True`` adds one to the kernel. With more than
    two classes each is learned against the rest.

    References
    ----------
    Friess, Cristianini, Campbell: The Kernel-Adatron Algorithm. ICML 1998.

    Examples
    --------
    >>> from kernelstream.updates import Adatron
    >>> Adatron()
    Adatron()
    """

    revisits_rows = True
    in_streams = False
    only_loss = "hinge"
    keeps_sum = False

    def touches_all(self) -> bool:
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {"step_size": _OWN_STEP}

    def to_rule(self) -> SequentialRule:
        return SequentialRule()


class LASVM(_Update):
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

    revisits_rows = True
    finishes = True
    only_loss = "hinge"
    keeps_sum = False

    def __init__(self, tolerance: float = 0.001, cache_mb: float = 256):
        self.tolerance = tolerance
        self.cache_mb = cache_mb
        self.check()

    def check(self) -> None:
        number("tolerance", self.tolerance, above=0)
        number("cache_mb", self.cache_mb, above=0)

    def touches_all(self) -> bool:
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {"step_size": _OWN_STEP}

    def to_rule(self) -> ActiveRule:
        self.check()
        return ActiveRule(float(self.tolerance), float(self.cache_mb))


_BY_NAME = {"explicit": Explicit, "implicit": Implicit}


def as_update(update: Any) -> Any:
    """An update part from its name or itself."""
    if isinstance(update, _Update):
        update.check()
        return update
    return _BY_NAME[one_of("update", update, list(_BY_NAME))]()
