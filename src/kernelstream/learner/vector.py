"""The loop where every weight has a step size: section 2 of the SVMD paper (JMLR 2006).

A model on explicit features is a weight per output and feature, f = <w, phi(x)>. Where each has a
step size p of its own, the gradient does not stay in the span of few rows, so that rows are learned
one after the other on the weights themselves: ``coef[k, 0]`` are the weights of output k and
``coef[k, 1]`` is their trace v, both with scale one. Numbers in parentheses are the paper's
equations. ||f||^2 is not kept: nothing here looks at it.

A row touches the features that are not zero in it. The other weights decay and their traces follow
(7), but their step sizes stay; a closed form says what becomes of them over any number of rows
(`fade`). Dense rows do that at once, sparse rows when a feature is next needed.

The same promise as `learn.learn_tile`: it is the sequential algorithm, and a refused row has
changed nothing.
"""

import math
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from kernelstream.compile import as_argument, compiled, helper
from kernelstream.learner.learn import LARGEST_MOVE, LARGEST_NORM2
from kernelstream.learner.state import note_drift
from kernelstream.parts import SLACK, rule
from kernelstream.step_sizes.per_weight import LARGEST_DECAY

__all__ = [
    "DenseRows",
    "SparseRows",
    "VectorTile",
    "VectorWork",
    "learn_vector",
    "new_vector_work",
    "rows_of",
]

# A trace below this is as good as zero. Numbers much smaller would soon be denormal, and slow.
SMALLEST_TRACE = 1e-150


class VectorTile(NamedTuple):
    """Rows to learn, by their features."""

    rows: Any  # `DenseRows` or `SparseRows`
    y: Any  # (rows,)
    weight: Any  # (rows,)
    changes: Any  # which features have been written, for undoing


class VectorWork(NamedTuple):
    """Memory for one row at a time."""

    row: Any  # (4, outputs): scores, slope, xi, chi


def new_vector_work(n_outputs: int) -> VectorWork:
    """Return memory for the rows of a model."""
    return VectorWork(np.zeros((4, n_outputs)))


def rows_of(phi: Any) -> Any:
    """Return features as compiled code takes them."""
    if sparse.issparse(phi):
        indices, indptr = (as_argument(a, np.int32) for a in (phi.indices, phi.indptr))
        return SparseRows(as_argument(phi.data, phi.dtype), indices, indptr)
    return DenseRows(phi)


# --- one weight ----------------------------------------------------------------------------------


@helper
def moved_trace(v, step, gradient, bend, decay, c):
    """Return the trace after a step (7); `bend` is what the loss has of lambda H v."""
    v = decay * v - step * (gradient + bend + decay * c * v)
    return v if abs(v) > SMALLEST_TRACE else 0.0


@helper
def powers(decay, n):
    """Return ``decay^n`` and ``1 + decay + ... + decay^(n - 1)``."""
    if decay == 0.0:
        return 0.0, 1.0
    if decay == 1.0:
        return 1.0, float(n)
    exponent = n * math.log(decay)
    return math.exp(exponent), math.expm1(exponent) / (decay - 1.0)


@helper
def fade(coef, steps, j, n, c, decay):
    """Return the effect of n rows on weights and traces of feature j, which is zero in them.

    Return whether there are any: nothing becomes of zeros.
    """
    last = coef.shape[1] - 1  # the trace, or the weights themselves where there is none
    decay_n, total, is_known = 0.0, 0.0, False
    for k in range(coef.shape[0]):
        w, v = coef[k, 0, j], coef[k, last, j]
        if w == 0.0 and v == 0.0:
            continue  # as most of many features are
        if not is_known:
            decay_n, total = powers(decay, n)
            is_known = True
        if c > 0.0:
            left = 1.0 - steps[k, j] * c
            before = left ** (n - 1)
            coef[k, 0, j] = w * before * left
            v = v * before * left * decay_n - steps[k, j] * c * w * before * total
        else:
            v *= decay_n
        if last > 0:
            coef[k, last, j] = v if abs(v) > SMALLEST_TRACE else 0.0
    return is_known


@helper
def bring_up_to_date(expansion, step_state, j, c, decay):
    """Let the weights of feature j, and their traces, be what they are after all rows so far.

    Return whether anything was written.
    """
    n = expansion.n_seen[0] - step_state.caught_up[j]
    if n <= 0 or not fade(expansion.coef, step_state.steps, j, n, c, decay):
        return False
    step_state.caught_up[j] = expansion.n_seen[0]
    return True


# --- rows ----------------------------------------------------------------------------------------


class Rows(Protocol):
    """What is asked of the rows of a tile, in compiled code; i is one of them."""

    def n_of_rows(self):
        """Return how many there are."""

    def row_length2(self, i):
        """Return the squared length of a row."""

    def row_product(self, i, line):
        """Return the inner product of a row with the weights of an output."""

    def catch_up(self, i, expansion, step_state, c, decay, changes):
        """Bring the weights of a row's features up to date."""
        return

    def catch_up_all(self, expansion, step_state, c, decay, changes):
        """Let every weight have decayed, before it predicts."""

    def note_touched(self, i, step_state, n_seen):
        """Count a learned row, the last of `n_seen`."""
        return

    def adapt_steps(self, i, step_size, w, v, steps, xi, c, per_unit, most):
        """Adapt the step sizes of an output (4); return ``sum_j p_j x_j^2``."""

    def descend_traced(self, i, w, v, steps, xi, chi, c, decay):
        """Move the weights of an output (1) and their traces (7)."""

    def descend_untraced(self, i, w, steps, xi, c):
        """Move weights that have no trace."""


@rule(defaults=Rows)
class DenseRows(NamedTuple):
    """Rows with a number for every feature."""

    x: Any  # (rows, features)

    def n_of_rows(self):
        return self.x.shape[0]

    def row_length2(self, i):
        total = 0.0
        for j in range(self.x.shape[1]):
            x = np.float64(self.x[i, j])
            total += x * x
        return total

    def catch_up_all(self, expansion, step_state, c, decay, changes):
        changes.mark_all()  # it has been done, at every row

    def row_product(self, i, line):
        total = 0.0
        for j in range(self.x.shape[1]):
            total += np.float64(self.x[i, j]) * line[j]
        return total

    def adapt_steps(self, i, step_size, w, v, steps, xi, c, per_unit, most):
        total = 0.0
        for j in range(self.x.shape[1]):
            x, p = np.float64(self.x[i, j]), steps[j]
            adapted = step_size.step_of_weight(p, xi * x + c * w[j], v[j], per_unit, most)
            p = p if x == 0.0 else adapted
            steps[j] = p
            total += p * x * x
        return total

    def descend_traced(self, i, w, v, steps, xi, chi, c, decay):
        for j in range(self.x.shape[1]):
            x, p = np.float64(self.x[i, j]), steps[j]
            gradient = xi * x + c * w[j]
            v[j] = moved_trace(v[j], p, gradient, chi * x, decay, c)
            w[j] -= p * gradient

    def descend_untraced(self, i, w, steps, xi, c):
        for j in range(self.x.shape[1]):
            w[j] -= steps[j] * (xi * np.float64(self.x[i, j]) + c * w[j])


@rule(defaults=Rows)
class SparseRows(NamedTuple):
    """Rows by their nonzeros, in the order of the features."""

    data: Any
    indices: Any
    indptr: Any

    def n_of_rows(self):
        return self.indptr.shape[0] - 1

    def row_length2(self, i):
        total = 0.0
        for m in range(self.indptr[i], self.indptr[i + 1]):
            x = np.float64(self.data[m])
            total += x * x
        return total

    def catch_up(self, i, expansion, step_state, c, decay, changes):
        for m in range(self.indptr[i], self.indptr[i + 1]):
            bring_up_to_date(expansion, step_state, self.indices[m], c, decay)
            changes.mark(self.indices[m])

    def catch_up_all(self, expansion, step_state, c, decay, changes):
        if c > 0.0:
            for j in range(step_state.caught_up.shape[0]):
                if bring_up_to_date(expansion, step_state, j, c, decay):
                    changes.mark(j)

    def note_touched(self, i, step_state, n_seen):
        for m in range(self.indptr[i], self.indptr[i + 1]):
            step_state.caught_up[self.indices[m]] = n_seen

    def row_product(self, i, line):
        total = 0.0
        for m in range(self.indptr[i], self.indptr[i + 1]):
            total += np.float64(self.data[m]) * line[self.indices[m]]
        return total

    def adapt_steps(self, i, step_size, w, v, steps, xi, c, per_unit, most):
        total = 0.0
        for m in range(self.indptr[i], self.indptr[i + 1]):
            x, j = np.float64(self.data[m]), self.indices[m]
            if x != 0.0:  # which may be stored
                p = step_size.step_of_weight(steps[j], xi * x + c * w[j], v[j], per_unit, most)
                steps[j] = p
                total += p * x * x
        return total

    def descend_traced(self, i, w, v, steps, xi, chi, c, decay):
        for m in range(self.indptr[i], self.indptr[i + 1]):
            x, j = np.float64(self.data[m]), self.indices[m]
            p, gradient = steps[j], xi * x + c * w[j]
            v[j] = moved_trace(v[j], p, gradient, chi * x, decay, c)
            w[j] -= p * gradient

    def descend_untraced(self, i, w, steps, xi, c):
        for m in range(self.indptr[i], self.indptr[i + 1]):
            x, j = np.float64(self.data[m]), self.indices[m]
            w[j] -= steps[j] * (xi * x + c * w[j])


# --- the loop ------------------------------------------------------------------------------------


@partial(compiled, nogil=True, any_order=True)
def learn_vector(model, state, tile, trail, work):
    """Learn the rows of a tile in order; return how many. Fewer than all: the next is refused."""
    done = learn_rows(model, state, tile, trail, work)
    tile.rows.catch_up_all(
        state.expansion, state.step_size, model.regularization, model.step_size.trace_decay(),
        tile.changes,
    )  # fmt: skip
    return done


@helper(inlines=True)
def learn_rows(model, state, tile, trail, work):
    """Learn the rows; the weights of some features may be left behind."""
    expansion, intercept, rows = state.expansion, state.intercept, tile.rows
    coef, steps = expansion.coef, state.step_size.steps
    n_rows, n_outputs, last = rows.n_of_rows(), coef.shape[0], coef.shape[1] - 1
    traced, decay = model.step_size.is_traced(), model.step_size.trace_decay()
    c, with_intercept = model.regularization, model.intercept.is_fitted()
    most = min(model.step_size.largest(), LARGEST_DECAY / c if c > 0.0 else math.inf)
    least, may_rest = model.step_size.least_gradient(), c == 0.0 and not traced
    scores, slope, xi, chi = work.row[0], work.row[1], work.row[2], work.row[3]

    for i in range(n_rows):
        n_seen = expansion.n_seen[0]
        margin = model.margin.current_margin(state.margin, 0.0)
        rows.catch_up(i, expansion, state.step_size, c, decay, tile.changes)
        for k in range(n_outputs):
            scores[k] = rows.row_product(i, coef[k, 0]) + intercept.b[k]
            chi[k] = 0.0
            if traced:
                slope[k] = decay * (rows.row_product(i, coef[k, last]) + intercept.trace[k])
        for k in range(trail.scores.shape[1]):
            trail.scores[i, k] = scores[k]
        # without outputs there is no label yet, and no row has any weight
        loss = model.loss.value(scores, tile.y[i], margin) if n_outputs > 0 else 0.0
        trail.loss[i] = loss
        trail.margin[i] = margin
        trail.eta[i] = state.step_size.eta[0]
        trail.drift[i] = state.drift.score[0]
        trail.slot[i] = -1
        trail.partner[i] = -1
        trail.n_points[i] = 0  # weights have no points
        if tile.weight[i] == 0.0:
            continue  # a row without weight is as good as absent

        # loss: gradient in score space, and curvature times the slope of the scores: lambda H v
        weight = model.loss_weight * tile.weight[i]
        violated = model.loss.gradient(scores, tile.y[i], margin, xi)
        rho, largest, has_gradient = 0.0, 0.0, False
        if model.loss.is_curved():
            rho = weight * model.loss.curvature(scores, tile.y[i], margin, slope, chi)
        for k in range(n_outputs):
            xi[k] *= weight if abs(xi[k]) >= least else 0.0
            chi[k] *= weight
            has_gradient = has_gradient or xi[k] != 0.0
            largest += abs(xi[k]) + abs(chi[k])
        x2 = rows.row_length2(i)
        proposal = model.step_size.propose(state.step_size, n_seen, weight * loss, 0.0, 0.0)
        # a bound on how far a weight, its trace or an intercept could go
        farthest = largest * most * max(1.0, math.sqrt(x2))
        if model.update.capped and rho > 0.0:
            farthest /= max(1.0, rho * model.step_size.least_step() * x2)
        # each by itself: max() may lose a number that is NaN
        is_sound = x2 <= LARGEST_NORM2 and proposal.mean_loss <= LARGEST_NORM2
        if not (is_sound and farthest <= LARGEST_MOVE):
            return i

        # From here on the row is accepted, and the state is written.
        model.margin.adapt_margin(
            state.margin, model.step_size, n_seen, model.loss.margin_direction(), violated,
            tile.weight[i],
        )  # fmt: skip
        per_unit, felt, n_moved, capped = 1.0 / proposal.unit, 0.0, 0, False
        for k in range(n_outputs):
            if may_rest and xi[k] == 0.0:
                continue  # nothing would change
            n_moved += 1
            total = rows.adapt_steps(
                i, model.step_size, coef[k, 0], coef[k, last], steps[k], xi[k], c, per_unit, most
            )
            p = 0.0
            if with_intercept:
                p = model.step_size.step_of_weight(
                    intercept.eta[k], xi[k], intercept.trace[k], per_unit, most
                )
                intercept.eta[k] = p
            if model.update.capped and rho * (total + p) > 1.0:
                # a shorter step, which leads to the bottom of the loss and not beyond
                share = 1.0 / (rho * (total + p))
                capped = capped or share < 1.0 - SLACK
                xi[k] *= share
                chi[k] *= share
                felt += share * (total + p)
            else:
                felt += total + p
            if traced:
                rows.descend_traced(i, coef[k, 0], coef[k, last], steps[k], xi[k], chi[k], c, decay)
            else:
                rows.descend_untraced(i, coef[k, 0], steps[k], xi[k], c)
            if with_intercept:
                intercept.b[k] -= p * xi[k]
                if traced:
                    intercept.trace[k] = moved_trace(
                        intercept.trace[k], p, xi[k], chi[k], decay, 0.0
                    )
        rows.note_touched(i, state.step_size, n_seen + 1)
        if capped:
            model.update.note_capped(state.update)
        # the mean of the step sizes of what moved, as this row felt them
        eta = state.step_size.eta[0]
        if felt > 0.0:  # else the row is all zeros, or nothing moved
            eta = felt / (n_moved * (x2 + (1.0 if with_intercept else 0.0)))
        model.step_size.accept(state.step_size, proposal, eta, capped, has_gradient)
        note_drift(state.drift, eta, n_seen)
        expansion.n_seen[0] = n_seen + 1
        trail.eta[i] = eta
        trail.drift[i] = state.drift.score[0]
    return n_rows
