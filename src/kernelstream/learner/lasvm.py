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
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kernelstream.learner.kernel_lines import StoredLines, TableRule, new_lines
from kernelstream.learner.learn import Trail
from kernelstream.learner.plan import sizes_of
from kernelstream.learner.rows import TOO_LARGE_A_STEP, BadRow
from kernelstream.learner.sequential import box, keep_support, signs
from kernelstream.learner.state import State, allocate
from kernelstream.parts import SLACK

if TYPE_CHECKING:
    from kernelstream.learner.machine import Machine

from kernelstream.learner.active_set import (
    LARGEST,
    SEEDS,
    Seen,
    Setting,
    Task,
    Work,
    finish_active_set,
    learn_on_active_set,
    write_losses,
)

__all__ = ["finish_active", "fit_lasvm", "learn_active"]

_LARGEST_TABLE = 2**26  # kernel values, where all are computed beforehand
_ROWS = 256


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
    write_losses(machine.model.loss, seen.scores, y, margin, trail.loss)
    trail.margin[:] = margin
    trail.eta[:], trail.drift[:] = state.step_size.eta[0], state.drift.score[0]
    return done


def finish_active(machine: "Machine") -> float:
    """REPROCESS the active set until it is solved; return the largest remaining violation."""
    state, n = machine.state, machine.n_points
    row_before = state.update.row[:n].copy()
    nothing = np.empty((0, machine.n_features))
    source = _source(machine, nothing, np.empty((n, 0)) if needs_block(machine) else None)
    gap = finish_active_set(
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
    """Return whether a machine needs given kernel values: sparse rows, or a function as kernel."""
    return machine.store.is_sparse or not machine.store.kernel.compiles()


def _learn_some(
    machine: "Machine", X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, row: np.ndarray,
    seen: Seen,
) -> int:  # fmt: skip
    """Learn some rows, and put them into their slots if all could be learned."""
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
    done = int(machine.call("learn", learn_on_active_set, *arguments))
    if done == X.shape[0]:
        _keep(machine, row_before, source, X, x, row)
    return done


def _setting(machine: "Machine", slack: float = SLACK) -> Setting:
    return Setting(
        float(machine.state.margin.epsilon[0]), float(machine.model.update.tolerance), slack,
        bool(machine.model.budget.drops_oldest()),
    )  # fmt: skip


def _limits(machine: "Machine", weight: np.ndarray) -> np.ndarray:
    """Return the largest coefficient of each row, C over the regularization times its weight."""
    return np.minimum(box(machine, weight), LARGEST)


def _refuse_too_many(machine: "Machine") -> None:
    """Refuse too many points where all kernel values are kept."""
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
    """Return the source of kernel values. The last cache is reused while it is valid."""
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
    """Return where each wanted number comes first, and whether it comes at all."""
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
    """Update the norms of an expansion."""
    expansion, active = state.expansion, state.update
    n, n_outputs = int(expansion.n_points[0]), len(state.intercept.b)
    a, y = expansion.coef[:, 0, :n], active.y[:n]
    if n_outputs == 1:  # as `sign`
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
        seeds = [np.flatnonzero((sign[k] == label) & (limit > 0))[:SEEDS] for label in (-1.0, 1.0)]
        for order in (np.concatenate(seeds), *orders):
            task = Task(order, sign[k], limit, np.arange(n))
            done = learn_on_active_set(lines, *own, task, nothing, setting, work)
            if done < len(order):
                raise BadRow(int(order[done]), TOO_LARGE_A_STEP)
        gap = max(gap, finish_active_set(lines, *own, setting, 1000 * n, work))
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
    """Prepare the state for a stream that continues from the points."""
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
    """Return the kernel as compiled code asks for it, and the rows that it understands."""
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
