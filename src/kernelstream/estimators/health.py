"""Nothing fails silently: what a stream shows of a model that cannot learn it, one warning each.

Everything here is looked at now and then, at row numbers that grow by a third or so, so that it
costs next to nothing. It changes no model, and is not saved.
"""

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.learner.machine import Machine
from kernelstream.learner.rows import BadRow
from kernelstream.parts import warn_user

if TYPE_CHECKING:
    from kernelstream.estimators.base import Rows
    from kernelstream.estimators.single import KernelEstimator

__all__ = ["Health"]

_FIRST, _GROWTH = 64, 1.3  # rows at which a stream is looked at
_ROWS = 32  # that are predicted before they are learned, each time
_TARGETS = 512  # of which the baseline is made
_RECENT = 8  # so many times together must say that something is wrong
_POINTS = 64  # among which kernel values are looked at
_NEAR_ZERO, _NEAR_ONE, _NEARLY_ALL = 1e-6, 0.999, 0.99

_SCALE = (
    "Scale the rows, scaling='running', and the targets of a regressor, target_scaling='running'."
)


class Health:
    """What has been seen of a model on its stream, and of what was warned."""

    def __init__(self) -> None:
        self.next_look = _FIRST  # rows that the model must have seen
        self._warned: set[str] = set()
        self._n_low = 0  # how often in a row the step size was at its floor
        self._targets: np.ndarray | None = None  # of the last rows that were predicted
        self._was_far = False  # whether their predictions were far larger than any target
        self._n_rows, self._losses, self._wins = 0, 0.0, 0.0  # of the present look
        self._results: deque[tuple[float, float]] = deque(maxlen=_RECENT)  # and of earlier ones

    def probe(self, model: "KernelEstimator", machine: Machine, rows: "Rows") -> None:
        """Look at a model before it learns a block, from row `next_look` on."""
        if self._n_rows == 0:
            self._look_at_kernel(machine)
            self._look_at_step_size(machine)
        some = np.flatnonzero(rows.weight[:_ROWS] > 0)
        self._n_rows += max(len(some), 1)
        if len(some) and "baseline" not in self._warned and model.task != "novelty":
            self._compare(model, machine, rows.X[some], model.comparable_targets(rows)[some])
        if self._n_rows >= _ROWS:
            self.next_look = max(int(_GROWTH * self.next_look), machine.n_seen + 1)
            self._results.append((self._losses, self._wins))
            self._n_rows, self._losses, self._wins = 0, 0.0, 0.0
            self._look_at_results(model)

    def _look_at_kernel(self, machine: Machine) -> None:
        if not machine.kernel.falls_with_distance or "kernel" in self._warned:
            return
        slots, n_points = machine.kept[-_POINTS:], machine.n_points
        if len(slots) < _POINTS // 2:
            return
        points = machine.store.stored(n_points)[slots]
        with machine.threads(len(slots), None):
            values = machine.store.basis(n_points, points, machine.kernel.row_cache(points))
        values = np.asarray(values)[slots]
        values = values[~np.eye(len(slots), dtype=bool)]
        for share, what, remedy in (
            ((values < _NEAR_ZERO).mean(), "zero: no row tells anything about another", "smaller"),
            ((values > _NEAR_ONE).mean(), "one: all rows look alike", "larger"),
        ):
            if share >= _NEARLY_ALL:
                self._warn(
                    "kernel",
                    f"{share:.0%} of the kernel values between support vectors are nearly {what}. "
                    f"Scale the rows, scaling='running', or give {machine.kernel!r} a {remedy} "
                    "gamma.",
                )

    def _look_at_step_size(self, machine: Machine) -> None:
        floor = machine.parts.step_size.floor()
        is_low = floor is not None and machine.step_size <= 1.01 * floor
        self._n_low = self._n_low + 1 if is_low else 0
        if self._n_low == _RECENT:
            self._warn(
                "step size",
                f"the step size has been at its lowest, {floor:g}, for long: the model hardly "
                f"learns any more. {_SCALE} Or choose another step_size, or update='implicit', "
                "which no step size can overshoot.",
            )

    def _compare(self, model: "KernelEstimator", machine: Machine, X: Any, y: np.ndarray) -> None:
        """Count where predictions are worse than those that ignore the row, and where better."""
        before = self._targets
        self._targets = y if before is None else np.concatenate([before, y])[-_TARGETS:]
        if before is not None:
            try:
                scores = model.per_label(machine.scores(X))
            except BadRow:  # of which learning will tell
                return
            is_far = model.has_diverged(scores, self._targets)
            if is_far and self._was_far:  # steps that are too large at first may become smaller
                self._warn(
                    "divergence",
                    "most predictions are far larger than any target so far. "
                    f"{_SCALE} Or give more regularization, a smaller step_size, or "
                    "update='implicit', which no step size can overshoot.",
                )
            self._was_far = is_far
            losses, wins = model.worse_than_baseline(scores, y, before)
            self._losses, self._wins = self._losses + losses, self._wins + wins

    def _look_at_results(self, model: "KernelEstimator") -> None:
        losses, wins = (sum(pair[i] for pair in self._results) for i in (0, 1))
        # by chance, the difference has a standard deviation of about the root of the sum
        if len(self._results) == _RECENT and losses - wins > 4.0 * math.sqrt(losses + wins):
            baseline = {"classification": "the most frequent label", "regression": "the mean"}
            self._warn(
                "baseline",
                f"over the last {1 - _GROWTH**-_RECENT:.0%} of the stream the model was worse than "
                f"{baseline[model.task]} of the rows before. {_SCALE} Or give another gamma, a "
                "larger budget, or another preset.",
            )

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warn_user(text)
