"""The options of an expansion, as types: each is a record with the same methods.

A model without an option has nothing of it: no array, and no instruction in its compiled code.
"""

from typing import Any, NamedTuple

from kernelstream.expansion.operations import (
    correct_for_drop,
    fold,
    put_into_gram,
    raw_of_every,
    raw_of_touched,
    write_raw_of_every,
    write_raw_of_touched,
)
from kernelstream.expansion.products import raw_of_all, raw_of_few, scores_of_all, scores_of_few
from kernelstream.parts import rule

__all__ = [
    "Average",
    "Births",
    "ComputedGram",
    "EveryOutput",
    "NoAverage",
    "NothingPending",
    "Pending",
    "StoredGram",
    "TouchedOutputs",
    "Uncorrected",
    "Undated",
]

# The sum of p over the models is put into `past` before it is so many times p: a point's own sum is
# a difference of two such numbers, and the digits that they share are lost.
_LARGEST_SUM = 1e4


# --- which coefficients a point keeps ------------------------------------------------------------


@rule
class EveryOutput(NamedTuple):
    """A point has a coefficient for each output: line k is output k."""

    def output_of(self, line, slot):
        return line

    def line_for(self, position, output, slot):
        """Return the line for an output that a new point touches as its `position`-th."""
        return output

    def raw_at(self, coef, output, n, k_j):
        """Return raw f and v of one output at a point with the kernel values k_j."""
        return raw_of_every(coef[output], n, k_j)

    def write_raw(self, coef, function, n, k_x, raw):
        """Write the raw scores of a row with the kernel values k_x, of all outputs."""
        write_raw_of_every(coef, function, n, k_x, raw)

    def scores_of(self, lines, block, n_outputs):
        """Multiply a block by coefficients, a row of them per point. Not compiled."""
        return scores_of_all(lines, block)

    def raw_scores(self, coef, scale, n_outputs, block, memory):
        """Return ``coef . block``, of shape (outputs, functions, rows). Not compiled."""
        return raw_of_all(coef, scale, block, memory)


@rule
class TouchedOutputs(NamedTuple):
    """A point has coefficients for the outputs that its row touched: few of many."""

    output: Any  # (lines, points): which output each belongs to

    def output_of(self, line, slot):
        return self.output[line, slot]

    def line_for(self, position, output, slot):
        self.output[position, slot] = output
        return position

    def raw_at(self, coef, output, n, k_j):
        return raw_of_touched(coef, self.output, output, n, k_j)

    def write_raw(self, coef, function, n, k_x, raw):
        write_raw_of_touched(coef, self.output, function, n, k_x, raw)

    def scores_of(self, lines, block, n_outputs):
        return scores_of_few(lines, self.output, block, n_outputs)

    def raw_scores(self, coef, scale, n_outputs, block, memory):
        return raw_of_few(coef, self.output, n_outputs, block, memory)


# --- when each point came ------------------------------------------------------------------------


@rule
class Undated(NamedTuple):
    """Nobody asks when a point came."""

    def note_birth(self, slot, n_seen):
        return


@rule
class Births(NamedTuple):
    """How many rows had been learned when each point came."""

    born: Any  # (points,)

    def note_birth(self, slot, n_seen):
        self.born[slot] = n_seen


# --- the sum of all models -----------------------------------------------------------------------


@rule
class NoAverage(NamedTuple):
    """Only the last model is kept."""

    def settle_before(self, expansion, tile, p, folds):
        return

    def past_of_new(self, a):
        return 0.0

    def add_pending(self, features, pending, done):
        return

    def sum_up(self, expansion, b, margin):
        return

    def drop_sum(self, slot):
        return

    def project_sum(self, expansion, weights, slot):
        return

    def project_new(self, expansion, weights, point):
        return

    def merge_sum(self, expansion, slot, partner, w1, w2, point):
        return

    def insert_sum(self, line, slot, a):
        return


@rule
class Average(NamedTuple):
    """The sum of all models, kept without touching every point at every row.

    An old raw coefficient stays as it is, and so the sum of alpha = p a over the models is a times
    that of p. Whatever else belongs to it is in `past`: the sum is ``a p_sum + past``.
    """

    past: Any  # (lines, points)
    p_sum: Any  # sum of p over the models since it was last put into `past`
    b_sum: Any  # (outputs,): sum of the intercepts over all models
    margin_sum: Any

    def settle_before(self, expansion, tile, p, folds):
        """Put what every coefficient has summed up into `past`, if it is time to."""
        if not (folds or self.p_sum[0] > _LARGEST_SUM * p):
            return
        for k in range(expansion.coef.shape[0]):
            for j in range(expansion.n_points[0]):
                self.past[k, j] += self.p_sum[0] * expansion.coef[k, 0, j]
        tile.pending.settle_pending(self.p_sum[0])
        self.p_sum[0] = 0.0

    def sum_up(self, expansion, b, margin):
        """Add the model as it is now."""
        self.p_sum[0] += expansion.scale[0]
        for k in range(b.shape[0]):
            self.b_sum[k] += b[k]
        self.margin_sum[0] += margin

    def drop_sum(self, slot):
        """Drop a point together with its share of the sum."""
        self.past[:, slot] = 0.0

    def project_sum(self, expansion, weights, slot):
        """Represent the point in `slot` by the others; coefficients are the old ones.

        `past` is ``sum - a p_sum``, and so it goes the way of both. The place of the point that
        goes keeps what the new one gets of its sum; `insert_sum` takes it from there.
        """
        n = expansion.n_points[0]
        for k in range(self.past.shape[0]):
            past = self.past[k, slot]
            for m in range(n):
                self.past[k, m] += past * weights[m]
            total = past + self.p_sum[0] * expansion.coef[k, 0, slot]
            self.past[k, slot] = weights[n] * total

    def project_new(self, expansion, weights, point):
        """Represent the new row, whose sum is zero, by the points."""
        for k in range(self.past.shape[0]):
            for m in range(expansion.n_points[0]):
                self.past[k, m] -= self.p_sum[0] * point.coef[k, 0] * weights[m]

    def merge_sum(self, expansion, slot, partner, w1, w2, point):
        """Merge two points, or the new row and one; coefficients are the old ones."""
        for k in range(self.past.shape[0]):
            if slot < 0:  # the row is new: its sum is zero
                past = -self.p_sum[0] * point.coef[k, 0]
            else:
                past = self.past[k, slot]
                self.past[k, slot] = 0.0
            self.past[k, partner] = w1 * past + w2 * self.past[k, partner]

    def insert_sum(self, line, slot, a):
        """Insert a new point: the old sum in its slot belongs to a projected point."""
        self.past[line, slot] -= self.p_sum[0] * a

    def past_of_new(self, a):
        """Return the sum of a new coefficient beside ``a p_sum``, so that it is zero."""
        return -self.p_sum[0] * a

    def add_pending(self, features, pending, done):
        """Add what the rows of a tile have brought, where f is a weight for each feature."""
        for k in range(self.past.shape[0]):
            features.add_combination(self.past[k], pending.past[:, k], done)


# --- what rows have brought to weights -----------------------------------------------------------


@rule
class NothingPending(NamedTuple):
    """Rows become points: their coefficients are in the expansion at once."""

    def fold_all(self, p, q, r):
        return

    def forget_trace(self):
        return

    def settle_pending(self, p_sum):
        return


@rule
class Pending(NamedTuple):
    """Raw coefficients of the rows of a tile, which are added to the weights after the loop."""

    coef: Any  # (rows, functions, outputs)
    past: Any  # (rows, outputs): of the sum of all models

    def fold_all(self, p, q, r):
        """Fold the scales into the coefficients, as it happens to the weights."""
        for i in range(self.coef.shape[0]):
            fold(self.coef[i], p, q, r)

    def forget_trace(self):
        """Reset the trace v: forget all of b."""
        self.coef[:, 1] = 0.0

    def settle_pending(self, p_sum):
        """Put what every coefficient has summed up into `past`."""
        for i in range(self.past.shape[0]):
            for k in range(self.past.shape[1]):
                self.past[i, k] += p_sum * self.coef[i, 0, k]


# --- kernel values between points, by which norms stay true --------------------------------------


@rule
class Uncorrected(NamedTuple):
    """||f||^2 and <f, v> are not corrected for points that are dropped: nobody feels it."""

    def correct_norms(self, expansion, tile, slot, i, point):
        return

    def put_point(self, tile, slot, i, n):
        return


@rule
class StoredGram(NamedTuple):
    """Kernel values between points that are kept."""

    gram: Any  # (points, points)

    def correct_norms(self, expansion, tile, slot, i, point):
        """Return ||f||^2 and <f, v> without the point in `slot`."""
        n = expansion.n_points[0]
        correct_for_drop(expansion, self.gram[slot, :n], tile, slot, i, point)

    def put_point(self, tile, slot, i, n):
        """Return row i has become the point in `slot`."""
        put_into_gram(self.gram, tile, slot, i, n)


@rule
class ComputedGram(NamedTuple):
    """Kernel values between points, computed from their rows when they are asked for."""

    kernel: Any
    features: Any  # of the points, a line for every feature
    memory: Any  # (points,)

    def correct_norms(self, expansion, tile, slot, i, point):
        n = expansion.n_points[0]
        self.kernel.write_column(self.features, n, self.features[:, slot], self.memory)
        correct_for_drop(expansion, self.memory[:n], tile, slot, i, point)

    def put_point(self, tile, slot, i, n):
        return
