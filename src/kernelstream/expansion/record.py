"""The arrays of a kernel expansion, and the numbers of the rows that are being learned."""

from typing import Any, NamedTuple

from kernelstream.expansion.operations import SMALLEST_SCALE
from kernelstream.expansion.options import (
    Average,
    Births,
    EveryOutput,
    NoAverage,
    TouchedOutputs,
    Undated,
)
from kernelstream.parts import LARGEST_SQUARE, Field, rule

__all__ = [
    "SMALLEST_SCALE",
    "AllChanges",
    "Expansion",
    "NoChanges",
    "Point",
    "Tile",
    "expansion_fields",
]


class Expansion(NamedTuple):
    """f and its trace v over the points, f = sum_i alpha_i k(x_i, .), v = sum_i beta_i k(x_i, .).

    The coefficients are stored raw, ``alpha = p a`` and ``beta = q b + r a``, so that a step's
    decay touches three numbers and not every point. Where q is zero, every b is. Whatever happens
    to points is linear, and happens to a and b alike: they are two functions of one array,
    ``coef[line, 0]`` and ``coef[line, 1]``; without a trace there is only the first.
    """

    coef: Any  # (lines, functions, points): a line is an output, or one of those that a row touches
    scale: Any  # p, q, r
    norm2: Any  # ||f||^2
    pi: Any  # <f, v>
    size2: Any  # (points,): squared norm of each point's raw a
    n_points: Any
    n_seen: Any
    outputs: Any  # which output a line is: `EveryOutput` or `TouchedOutputs`
    births: Any  # when each point came: `Undated` or `Births`
    average: Any  # the sum of all models: `NoAverage` or `Average`


class Tile(NamedTuple):
    """Rows to learn, as numbers."""

    # (points + rows, rows): kernel values of every point, then of every row, with each row. Where f
    # is a weight for each explicit feature there are no points in it.
    k: Any
    n_points: int  # how many of k's lines are points as the tile begins
    # (outputs, functions, rows): coef . k_pt, kept current; f = p a.k, v = q b.k + r a.k
    raw: Any
    y: Any  # (rows,)
    weight: Any  # (rows,)
    gram: Any  # kernel values between points, for norms: `Uncorrected`, `StoredGram`, ...
    changes: Any  # which slots have been written, for undoing: `AllChanges` or `NoChanges`
    pending: Any  # what rows have brought to weights: `NothingPending` or `Pending`


class Point(NamedTuple):
    """What the current row brings to f and v, and what would be without it."""

    alpha: Any  # (outputs,)
    beta: Any  # (outputs,)
    coef: Any  # (outputs, functions): the same, raw
    active: Any  # (outputs,): those with a coefficient come first
    n_active: Any  # how many
    norms_without: Any  # ||f||^2 and <f, v> if the row were dropped at once
    rest: Any  # (rows of the tile): memory


@rule
class AllChanges(NamedTuple):
    """Which slots were written since the last time anybody asked."""

    slots: Any  # (slots,): whether
    everything: Any  # whether all of them

    def mark(self, slot):
        self.slots[slot] = True

    def mark_all(self):
        self.everything[0] = True


@rule
class NoChanges(NamedTuple):
    """Nobody asks."""

    def mark(self, slot):
        return

    def mark_all(self):
        return


def expansion_fields(traced: bool, touched: bool, dated: bool, averaged: bool) -> Expansion:
    """Return the declaration of an expansion.

    Parameters
    ----------
    traced : bool
        Whether there is a trace v beside f.
    touched : bool
        Whether a point keeps only the coefficients that its row touched.
    dated : bool
        Whether it is known when each point came.
    averaged : bool
        Whether the sum of all models is kept.
    """
    lines = ("lines", "points")
    sums = Average(
        past=Field(lines, 0.0),
        p_sum=Field((), 0.0),
        b_sum=Field(("outputs",), 0.0),
        margin_sum=Field((), 0.0),
    )
    return Expansion(
        coef=Field(("lines", "functions" if traced else "one", "points"), 0.0),
        scale=Field(("scale",), 0.0),
        norm2=Field((), 0.0),
        pi=Field((), 0.0),
        size2=Field(("points",), 0.0, least=0.0, largest=LARGEST_SQUARE),
        n_points=Field((), 0, int),
        n_seen=Field((), 0, int),
        outputs=TouchedOutputs(Field(lines, 0, int, below="outputs")) if touched else EveryOutput(),
        births=Births(Field(("points",), 0, int)) if dated else Undated(),
        average=sums if averaged else NoAverage(),
    )
