"""LASVM: the dual of the support vector machine, solved online on an active set.

Bordes, Ertekin, Weston, Bottou, JMLR 6, 2005. Coefficients carry the sign of their label, so that
they lie between min(0, C y) and max(0, C y), sum to zero (the intercept's condition), and
``g_i = margin y_i - sum_j alpha_j k_ij`` is the dual's gradient. A pair (i, j) violates the
optimality conditions by g_i - g_j, where alpha_i may grow and alpha_j may shrink.

In a stream the outputs share one active set, which is the model's points. The gradients of all
outputs are known at every point, so that any output may give any point a coefficient; a point goes
when it is idle in all of them. `fit` without a size works on one output after the other, each with
an active set of its own.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.budgets.base import smallest
from kernelstream.compiled import compiled, helper
from kernelstream.expansion.operations import measure
from kernelstream.learner.kernel_lines import StoredLines, TableRule, new_lines
from kernelstream.learner.learn import Trail
from kernelstream.learner.plan import sizes_of
from kernelstream.learner.rows import TOO_LARGE_A_STEP, BadRow
from kernelstream.learner.sequential import box, keep_support, signs
from kernelstream.learner.state import State, allocate
from kernelstream.parts import SLACK

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

__all__ = ["finish_active", "fit_lasvm", "learn_active"]

_LARGEST_TABLE = 2**26  # kernel values, where all are computed beforehand
_SEEDS = 5  # rows of each label that begin in the active set
_ROWS = 256
# No coefficient and no gradient is larger: products of two are then far from overflowing.
_LARGEST = 1e60


# --- the algorithm -------------------------------------------------------------------------------


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
def _sign(y, k, n_outputs):
    """-1 or +1: one class against the rest.

    A single output is that of two classes, where y is the sign, or that of the first class in a
    stream, whose number is zero.
    """
    if n_outputs == 1 and y != 0.0:
        return y
    return 1.0 if y == k else -1.0


@helper
def _ways(expansion, active, k, j):
    """Whether a coefficient may grow, and whether it may shrink."""
    alpha = expansion.coef[k, 0, j]
    if _sign(active.y[j], k, expansion.coef.shape[0]) > 0.0:
        return alpha < active.limit[j], alpha > 0.0
    return alpha < 0.0, alpha > -active.limit[j]


@helper
def _extremes(expansion, active, k, slack):
    """The slot of the largest gradient that may grow, and of the smallest that may shrink.

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
    """The extremes of every output."""
    for k in range(expansion.coef.shape[0]):
        work.up[k], work.down[k] = _extremes(expansion, active, k, slack)


@helper
def _middle(active, k, up, down):
    """The intercept: half way between the extremes. With one label only, that label's score."""
    if up < 0 and down < 0:
        return 0.0
    if up < 0 or down < 0:
        return active.gradients[k, max(up, down)]
    return 0.5 * (active.gradients[k, up] + active.gradients[k, down])


@helper
def _move(source, expansion, active, k, i, j, length):
    """``alpha_i += length, alpha_j -= length``; whether all numbers can be represented."""
    n, g = expansion.n_points[0], active.gradients[k]
    line_i = source.line_of_slot(i, n)
    line_j = source.line_of_slot(j, n)
    expansion.coef[k, 0, i] += length
    expansion.coef[k, 0, j] -= length
    sound = True
    for s in range(n):
        g[s] -= length * (line_i[s] - line_j[s])
        sound = sound and abs(g[s]) <= _LARGEST
    return sound


@helper
def _step(source, expansion, active, k, i, j):
    """Move a pair as far as helps and fits; whether all numbers can be represented."""
    alpha, g, n_outputs = expansion.coef[k, 0], active.gradients[k], expansion.coef.shape[0]
    line_i = source.line_of_slot(i, expansion.n_points[0])
    bend = max(source.own_value(i) + source.own_value(j) - 2.0 * line_i[j], 1e-12)
    high = active.limit[i] if _sign(active.y[i], k, n_outputs) > 0.0 else 0.0
    low = 0.0 if _sign(active.y[j], k, n_outputs) > 0.0 else -active.limit[j]
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
    """Free a slot; the last one moves to its place."""
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
            end = active.limit[j] if _sign(active.y[j], k, n_outputs) == way else 0.0
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
    """The point that makes room for another: the oldest, or that of the smallest coefficients.

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
    """The gradients of a row that is no point, from its kernel values."""
    n_outputs = expansion.coef.shape[0]
    for k in range(n_outputs):
        alpha, total = expansion.coef[k, 0], margin * _sign(y, k, n_outputs)
        for j in range(expansion.n_points[0]):
            total -= alpha[j] * work.column[j]
        work.g[k] = total


@helper
def _is_wanted(expansion, active, y, tolerance, work):
    """Whether a row contradicts the active set, in any output; or is among the first."""
    n, n_outputs = expansion.n_points[0], expansion.coef.shape[0]
    if n < 2 * _SEEDS and n < expansion.coef.shape[2]:
        return True
    for k in range(n_outputs):
        up, down = work.up[k], work.down[k]
        if _sign(y, k, n_outputs) > 0.0:
            if down >= 0 and work.g[k] - active.gradients[k, down] > tolerance:
                return True
        elif up >= 0 and active.gradients[k, up] - work.g[k] > tolerance:
            return True
    return False


@helper
def _process(source, expansion, active, task, i, k_xx, setting, work):
    """PROCESS: take in a row that contradicts the active set; whether numbers are sound."""
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
        if _sign(y, k, n_outputs) > 0.0:
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
    """A step on the worst pair of an output; how much it violated, and whether it is sound."""
    up, down = _extremes(expansion, active, k, setting.slack)
    if up < 0 or down < 0:
        return 0.0, True
    gap = active.gradients[k, up] - active.gradients[k, down]
    if gap <= setting.tolerance:
        return gap, True
    return gap, _step(source, expansion, active, k, up, down)


@helper
def _is_idle(expansion, active, s, work):
    """Whether a point has no coefficient, and is beyond the extremes, in every output."""
    n_outputs = expansion.coef.shape[0]
    for k in range(n_outputs):
        if expansion.coef[k, 0, s] != 0.0:
            return False
        up, down = work.up[k], work.down[k]
        if up < 0 or down < 0:  # an output that knows one label only: nothing is at stake
            continue
        g = active.gradients[k]
        if _sign(active.y[s], k, n_outputs) > 0.0:
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
def _learn(source, expansion, active, b, task, seen, setting, work):
    """PROCESS each row, then REPROCESS once; how many rows. Fewer than all: the next is refused."""
    n_outputs, margin, slack = expansion.coef.shape[0], setting.margin, setting.slack
    _look(expansion, active, slack, work)
    for position in range(task.order.shape[0]):
        i = task.order[position]
        k_xx = source.row_column(i, expansion.n_points[0], work.column)
        _row_gradients(expansion, task.y[i], margin, work)
        if seen.scores.shape[0] > 0:
            for k in range(n_outputs):
                f = margin * _sign(task.y[i], k, n_outputs) - work.g[k]
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
def _finish(source, expansion, active, b, setting, most, work):
    """REPROCESS until no pair violates more than the tolerance; the largest violation left."""
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
def _losses(loss, scores, y, margin, out):
    for i in range(scores.shape[0]):
        out[i] = loss.value(scores[i], y[i], margin)


# --- on a stream ---------------------------------------------------------------------------------


def learn_active(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, trail: Trail
) -> int:
    """Learn a tile; how many rows could be. Fewer than all: the block has to be undone."""
    state, n = machine.state, X.shape[0]
    seen = Seen(np.empty((n, machine.n_outputs)), trail.n_points)
    # rows are numbered in the order of the stream, those without weight left out
    row = state.expansion.n_seen[0] + np.cumsum(weight > 0) - 1
    done = _learn_some(machine, X, x, y, weight, row, seen)
    if done < n:
        return done
    trail.slot[:], trail.partner[:], trail.share[:] = -1, -1, 0.0
    if trail.scores.size:
        trail.scores[:] = seen.scores
    margin = float(state.margin.epsilon[0])
    _losses(machine.model.loss, seen.scores, y, margin, trail.loss)
    trail.margin[:] = margin
    trail.eta[:], trail.drift[:] = state.step_size.eta[0], state.drift.score[0]
    return done


def finish_active(machine: "Machine") -> float:
    """REPROCESS the active set until it is solved; the largest violation that is left."""
    state, n = machine.state, machine.n_points
    row_before = state.update.row[:n].copy()
    nothing = np.empty((0, machine.n_features))
    source = _source(machine, nothing, np.empty((n, 0)) if needs_block(machine) else None)
    gap = _finish(
        source, state.expansion, state.update, state.intercept.b, _setting(machine),
        1000 * (n + 1), _new_work(state),
    )  # fmt: skip
    if not math.isfinite(gap):
        raise ValueError(
            "the model cannot be finished: its coefficients would become too large to be "
            "represented. Give a smaller C, or a larger regularization."
        )
    _keep(machine, row_before, source)
    return float(gap)


def needs_block(machine: "Machine") -> bool:
    """Whether a machine is given kernel values: its rows are sparse or its kernel a function."""
    return machine.store.is_sparse or not machine.store.kernel.compiles()


def _learn_some(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, row: np.ndarray,
    seen: Seen,
) -> int:  # fmt: skip
    """`_learn` of some rows, which are put into their slots if every one could be learned."""
    _refuse_too_many(machine)
    state, k = machine.state, None
    if needs_block(machine):
        k = machine.store.tile(machine.n_points, X, x, y, weight, state.expansion.coef).k
    row_before = state.update.row[: machine.n_points].copy()
    source = _source(machine, X, k)
    task = Task(
        np.arange(X.shape[0]), np.ascontiguousarray(y, np.float64), _limits(machine, weight),
        np.ascontiguousarray(row, np.int64),
    )  # fmt: skip
    arguments = (
        source, state.expansion, state.update, state.intercept.b, task, seen, _setting(machine),
        _new_work(state),
    )  # fmt: skip
    machine.changes().mark_all()
    done = int(machine.call("learn", _learn, *arguments))
    if done == X.shape[0]:
        _keep(machine, row_before, source, X, x, row)
    return done


def _setting(machine: "Machine", slack: float = SLACK) -> Setting:
    return Setting(
        float(machine.state.margin.epsilon[0]), float(machine.model.update.tolerance), slack,
        bool(machine.model.budget.drops_oldest()),
    )  # fmt: skip


def _limits(machine: "Machine", weight: np.ndarray) -> np.ndarray:
    """The largest coefficient of each row, C over the regularization times its weight."""
    return np.minimum(box(machine, weight), _LARGEST)


def _refuse_too_many(machine: "Machine") -> None:
    """Where all kernel values are kept, points must be few."""
    if needs_block(machine) and machine.n_points**2 > _LARGEST_TABLE:
        raise ValueError(
            f"LASVM keeps all kernel values where rows are sparse or the kernel is a function, and "
            f"{machine.n_points:,} points are too many for that: give a size, budget=4096 say, or "
            "dense rows and a kernel of kernelstream."
        )


def _new_work(state: State) -> Work:
    n_outputs, _, n_slots = state.expansion.coef.shape
    return Work(
        np.empty(n_slots), np.empty(n_outputs), np.empty(n_outputs, np.int64),
        np.empty(n_outputs, np.int64),
    )  # fmt: skip


def _source(machine: "Machine", X: Any, k: np.ndarray | None) -> Any:
    """Where the loop finds kernel values. The cache of the last call serves, if it is true yet."""
    state, n, n_slots = machine.state, machine.n_points, machine.n_slots
    if k is not None:
        return StoredLines(state.update.gram, k.astype(np.float64), n, np.arange(n_slots))
    rows = np.ascontiguousarray(X, np.float64)
    lines, cached = machine.scratch.pop("lines", (None, None))
    if lines is None or lines.features.shape != (rows.shape[1], n_slots):
        update = machine.model.update
        lines = new_lines(machine.store.kernel.to_rule(), rows, n_slots, update.cache_mb)
        cached = None
    # Whatever happened in between, undone blocks too: points with the same numbers are the same.
    if cached is None or not np.array_equal(cached, state.update.row[:n]):
        lines.line_of[:], lines.owner[:], lines.used[:], lines.clock[:] = -1, -1, 0, 0
        lines.features[:, :n] = machine.store.rows[:n].T
        lines.own[:] = np.nan
    return lines._replace(rows=rows)


def _keep(
    machine: "Machine", row_before: np.ndarray, source: Any, X: Any = None, x: Any = None,
    row: Any = None,
) -> None:  # fmt: skip
    """Put the points into their slots after learning, and describe the new state.

    `row_before` has the numbers of the points before; X, and the row cache x, is what was learned.
    """
    state = machine.state
    new = state.update.row[: machine.n_points]
    both = min(len(row_before), len(new))
    slots = np.append(np.flatnonzero(row_before[:both] != new[:both]), np.arange(both, len(new)))
    if slots.size:
        store = machine.store
        place, moved = _find(row_before, new[slots])
        rows, cache = store.rows[place[moved]], store.row_cache[place[moved]]
        if not moved.all():
            place, came = _find(row, new[slots])
            came &= ~moved
            rows = _stacked(rows, X[place[came]])
            cache = np.append(cache, x[place[came]])
            slots = np.append(slots[moved], slots[came])
        store.replace(slots, rows, cache)
    _describe(state)
    source.keep_cache(machine.scratch, new)


def _find(numbers: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each wanted number comes first, and whether it comes at all."""
    order = np.argsort(numbers, kind="stable")
    place = np.searchsorted(numbers, wanted, sorter=order)
    found = place < len(numbers)
    place = order[np.where(found, place, 0)] if len(numbers) else np.zeros_like(place)
    found[found] = numbers[place[found]] == wanted[found]
    return place, found


def _stacked(first: Any, second: Any) -> Any:
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, second]))
    return np.vstack([first, second])


def _describe(state: State) -> None:
    """What else an expansion says of itself."""
    expansion, active = state.expansion, state.update
    n, n_outputs = int(expansion.n_points[0]), len(state.intercept.b)
    a, y = expansion.coef[:, 0, :n], active.y[:n]
    if n_outputs == 1:  # as `_sign`
        sign = np.where(y == 0.0, 1.0, y)[None]
    else:
        sign = np.where(y == np.arange(n_outputs)[:, None], 1.0, -1.0)
    f = float(state.margin.epsilon[0]) * sign - active.gradients[:, :n]
    expansion.norm2[0] = max(float((a * f).sum()), 0.0)
    expansion.size2[:n], expansion.size2[n:] = (a**2).sum(axis=0), 0.0


# --- in `fit` ------------------------------------------------------------------------------------


def fit_lasvm(
    machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: Any
) -> tuple[int, float]:
    """Fit a new machine to X, in passes of the orders given, and finish.

    How many passes there were, and the largest violation that is left.
    """
    orders = [np.arange(X.shape[0])[order] for order in orders]
    if machine.limit is None:
        return len(orders), _fit_outputs(machine, X, y, weight, orders)
    x = machine.store.kernel.row_cache(X)
    nothing = Seen(np.empty((0, machine.n_outputs)), np.empty(0, np.int64))
    for order in orders:
        for start in range(0, len(order), _ROWS):
            some = order[start : start + _ROWS]
            done = _learn_some(machine, X[some], x[some], y[some], weight[some], some, nothing)
            if done < len(some):
                raise BadRow(int(some[done]), TOO_LARGE_A_STEP)
    gap = finish_active(machine)
    row = machine.state.update.row[: machine.n_points]
    row[:] = np.argsort(np.argsort(row))  # rows of a stream that goes on have larger numbers
    return len(orders), gap


def _fit_outputs(
    machine: "Machine", X: Any, y: np.ndarray, weight: np.ndarray, orders: list[np.ndarray]
) -> float:
    """Fit each output with an active set of its own; the largest violation that is left."""
    n, update = X.shape[0], machine.model.update
    sign, limit, gap = signs(machine, y), _limits(machine, weight), 0.0
    setting = _setting(machine, slack=0.0)
    margin = setting.margin
    kernel, rows = _compiled_kernel(machine, X)
    beta, scores = np.zeros((machine.n_outputs, n)), np.zeros((machine.n_outputs, n))
    for k in range(machine.n_outputs):
        state = allocate(machine.declared, sizes_of(None, 1, n, machine.n_features))
        lines = new_lines(kernel, rows, n, update.cache_mb)
        own = state.expansion, state.update, state.intercept.b
        nothing, work = Seen(np.empty((0, 1)), np.empty(0, np.int64)), _new_work(state)
        seeds = [np.flatnonzero((sign[k] == label) & (limit > 0))[:_SEEDS] for label in (-1.0, 1.0)]
        for order in (np.concatenate(seeds), *orders):
            task = Task(order, sign[k], limit, np.arange(n))
            done = _learn(lines, *own, task, nothing, setting, work)
            if done < len(order):
                raise BadRow(int(order[done]), TOO_LARGE_A_STEP)
        gap = max(gap, _finish(lines, *own, setting, 1000 * n, work))
        m = int(state.expansion.n_points[0])
        points = state.update.row[:m]
        beta[k, points] = state.expansion.coef[0, 0, :m]
        scores[k, points] = margin * sign[k, points] - state.update.gradients[0, :m]
        machine.state.intercept.b[k] = state.intercept.b[0]
    keep_support(machine, X, machine.store.kernel.row_cache(X), beta, scores)
    support = np.flatnonzero(beta.any(axis=0))
    _begin_stream(machine, y[support], margin * sign[:, support], limit[support])
    return gap


def _begin_stream(machine: "Machine", y: np.ndarray, target: np.ndarray, limit: np.ndarray) -> None:
    """What a stream that goes on from the points needs to know of them."""
    n, store, active = machine.n_points, machine.store, machine.state.update
    active.y[:n], active.limit[:n], active.row[:n] = y, limit, np.arange(n)
    for start in range(0, n, _ROWS):
        some = slice(start, min(start + _ROWS, n))
        block = np.empty((n, some.stop - start), machine.dtype)
        store.block(n, store.rows[some], store.row_cache[some], block)
        active.gradients[:, some] = target[:, some] - machine.state.expansion.coef[:, 0, :n] @ block
        if needs_block(machine):
            active.gram[:n, some] = block


def _compiled_kernel(machine: "Machine", X: Any) -> tuple[Any, np.ndarray]:
    """The kernel as compiled code asks for it, and the rows that it understands."""
    kernel, n = machine.store.kernel, X.shape[0]
    if not needs_block(machine):
        return kernel.to_rule(), np.ascontiguousarray(X, dtype=np.float64)
    if n * n > _LARGEST_TABLE:
        raise ValueError(
            f"LASVM keeps all kernel values where rows are sparse or the kernel is a function, and "
            f"{n:,} rows are too many for that: give a size, budget=4096 say, or dense rows and a "
            f"kernel of kernelstream, or at most {int(_LARGEST_TABLE**0.5):,} rows."
        )
    table, x = np.empty((n, n), machine.dtype), kernel.row_cache(X)
    kernel.block(X, X, x, x, table)
    return TableRule(table.astype(np.float64)), np.arange(float(n))[:, None]
