"""How rare a row is in the histograms of random projections."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.novelty.members.base import DetectorMember, DetectorMemberRule
from kernelstream.compile import helper
from kernelstream.parts import Field, part, rule

__all__ = ["Projections"]

_N_BINS = 32
_N_PROJECTIONS = 64


class ProjectionsState(NamedTuple):
    """The projections, and the histogram of the reservoir in each."""

    chosen: Any  # (projections, terms): the features of a projection
    weight: Any  # (projections, terms)
    low: Any  # (projections,): where the first bin begins
    width: Any  # (projections,): of a bin
    count: Any  # (projections, bins)
    bin: Any  # (projections, points): the bin of each row of the reservoir; the last one: none


class ProjectionsScratch(NamedTuple):
    """Memory for one row."""

    bin: Any  # (projections,)


@helper
def _bin_of(chosen, weight, low, width, x):
    """Return the bin of a projection in which x lies; beyond all bins: the number of bins."""
    value = 0.0
    for k in range(weight.shape[0]):
        value += weight[k] * x[chosen[k]]
    if value < low or value > low + _N_BINS * width:
        return _N_BINS
    return min(int((value - low) / width), _N_BINS - 1) if width > 0.0 else 0


@helper(apart=True)
def _rarity(chosen, weight, low, width, count, n_points, x, out):
    """Return ``-mean log((count + 1/2) / (n + 16))`` over the projections; write the bins."""
    total = 0.0
    for p in range(low.shape[0]):
        out[p] = _bin_of(chosen[p], weight[p], low[p], width[p], x)
        total += math.log((count[p, out[p]] if out[p] < _N_BINS else 0) + 0.5)
    return math.log(n_points + 0.5 * _N_BINS) - total / low.shape[0]


@helper(apart=True)
def _sort_into_bins(points, n_points, chosen, weight, x, low, width, count, bins):
    """Lay the bins over the range of the reservoir in each projection, and count its rows."""
    for p in range(low.shape[0]):
        least, largest = math.inf, -math.inf
        for s in range(n_points):
            value = 0.0
            for k in range(weight.shape[1]):
                value += weight[p, k] * points[chosen[p, k], s]
            least, largest = min(least, value), max(largest, value)
        low[p], width[p] = least, (largest - least) / _N_BINS
        for b in range(_N_BINS):
            count[p, b] = 0
    for s in range(n_points):
        for j in range(x.shape[0]):
            x[j] = points[j, s]
        for p in range(low.shape[0]):
            # rounding may put the largest just beyond the last bin, where it does not belong
            b = min(_bin_of(chosen[p], weight[p], low[p], width[p], x), _N_BINS - 1)
            bins[p, s] = b
            count[p, b] += 1


@rule(defaults=DetectorMemberRule)
class ProjectionsRule(NamedTuple):
    """The histograms of projections, of whitened features where these are there."""

    def newness(self, own, scratch, history, row):
        x = row.white.x if row.white.x.shape[0] > 0 else row.scaled.x
        return _rarity(
            own.chosen, own.weight, own.low, own.width, own.count, history.n_points[0], x,
            scratch.bin,
        )  # fmt: skip

    def take_in(self, own, scratch, history, row, slot, is_taken):
        for p in range(scratch.bin.shape[0]):
            if is_taken and own.bin[p, slot] < _N_BINS:
                own.count[p, own.bin[p, slot]] -= 1
            own.bin[p, slot] = scratch.bin[p]
            if scratch.bin[p] < _N_BINS:
                own.count[p, scratch.bin[p]] += 1

    def follow_scales(self, own, scratch, history, row):
        is_white = row.white.x.shape[0] > 0
        points = history.white.points if is_white else history.scaled.points
        x = row.white.x if is_white else row.scaled.x
        _sort_into_bins(
            points, history.n_points[0], own.chosen, own.weight, x, own.low, own.width, own.count,
            own.bin,
        )  # fmt: skip


@part("detector_member", "projections")
class Projections(DetectorMember):
    """How rare the row is in the histograms of 64 random directions.

    Each direction has sqrt(d) features, of whitened rows where there are up to 64 features. The
    newness score is ``-mean log((count + 1/2) / (n + 16))`` over the 32 bins of each direction.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.AutoDetector(members=["projections"]).partial_fit([[0.0], [1.0], [0.5]]).n_seen_
    3
    """

    reads_covariance = True

    def axes(self, n_features: int) -> dict[str, int]:
        return {
            "projections": _N_PROJECTIONS, "terms": math.ceil(math.sqrt(n_features)),
            "bins": _N_BINS, "bins_and_one": _N_BINS + 1,
        }  # fmt: skip

    def state(self) -> ProjectionsState:
        terms = ("projections", "terms")
        return ProjectionsState(
            chosen=Field(terms, 0, int, below="features"),
            weight=Field(terms, 0.0),
            low=Field(("projections",), 0.0),
            width=Field(("projections",), 0.0, least=0.0),
            count=Field(("projections", "bins"), 0, int, below="points_and_one"),
            bin=Field(("projections", "points"), 0, int, below="bins_and_one"),
        )

    def scratch(self) -> ProjectionsScratch:
        return ProjectionsScratch(Field(("projections",), 0, int))

    def start(self, own: ProjectionsState, n_features: int, random: np.random.Generator) -> None:
        for chosen in own.chosen:
            chosen[:] = random.choice(n_features, len(chosen), replace=False)
        own.weight[:] = random.normal(size=own.weight.shape)

    def to_rule(self) -> ProjectionsRule:
        return ProjectionsRule()
