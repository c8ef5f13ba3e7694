"""LASVM: the dual of the support vector machine, solved online on an active set.

Bordes, Ertekin, Weston, Bottou, JMLR 6, 2005. Coefficients carry the sign of their label, so that
they lie between min(0, C y) and max(0, C y), sum to zero (the intercept's condition), and
``g_i = y_i - sum_j alpha_j k_ij`` is the dual's gradient. A pair (i, j) violates the optimality
conditions by g_i - g_j, where alpha_i may grow and alpha_j may shrink.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from scipy import sparse

from kernelstream.compiled import compiled
from kernelstream.kernels import Custom
from kernelstream.learner.model import Learner
from kernelstream.learner.sequential import box, keep_support, signs
from kernelstream.parts import rule

__all__ = ["fit_lasvm"]

_LARGEST_TABLE = 2**26  # kernel values, where all are computed beforehand
_FEWEST_LINES = 64
_SEEDS = 5  # rows of each label that begin in the active set


@rule
class TableRule(NamedTuple):
    """Kernel values that are known already; a row is its own number."""

    table: Any

    def write_column(self, features, n, x, out):
        line = self.table[int(x[0])]
        for i in range(n):
            out[i] = line[int(features[0, i])]


class Active(NamedTuple):
    """The active set: slots with a row each, and a cache of kernel values among them."""

    n: Any  # how many slots are in use
    row: Any  # which row is in a slot
    slot: Any  # in which slot a row is, or -1
    features: Any  # of the rows in the slots, a line for every feature
    alpha: Any
    g: Any
    low: Any
    high: Any
    lines: Any  # the cache: lines of kernel values with all slots
    line_of: Any  # of a slot, or -1
    owner: Any  # of a line: its slot, or -1
    used: Any  # when a line was last used
    clock: Any


def _new_active(n_rows: int, n_features: int, cache_mb: float) -> Active:
    n_lines = int(min(n_rows, max(_FEWEST_LINES, cache_mb * 2**20 / (8 * n_rows))))
    return Active(
        n=np.zeros(1, np.int64),
        row=np.zeros(n_rows, np.int64),
        slot=np.full(n_rows, -1),
        features=np.zeros((n_features, n_rows)),
        alpha=np.zeros(n_rows),
        g=np.zeros(n_rows),
        low=np.zeros(n_rows),
        high=np.zeros(n_rows),
        lines=np.zeros((n_lines, n_rows)),
        line_of=np.full(n_rows, -1),
        owner=np.full(n_lines, -1),
        used=np.zeros(n_lines, np.int64),
        clock=np.zeros(1, np.int64),
    )


@register_jitable
def _kernel_line(kernel, active, slot):
    """Kernel values of the row in a slot with all slots, from the cache or into it."""
    active.clock[0] += 1
    line = active.line_of[slot]
    if line < 0:
        line = 0  # the one that nobody has asked for longest
        for m in range(1, active.used.shape[0]):
            if active.used[m] < active.used[line]:
                line = m
        if active.owner[line] >= 0:
            active.line_of[active.owner[line]] = -1
        active.owner[line] = slot
        active.line_of[slot] = line
        x = active.features[:, slot].copy()
        kernel.write_column(active.features, active.n[0], x, active.lines[line])
    active.used[line] = active.clock[0]
    return active.lines[line]


@register_jitable
def _take_in(kernel, active, X, row, sign, limit):
    """Give a row a slot, with no coefficient yet; its slot."""
    slot = active.n[0]
    active.n[0] = slot + 1
    active.row[slot], active.slot[row] = row, slot
    for j in range(X.shape[1]):
        active.features[j, slot] = X[row, j]
    active.low[slot], active.high[slot] = min(0.0, limit * sign), max(0.0, limit * sign)
    active.alpha[slot] = 0.0
    active.line_of[slot] = -1
    line = _kernel_line(kernel, active, slot)
    for m in range(active.owner.shape[0]):  # the lines that are there get one more value
        if active.owner[m] >= 0:
            active.lines[m, slot] = line[active.owner[m]]
    total = sign
    for j in range(slot):
        total -= active.alpha[j] * line[j]
    active.g[slot] = total
    return slot


@register_jitable
def _take_out(active, slot):
    """Free a slot; the last one moves to its place."""
    last = active.n[0] - 1
    line = active.line_of[slot]
    if line >= 0:
        active.owner[line], active.used[line] = -1, 0
    active.slot[active.row[slot]] = -1
    if slot != last:
        active.row[slot] = active.row[last]
        active.slot[active.row[slot]] = slot
        for j in range(active.features.shape[0]):
            active.features[j, slot] = active.features[j, last]
        active.alpha[slot], active.g[slot] = active.alpha[last], active.g[last]
        active.low[slot], active.high[slot] = active.low[last], active.high[last]
        active.line_of[slot] = active.line_of[last]
        if active.line_of[slot] >= 0:
            active.owner[active.line_of[slot]] = slot
        for m in range(active.owner.shape[0]):
            if active.owner[m] >= 0:
                active.lines[m, slot] = active.lines[m, last]
    active.n[0] = last


@register_jitable
def _extremes(active):
    """The slot of the largest gradient that may grow, and of the smallest that may shrink."""
    up, down = -1, -1
    for j in range(active.n[0]):
        if active.alpha[j] < active.high[j] and (up < 0 or active.g[j] > active.g[up]):
            up = j
        if active.alpha[j] > active.low[j] and (down < 0 or active.g[j] < active.g[down]):
            down = j
    return up, down


@register_jitable
def _step(kernel, active, i, j):
    """Move a pair as far as helps and fits."""
    line_i = _kernel_line(kernel, active, i)
    line_j = _kernel_line(kernel, active, j)
    bend = max(line_i[i] + line_j[j] - 2.0 * line_i[j], 1e-12)
    length = (active.g[i] - active.g[j]) / bend
    length = min(length, active.high[i] - active.alpha[i], active.alpha[j] - active.low[j])
    active.alpha[i] += length
    active.alpha[j] -= length
    for s in range(active.n[0]):
        active.g[s] -= length * (line_i[s] - line_j[s])


@register_jitable
def _process(kernel, active, X, row, sign, limit, tolerance):
    """Take in a row that contradicts the active set."""
    if active.slot[row] >= 0 or limit == 0.0:
        return
    slot = _take_in(kernel, active, X, row, sign, limit)
    up, down = _extremes(active)
    i, j = (slot, down) if sign > 0.0 else (up, slot)
    if i < 0 or j < 0 or i == j or active.g[i] - active.g[j] <= tolerance:
        if active.n[0] > 2 * _SEEDS:
            _take_out(active, slot)
        return
    _step(kernel, active, i, j)


@register_jitable
def _reprocess(kernel, active, tolerance):
    """A step on the worst pair, after which idle points go; how much it violated."""
    up, down = _extremes(active)
    if up < 0 or down < 0:
        return 0.0
    gap = active.g[up] - active.g[down]
    if gap <= tolerance:
        return gap
    _step(kernel, active, up, down)
    up, down = _extremes(active)
    if up >= 0 and down >= 0:
        most, least = active.g[up], active.g[down]
        for s in range(active.n[0] - 1, -1, -1):
            if active.alpha[s] == 0.0:
                idle = active.g[s] >= most if active.high[s] == 0.0 else active.g[s] <= least
                if idle:
                    _take_out(active, s)
    return gap


@compiled
def _online(kernel, active, X, sign, limit, order, tolerance):
    """One pass: PROCESS a row, REPROCESS once."""
    for position in range(order.shape[0]):
        row = order[position]
        _process(kernel, active, X, row, sign[row], limit[row], tolerance)
        _reprocess(kernel, active, tolerance)


@compiled
def _finish(kernel, active, tolerance, most):
    """REPROCESS until no pair violates more than the tolerance; the intercept."""
    for _ in range(most):
        if _reprocess(kernel, active, tolerance) <= tolerance:
            break
    up, down = _extremes(active)
    if up < 0 or down < 0:
        return 0.0
    return 0.5 * (active.g[up] + active.g[down])


def fit_lasvm(
    learner: Learner, X: Any, y: np.ndarray, weight: np.ndarray, orders: Any, tolerance: float,
    cache_mb: float,
) -> int:  # fmt: skip
    """Fit a new learner to X, in passes of the orders given, and finish; how many passes."""
    n = X.shape[0]
    sign, limit = signs(learner, y), box(learner, weight)
    kernel, rows = _compiled_kernel(learner, X)
    orders = [np.arange(n)[order] for order in orders]
    beta, scores = np.zeros((learner.n_outputs, n)), np.zeros((learner.n_outputs, n))
    for k in range(learner.n_outputs):
        active = _new_active(n, rows.shape[1], cache_mb)
        target = sign[k]
        seeds = [np.flatnonzero(target == label)[:_SEEDS] for label in (-1.0, 1.0)]
        for order in (np.concatenate(seeds), *orders):
            _online(kernel, active, rows, target, limit, order, tolerance)
        b = _finish(kernel, active, tolerance, 1000 * n)
        m = int(active.n[0])
        beta[k, active.row[:m]] = active.alpha[:m]
        scores[k, active.row[:m]] = target[active.row[:m]] - active.g[:m]
        learner.state.intercept.b[k] = b if learner.model.intercept.is_fitted() else 0.0
    keep_support(learner, X, learner.points.kernel.numbers(X), beta, scores)
    return len(orders)


def _compiled_kernel(learner: Learner, X: Any) -> tuple[Any, np.ndarray]:
    """The kernel as compiled code asks for it, and the rows that it understands."""
    kernel, n = learner.points.kernel, X.shape[0]
    if not sparse.issparse(X) and not isinstance(kernel, Custom):
        return kernel.to_rule(), np.ascontiguousarray(X, dtype=np.float64)
    if n * n > _LARGEST_TABLE:
        raise ValueError(
            f"LASVM keeps all kernel values where rows are sparse or the kernel is a function, and "
            f"{n:,} rows are too many for that: use dense rows and a kernel of kernelstream, or at "
            f"most {int(_LARGEST_TABLE**0.5):,} rows."
        )
    table, numbers = np.empty((n, n), learner.dtype), kernel.numbers(X)
    kernel.block(X, X, numbers, numbers, table)
    return TableRule(table.astype(np.float64)), np.arange(float(n))[:, None]
