"""The algorithm of LASVM on an active set, compiled (Bordes and others, JMLR 6, 2005).

Coefficients carry the sign of their label, so that they lie between min(0, C y) and max(0, C y),
and sum to zero, which is the condition of the intercept. ``g_i = margin y_i - sum_j alpha_j k_ij``
is the gradient of the dual. A pair (i, j) violates the conditions of the optimum by g_i - g_j,
where alpha_i may grow and alpha_j may shrink.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelstream.budgets.base import smallest
from kernelstream.compile import compiled, helper
from kernelstream.expansion.operations import measure
from kernelstream.parts import SLACK

if TYPE_CHECKING:
    pass

__all__ = [
    "LARGEST",
    "Seen",
    "Setting",
    "Task",
    "Work",
    "finish_active_set",
    "learn_on_active_set",
    "write_losses",
]

# No coefficient and no gradient is larger: products of two are then far from overflowing.
LARGEST = 1e60
SEEDS = 5  # rows of each label that begin in the active set


class Task(NamedTuple):
    """Rows to learn: in which order, and what each is."""

    order: Any
    y: Any
    limit: Any  # of its coefficients; zero: the row is as good as absent
    row: Any  # its number: a row that is a point already does not become another


class Setting(NamedTuple):
    """Numbers that stay."""

    margin: float
    tolerance: float
    slack: float  # gradients that differ by less, relative to them, are equal
    oldest: bool  # whether the oldest point makes room, or that of the smallest coefficients


class Seen(NamedTuple):
    """What happened at each row, or nothing."""

    scores: Any  # before it was learned
    n_points: Any


class Work(NamedTuple):
    """Memory for one row."""

    column: Any  # (slots,): its kernel values with the points
    g: Any  # (outputs,): its gradients
    up: Any  # (outputs,): the slot of the largest gradient that may grow, or -1
    down: Any  # (outputs,): of the smallest that may shrink


@helper
def sign(y, k, n_outputs):
    """Return -1 or +1: one class against the rest.

    A single output is that of two classes, where y is the sign, or that of the first class in a
    stream, whose number is zero.
    """
    if n_outputs == 1 and y != 0.0:
        return y
    return 1.0 if y == k else -1.0


@helper
def _ways(expansion, active, k, j):
    """Return whether a coefficient may grow, and whether it may shrink."""
    alpha = expansion.coef[k, 0, j]
    if sign(active.y[j], k, expansion.coef.shape[0]) > 0.0:
        return alpha < active.limit[j], alpha > 0.0
    return alpha < 0.0, alpha > -active.limit[j]


@helper
def _extremes(expansion, active, k, slack):
    """Return the slot of the largest gradient that may grow, and of the smallest that may shrink.

    A step leaves the gradients of its pair equal, so that near-ties are the rule. In a stream they
    go to the lowest slot, lest rounding choose.
    """
    g, up, down = active.gradients[k], -1, -1
    for j in range(expansion.n_points[0]):
        grows, shrinks = _ways(expansion, active, k, j)
        if grows and (up < 0 or g[j] > g[up]):
            up = j
        if shrinks and (down < 0 or g[j] < g[down]):
            down = j
    first_up, first_down = up, down
    for j in range(max(up, down)):
        grows, shrinks = _ways(expansion, active, k, j)
        if grows and j < first_up and g[j] >= g[up] - slack * (1.0 + abs(g[up])):
            first_up = j
        if shrinks and j < first_down and g[j] <= g[down] + slack * (1.0 + abs(g[down])):
            first_down = j
    return first_up, first_down


@helper
def _look(expansion, active, slack, work):
    """Find the extremes of every output."""
    for k in range(expansion.coef.shape[0]):
        work.up[k], work.down[k] = _extremes(expansion, active, k, slack)


@helper
def _middle(active, k, up, down):
    """Return the intercept, half way between the extremes, or the score of the only label."""
    if up < 0 and down < 0:
        return 0.0
    if up < 0 or down < 0:
        return active.gradients[k, max(up, down)]
    return 0.5 * (active.gradients[k, up] + active.gradients[k, down])


@helper
def _move(source, expansion, active, k, i, j, length):
    """Add length to alpha_i, subtract it from alpha_j; return whether both are finite."""
    n, g = expansion.n_points[0], active.gradients[k]
    line_i = source.line_of_slot(i, n)
    line_j = source.line_of_slot(j, n)
    expansion.coef[k, 0, i] += length
    expansion.coef[k, 0, j] -= length
    sound = True
    for s in range(n):
        g[s] -= length * (line_i[s] - line_j[s])
        sound = sound and abs(g[s]) <= LARGEST
    return sound


@helper
def _step(source, expansion, active, k, i, j):
    """Move a pair as far as helps and fits; whether all numbers can be represented."""
    alpha, g, n_outputs = expansion.coef[k, 0], active.gradients[k], expansion.coef.shape[0]
    line_i = source.line_of_slot(i, expansion.n_points[0])
    bend = max(source.own_value(i) + source.own_value(j) - 2.0 * line_i[j], 1e-12)
    high = active.limit[i] if sign(active.y[i], k, n_outputs) > 0.0 else 0.0
    low = 0.0 if sign(active.y[j], k, n_outputs) > 0.0 else -active.limit[j]
    up, down = high - alpha[i], alpha[j] - low
    length = min((g[i] - g[j]) / bend, up, down)
    sound = _move(source, expansion, active, k, i, j, length)
    if up <= length * (1.0 + SLACK):  # a coefficient at its bound is there exactly
        alpha[i] = high
    if down <= length * (1.0 + SLACK):
        alpha[j] = low
    return sound


@helper
def _take_out(source, expansion, active, slot):
    """Free a slot; the last point moves there."""
    last = expansion.n_points[0] - 1
    source.free_slot(slot, last)
    for k in range(expansion.coef.shape[0]):
        expansion.coef[k, 0, slot] = expansion.coef[k, 0, last]
        expansion.coef[k, 0, last] = 0.0
        active.gradients[k, slot] = active.gradients[k, last]
    active.y[slot] = active.y[last]
    active.limit[slot] = active.limit[last]
    active.row[slot] = active.row[last]
    expansion.n_points[0] = last


@helper
def _give_away(source, expansion, active, k, goes):
    """Move a point's coefficient to others, each time to where the dual objective loses least.

    So the sum stays zero, and every coefficient in its box. There is always enough room: the others
    sum to minus this one, and may at least go to zero.
    """
    alpha, g, n_outputs = expansion.coef[k, 0], active.gradients[k], expansion.coef.shape[0]
    n = expansion.n_points[0]
    sound = True
    while alpha[goes] != 0.0:
        line, rest = source.line_of_slot(goes, n), abs(alpha[goes])
        way = 1.0 if alpha[goes] > 0.0 else -1.0
        best, best_gain, best_room, best_end = -1, 0.0, 0.0, 0.0
        for j in range(n):
            end = active.limit[j] if sign(active.y[j], k, n_outputs) == way else 0.0
            room = end - way * alpha[j]
            if j == goes or not room > 0.0:
                continue
            length = min(rest, room)
            bend = source.own_value(goes) + source.own_value(j) - 2.0 * line[j]
            gain = way * (g[j] - g[goes]) - 0.5 * length * bend  # for each unit that is moved
            if best < 0 or gain > best_gain:
                best, best_gain, best_room, best_end = j, gain, room, way * end
        if best < 0:  # what rounding left
            alpha[goes] = 0.0
            break
        length = min(rest, best_room)
        sound = _move(source, expansion, active, k, best, goes, way * length) and sound
        if best_room <= length * (1.0 + SLACK):  # as in `_step`
            alpha[best] = best_end
        if rest <= length * (1.0 + SLACK):
            alpha[goes] = 0.0
    return sound


@helper
def _first_to_go(expansion, active, oldest):
    """Return the point to drop: the oldest, or the one with the smallest coefficients.

    Points without a coefficient go before all others, the oldest of them first.
    """
    n = expansion.n_points[0]
    measure(expansion, n)
    best, best_idle = 0, -1
    for j in range(n):
        if active.row[j] < active.row[best]:
            best = j
        if expansion.size2[j] == 0.0 and (best_idle < 0 or active.row[j] < active.row[best_idle]):
            best_idle = j
    if best_idle >= 0:
        return best_idle
    return best if oldest else smallest(expansion.size2, n)


@helper
def _row_gradients(expansion, y, margin, work):
    """Compute the gradients of a row that is not a point, from its kernel values."""
    n_outputs = expansion.coef.shape[0]
    for k in range(n_outputs):
        alpha, total = expansion.coef[k, 0], margin * sign(y, k, n_outputs)
        for j in range(expansion.n_points[0]):
            total -= alpha[j] * work.column[j]
        work.g[k] = total


@helper
def _is_wanted(expansion, active, y, tolerance, work):
    """Return whether a row contradicts the active set, in any output; or is among the first."""
    n, n_outputs = expansion.n_points[0], expansion.coef.shape[0]
    if n < 2 * SEEDS and n < expansion.coef.shape[2]:
        return True
    for k in range(n_outputs):
        up, down = work.up[k], work.down[k]
        if sign(y, k, n_outputs) > 0.0:
            if down >= 0 and work.g[k] - active.gradients[k, down] > tolerance:
                return True
        elif up >= 0 and active.gradients[k, up] - work.g[k] > tolerance:
            return True
    return False


@helper
def _process(source, expansion, active, task, i, k_xx, setting, work):
    """PROCESS a row that contradicts the active set; return whether all numbers are finite."""
    n_outputs, sound, y = expansion.coef.shape[0], True, task.y[i]
    if not _is_wanted(expansion, active, y, setting.tolerance, work):
        return True
    if expansion.n_points[0] == expansion.coef.shape[2]:
        goes = _first_to_go(expansion, active, setting.oldest)
        for k in range(n_outputs):
            sound = _give_away(source, expansion, active, k, goes) and sound
        _take_out(source, expansion, active, goes)
        work.column[goes] = work.column[expansion.n_points[0]]
        _row_gradients(expansion, y, setting.margin, work)
    slot = expansion.n_points[0]
    expansion.n_points[0] = slot + 1
    source.admit_row(i, slot, work.column, k_xx)
    active.y[slot], active.limit[slot], active.row[slot] = y, task.limit[i], task.row[i]
    for k in range(n_outputs):
        expansion.coef[k, 0, slot] = 0.0
        active.gradients[k, slot] = work.g[k]
    for k in range(n_outputs):
        up, down = _extremes(expansion, active, k, setting.slack)
        if sign(y, k, n_outputs) > 0.0:
            up = slot
        else:
            down = slot
        if up < 0 or down < 0:
            continue
        if active.gradients[k, up] - active.gradients[k, down] > setting.tolerance:
            sound = _step(source, expansion, active, k, up, down) and sound
    return sound


@helper
def _reprocess(source, expansion, active, k, setting):
    """Step on the worst pair of an output; return the violation, and whether numbers are finite."""
    up, down = _extremes(expansion, active, k, setting.slack)
    if up < 0 or down < 0:
        return 0.0, True
    gap = active.gradients[k, up] - active.gradients[k, down]
    if gap <= setting.tolerance:
        return gap, True
    return gap, _step(source, expansion, active, k, up, down)


@helper
def _is_idle(expansion, active, s, work):
    """Return whether a point has no coefficient, and is beyond the extremes, in every output."""
    n_outputs = expansion.coef.shape[0]
    for k in range(n_outputs):
        if expansion.coef[k, 0, s] != 0.0:
            return False
        up, down = work.up[k], work.down[k]
        if up < 0 or down < 0:  # an output that knows one label only: nothing is at stake
            continue
        g = active.gradients[k]
        if sign(active.y[s], k, n_outputs) > 0.0:
            if g[s] > g[down]:
                return False
        elif g[s] < g[up]:
            return False
    return True


@helper
def _drop_idle(source, expansion, active, slack, work):
    """Take out the points that are idle; `work` knows the extremes, and is told the new ones."""
    # Points move when one goes, and with them the slots of the extremes: all are judged first.
    n, n_idle = expansion.n_points[0], 0
    for s in range(n):
        if _is_idle(expansion, active, s, work):
            work.column[n_idle] = s
            n_idle += 1
    for m in range(n_idle - 1, -1, -1):
        _take_out(source, expansion, active, int(work.column[m]))
    if n_idle > 0:
        _look(expansion, active, slack, work)


@compiled
def learn_on_active_set(source, expansion, active, b, task, seen, setting, work):
    """PROCESS each row, then REPROCESS once; return the number of learned rows."""
    n_outputs, margin, slack = expansion.coef.shape[0], setting.margin, setting.slack
    _look(expansion, active, slack, work)
    for position in range(task.order.shape[0]):
        i = task.order[position]
        k_xx = source.row_column(i, expansion.n_points[0], work.column)
        _row_gradients(expansion, task.y[i], margin, work)
        if seen.scores.shape[0] > 0:
            for k in range(n_outputs):
                f = margin * sign(task.y[i], k, n_outputs) - work.g[k]
                seen.scores[position, k] = f + b[k]
        if task.limit[i] > 0.0:
            known, sound, stepped = False, True, False
            for s in range(expansion.n_points[0]):
                known = known or active.row[s] == task.row[i]
            if not known:
                sound = _process(source, expansion, active, task, i, k_xx, setting, work)
            for k in range(n_outputs):
                gap, fine = _reprocess(source, expansion, active, k, setting)
                sound, stepped = sound and fine, stepped or gap > setting.tolerance
            if not sound:
                return position
            _look(expansion, active, slack, work)
            if stepped:
                _drop_idle(source, expansion, active, slack, work)
            for k in range(n_outputs):
                b[k] = _middle(active, k, work.up[k], work.down[k])
            expansion.n_seen[0] += 1
        if seen.n_points.shape[0] > 0:
            seen.n_points[position] = expansion.n_points[0]
    return task.order.shape[0]


@compiled
def finish_active_set(source, expansion, active, b, setting, most, work):
    """REPROCESS until every violation is within the tolerance; return the largest."""
    largest, tolerance, slack = 0.0, setting.tolerance, setting.slack
    _look(expansion, active, slack, work)
    for k in range(expansion.coef.shape[0]):
        gap, steps = math.inf, 0
        while gap > tolerance and steps < most:
            gap, sound = _reprocess(source, expansion, active, k, setting)
            if not sound:
                return math.inf
            if gap > tolerance:
                steps += 1
                work.up[k], work.down[k] = _extremes(expansion, active, k, slack)
                _drop_idle(source, expansion, active, slack, work)
        if steps > 0:
            b[k] = _middle(active, k, work.up[k], work.down[k])
        largest = max(largest, gap)
    return largest


@compiled
def write_losses(loss, scores, y, margin, out):
    """Write the loss of every row into `out`."""
    for i in range(scores.shape[0]):
        out[i] = loss.value(scores[i], y[i], margin)
