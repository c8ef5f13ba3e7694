"""Scaling by the mean and the variance of the rows that came before."""

import math
from typing import Any, NamedTuple

from kernelstream.compile import helper
from kernelstream.parts import LARGEST_SQUARE, Field, number, parameters, part, rule
from kernelstream.scalings.base import Scaling, ScalingRule
from kernelstream.scalings.breaks import COUNTS, breaks_of, deviation, faint

__all__ = ["Running"]

_TRUSTED_ROWS = 20  # from then on, statistics see values within so many standard deviations


class RunningState(NamedTuple):
    """The statistics of the rows so far."""

    n_rows: Any
    mean: Any  # of every feature; zero where rows are sparse
    square: Any  # the sum of its squared deviations from the mean
    n_lengths: Any  # rows that had a length
    length2: Any  # the mean of |a|^2 over them
    breaks: Any  # of targets: `Breaks`; of features: `NoBreaks`


@rule(defaults=ScalingRule)
class RunningRule(NamedTuple):
    """``a = clip(asinh((x - mean) / sd))``, and ``u = a / sqrt(mean |a|^2)``."""

    limit: float
    outlier: float
    unit_length: bool

    def scale_row(self, scaling_state, x, out):
        """Write u, or a; return |a|^2."""
        total, n = 0.0, max(scaling_state.n_rows[0], 1)
        for j in range(x.shape[0]):
            mean = scaling_state.mean[j]
            a = _compressed(x[j] - mean, deviation(scaling_state.square[j], n, mean), self.limit)
            out[j] = a
            total += a * a
        _divide(out, self.length_with(scaling_state, total))
        return total

    def count_row(self, scaling_state, x, size):
        if scaling_state.breaks.judge(
            scaling_state.mean, scaling_state.square, scaling_state.n_rows, x[0]
        ) != COUNTS:  # fmt: skip
            scaling_state.n_rows[0] += 1
            return
        n = scaling_state.n_rows[0] + 1 - scaling_state.breaks.n_before()
        share = 1.0 / n
        far = self.outlier * self.outlier / max(n - 1, 1)
        for j in range(x.shape[0]):
            mean, square = scaling_state.mean[j], scaling_state.square[j]
            away = x[j] - mean
            if n > _TRUSTED_ROWS and away * away > far * square:
                sd = deviation(square, n - 1, mean)
                if sd > 0.0:  # a feature that was constant may become anything
                    away = min(max(away, -self.outlier * sd), self.outlier * sd)
            # Welford's recursion, with x = mean + away
            scaling_state.mean[j] = mean + away * share
            scaling_state.square[j] = square + away * away * (1.0 - share)
        self.count_size(scaling_state, size)

    def scale_sparse(self, scaling_state, indices, data, out):
        total, n = 0.0, max(scaling_state.n_rows[0], 1)
        for e in range(data.shape[0]):
            root = deviation(scaling_state.square[indices[e]], n, 0.0)
            a = _compressed(data[e], root, self.limit)
            out[e] = a
            total += a * a
        _divide(out, self.length_with(scaling_state, total))
        return total

    def count_sparse(self, scaling_state, indices, data, size):
        for e in range(data.shape[0]):
            scaling_state.square[indices[e]] += data[e] * data[e]
        self.count_size(scaling_state, size)

    def unit_of(self, scaling_state):
        n, mean = scaling_state.n_rows[0] - scaling_state.breaks.n_before(), scaling_state.mean[0]
        return mean, deviation(scaling_state.square[0], max(n, 1), mean)

    def scale_target(self, scaling_state, y, zero, unit):
        if unit == 0.0:
            return 0.0
        return faint((y - zero) / unit, self.outlier)

    def length_with(self, scaling_state, total):
        """Return the root of the mean of |a|^2, with the present row among the rows."""
        if not self.unit_length:
            return 1.0
        n, mean = scaling_state.n_lengths[0], scaling_state.length2[0]
        return math.sqrt(mean + (total - mean) / (n + 1))

    def count_size(self, scaling_state, size):
        scaling_state.n_rows[0] += 1
        if size > 0.0:
            scaling_state.n_lengths[0] += 1
            rest = size - scaling_state.length2[0]
            scaling_state.length2[0] += rest / scaling_state.n_lengths[0]


@helper
def _compressed(away, sd, limit):
    if sd == 0.0:
        return 0.0
    return min(max(math.asinh(away / sd), -limit), limit)


@helper
def _divide(out, length):
    if length > 0.0:
        for j in range(out.shape[0]):
            out[j] /= length


@part("scaling", "running")
@parameters
class Running(Scaling):
    """Features by their running mean and standard deviation, compressed; rows of about unit length.

    Of every feature, ``a = clip(asinh((x - mean) / sd), -limit, limit)`` with the mean and the
    standard deviation of the rows learned before; 0 while all of them had the same value. Kernels
    see ``a / sqrt(mean |a|^2)``, the mean being over those rows and the present one, so that rows
    are about as long as one, whatever the number of features and their units. ``gamma="auto"`` is
    then 4 for RBF, and 1 in regression and novelty detection. The first two rows that are learned
    are zero: nothing is known of their features yet.

    Sparse rows are not centred, since they would no longer be sparse: the mean counts as zero, and
    the standard deviation is the root of the mean square over all rows, zeros included. A feature
    that few rows have thus gets a large value, as rare words do.

    As ``target_scaling`` of a regressor: ``(y - mean) / sd``, with the mean and the standard
    deviation of the targets learned before. Beyond `outlier` a target z is learned as
    ``outlier^2 / z``, so that wrong targets say little. If targets stay more than five standard
    deviations away for some 32 rows, mean and deviation begin anew from these rows, and the model
    goes on at the new level.

    A row of weight zero does not count, and every other row counts once. With a `NoveltyDetector`
    alarms count as well.

    Parameters
    ----------
    limit : float, default=5.0
        The largest value of a feature before rows are brought to unit length.
    outlier : float, default=10.0
        After 20 rows, the mean and the variance see no value farther from the mean than so many
        standard deviations. (Not where rows are sparse.)
    unit_length : bool, default=True
        Whether rows are brought to about unit length.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelClassifier
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(500, 2)) * [1e-3, 1e6] + [5.0, 0.0]
    >>> y = X[:, 0] > 5.0
    >>> KernelClassifier(scaling="running").fit(X, y).score(X, y) > 0.9
    True
    """

    version = 2

    limit: float = 5.0
    outlier: float = 10.0
    unit_length: bool = True

    def check(self) -> None:
        number("limit", self.limit, above=0)
        number("outlier", self.outlier, at_least=1)
        if not isinstance(self.unit_length, bool):
            raise TypeError(f"unit_length={self.unit_length!r} is not True or False.")

    def gives_unit_length(self) -> bool:
        return self.unit_length

    def state(self, axis: str = "features") -> RunningState:
        return RunningState(
            n_rows=Field((), 0, int),
            mean=Field((axis,), 0.0),
            square=Field((axis,), 0.0, least=0.0, largest=LARGEST_SQUARE),
            n_lengths=Field((), 0, int),
            length2=Field((), 0.0, least=0.0),
            breaks=breaks_of(axis),
        )

    def to_rule(self) -> RunningRule:
        self.check()
        return RunningRule(float(self.limit), float(self.outlier), bool(self.unit_length))
