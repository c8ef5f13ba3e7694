"""The history of the rows that all detector members read, and the views of one row in it.

Scales and whitening are frozen and renewed when the number of rows has grown by a fifth: at fixed
row numbers, so that the result does not depend on how a stream is cut into blocks. Features with
heavy tails are compressed, as in `scalings.Renewed`: otherwise their largest values would dominate.

Beyond 64 features correlations are taken to be zero, and there is no whitened space. Sparse rows of
more than 64 features become 64 numbers first (`sketch`), at the cost of their nonzeros.
"""

import math
from typing import Any, NamedTuple

from kernelstream.committee.novelty.moments import (
    CONSTANT,
    bend_of,
    bent,
    clipped,
    inverse_root,
    multiply,
)
from kernelstream.committee.novelty.neighbours import (
    Neighbourhood,
    Space,
    distances_to_last,
    search,
)
from kernelstream.committee.sketch import SKETCH_WIDTH
from kernelstream.compile import helper
from kernelstream.parts import LARGEST_SQUARE, Field

__all__ = [
    "MOST_CORRELATED", "History", "RowViews", "Searches", "declared_history", "declared_views",
    "look", "renew", "sizes_of",
]  # fmt: skip

MOST_CORRELATED = 64  # features: beyond, the covariance is diagonal
_GROWTH = 1.2  # of the number of rows between two renewals


class History(NamedTuple):
    """What is remembered of the rows, for all members."""

    seed: Any
    n_rows: Any
    renewal: Any  # the number of rows at which the scales are renewed next
    total: Any  # weight of all rows
    mean: Any  # (features,)
    square: Any  # (features,): sums of squared deviations from the mean
    products: Any  # (correlated, correlated): sums of products of deviations; the lower triangle
    frozen_mean: Any  # (features,): as they were at the last renewal
    frozen_scale: Any  # (features,): one over the standard deviation, or zero
    limit: Any  # of what is scaled by them
    bend: Any  # (features,): c of ``asinh(c z) / c``, or zero
    whitening: Any  # (correlated, correlated): chol((C + r I) / (1 + r))^-1, r = 0.1 + d/t
    n_points: Any  # rows in the reservoir
    n_offered: Any  # rows that could have entered it
    raw: Any  # (features, points): the reservoir
    scaled: Any  # `Space`: by the frozen scales
    white: Any  # `Space`: and uncorrelated; without features where there is no covariance
    gate: Any  # rows with a mixed score below it do not enter the reservoir
    entry_square: Any  # (sketched,): of sparse rows, the sum of squares of every feature


class RowViews(NamedTuple):
    """One row as members see it: memory that every row overwrites."""

    x: Any  # (features,): as it was given
    z: Any  # (features,): by the running moments, compressed
    scaled: Any  # `Neighbourhood`: by the frozen scales
    white: Any  # `Neighbourhood`: and uncorrelated
    factor: Any  # (correlated, correlated): scratch for a Cholesky factor


class Searches(NamedTuple):
    """The spaces in which a member needs the neighbours of a row."""

    scaled: bool
    white: bool


def sizes_of(
    n_given: int, is_sparse: bool, n_points: int | None = None, reads_covariance: bool = True
) -> dict[str, int]:
    """Return the lengths of the axes for rows of a length and a reservoir of a size.

    None: 256 rows, and up to 512 where rows are short.
    """
    is_sketched = is_sparse and n_given > SKETCH_WIDTH
    n_features = SKETCH_WIDTH if is_sketched else n_given
    return {
        "given": n_given,
        "sketched": n_given if is_sketched else 0,
        "features": n_features,
        "correlated": n_features if reads_covariance and n_features <= MOST_CORRELATED else 0,
        "points": n_points or min(512, max(256, 16384 // n_features)),
        **Neighbourhood.axes(),
    }


def declared_history() -> History:
    """Return the declaration of the history's arrays."""
    features, square = ("features",), ("correlated", "correlated")
    return History(
        seed=Field((), 0, int),
        n_rows=Field((), 0, int),
        renewal=Field((), 1, int),
        total=Field((), 0.0, least=0.0),
        mean=Field(features, 0.0),
        square=Field(features, 0.0, least=0.0, largest=LARGEST_SQUARE),
        products=Field(square, 0.0, largest=LARGEST_SQUARE),
        frozen_mean=Field(features, 0.0),
        frozen_scale=Field(features, 0.0, least=0.0),
        limit=Field((), 0.0, least=0.0),
        bend=Field(features, 0.0, least=0.0),
        whitening=Field(square, 0.0),
        n_points=Field((), 0, int, below="points_and_one"),
        n_offered=Field((), 0, int),
        raw=Field(("features", "points"), 0.0),
        scaled=Space.declared("features"),
        white=Space.declared("correlated"),
        gate=Field((), -1.0),  # about where a fifth of the normal distribution is below
        entry_square=Field(("sketched",), 0.0, least=0.0, largest=LARGEST_SQUARE),
    )


def declared_views() -> RowViews:
    """Return the declaration of the memory for one row."""
    return RowViews(
        x=Field(("features",), 0.0),
        z=Field(("features",), 0.0),
        scaled=Neighbourhood.declared("features"),
        white=Neighbourhood.declared("correlated"),
        factor=Field(("correlated", "correlated"), 0.0),
    )


@helper
def _scale(history, row):
    """Write the row by the running moments and by the frozen scales; compress heavy tails.

    No row among n is further than sqrt(n) standard deviations from their mean. That limits what a
    new row gets, and it is what the row gets in a feature that was constant.
    """
    limit = math.sqrt(history.n_rows[0])
    x, z, scaled = row.x, row.z, row.scaled.x
    for j in range(x.shape[0]):
        away, rounding = x[j] - history.mean[j], CONSTANT * abs(history.mean[j])
        sd = math.sqrt(history.square[j] / history.total[0])
        if sd > rounding:
            z[j] = bent(clipped(away / sd, limit), history.bend[j])
        elif abs(away) > rounding:
            z[j] = math.copysign(limit, away)
        else:
            z[j] = 0.0
        away = (x[j] - history.frozen_mean[j]) * history.frozen_scale[j]
        scaled[j] = bent(clipped(away, history.limit[0]), history.bend[j])


@helper
def look(history, row, searches):
    """Write the views of the row in ``row.x``, and find its neighbours where they are needed."""
    _scale(history, row)
    if searches.scaled:
        search(history.scaled, history.n_points[0], row.scaled)
    if row.white.x.shape[0] > 0:
        multiply(history.whitening, row.scaled.x, row.white.x)
        if searches.white:
            search(history.white, history.n_points[0], row.white)


@helper
def _reaches(space, n_points, hood):
    """Write the distance to its last neighbour of every row of the reservoir."""
    distances_to_last(
        space.points, n_points, hood.x, hood.distance, hood.near, hood.slot, space.reach
    )


@helper
def renew(history, row, searches):
    """Freeze the scales as they are now, and scale and whiten the reservoir by them."""
    n_features, n_points = row.z.shape[0], history.n_points[0]
    n_rows, points = history.n_rows[0], history.scaled.points
    history.renewal[0] = max(n_rows + 1, int(_GROWTH * n_rows))
    history.limit[0] = math.sqrt(n_rows)
    for j in range(n_features):
        sd = math.sqrt(history.square[j] / history.total[0])
        is_constant = sd <= CONSTANT * abs(history.mean[j])
        history.frozen_mean[j] = history.mean[j]
        history.frozen_scale[j] = 0.0 if is_constant else 1.0 / sd
        for s in range(n_points):
            away = (history.raw[j, s] - history.mean[j]) * history.frozen_scale[j]
            points[j, s] = clipped(away, history.limit[0])
        history.bend[j] = bend_of(points[j], n_points)
        for s in range(n_points):
            points[j, s] = bent(points[j, s], history.bend[j])
    if searches.scaled:
        _reaches(history.scaled, n_points, row.scaled)
    if row.white.x.shape[0] == 0:
        return
    ridge = 0.1 + n_features / n_rows
    inverse_root(history.square, history.products, ridge, row.factor, history.whitening)
    for s in range(n_points):
        for j in range(n_features):
            row.scaled.x[j] = points[j, s]
        multiply(history.whitening, row.scaled.x, row.white.x)
        for j in range(n_features):
            history.white.points[j, s] = row.white.x[j]
    if searches.white:
        _reaches(history.white, n_points, row.white)
