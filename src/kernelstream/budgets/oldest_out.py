"""The budget that keeps the last points."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import lambertw

from kernelstream.budgets.base import NO_LIMIT, BudgetRule
from kernelstream.budgets.dropping import Dropping, RingRule
from kernelstream.expansion import JOINS, REPLACES, Replacing
from kernelstream.parts import Field, integer_at_least, number, parameters, part, rule

__all__ = ["OldestOut"]


class Queue(NamedTuple):
    """What a budget whose points expire remembers."""

    oldest: Any  # where the queue begins
    queue: Any  # slots in the order in which their points came, a ring
    spare: Any  # slots whose points have gone without another's taking their place
    n_spare: Any
    diagonal: Any  # (points,): k(x, x) of every point
    born: Any  # (points,): how many rows had been learned when the point came
    lost: Any  # a bound on the norm of what was dropped


@rule(defaults=BudgetRule)
class ExpiringRule(NamedTuple):
    """A queue of slots: the oldest point goes when there is no room, when it is too old, and when
    all that has gone, with it, still amounts to little."""

    size: int
    max_age: int
    max_error: float

    def make_room(self, budget_state, expansion, tile, i, point):
        n, n_spare = expansion.n_points[0], budget_state.n_spare[0]
        n_kept, what = n - n_spare, REPLACES
        if n_spare > 0:  # a slot that is empty: nothing is lost by replacing it
            slot = budget_state.spare[n_spare - 1]
            budget_state.n_spare[0] = n_spare - 1
        elif n < self.size:
            slot, what = n, JOINS
        else:
            slot = self.leave(budget_state, expansion)
            n_kept -= 1
        # the new point comes after those that stay
        budget_state.queue[(budget_state.oldest[0] + n_kept) % self.size] = slot
        budget_state.diagonal[slot] = tile.k[tile.n_points + i, i]
        budget_state.born[slot] = expansion.n_seen[0] - 1
        return Replacing(what, slot)

    def leave(self, budget_state, expansion):
        """Take the oldest point out of the queue and note what f loses; its slot."""
        oldest = budget_state.oldest[0]
        slot = budget_state.queue[oldest]
        budget_state.oldest[0] = (oldest + 1) % self.size
        budget_state.lost[0] += self.norm_of_point(budget_state, expansion, slot)
        return slot

    def norm_of_point(self, budget_state, expansion, slot):
        """Return the norm of a point's part of f."""
        return expansion.scale[0] * math.sqrt(expansion.size2[slot] * budget_state.diagonal[slot])

    def expired(self, budget_state, expansion):
        if expansion.n_points[0] == budget_state.n_spare[0]:
            return -1
        slot = budget_state.queue[budget_state.oldest[0]]
        too_old = expansion.n_seen[0] - 1 - budget_state.born[slot] > self.max_age
        with_it = budget_state.lost[0] + self.norm_of_point(budget_state, expansion, slot)
        if not (too_old or with_it <= self.max_error):
            return -1
        self.leave(budget_state, expansion)
        budget_state.spare[budget_state.n_spare[0]] = slot
        budget_state.n_spare[0] += 1
        return slot

    def note_decay(self, budget_state, keep):
        budget_state.lost[0] *= keep  # what has gone would have decayed as what has stayed

    def n_kept(self, budget_state, expansion):
        return expansion.n_points[0] - budget_state.n_spare[0]

    def kept_slots(self, budget_state, expansion):
        n = self.n_kept(budget_state, expansion)
        return budget_state.queue[(budget_state.oldest[0] + np.arange(n)) % self.size]


@part("budget")
@parameters
class OldestOut(Dropping):
    """Keep the last `size` points (the circular buffer of the SVMD paper, section 5.5).

    Parameters
    ----------
    size : int, default=512
        How many points are kept.
    exact : bool or None, default=None
        Correct ``||f||^2`` and ``<f, v>`` for every point that is dropped, so that they belong to
        the truncated f. It keeps the kernel values between the points (size x size numbers) and
        costs a fifth to a third of the speed. None: where the trace of SMD outlives the points
        (``decay ** size > 0.3``; 0.01 where k(x, x) is not the same for all rows), since the
        difference has faded elsewhere.
    max_age : int or None, default=None
        A point goes when more than so many rows have been learned after it, whether or not another
        comes.
    max_error : float or None, default=None
        The oldest point goes as soon as ``truncation_error_`` is then at most this. With 0 none
        goes before its time, and the error is only kept.

    Notes
    -----
    With `max_age` or `max_error` the model has ``truncation_error_``, a bound D on the norm of the
    sum of all terms that were dropped, each decayed as it would be by now,

        ``D <- keep D``  at every row,  ``D <- D + |alpha_j| sqrt(k(x_j, x_j))``  at every drop,

    where keep is what a row leaves of f, such as ``1 - eta c``. With these terms still in f no
    score at x would differ by more than ``D sqrt(k(x, x))``. This is the truncation error of
    NORMA's proposition 1: with a constant step eta, loss gradients of at most C and k(x, x) of at
    most X^2 it is less than ``(1 - eta c)^k C X / c`` where all terms of at least k rows went.

    D also bounds the distance from the model that learns the same rows and drops nothing, where
    steps never drive two models apart: implicit steps on a convex loss (with several outputs the
    exact ones) with a step size by schedule, a fixed margin and no intercept. Explicit steps on a
    hinge can, since models on both sides of its kink take different steps.

    `max_error` is kept as long as `size` and `max_age` do not drop more.

    Examples
    --------
    >>> from kernelstream.budgets import OldestOut
    >>> OldestOut(256).limit()
    256
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = ks.make("norma", "classifier", budget=OldestOut(500, max_age=100))
    >>> model = model.partial_fit(X, X[:, 0] > 0)
    >>> model.n_support_ <= 101, model.truncation_error_ > 0
    (True, True)
    """

    size: int = 512
    exact: bool | None = None
    max_age: int | None = None
    max_error: float | None = None

    def check(self) -> None:
        super().check()
        if self.max_age is not None:
            integer_at_least("max_age", self.max_age, 1)
        if self.max_error is not None:
            number("max_error", self.max_error, at_least=0)

    def default_regularization(self, task: str) -> float | None:
        """Return c with ``exp(-c life) = c`` for numbers, None for labels.

        A step eta <= 1 does not raise ||f||, but a point that goes may raise it by its coefficient,
        which was at most eta ||f|| and has faded to (1 - eta c)^life of that. At eta = 1 the decay
        makes up for it if (1 - c)^life <= c. With less, f grew without bound on smooth series,
        where rows that follow each other are alike.
        """
        if task != "regression":
            return None
        life = self.longest_life()
        return float(lambertw(life).real) / life

    def longest_life(self) -> int:
        return int(self.size if self.max_age is None else min(self.size, self.max_age))

    @property
    def expires(self) -> bool:  # type: ignore[override]
        return self.max_age is not None or self.max_error is not None

    def state(self) -> Any:
        if not self.expires:
            return super().state()
        ring = Field(("points_and_one",), 0, int, below="points")
        return Queue(
            oldest=Field((), 0, int, below="points"),
            queue=ring,
            spare=ring,
            n_spare=Field((), 0, int, below="points_and_one"),
            diagonal=Field(("points",), 0.0, least=0.0),
            born=Field(("points",), 0, int),
            lost=Field((), 0.0, least=0.0),
        )

    def adopt(self, state: Any, expansion: Any, gram: np.ndarray) -> None:
        if self.expires:
            n = len(gram)
            state.queue[:n], state.diagonal[:n] = np.arange(n), gram.diagonal()
            state.born[:n] = expansion.n_seen[0]

    def n_kept(self, state: Any, expansion: Any) -> Any:
        n_kept = super().n_kept(state, expansion)
        return n_kept - state.n_spare[..., 0] if self.expires else n_kept

    def lines_read(self, state: Any, n_points: int, n_rows: int) -> list[slice]:
        if self.expires:  # any number of points may go
            return super().lines_read(state, n_points, n_rows)
        first, n_rows = int(state.oldest[0]), min(n_rows, n_points)
        around = max(first + n_rows - int(self.size), 0)  # the ring begins anew
        return [slice(first, min(first + n_rows, n_points)), slice(0, around)]

    def truncation_error(self, state: Any) -> float | None:
        return float(state.lost[0]) if self.expires else None

    def to_rule(self) -> RingRule | ExpiringRule:
        self.check()
        if not self.expires:
            return RingRule(int(self.size))
        max_age = NO_LIMIT if self.max_age is None else int(self.max_age)
        max_error = -1.0 if self.max_error is None else float(self.max_error)
        return ExpiringRule(int(self.size), max_age, max_error)
