"""Scaling by numbers that are renewed at rows 2, 4, 8, ..., and a metric that the model finds."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.parts import LARGEST_SQUARE, Choice, Field, number, parameters, part, rule
from kernelstream.scalings.base import Scaling, ScalingRule
from kernelstream.scalings.breaks import CHANGED, COUNTS, breaks_of, deviation, faint

__all__ = ["Renewed"]

_TRUSTED_ROWS = 16  # from then on, statistics see values within so many standard deviations
_ROWS_FOR_TAILS = 64  # from then on, it is known which features have heavy tails
_FARTHEST = 1e70  # from the mean: fourth powers of larger numbers would not be numbers
_SMALLEST_FOURTH = 1e-280  # and below this they have no digits
_WIDER = 0.1  # predictions stay within the range of the targets, widened by this share
_EVERY_DIRECTION = 0.03  # the share of the metric that all directions have
_SMALLEST_SHARE = 1e-10  # of the largest eigenvalue: a root of less would be a root of rounding


class RenewedState(NamedTuple):
    """The statistics of the rows so far, and the numbers by which rows are scaled."""

    n_rows: Any
    mean: Any  # of every feature
    second: Any  # the sums of powers of deviations from the mean
    third: Any
    fourth: Any
    lowest: Any  # the range of the values
    highest: Any
    zero: Any  # what is frozen until the next renewal: the mean,
    unit: Any  # the standard deviation, zero where it is not known,
    bend: Any  # and how much a feature is compressed
    found: Any  # after how many rows the metric was found; zero: there is none
    metric: Any  # (features, features): A, where features are few
    weights: Any  # (features,): its diagonal, where they are many
    breaks: Any  # of targets: `Breaks`; of features: `NoBreaks`


@rule(defaults=ScalingRule)
class RenewedRule(NamedTuple):
    """``A clip(asinh(c z) / c)``, with z-scores z."""

    limit: float
    outlier: float

    def scale_row(self, scaling_state, x, out):
        found = scaling_state.found[0] > 0
        is_full = found and scaling_state.metric.shape[0] == x.shape[0]
        if is_full:
            for j in range(x.shape[0]):
                out[j] = 0.0
        for j in range(x.shape[0]):
            v = _compressed(
                x[j] - scaling_state.zero[j], scaling_state.unit[j], scaling_state.bend[j],
                self.limit,
            )  # fmt: skip
            if is_full:
                for i in range(x.shape[0]):
                    out[i] += scaling_state.metric[j, i] * v
            else:
                out[j] = scaling_state.weights[j] * v if found else v
        return 0.0

    def count_row(self, scaling_state, x, size):
        verdict = scaling_state.breaks.judge(
            scaling_state.mean, scaling_state.second, scaling_state.n_rows, x[0]
        )  # fmt: skip
        if verdict == CHANGED:
            _begin_anew(scaling_state)
        n = scaling_state.n_rows[0] + 1 - scaling_state.breaks.n_before()
        for j in range(x.shape[0]):
            mean, second = scaling_state.mean[j], scaling_state.second[j]
            if verdict == COUNTS:
                _add_moments(scaling_state, j, self.limited(x[j] - mean, second, n - 1, mean), n)
            if n == 1 or x[j] < scaling_state.lowest[j]:
                scaling_state.lowest[j] = x[j]
            if n == 1 or x[j] > scaling_state.highest[j]:
                scaling_state.highest[j] = x[j]
        scaling_state.n_rows[0] += 1

    def limited(self, away, second, n, mean):
        """Return the value that statistics see for a value so far from the mean of n rows."""
        if n >= _TRUSTED_ROWS:
            sd = deviation(second, n, mean)
            if sd > 0.0:  # a feature that was constant may become anything
                away = min(max(away, -self.outlier * sd), self.outlier * sd)
        return min(max(away, -_FARTHEST), _FARTHEST)

    def unit_of(self, scaling_state):
        return scaling_state.zero[0], scaling_state.unit[0]

    def scale_target(self, scaling_state, y, zero, unit):
        n, mean = scaling_state.n_rows[0] - scaling_state.breaks.n_before(), scaling_state.mean[0]
        if n == 0:  # it is its own mean
            return 0.0
        away = y - mean
        if n >= _TRUSTED_ROWS:
            sd = deviation(scaling_state.second[0], n, mean)
            if sd > 0.0:
                away = faint(away, self.outlier * sd)
        return (mean + min(max(away, -_FARTHEST), _FARTHEST) - zero) / unit

    def bounds_of(self, scaling_state):
        lowest, highest = scaling_state.lowest[0], scaling_state.highest[0]
        if scaling_state.n_rows[0] == 0:
            return -math.inf, math.inf
        return lowest - _WIDER * (highest - lowest), highest + _WIDER * (highest - lowest)


@helper
def _begin_anew(scaling_state):
    """Take other statistics of targets as they are now, without waiting for a renewal."""
    n, mean = scaling_state.n_rows[0] - scaling_state.breaks.n_before(), scaling_state.mean[0]
    second = scaling_state.second[0]
    scaling_state.third[0] = 0.0
    scaling_state.fourth[0] = 3.0 * second * second / n  # as of normal targets
    scaling_state.zero[0] = mean
    scaling_state.unit[0] = deviation(second, n, mean)
    if scaling_state.unit[0] == 0.0:
        scaling_state.unit[0] = 1.0


@helper
def _compressed(away, unit, bend, limit):
    if unit == 0.0:
        return 0.0
    z = away / unit
    if bend > 0.0:
        z = math.asinh(bend * z) / bend
    return min(max(z, -limit), limit)


@helper
def _add_moments(scaling_state, j, away, n):
    """Update sums of powers by Welford's recursion, `away` from the mean of n - 1 rows."""
    share = away / n
    square = share * share
    term = away * share * (n - 1)
    second, third = scaling_state.second[j], scaling_state.third[j]
    scaling_state.fourth[j] += (
        term * square * (n * (n - 3) + 3) + 6.0 * square * second - 4.0 * share * third
    )
    scaling_state.third[j] += term * share * (n - 2) - 3.0 * share * second
    scaling_state.second[j] += term
    scaling_state.mean[j] += share


@part("scaling", "renewed")
@parameters
class Renewed(Scaling):
    """Features by their mean and standard deviation, which are renewed at rows 2, 4, 8, ...

    Between renewals nothing moves. At each of them the points of the model are put through the new
    scale and what the rows told stays, so that the model is about as if all rows had been scaled
    alike. A feature with heavy tails (excess kurtosis kappa > 1, from row 64) is compressed:
    ``asinh(c z) / c`` with ``c = 0.3 sqrt(kappa - 1)``.

    With ``metric=True``, from row 128, kernels see ``A v`` of a scaled row v. A is taken from the
    gradients of f at the points, ``A^2 = 0.03 I + 0.97 d G^(1/2) / tr G^(1/2)`` with ``G = sum grad
    f grad f^T``: directions in which f does not change shrink. It is a full matrix for up to 64
    features, else diagonal. (Radhakrishnan, Beaglehole, Pandit and Belkin: Mechanism for feature
    learning in neural networks and backpropagation-free machine learning models. Science, 2024;
    here on a stream.) ``metric_`` of an estimator is A^2.

    As ``target_scaling`` of a regressor: ``(y - mean) / sd``, and predictions stay within the range
    of the targets so far, widened by a tenth on each side. Wrong targets and new levels are treated
    as by `Running`.

    A feature that had been constant up to a renewal counts as constant until the next one.

    It goes with dense rows, and with learners that keep points: those of the second order
    (``sog-svr``, ``sog-svc``), whose prior is exchanged, and those of the first order, whose
    coefficients stay. (`OldestOut` with ``max_age`` or ``max_error`` is the exception.) As
    ``target_scaling`` it goes with the second order only. A row of weight zero does not count, and
    every other row counts once.

    Parameters
    ----------
    metric : bool, default=False
        Whether to look for a metric.
    limit : float, default=10.0
        The largest value of a feature.
    outlier : float, default=10.0
        From row 16 on, the statistics see no value farther from the mean than so many standard
        deviations, and targets beyond are learned as by `Running`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [1e-3, 1e6, 1.0]
    >>> y = np.sin(2e3 * X[:, 0])
    >>> scaling = ks.scalings.Renewed(metric=True)
    >>> model = ks.make("sog-svr", "regressor", scaling=scaling).partial_fit(X, y)
    >>> int(model.metric_.diagonal().argmax())
    0
    """

    metric: bool = False
    limit: float = 10.0
    outlier: float = 10.0

    version = 2
    renews = True
    may_widen = False

    def check(self) -> None:
        if not isinstance(self.metric, bool):
            raise TypeError(f"metric={self.metric!r} is not True or False.")
        number("limit", self.limit, above=0)
        number("outlier", self.outlier, at_least=1)

    def check_with(self, choice: Choice) -> None:
        if choice.sparse:
            raise ValueError(f"scaling={self!r} goes with dense rows: use scaling='running'.")
        if not choice.update.is_second_order:
            self._check_with_first_order(choice)
        elif choice.budget.keeps_all:
            raise ValueError(
                f"scaling={self!r} needs a budget that limits the points of {choice.update!r}: "
                f"budget={choice.budget!r} keeps all."
            )
        if self.metric and not choice.kernel.is_smooth:
            raise ValueError(
                f"scaling={self!r} needs gradients, which kernel={choice.kernel!r} does not have: "
                "use RBF, say, or leave metric out."
            )

    def _check_with_first_order(self, choice: Choice) -> None:
        if choice.scaling is not self:
            raise ValueError(
                f"target_scaling={self!r} goes with learners of the second order, 'sog-svr' for "
                "one: use target_scaling='running'."
            )
        if choice.update.loop != "expansion" or choice.budget.is_folded:
            raise ValueError(
                f"scaling={self!r} goes with learners that keep points and learn each row once, "
                f"not with update={choice.update!r} and budget={choice.budget!r}: use "
                "scaling='running'."
            )
        if choice.budget.expires:
            raise ValueError(
                f"scaling={self!r} changes the kernel, by which budget={choice.budget!r} measures "
                "what was dropped: leave max_age and max_error out, or use scaling='running'."
            )

    @property
    def finds_metric(self) -> bool:  # type: ignore[override]
        return self.metric

    def state(self, axis: str = "features") -> RenewedState:
        few = "few_features" if self.metric and axis == "features" else "one"
        values = Field((axis,), 0.0)
        return RenewedState(
            n_rows=Field((), 0, int),
            mean=values,
            second=Field((axis,), 0.0, least=0.0, largest=LARGEST_SQUARE),
            third=Field((axis,), 0.0, largest=LARGEST_SQUARE),
            fourth=Field((axis,), 0.0, largest=LARGEST_SQUARE),
            lowest=values, highest=values, zero=values,
            unit=Field((axis,), 0.0, least=0.0),
            bend=Field((axis,), 0.0, least=0.0),
            found=Field((), 0, int),
            metric=Field((few, few), 0.0),
            weights=values,
            breaks=breaks_of(axis),
        )  # fmt: skip

    def to_rule(self) -> RenewedRule:
        self.check()
        return RenewedRule(float(self.limit), float(self.outlier))

    def rows_until_renewal(self, n_rows: int) -> int:
        return (1 << (n_rows + 1).bit_length()) - 1 - n_rows

    def renew(self, scaling_state: Any, squared_gradients: np.ndarray | None = None) -> None:
        n, mean = int(scaling_state.n_rows[0] - scaling_state.breaks.n_before()), scaling_state.mean
        second, fourth = scaling_state.second, scaling_state.fourth
        scaling_state.zero[:] = mean
        pairs = zip(second.tolist(), mean.tolist(), strict=True)
        scaling_state.unit[:] = [deviation(sum_, n, centre) for sum_, centre in pairs]
        if n >= _ROWS_FOR_TAILS - 1:
            scaling_state.bend[:] = 0.3 * np.sqrt(np.maximum(_kurtosis(second, fourth, n) - 1, 0))
        if squared_gradients is not None and squared_gradients.trace() > 0.0:
            scaling_state.found[0] = scaling_state.n_rows[0]
            if len(scaling_state.metric) == len(mean):
                scaling_state.metric[:] = _root(_metric_of(squared_gradients))
            else:
                own = np.sqrt(squared_gradients.diagonal())
                share = len(own) * own / own.sum()
                scaling_state.weights[:] = np.sqrt(
                    _EVERY_DIRECTION + (1.0 - _EVERY_DIRECTION) * share
                )

    def renew_target(self, scaling_state: Any) -> None:
        self.renew(scaling_state)
        scaling_state.unit[scaling_state.unit == 0.0] = 1.0  # as good as any

    def raw(self, scaling_state: Any, rows: np.ndarray) -> np.ndarray:
        if scaling_state.n_rows[0] == 1:  # which was not scaled, since nothing was known
            return np.tile(scaling_state.mean, (len(rows), 1))
        if scaling_state.found[0] > 0:
            if len(scaling_state.metric) == rows.shape[1]:
                rows = np.linalg.solve(scaling_state.metric, rows.T).T
            else:
                rows = rows / scaling_state.weights
        bend = scaling_state.bend
        z = np.where(bend > 0.0, np.sinh(bend * rows) / np.where(bend > 0.0, bend, 1.0), rows)
        return scaling_state.zero + scaling_state.unit * z

    def metric_in(self, scaling_state: Any) -> np.ndarray:
        """Return a^2, of shape (features, features)."""
        if scaling_state.found[0] == 0:
            return np.eye(len(scaling_state.mean))
        if len(scaling_state.metric) == len(scaling_state.mean):
            return scaling_state.metric @ scaling_state.metric
        return np.diag(scaling_state.weights**2)

    def gradient_in(self, scaling_state: Any, gradients: np.ndarray) -> np.ndarray:
        """Turn gradients with respect to A v into gradients with respect to v."""
        if scaling_state.found[0] == 0:
            return gradients
        if len(scaling_state.metric) == gradients.shape[-1]:
            return gradients @ scaling_state.metric
        return gradients * scaling_state.weights


def _kurtosis(second: np.ndarray, fourth: np.ndarray, n: int) -> np.ndarray:
    """Return the excess kurtosis of every feature."""
    square = second * second
    known = square > _SMALLEST_FOURTH
    return np.where(known, n * fourth / np.where(known, square, 1.0) - 3.0, 0.0)


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _SMALLEST_SHARE * values[-1])
    return (vectors * np.sqrt(values)) @ vectors.T


def _metric_of(squared_gradients: np.ndarray) -> np.ndarray:
    """Return a^2 = 0.03 I + 0.97 d G^(1/2) / tr G^(1/2)."""
    root, d = _root(squared_gradients), len(squared_gradients)
    return _EVERY_DIRECTION * np.eye(d) + (1.0 - _EVERY_DIRECTION) * d / root.trace() * root
