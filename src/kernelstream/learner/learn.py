"""THE loop. A learning step is one straight line through the parts:

    kernel row -> scores -> loss -> step size -> update -> slot -> coefficients

Rows come in tiles. For a tile the caller has made all kernel values and the raw scores that the
current model gives to every row of the tile, with matrix products. Then the rows are learned one
after the other, exactly: whenever a row becomes a point or a point is dropped, the raw scores of
the rows still to come are corrected (`kernelstream.expansion`). The work in this loop does not
grow with the number of points.

Numbers in parentheses are equations of the SVMD paper (JMLR 2006). The functions are plain Python
that also compiles; `learn_rows` runs the very same lines without a compiler, and `learn_tile` is
what the compiler makes of them.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import compiled, helper
from kernelstream.expansion import Point
from kernelstream.expansion.operations import (
    decay_all,
    dot,
    dot_on,
    insert,
    make_raw,
    nonzeros,
    retire,
)
from kernelstream.learner.state import note_drift
from kernelstream.parts import SLACK
from kernelstream.updates import Move, Row

__all__ = ["Trail", "Work", "learn_rows", "learn_tile", "new_trail", "new_work"]

# A row whose step would push ||f||^2, a coefficient's own norm or another number of the state past
# this is refused: within it no score, and no product of two scores, can overflow.
LARGEST_NORM2 = 1e120
LARGEST_MOVE = 1e60  # of an intercept, for the same reason


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
    """Allocate a trail of n rows; without outputs it keeps no scores."""
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

    row: Any  # (6, outputs): f, v, scores, slope, xi, chi
    moves: Any  # (6, outputs): of `Move`
    coef: Any  # (outputs, functions): raw coefficients of the new point
    active: Any  # (outputs,): the outputs that the row touches
    n_active: Any
    norms_without: Any  # ||f||^2 and <f, v> without the row
    rest: Any  # (rows of a tile)


def new_work(n_outputs: int, n_functions: int, most_rows: int) -> Work:
    """Return memory for the rows of a model."""
    return Work(
        row=np.zeros((6, n_outputs)),
        moves=np.zeros((6, n_outputs)),
        coef=np.zeros((n_outputs, n_functions)),
        active=np.zeros(n_outputs, np.int64),
        n_active=np.zeros(1, np.int64),
        norms_without=np.zeros(2),
        rest=np.zeros(most_rows),
    )


@helper(inlines=True)  # in a fleet's loop: to pass all these arrays takes long
def learn_rows(model, state, tile, trail, work, writer):
    """Learn the rows of a tile in order; return how many. Fewer than all: the next one is refused.

    A refused row has changed nothing. The rows that became points are written into their slots.
    """
    expansion = state.expansion
    n_outputs, n_rows = tile.raw.shape[0], tile.raw.shape[2]
    traced = model.step_size.is_traced()
    decay = model.step_size.trace_decay()
    intercept_decay = model.step_size.of_intercept().trace_decay()
    c, with_intercept = model.regularization, model.intercept.is_fitted()
    curved = model.loss.is_curved()
    f, v, scores, slope = work.row[0], work.row[1], work.row[2], work.row[3]
    xi, chi, alpha, beta = work.row[4], work.row[5], work.moves[0], work.moves[1]
    out = Move(alpha, beta, work.moves[2], work.moves[3], work.moves[4], work.moves[5])
    point = Point(alpha, beta, work.coef, work.active, work.n_active, work.norms_without, work.rest)

    done = n_rows
    for i in range(n_rows):
        p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
        k_xx = np.float64(tile.k[tile.n_points + i, i])
        norm2_before, pi_before = expansion.norm2[0], expansion.pi[0]
        margin = model.margin.current_margin(state.margin, norm2_before)
        n_seen = expansion.n_seen[0]

        # scores of f and of its trace v at x
        for k in range(n_outputs):
            f[k] = p * tile.raw[k, 0, i]
            if traced:
                v[k] = q * tile.raw[k, 1, i] + r * tile.raw[k, 0, i]
            scores[k] = f[k] + state.intercept.b[k]
        for k in range(trail.scores.shape[1]):
            trail.scores[i, k] = scores[k]
        trail.loss[i], violated = 0.0, False
        if n_outputs > 0:  # without any there is no label yet, and no row has any weight
            trail.loss[i], violated = model.loss.value_and_gradient(scores, tile.y[i], margin, xi)
        trail.margin[i] = margin
        trail.eta[i] = state.step_size.eta[0]
        trail.drift[i] = state.drift.score[0]
        trail.slot[i] = -1
        trail.partner[i] = -1
        trail.n_points[i] = model.budget.n_kept(state.budget, expansion)
        if tile.weight[i] == 0.0:
            continue  # a row without weight is as good as absent

        # the loss's gradient xi (27), and its curvature, chi = rho lambda v (43)-(44)
        weight = model.loss_weight * tile.weight[i]
        rho, has_gradient = 0.0, False
        if curved:
            for k in range(n_outputs):
                slope[k] = decay * v[k] + intercept_decay * state.intercept.trace[k]
            rho = weight * model.loss.curvature(scores, tile.y[i], margin, slope, chi)
            for k in range(n_outputs):
                chi[k] *= weight
        for k in range(n_outputs):
            xi[k] *= weight
            has_gradient |= xi[k] != 0.0

        # step size: follow <g, v> = c pi + xi . v(x) (45), (33)
        correlation = c * pi_before + dot(xi, v)
        proposal = model.step_size.propose(
            state.step_size, n_seen, weight * trail.loss[i], 0.5 * c * norm2_before, correlation
        )
        row = Row(
            tile.y[i], margin, weight, k_xx, f, v, state.intercept.b, state.intercept.trace, xi,
            chi, rho, norm2_before, scores, n_seen,
        )  # fmt: skip
        eta = min(proposal.eta, model.update.largest_step(model, row, with_intercept))
        capped = eta < proposal.eta * (1.0 - SLACK)

        # update: f <- keep f + alpha k(x, .),  v <- keep_v v + cross f + beta k(x, .)
        eta, keep, keep_v, cross = model.update.move(model, row, eta, with_intercept, out)
        n_active = nonzeros(alpha, beta, traced, work.active)
        # ||f||^2 and pi = <f, v> after the move: (46)-(49), multiplied out
        alpha_f = dot_on(work.active, n_active, alpha, f)
        alpha2, beta2 = dot_on(work.active, n_active, alpha, alpha), 0.0
        norm2_without, pi_without, pi = keep * keep * norm2_before, 0.0, 0.0
        norm2 = norm2_without + 2.0 * keep * alpha_f + k_xx * alpha2
        if traced:
            beta2 = dot_on(work.active, n_active, beta, beta)
            pi_without = keep * keep_v * pi_before + keep * cross * norm2_before
            pi = pi_without + keep * dot_on(work.active, n_active, beta, f) + cross * alpha_f
            pi += keep_v * dot_on(work.active, n_active, alpha, v)
            pi += k_xx * dot_on(work.active, n_active, alpha, beta)
        largest = max(norm2, max(k_xx, 1.0) * max(alpha2, beta2))
        # each by itself: max() may lose a number that is NaN
        is_sound = abs(pi) <= LARGEST_NORM2 and proposal.mean_loss <= LARGEST_NORM2
        is_sound = is_sound and model.update.largest_intercept_move(model, row) <= LARGEST_MOVE
        if not (largest <= LARGEST_NORM2 and is_sound and 0.0 < eta <= LARGEST_NORM2):
            done = i
            break

        # From here on the row is accepted, and the state is written.
        model.margin.adapt_margin(
            state.margin, model.step_size, n_seen, model.loss.margin_direction(), violated,
            tile.weight[i],
        )  # fmt: skip
        if model.update.move_intercept(model, state.intercept, row, out, eta, proposal) or capped:
            model.update.note_capped(state.update)
        model.step_size.accept(state.step_size, proposal, eta, capped, has_gradient)
        note_drift(state.drift, state.step_size.eta[0], n_seen)
        expansion.norm2[0] = max(norm2, 0.0)
        expansion.pi[0] = pi
        expansion.n_seen[0] = n_seen + 1
        decay_all(expansion, tile, keep, keep_v, cross)
        model.budget.note_decay(state.budget, keep)
        expired = model.budget.expired(state.budget, expansion)
        while expired >= 0:  # points may go without another's coming
            retire(expansion, tile, expired, i, point)
            expired = model.budget.expired(state.budget, expansion)

        # slot and coefficients: a row with a coefficient becomes a point, or joins those there are
        if n_active > 0:
            n = expansion.n_points[0]
            make_raw(expansion, alpha, beta, work.coef)
            work.n_active[0] = n_active
            work.norms_without[0], work.norms_without[1] = norm2_without, pi_without
            action = model.budget.make_room(state.budget, expansion, tile, i, point)
            slot = action.carry_out(expansion, tile, i, point)
            trail.partner[i], trail.share[i] = action.merged_with()
            if slot >= 0:
                expansion.births.note_birth(slot, n_seen)
                insert(expansion, tile, slot, i, point)
                model.budget.inserted(state.budget, tile, slot, i, expansion.n_points[0], slot == n)
                trail.slot[i] = slot
        expansion.average.sum_up(expansion, state.intercept.b, state.margin.epsilon[0])
        trail.eta[i] = eta
        trail.drift[i] = state.drift.score[0]
        trail.n_points[i] = model.budget.n_kept(state.budget, expansion)
    writer.write_points(expansion, tile, trail, done)
    return done


learn_tile = compiled(learn_rows, nogil=True, inlines=True)
