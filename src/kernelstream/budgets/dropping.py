"""Budgets that simply drop what goes."""

import math
from typing import NamedTuple

from kernelstream.budgets.base import NO_LIMIT, Budget, first_to_go, norm2_of, smallest
from kernelstream.parts import SLACK, integer_at_least, number, rule

__all__ = ["OldestOut", "SmallestOut", "Unbounded"]


@rule
class OldestOutRule(NamedTuple):
    """A ring of slots: once it is full, the new point takes the place of the oldest."""

    size: int

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        if n < self.size:
            return n, -1, -1.0
        oldest = budget_state.oldest[0]
        budget_state.oldest[0] = (oldest + 1) % self.size
        return oldest, -1, -1.0

    def expired(self, budget_state, expansion):
        return -1

    def refresh(self, budget_state, n, grown):
        return

    def drops_oldest(self):
        return True


@rule
class ExpiringRule(NamedTuple):
    """A queue of slots: the oldest point goes when there is no room, when it is too old, and when
    all that has gone, with it, still amounts to little."""

    size: int
    max_age: int
    max_error: float

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n, n_spare = expansion.n_points[0], budget_state.n_spare[0]
        if n_spare > 0:
            slot = budget_state.spare[n_spare - 1]
            budget_state.n_spare[0] = n_spare - 1
        elif n < self.size:
            slot = n
        else:
            slot = self.leave(budget_state, expansion)
            n -= 1
        # the points that stay are n - n_spare in number; the new one comes after them
        budget_state.queue[(budget_state.oldest[0] + n - n_spare) % self.size] = slot
        budget_state.diagonal[slot] = k[line, i]
        return slot, -1, -1.0

    def leave(self, budget_state, expansion):
        """Take the oldest point out of the queue and note what f loses; its slot."""
        oldest = budget_state.oldest[0]
        slot = budget_state.queue[oldest]
        budget_state.oldest[0] = (oldest + 1) % self.size
        expansion.lost[0] += math.sqrt(expansion.size2[slot] * budget_state.diagonal[slot])
        return slot

    def expired(self, budget_state, expansion):
        if expansion.n_points[0] == budget_state.n_spare[0]:
            return -1
        slot = budget_state.queue[budget_state.oldest[0]]
        # Both bounds are raw: what has gone decays as what has stayed.
        term = math.sqrt(expansion.size2[slot] * budget_state.diagonal[slot])
        too_old = expansion.n_seen[0] - 1 - expansion.born[slot] > self.max_age
        is_little = expansion.scale[0] * (expansion.lost[0] + term) <= self.max_error
        if not (too_old or is_little):
            return -1
        self.leave(budget_state, expansion)
        budget_state.spare[budget_state.n_spare[0]] = slot
        budget_state.n_spare[0] += 1
        return slot

    def refresh(self, budget_state, n, grown):
        return


@rule
class SmallestOutRule(NamedTuple):
    """The point with the smallest coefficients goes, the new one included."""

    size: int
    half_life: int  # zero: points do not fade

    def choose_slot(self, budget_state, expansion, k, line, i, alpha):
        n = expansion.n_points[0]
        fades = self.half_life > 0
        if n < self.size:
            if fades:
                budget_state.since[n] = budget_state.replaced[0]
            return n, -1, -1.0
        # The decay is one number for all points, so that raw sizes compare as true ones do.
        p, sizes = expansion.scale[0], expansion.size2
        if fades:
            budget_state.replaced[0] += 1
            sizes = budget_state.column
            slot = first_to_go(budget_state, expansion, n, self.half_life, sizes)
        else:
            slot = smallest(sizes, n)
        if norm2_of(alpha) < p * p * sizes[slot] * (1.0 - SLACK):
            return -1, -1, -1.0
        if fades:
            budget_state.since[slot] = budget_state.replaced[0]
        return slot, -1, -1.0

    def expired(self, budget_state, expansion):
        return -1

    def refresh(self, budget_state, n, grown):
        return

    def drops_oldest(self):
        return False


class Dropping(Budget):
    """A budget that simply drops what goes."""

    exact: bool | None

    def check(self) -> None:
        integer_at_least("budget", self.size, 1)

    def keeps_gram(self, trace_decay: float) -> bool:
        if self.exact is None:
            return trace_decay ** self.longest_life() > 0.01
        return bool(self.exact)

    def longest_life(self) -> int:
        """How many points come, at most, before a point goes."""
        return int(self.size)


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
        (``decay ** size > 0.01``), since the difference has faded elsewhere.
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

    def __init__(
        self, size: int = 512, exact: bool | None = None, max_age: int | None = None,
        max_error: float | None = None,
    ):  # fmt: skip
        self.size = size
        self.exact = exact
        self.max_age = max_age
        self.max_error = max_error
        self.check()

    def check(self) -> None:
        super().check()
        if self.max_age is not None:
            integer_at_least("max_age", self.max_age, 1)
        if self.max_error is not None:
            number("max_error", self.max_error, at_least=0)

    def longest_life(self) -> int:
        return int(self.size if self.max_age is None else min(self.size, self.max_age))

    def expires(self) -> bool:
        return self.max_age is not None or self.max_error is not None

    def to_rule(self) -> OldestOutRule | ExpiringRule:
        self.check()
        if not self.expires():
            return OldestOutRule(int(self.size))
        max_age = NO_LIMIT if self.max_age is None else int(self.max_age)
        max_error = -1.0 if self.max_error is None else float(self.max_error)
        return ExpiringRule(int(self.size), max_age, max_error)


class SmallestOut(Dropping):
    """Drop the point with the smallest coefficients (SILK); the new point competes for its place.

    Parameters
    ----------
    size : int, default=128
        How many points are kept.
    exact : bool or None, default=None
        As in `OldestOut`.
    half_life : int or None, default=None
        In the competition for its place a point counts half after so many rows that wanted one, a
        quarter after twice as many, and so on; in f it does not. None is SILK's rule, for steps
        that stay about as large as they were, or where f decays: otherwise a full budget of large
        coefficients from the past drops every new row, for ever.

    Examples
    --------
    >>> from kernelstream.budgets import SmallestOut
    >>> SmallestOut(64).limit()
    64
    """

    def __init__(self, size: int = 128, exact: bool | None = None, half_life: int | None = None):
        self.size = size
        self.exact = exact
        self.half_life = half_life
        self.check()

    def check(self) -> None:
        super().check()
        if self.half_life is not None:
            integer_at_least("half_life", self.half_life, 1)

    def fades(self) -> bool:
        return self.half_life is not None

    def to_rule(self) -> SmallestOutRule:
        self.check()
        return SmallestOutRule(int(self.size), int(self.half_life or 0))


class Unbounded(Budget):
    """Keep every point with a coefficient. Memory grows with the stream.

    Examples
    --------
    >>> from kernelstream.budgets import Unbounded
    >>> Unbounded().limit() is None
    True
    """

    def limit(self) -> int | None:
        return None

    def to_rule(self) -> OldestOutRule:
        return OldestOutRule(NO_LIMIT)  # a ring that never closes
