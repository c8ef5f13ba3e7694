"""What updates share: the numbers of a row, the answer, and the base of the public classes."""

import math
from typing import Any, NamedTuple, Protocol

from kernelstream.parts import Choice, Part, Unused, rule

__all__ = [
    "OWN_STEP", "Decay", "Move", "Nothing", "Row", "Update", "UpdateRule", "check_classic",
]  # fmt: skip

OWN_STEP = Unused("its steps have a length of their own, so leave it out")


class Row(NamedTuple):
    """What an update knows of the current row. Arrays have one number per output.

    Attributes
    ----------
    y, margin, weight : float
        The target, the margin, and the weight of the loss: C times the row's own.
    k_xx : float
        The row's kernel value with itself.
    f, v : ndarray
        Scores of f, without intercept, and of its trace.
    b, b_trace : ndarray
        The intercept, and its trace.
    xi : ndarray
        The gradient at f, weighted.
    chi : ndarray
        The curvature at f times the decayed slope of the scores, weighted.
    rho : float
        A bound on the curvature, weighted.
    norm2 : float
        ``||f||^2``.
    scores : ndarray
        f + b.
    n_seen : int
        How many rows came before.
    """

    y: Any
    margin: Any
    weight: Any
    k_xx: Any
    f: Any
    v: Any
    b: Any
    b_trace: Any
    xi: Any
    chi: Any
    rho: Any
    norm2: Any
    scores: Any
    n_seen: Any


class Move(NamedTuple):
    """What an update writes, one number per output.

    Attributes
    ----------
    alpha, beta : ndarray
        Coefficients of the new point in f, and in v.
    xi : ndarray
        The gradient that moves the intercept, weighted.
    chi : ndarray
        How that gradient follows the step size, weighted.
    slope : ndarray
        Working memory.
    dual : ndarray
        What the loss's `proximal` leaves for its `follow`.
    """

    alpha: Any
    beta: Any
    xi: Any
    chi: Any
    slope: Any
    dual: Any


class Decay(NamedTuple):
    """What becomes of the old f and v: ``f <- keep f``, ``v <- keep_v v + cross f``.

    Attributes
    ----------
    eta : float
        The step that was taken.
    keep, keep_v, cross : float
        As above.
    """

    eta: Any
    keep: Any
    keep_v: Any
    cross: Any


class UpdateRule(Protocol):
    """What an update's rule answers, in the loop over the rows of a tile."""

    def largest_step(self, model, row, with_intercept):
        """Return the largest step that is safe at this row."""
        return math.inf

    def move(self, model, row, eta, with_intercept, out):
        """Write the new point's coefficients into `out`; answer the `Decay` of the rest."""
        raise NotImplementedError

    def largest_intercept_move(self, model, row):
        """Return how far an intercept can move at most."""
        return 0.0

    def move_intercept(self, model, intercept_state, row, out, eta, proposal):
        """Move the intercepts; answer whether a step was cut."""
        return False

    def note_capped(self, update_state):
        """Note that a step was capped at this row."""
        return


@rule
class Nothing(NamedTuple):
    """The state of an update that remembers nothing."""


class Update(Part):
    """Base of the updates."""

    loop = "expansion"  # which loop learns by it (`kernelstream.learner.loops`)
    is_explicit = False  # whether it follows the gradient at the present model
    uses_norm = False  # whether it looks at ||f||, which must then stay true
    has_intercept_step = False  # whether intercepts have step sizes of their own
    intercept_in_kernel = False  # whether an intercept is a part of f, by the kernel
    keeps_coefficients = False  # whether old ones stay as they are, without regularization
    folds = True  # whether it needs no points, where f is a weight for each explicit feature
    finishes = False  # has something left to do after a stream, which `finish` does
    is_second_order = False  # whether it knows how certain f is
    keeps_sum = True  # whether the sum of all models can be kept: old coefficients only shrink

    def check_size(self, n_explicit: int) -> None:
        """Raise if a model with so many explicit features would be too large."""

    def tile_rows(self, n_seen: int) -> int | None:
        """Return how many rows to learn at a time after n; None: as many as is fast.

        Where something is due after fixed rows of the stream, tiles end there, and a row that makes
        it due is not learned in a single call of compiled code.
        """
        return None

    def spare_slots(self, budget: Any) -> int:
        """Return how many points there may be for a while beyond the budget's limit."""
        return 0

    def touches_all(self) -> bool:
        """Return whether a row may change outputs that the loss's gradient leaves alone."""
        return False

    def solver(self, budget: Any) -> str | None:
        """Return the name of the loop by which `fit` revisits rows; None: `fit` streams."""
        return None

    def in_streams(self, budget: Any) -> bool:
        """Return whether it learns from a stream."""
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        """Return the parameters without effect, by name; `all_rows`: each row has a coefficient."""
        return {}

    def own_kernel(self, kernel: Any, fit_intercept: bool) -> Any:
        """Return the kernel that it works with where the user chose this one."""
        return kernel

    def own_margin(self, single_output: bool) -> Any:
        """Return the margin that the update brings; None: the user's."""
        return None

    def own_regularization(self) -> float | None:
        """Return the regularization that the update needs; None: the user's."""
        return None

    def state(self, first_margin: float, compiles: bool) -> Any:
        """Return the record of what it remembers, a named tuple of `Field`.

        `compiles`: compiled code can compute kernel values between rows.
        """
        return Nothing()

    def n_waiting(self, state: Any) -> tuple[int, int]:
        """Return how many rows wait, and how many points, of which matrices do not know yet."""
        return 0, 0

    def check_state(self, state: Any, n_points: int) -> None:
        """Raise a ValueError if what a file says makes no sense for so many points."""

    def n_capped(self, state: Any) -> Any:
        """Return the number of capped steps, of one model or many; None: never any."""
        return None

    def to_rule(self) -> Any:
        """Return the compiled rule, of `UpdateRule`."""
        raise TypeError(f"{type(self).__name__} must say its rule.")


def check_classic(update: Update, choice: Choice, only_loss: str) -> None:
    """Refuse what the perceptron's family and solvers of the batch problem do not go with."""
    if choice.task != "classification" or choice.structured:
        raise ValueError(f"update={update!r} is for classification, with plain labels.")
    if choice.loss.name != only_loss:
        raise ValueError(
            f"update={update!r} goes with loss={only_loss!r}, not with {choice.loss.name!r}."
        )
