"""THE loop. A learning step is one straight line through the parts:

    kernel row -> scores -> loss -> step size -> update -> slot -> coefficients

Rows come in tiles. For a tile the caller has made all kernel values and the raw scores that the
current model gives to every row of the tile, with matrix products. Then the rows are learned one
after the other, exactly: whenever a row becomes a point or a point is dropped, the raw scores of
the rows still to come are corrected (`expansion`). The work in this loop does not grow with the
number of points.

Numbers in parentheses are equations of the SVMD paper (JMLR 2006). The functions are plain Python
that also compiles; `learn_rows` runs the very same lines without a compiler.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from kernelstream.compiled import compiled
from kernelstream.learner.expansion import (
    decay_all,
    dot,
    dot_on,
    drop,
    insert,
    leave_out,
    merge,
    nonzeros,
    project,
    retire,
    sum_up,
)
from kernelstream.parts import SLACK
from kernelstream.step_sizes import note_drift
from kernelstream.updates import Move, Row

__all__ = ["Tile", "Trail", "Work", "learn_rows", "learn_tile", "new_trail", "new_work"]

# A row whose step would push ||f||^2, a coefficient's own norm or another number of the state past
# this is refused: within it no score, and no product of two scores, can overflow.
LARGEST_NORM2 = 1e120
LARGEST_MOVE = 1e60  # of an intercept, for the same reason


class Tile(NamedTuple):
    """Rows to learn, as numbers."""

    k: Any  # (points + rows, rows): kernel values of every point, then of every row, with each row
    n_points: int  # how many of k's lines are points as the tile begins
    raw_f: Any  # (rows, outputs): a . k_pt, kept current; f = p raw_f
    raw_v: Any  # (rows, outputs): b . k_pt; v = q raw_v + r raw_f. (0, 0) without a trace
    y: Any  # (rows,)
    weight: Any  # (rows,)
    source: Any  # of the kernel values between points, for what corrects norms: see `StoredGram`


class Trail(NamedTuple):
    """What happened at each row, in the order of the rows."""

    slot: Any  # where the row went as a point, or -1
    partner: Any  # the slot with which the point in `slot`, or the row itself, was merged, or -1
    share: Any  # how far towards it
    scores: Any  # (rows, outputs): the scores before the row was learned; (rows, 0) if not asked
    loss: Any
    eta: Any
    drift: Any  # how far the step size has risen above its recent mean, as a logarithm
    margin: Any
    n_points: Any


def new_trail(n: int, n_outputs: int) -> Trail:
    """Room for what happens at n rows; without outputs no scores are kept."""
    return Trail(
        slot=np.empty(n, np.int64),
        partner=np.empty(n, np.int64),
        share=np.empty(n),
        scores=np.empty((n, n_outputs)),
        loss=np.empty(n),
        eta=np.empty(n),
        drift=np.empty(n),
        margin=np.empty(n),
        n_points=np.empty(n, np.int64),
    )


class Work(NamedTuple):
    """Memory for one row at a time. Nothing in it outlives the row."""

    numbers: Any  # (11, outputs)
    active: Any  # (outputs,)


def new_work(n_outputs: int) -> Work:
    """Memory for the rows of a model."""
    return Work(np.zeros((11, n_outputs)), np.zeros(n_outputs, np.int64))


@register_jitable(forceinline=True)  # where it is called: to pass all these arrays takes long
def learn_rows(model, state, tile, trail, work):
    """Learn the rows of a tile in order; return how many. Fewer than all: the next one is refused.

    A refused row has changed nothing.
    """
    expansion = state.expansion
    n_rows, n_outputs = tile.raw_f.shape
    traced = model.step_size.is_traced()
    decay = model.step_size.trace_decay()
    intercept_decay = model.step_size.of_intercept().trace_decay()
    c = model.regularization
    lines, active = work.numbers, work.active
    f, v, scores, slope, xi, chi = lines[0], lines[1], lines[2], lines[3], lines[4], lines[5]
    alpha, beta = lines[6], lines[7]
    out = Move(alpha, beta, lines[8], lines[9], lines[10])
    with_intercept = model.intercept.is_fitted()

    for i in range(n_rows):
        p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
        k_xx = np.float64(tile.k[tile.n_points + i, i])
        margin = model.margin.current_margin(state.margin, expansion.norm2[0])
        n_seen = expansion.n_seen[0]

        # scores of f and of its trace v at x
        for k in range(n_outputs):
            f[k] = p * tile.raw_f[i, k]
            if traced:
                v[k] = q * tile.raw_v[i, k] + r * tile.raw_f[i, k]
            scores[k] = f[k] + state.intercept.b[k]
            slope[k] = decay * v[k] + intercept_decay * state.intercept.trace[k]
        if trail.scores.size > 0:
            trail.scores[i] = scores
        trail.loss[i] = model.loss.value(scores, tile.y[i], margin)
        trail.margin[i] = margin
        trail.eta[i] = state.step_size.eta[0]
        trail.drift[i] = state.step_size.drift[0]
        trail.slot[i] = -1
        trail.partner[i] = -1
        trail.n_points[i] = expansion.n_points[0] - state.budget.n_spare[0]
        if tile.weight[i] == 0.0:
            continue  # a row without weight is as good as absent

        # loss: gradient xi (27) and curvature, chi = rho lambda v (43)-(44)
        weight = model.loss_weight * tile.weight[i]
        violated = model.loss.gradient(scores, tile.y[i], margin, xi)
        rho = 0.0
        if model.loss.is_curved():
            rho = weight * model.loss.curvature(scores, tile.y[i], margin, slope, chi)
            for k in range(n_outputs):
                chi[k] *= weight
        for k in range(n_outputs):
            xi[k] *= weight
        has_gradient = False
        for k in range(n_outputs):
            has_gradient = has_gradient or xi[k] != 0.0

        # step size: follow <g, v> = c pi + xi . v(x) (45), (33)
        mean_loss = model.step_size.next_mean_loss(
            state.step_size.mean_loss[0], weight * trail.loss[i], n_seen
        )
        unit = model.step_size.unit(mean_loss)
        correlation = c * expansion.pi[0] + dot(xi, v)
        objective = mean_loss + 0.5 * c * expansion.norm2[0]
        before, first = state.step_size.eta[0], model.step_size.initial
        wanted = model.step_size.next_step(
            first, before, state.step_size.felt[0], n_seen, correlation / unit
        )
        eta = min(wanted, model.update.largest_step(c, rho, k_xx, with_intercept))
        capped = eta < wanted * (1.0 - SLACK)

        # update: f <- keep f + alpha k(x, .),  v <- keep_v v + cross f + beta k(x, .)
        row = Row(
            tile.y[i], margin, weight, k_xx, f, v, state.intercept.b, state.intercept.trace, xi,
            chi, expansion.norm2[0], scores,
        )  # fmt: skip
        eta, keep, keep_v, cross = model.update.move(
            model.loss, row, eta, c, decay, traced, with_intercept, out
        )
        n_active = nonzeros(alpha, beta, traced, active)
        # ||f||^2 and pi = <f, v> after the move: (46)-(49), multiplied out
        alpha_f = dot_on(active, n_active, alpha, f)
        alpha2 = dot_on(active, n_active, alpha, alpha)
        beta2 = 0.0
        norm2_of_old, pi_of_old = keep * keep * expansion.norm2[0], 0.0
        norm2 = norm2_of_old + 2.0 * keep * alpha_f + k_xx * alpha2
        pi = 0.0
        if traced:
            beta2 = dot_on(active, n_active, beta, beta)
            pi_of_old = keep * keep_v * expansion.pi[0] + keep * cross * expansion.norm2[0]
            pi = pi_of_old + keep * dot_on(active, n_active, beta, f) + cross * alpha_f
            pi += keep_v * dot_on(active, n_active, alpha, v)
            pi += k_xx * dot_on(active, n_active, alpha, beta)
        largest = max(norm2, max(k_xx, 1.0) * max(alpha2, beta2))
        move_of_b = model.update.largest_intercept_move(model.intercept, model.step_size, row, rho)
        # each by itself: max() may lose a number that is NaN
        sound = abs(pi) <= LARGEST_NORM2 and mean_loss <= LARGEST_NORM2
        sound = sound and move_of_b <= LARGEST_MOVE
        if not (largest <= LARGEST_NORM2 and sound and 0.0 < eta <= LARGEST_NORM2):
            return i

        # From here on the row is accepted, and the state is written.
        model.margin.adapt_margin(
            state.margin, model.step_size, n_seen, model.loss.margin_direction(), violated,
            tile.weight[i],
        )  # fmt: skip
        capped_b = model.update.move_intercept(
            model.intercept, state.intercept, model.step_size, n_seen, row, out, unit,
            objective, rho, eta,
        )  # fmt: skip
        if capped or capped_b:
            state.step_size.n_capped[0] += 1
        if has_gradient:
            state.step_size.felt[0] = model.step_size.next_felt(
                state.step_size.felt[0], correlation, objective
            )
        state.step_size.eta[0] = model.step_size.remembered_step(
            first, before, wanted if capped else eta, eta
        )
        note_drift(state.step_size, n_seen)
        state.step_size.mean_loss[0] = mean_loss
        expansion.norm2[0] = max(norm2, 0.0)
        expansion.pi[0] = pi
        expansion.n_seen[0] = n_seen + 1
        decay_all(expansion, tile, keep, keep_v, cross)

        expired = model.budget.expired(state.budget, expansion)
        while expired >= 0:  # points may go without another's coming
            retire(expansion, state.budget.gram, tile, expired, i, alpha, beta)
            expired = model.budget.expired(state.budget, expansion)

        # slot and coefficients: a row with a coefficient becomes a point, or joins those there are
        if n_active > 0:
            n, line = expansion.n_points[0], tile.n_points + i
            slot, partner, gap = model.budget.choose_slot(
                state.budget, expansion, tile.k, line, i, alpha
            )
            if partner >= 0:
                trail.partner[i] = partner
                trail.share[i] = state.budget.share[0]
                merge(expansion, state.budget, tile, slot, partner, i, alpha, beta)
            elif slot < 0 and gap < 0.0:  # the row is dropped at once
                expansion.norm2[0], expansion.pi[0] = norm2_of_old, pi_of_old
            elif slot < 0:
                leave_out(expansion, state.budget.weights, tile, i, alpha, beta, gap)
            elif slot == n:
                expansion.n_points[0] = n + 1
            elif gap >= 0.0:
                project(expansion, state.budget.weights, tile, slot, i, alpha, beta, gap)
                n_active = nonzeros(alpha, beta, traced, active)
            else:
                drop(expansion, state.budget.gram, tile, slot, i, alpha, beta)
            if slot >= 0:
                if expansion.born.size > 0:
                    expansion.born[slot] = n_seen
                insert(expansion, state.budget.gram, tile, slot, i, alpha, beta, active, n_active)
                trail.slot[i] = slot
                if slot == n or gap >= 0.0:
                    model.budget.refresh(state.budget, expansion.n_points[0], slot == n)
        if expansion.p_sum.size > 0:
            sum_up(expansion, state.intercept.b, state.margin.epsilon[0])
        trail.eta[i] = eta
        trail.drift[i] = state.step_size.drift[0]
        trail.n_points[i] = expansion.n_points[0] - state.budget.n_spare[0]
    return n_rows


@partial(compiled, nogil=True)
def learn_tile(model, state, tile, trail, work, slots):
    """`learn_rows`, and the rows that became points written into their slots, in one call."""
    done = learn_rows(model, state, tile, trail, work)
    slots.write_points(trail, done)
    return done
