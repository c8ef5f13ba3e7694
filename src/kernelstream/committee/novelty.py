"""Five views of what is unlike the rows before, in one scan over the rows.

Each member answers a logarithm that is high for rows unlike the earlier ones; the two that say so
most clearly count (`HighestMean`). The members are

1. the z-score: how far out the features are, from their running means and standard deviations;
2. local: the mean distance to the 15 nearest of a sample of the rows (the *reservoir*), relative to
   how far these are from their own 15th neighbour;
3. projections: how rare the row is in the histograms of 64 random directions;
4. Mahalanobis' distance, which is the first one where features go together;
5. local, after the features have been made uncorrelated, and wholly relative: in 2 the distance of
   the neighbours counts with the power 3/4, so that a row far from all others is new even where
   these are far from each other.

All but the first need many rows, and count less while there are few. Features with heavy tails are
compressed, as in `scalings.Renewed`: otherwise their largest values would be all that counts.

Scales and whitening, which all that concerns the reservoir depends on, are frozen and renewed when
the number of rows has grown by a fifth: at fixed row numbers, so that it does not matter how a
stream is cut into blocks. Of rows that look new few enter the reservoir (the *gate*): otherwise the
local members would soon take what is new for ordinary.

Beyond 64 features correlations are taken to be zero. Then there are no fourth and fifth member,
which would be the first two again. Sparse rows of more than 64 features become 64 numbers before
(`sketch`), at the cost of their nonzeros.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.mixing.highest import HighestState, learn_highest, mix_highest
from kernelstream.committee.random_numbers import uniform
from kernelstream.committee.sketch import SKETCH_WIDTH
from kernelstream.compiled import compiled, helper
from kernelstream.parts import LARGEST_SQUARE, Field

__all__ = ["NoveltyState", "NoveltyWork", "declared", "new_work", "scan", "sizes_of"]

N_HIGHEST = 2
MOST_CORRELATED = 64  # features: beyond, the covariance is diagonal
_NEIGHBOURS = 15
_POWER, _WHITE_POWER = 0.75, 1.0  # how far the neighbours' own D counts in the local members
_N_BINS = 32
_N_PROJECTIONS = 64
_HEARD_FROM = 10  # rows: of the first ones, members say mostly that there were few before
_FEW_ROWS = 150.0  # so many make a member that needs many rows count half of the z-score
_POINTS_FOR_TAILS = 33  # from then on, it is known which features have heavy tails
_GATED_FROM = 33
_REFUSED = 0.2  # the share of rows with a score below the gate
_LET_IN = 0.03  # the share of these that enter the reservoir all the same
_GATE_RATE = 0.02  # how fast the gate follows, in standard deviations of the members
_GROWTH = 1.2  # of the number of rows between two renewals
_TRUSTED_ROWS = 20
_OUTLIER = 10.0  # standard deviations: what statistics see of a value, once they can be trusted
_CONSTANT = 1e-12  # standard deviations below this part of the mean are rounding errors


class NoveltyState(NamedTuple):
    """Everything that is remembered of the rows."""

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
    precision: Any  # (correlated, correlated): chol((C + r I) / (1 + r))^-1, r = 0.01 + d/t
    whitening: Any  # (correlated, correlated): the same with r = 0.1 + d/t
    n_points: Any  # rows in the reservoir
    n_offered: Any  # rows that could have entered it
    raw: Any  # (features, points): the reservoir
    scaled: Any  # (features, points): by the frozen scales
    white: Any  # (correlated, points): and uncorrelated
    reach: Any  # (points,): distance to the 15th neighbour, scaled
    white_reach: Any  # (points,): and uncorrelated
    chosen: Any  # (projections, terms): the features of a projection
    weight: Any  # (projections, terms)
    low: Any  # (projections,): where the first bin begins
    width: Any  # (projections,): of a bin
    count: Any  # (projections, bins)
    bin: Any  # (projections, points): where each row of the reservoir is; the last one: nowhere
    gate: Any  # rows with a mixed score below it do not enter the reservoir
    members: Any  # `HighestState`
    entry_square: Any  # (sketched,): of sparse rows, the sum of squares of every feature


class NoveltyWork(NamedTuple):
    """Memory for one row."""

    z: Any  # (features,)
    scaled: Any  # (features,): of which the first are then whitened in `white`
    white: Any  # (correlated,)
    distance: Any  # (points,): squared
    white_distance: Any  # (points,)
    near: Any  # (neighbours,): the smallest of them
    who: Any  # (neighbours,)
    bin: Any  # (projections,)
    said: Any  # (members,)
    trust: Any  # (members,): what their standardised scores are multiplied with
    lowest: Any  # (2,)
    factor: Any  # (correlated, correlated)
    own: Any  # (2,): the row's own distances to the 15th neighbour


def sizes_of(n_given: int, is_sparse: bool, n_points: int | None = None) -> dict[str, int]:
    """How long the axes of the state are, for rows of a length and a reservoir of a size.

    None: 256 rows, and up to 512 of those that are short.
    """
    is_sketched = is_sparse and n_given > SKETCH_WIDTH
    n_features = SKETCH_WIDTH if is_sketched else n_given
    is_full = n_features <= MOST_CORRELATED
    return {
        "given": n_given,
        "sketched": n_given if is_sketched else 0,
        "features": n_features,
        "correlated": n_features if is_full else 0,
        "members": 5 if is_full else 3,
        "points": n_points or min(512, max(256, 16384 // n_features)),
        "projections": _N_PROJECTIONS,
        "terms": math.ceil(math.sqrt(n_features)),
        "bins": _N_BINS,
        "bins_and_one": _N_BINS + 1,
    }


def declared() -> NoveltyState:
    """The state's declaration."""
    features, square = ("features",), ("correlated", "correlated")
    sample, terms = ("features", "points"), ("projections", "terms")
    return NoveltyState(
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
        bend=Field(features, 0.0, least=0.0, later=True),
        precision=Field(square, 0.0),
        whitening=Field(square, 0.0),
        n_points=Field((), 0, int, below="points_and_one"),
        n_offered=Field((), 0, int),
        raw=Field(sample, 0.0),
        scaled=Field(sample, 0.0),
        white=Field(("correlated", "points"), 0.0),
        reach=Field(("points",), 0.0, least=0.0),
        white_reach=Field(("points",), 0.0, least=0.0),
        chosen=Field(terms, 0, int, below="features"),
        weight=Field(terms, 0.0),
        low=Field(("projections",), 0.0),
        width=Field(("projections",), 0.0, least=0.0),
        count=Field(("projections", "bins"), 0, int, below="points_and_one"),
        bin=Field(("projections", "points"), 0, int, below="bins_and_one"),
        gate=Field((), -1.0, later=True),  # about where a fifth of the normal distribution is below
        members=HighestState(
            mean=Field(("members",), 0.0),
            square=Field(("members",), 0.0, least=0.0),
            count=Field((), 0.0, least=0.0),
            threshold=Field((), 0.0),
            calm=Field((), 0.0, least=0.0, later=True),
        ),
        entry_square=Field(("sketched",), 0.0, least=0.0, largest=LARGEST_SQUARE),
    )


def new_work(sizes: dict[str, int]) -> NoveltyWork:
    """Memory for the rows of a model."""
    features, correlated, points = sizes["features"], sizes["correlated"], sizes["points"]
    return NoveltyWork(
        z=np.zeros(features),
        scaled=np.zeros(features),
        white=np.zeros(correlated),
        distance=np.zeros(points),
        white_distance=np.zeros(points),
        near=np.zeros(_NEIGHBOURS),
        who=np.zeros(_NEIGHBOURS, np.int64),
        bin=np.zeros(_N_PROJECTIONS, np.int64),
        said=np.zeros(sizes["members"]),
        trust=np.ones(sizes["members"]),
        lowest=np.zeros(N_HIGHEST),
        factor=np.zeros((correlated, correlated)),
        own=np.zeros(2),
    )


# --- scaling --------------------------------------------------------------------------------------


@helper
def _clipped(value, limit):
    return min(max(value, -limit), limit)


@helper(apart=True, any_order=True)
def _multiply(root, x, out):
    """Write a lower triangular matrix times x; return the squared length of the product."""
    length2 = 0.0
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(i + 1):
            total += root[i, j] * x[j]
        out[i] = total
        length2 += total * total
    return length2


@helper
def _bent(z, bend):
    """What is beyond some standard deviations grows by its logarithm only."""
    return math.asinh(bend * z) / bend if bend > 0.0 else z


@helper
def _scale(state, x, work):
    """Write the row as it is scaled now, and by the frozen scales; heavy tails are compressed.

    No row among n is further than sqrt(n) standard deviations from their mean. That is the limit
    of what a new row is given, and what it gets in a feature that was constant.
    """
    limit = math.sqrt(state.n_rows[0])
    for j in range(x.shape[0]):
        away, rounding = x[j] - state.mean[j], _CONSTANT * abs(state.mean[j])
        sd = math.sqrt(state.square[j] / state.total[0])
        if sd > rounding:
            work.z[j] = _bent(_clipped(away / sd, limit), state.bend[j])
        elif abs(away) > rounding:
            work.z[j] = math.copysign(limit, away)
        else:
            work.z[j] = 0.0
        away = (x[j] - state.frozen_mean[j]) * state.frozen_scale[j]
        work.scaled[j] = _bent(_clipped(away, state.limit[0]), state.bend[j])


# --- members --------------------------------------------------------------------------------------


@helper
def _far_out(length2, n_features):
    """The logarithm of a squared distance per feature."""
    return math.log(length2 / n_features + 0.1)


@helper(apart=True, any_order=True)
def _length2(z):
    """The sum of squares."""
    total = 0.0
    for j in range(z.shape[0]):
        total += z[j] * z[j]
    return total


@helper(apart=True)
def _distances(points, n_points, x, out):
    """Write the squared distances of x from the first points, two features at a time."""
    n = x.shape[0]
    for s in range(n_points):
        out[s] = 0.0
    for j in range(0, n - 1, 2):
        first, second = x[j], x[j + 1]
        for s in range(n_points):
            a, b = first - points[j, s], second - points[j + 1, s]
            out[s] += a * a + b * b
    if n % 2 == 1:
        for s in range(n_points):
            a = x[n - 1] - points[n - 1, s]
            out[s] += a * a


@helper(apart=True)
def _nearest(distance, n_points, itself, near, who):
    """Write the smallest distances in order, and whose they are; return how many there are."""
    found = 0
    for s in range(n_points):
        if (found == near.shape[0] and distance[s] >= near[found - 1]) or s == itself:
            continue
        place = found if found < near.shape[0] else found - 1
        found = place + 1
        while place > 0 and near[place - 1] > distance[s]:
            near[place], who[place] = near[place - 1], who[place - 1]
            place -= 1
        near[place], who[place] = distance[s], s
    return found


@helper
def _reach(found, near, n_features):
    """The distance to the last of the neighbours."""
    return math.sqrt(near[found - 1] / n_features) if found > 0 else 0.0


@helper
def _local(points, n_points, reach, x, distance, power, work):
    """``log((mean distance + 0.01) / (mean D + 0.01)^power)`` of neighbours; the row's own D."""
    _distances(points, n_points, x, distance)
    found = _nearest(distance, n_points, -1, work.near, work.who)
    away, others = 0.0, 0.0
    for i in range(found):
        away += math.sqrt(work.near[i] / x.shape[0])
        others += reach[work.who[i]]
    said = math.log(away / found + 0.01) - power * math.log(others / found + 0.01)
    return said, _reach(found, work.near, x.shape[0])


@helper
def _bin_of(chosen, weight, low, width, x):
    """The bin of a projection in which x lies; beyond the last: in none."""
    value = 0.0
    for k in range(weight.shape[0]):
        value += weight[k] * x[chosen[k]]
    if value < low or value > low + _N_BINS * width:
        return _N_BINS
    return min(int((value - low) / width), _N_BINS - 1) if width > 0.0 else 0


@helper(apart=True)
def _projections(chosen, weight, low, width, count, n_points, x, out):
    """``-mean log((count + 1/2) / (n + 16))`` over the projections; their bins."""
    total = 0.0
    for p in range(low.shape[0]):
        out[p] = _bin_of(chosen[p], weight[p], low[p], width[p], x)
        total += math.log((count[p, out[p]] if out[p] < _N_BINS else 0) + 0.5)
    return math.log(n_points + 0.5 * _N_BINS) - total / low.shape[0]


@helper
def _say(state, x, work):
    """Write what each member says of a row: low means unlike the rows so far, as elsewhere."""
    n, n_points = x.shape[0], state.n_points[0]
    _scale(state, x, work)
    is_sketch = state.entry_square.shape[0] > 0  # then the mean square of its entries comes first
    work.said[0] = -_far_out(x[0] * n if is_sketch else _length2(work.z), n)
    local, work.own[0] = _local(
        state.scaled, n_points, state.reach, work.scaled, work.distance, _POWER, work
    )
    work.said[1] = -local
    seen = work.scaled
    if work.white.shape[0] > 0:
        work.said[3] = -_far_out(_multiply(state.precision, work.z, work.white), n)
        _multiply(state.whitening, work.scaled, work.white)
        seen = work.white
        local, work.own[1] = _local(
            state.white, n_points, state.white_reach, work.white, work.white_distance,
            _WHITE_POWER, work,
        )  # fmt: skip
        work.said[4] = -local
    work.said[2] = -_projections(
        state.chosen, state.weight, state.low, state.width, state.count, n_points, seen, work.bin
    )
    # one and w, with the mean one, so that scores have the same size from the beginning
    w = state.n_rows[0] / (state.n_rows[0] + _FEW_ROWS)
    work.trust[0] = 2.0 / (1.0 + w)
    for e in range(1, work.trust.shape[0]):
        work.trust[e] = 2.0 * w / (1.0 + w)


# --- learning -------------------------------------------------------------------------------------


@helper
def _is_let_in(state, score):
    """Whether a row may enter the reservoir: its mixed score must not be among the lowest fifth.

    The gate follows that quantile of the scores, at a speed that does not slow down, so that it
    cannot shut out what has become usual. A few of those below it enter all the same. Otherwise a
    rare kind of rows that was refused at first would be refused for ever.
    """
    is_low = score < state.gate[0]
    state.gate[0] += _GATE_RATE * (_REFUSED - (1.0 if is_low else 0.0))
    if not is_low or state.n_rows[0] + 1 < _GATED_FROM:
        return True
    return uniform(state.seed[0] + 1, state.n_rows[0]) < _LET_IN


@helper(apart=True)
def _count(x, weight, n_rows, total, mean, square, products, away):
    """Welford's update of means, squares and products, with a weight.

    After twenty rows, a value counts as if it were within ten standard deviations: otherwise a few
    outliers would hide all others. A feature that was constant may become anything.
    """
    share = weight / (total + weight)
    for j in range(x.shape[0]):
        away[j] = x[j] - mean[j]
        if n_rows >= _TRUSTED_ROWS:
            sd = math.sqrt(square[j] / total)
            if sd > _CONSTANT * abs(mean[j]):
                away[j] = _clipped(away[j], _OUTLIER * sd)
        mean[j] += share * away[j]
        square[j] += share * total * away[j] * away[j]
    for i in range(products.shape[0]):
        factor = share * total * away[i]
        for j in range(i):
            products[i, j] += factor * away[j]


@helper
def _enter(state, x, work, changes):
    """A row is offered to the reservoir, of which every row so far is a member alike."""
    state.n_offered[0] += 1
    slot, size = state.n_points[0], state.reach.shape[0]
    if slot == size:
        slot = int(uniform(state.seed[0], state.n_rows[0]) * state.n_offered[0])
        if slot >= size:
            return
        for p in range(work.bin.shape[0]):
            if state.bin[p, slot] < _N_BINS:
                state.count[p, state.bin[p, slot]] -= 1
    else:
        state.n_points[0] += 1
    changes.mark(slot)
    for j in range(x.shape[0]):
        state.raw[j, slot], state.scaled[j, slot] = x[j], work.scaled[j]
    for j in range(work.white.shape[0]):
        state.white[j, slot] = work.white[j]
    state.reach[slot], state.white_reach[slot] = work.own[0], work.own[1]
    for p in range(work.bin.shape[0]):
        state.bin[p, slot] = work.bin[p]
        if work.bin[p] < _N_BINS:
            state.count[p, work.bin[p]] += 1


# --- renewals -------------------------------------------------------------------------------------


@helper(apart=True)
def _inverse_root(square, products, ridge, factor, out):
    """Write chol((C + ridge I) / (1 + ridge))^-1, where C are the correlations.

    So features have the variance one, however many rows there are: what is scaled by them does not
    grow with the rows where features are not correlated.
    """
    n, diagonal = out.shape[0], 1.0 + ridge
    for i in range(n):
        for j in range(i + 1):
            total = 1.0
            if i != j:
                sizes = math.sqrt(square[i]) * math.sqrt(square[j])
                total = products[i, j] / (sizes * diagonal) if sizes > 0.0 else 0.0
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(max(total, ridge / diagonal))
            else:
                factor[i, j] = total / factor[j, j]
    for j in range(n):
        for i in range(j, n):
            total = 1.0 if i == j else 0.0
            for k in range(j, i):
                total -= factor[i, k] * out[k, j]
            out[i, j] = total / factor[i, i]


@helper(apart=True)
def _reaches(points, n_points, x, distance, near, who, out):
    """Write the distance to its 15th neighbour of every row of the reservoir."""
    for s in range(n_points):
        for j in range(x.shape[0]):
            x[j] = points[j, s]
        _distances(points, n_points, x, distance)
        found = _nearest(distance, n_points, s, near, who)
        out[s] = _reach(found, near, x.shape[0])


@helper(apart=True)
def _sort_into_bins(points, n_points, chosen, weight, x, low, width, count, bins):
    """Bins over the range of the reservoir in each projection, and its rows in them."""
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


@helper(apart=True)
def _bend_of(values, n):
    """``c = 0.3 sqrt(kappa - 1)`` where the excess kurtosis kappa of the first n is above one."""
    mean, second, fourth = 0.0, 0.0, 0.0
    for s in range(n):
        mean += values[s] / n
    for s in range(n):
        square = (values[s] - mean) ** 2
        second += square / n
        fourth += square * square / n
    if n < _POINTS_FOR_TAILS or fourth <= 4.0 * second * second:
        return 0.0
    return 0.3 * math.sqrt(fourth / (second * second) - 4.0)


@helper
def _renew(state, work):
    """Freeze the scales as they are now, and see the reservoir and the histograms by them."""
    n_features, n_points = work.z.shape[0], state.n_points[0]
    n_rows = state.n_rows[0]
    state.renewal[0] = max(n_rows + 1, int(_GROWTH * n_rows))
    state.limit[0] = math.sqrt(n_rows)
    for j in range(n_features):
        sd = math.sqrt(state.square[j] / state.total[0])
        is_constant = sd <= _CONSTANT * abs(state.mean[j])
        state.frozen_mean[j] = state.mean[j]
        state.frozen_scale[j] = 0.0 if is_constant else 1.0 / sd
        for s in range(n_points):
            away = (state.raw[j, s] - state.mean[j]) * state.frozen_scale[j]
            state.scaled[j, s] = _clipped(away, state.limit[0])
        state.bend[j] = _bend_of(state.scaled[j], n_points)
        for s in range(n_points):
            state.scaled[j, s] = _bent(state.scaled[j, s], state.bend[j])
    few = n_features / n_rows
    _reaches(state.scaled, n_points, work.scaled, work.distance, work.near, work.who, state.reach)
    seen, row = state.scaled, work.scaled
    if work.white.shape[0] > 0:
        _inverse_root(state.square, state.products, 0.01 + few, work.factor, state.precision)
        _inverse_root(state.square, state.products, 0.1 + few, work.factor, state.whitening)
        seen, row = state.white, work.white
        for s in range(n_points):
            for j in range(n_features):
                work.scaled[j] = state.scaled[j, s]
            _multiply(state.whitening, work.scaled, row)
            for j in range(n_features):
                state.white[j, s] = row[j]
        _reaches(
            state.white, n_points, row, work.white_distance, work.near, work.who,
            state.white_reach,
        )  # fmt: skip
    _sort_into_bins(
        seen, n_points, state.chosen, state.weight, row, state.low, state.width, state.count,
        state.bin,
    )  # fmt: skip


@compiled
def scan(state, X, weight, learns, threshold, work, changes, said, scores, margin, n_points):
    """Score the rows of X in order, and learn each after it was scored, if asked to.

    Writes what the members say (low means new), their mix, and the threshold before each row; and
    how many rows the reservoir has after it.
    """
    for i in range(X.shape[0]):
        x, mixed = X[i], 0.0
        margin[i] = state.members.threshold[0]
        if state.n_rows[0] > 0:
            _say(state, x, work)
            mixed = mix_highest(state.members, N_HIGHEST, work.said, work.trust, work.lowest)
        scores[i, 0] = mixed
        for e in range(work.said.shape[0]):
            said[i, e] = work.said[e] if state.n_rows[0] > 0 else 0.0
        n_points[i] = state.n_points[0]
        if not learns or weight[i] == 0.0:
            continue  # a row without weight is as good as absent
        is_let_in = True
        if state.n_rows[0] >= _HEARD_FROM:
            is_let_in = _is_let_in(state, mixed)
            learn_highest(state.members, threshold, work.said, mixed, weight[i])
        _count(
            x, weight[i], state.n_rows[0], state.total[0], state.mean, state.square,
            state.products, work.z,
        )  # fmt: skip
        if is_let_in:
            _enter(state, x, work, changes)
            n_points[i] = state.n_points[0]
        state.total[0] += weight[i]
        state.n_rows[0] += 1
        if state.n_rows[0] == state.renewal[0]:
            _renew(state, work)
            changes.mark_all()
