"""Score and learn rows in order, with any detector members.

Each member's score is standardized by its own past, and the ones that find the row newest count
(`HighestMean`). Of rows that look new few enter the reservoir (the *gate*): otherwise the members
that compare a row with the reservoir would soon find anomalies familiar.
"""

from typing import Any, NamedTuple

from kernelstream.committee.mixing.highest import learn_highest, mix_highest
from kernelstream.committee.novelty.history import look, renew
from kernelstream.committee.novelty.members.base import FEW_ROWS
from kernelstream.committee.novelty.moments import count
from kernelstream.committee.random_numbers import uniform
from kernelstream.compile import compiled, helper
from kernelstream.parts import Field, rule

__all__ = ["Linked", "Links", "MixScratch", "NoveltyState", "OneMember", "declared_mix", "scan"]

_SCORED_FROM = 10  # rows: before, scores mostly show how few rows there are
_GATED_FROM = 33
_REFUSED = 0.2  # the share of rows with a score below the gate
_LET_IN = 0.03  # the share of these that enter the reservoir all the same
_GATE_RATE = 0.02  # how fast the gate follows, in standard deviations of the members' scores


class NoveltyState(NamedTuple):
    """Everything that is remembered of the rows."""

    history: Any  # `History`
    own: Any  # the members' own records, as `Links`
    mixed: Any  # `HighestState`


class MixScratch(NamedTuple):
    """Memory for the members' scores of one row."""

    scores: Any  # (members,)
    trust: Any  # (members,): what their standardized scores are multiplied with
    highest: Any  # (counted,): the largest of these
    lowest: Any  # (counted,): the lowest of the products


class Links(NamedTuple):
    """The records of several members: of one, and of the rest."""

    first: Any
    rest: Any


def declared_mix() -> MixScratch:
    """Return the declaration of the memory for the members' scores."""
    members, counted = Field(("members",), 0.0), Field(("counted",), 0.0)
    return MixScratch(members, members, counted, counted)


@rule
class OneMember(NamedTuple):
    """The rule of the last member."""

    member: Any

    def score_members(self, own, scratch, history, row, e, mix):
        """Write the scores of the members from number e on: low means new, as elsewhere."""
        mix.scores[e] = -self.member.newness(own, scratch, history, row)
        mix.trust[e] = self.member.trusted_after(history.n_rows[0])

    def note_row_of_all(self, own, scratch, history, row, weight):
        """Let the members learn a row."""
        self.member.note_row(own, scratch, history, row, weight)

    def take_in_of_all(self, own, scratch, history, row, slot, is_taken):
        """Tell the members that a row enters the reservoir."""
        self.member.take_in(own, scratch, history, row, slot, is_taken)

    def follow_scales_of_all(self, own, scratch, history, row):
        """Tell the members that there are new scales."""
        self.member.follow_scales(own, scratch, history, row)


@rule
class Linked(NamedTuple):
    """The rules of several members: of one, and of the rest."""

    first: Any
    rest: Any

    def score_members(self, own, scratch, history, row, e, mix):
        self.first.score_members(own.first, scratch.first, history, row, e, mix)
        self.rest.score_members(own.rest, scratch.rest, history, row, e + 1, mix)

    def note_row_of_all(self, own, scratch, history, row, weight):
        self.first.note_row_of_all(own.first, scratch.first, history, row, weight)
        self.rest.note_row_of_all(own.rest, scratch.rest, history, row, weight)

    def take_in_of_all(self, own, scratch, history, row, slot, is_taken):
        self.first.take_in_of_all(own.first, scratch.first, history, row, slot, is_taken)
        self.rest.take_in_of_all(own.rest, scratch.rest, history, row, slot, is_taken)

    def follow_scales_of_all(self, own, scratch, history, row):
        self.first.follow_scales_of_all(own.first, scratch.first, history, row)
        self.rest.follow_scales_of_all(own.rest, scratch.rest, history, row)


@helper
def _trust_members(n_rows, n_own, mix):
    """Trust other libraries' detectors as members that need many rows; bring the mean to one.

    It is the mean over the most trusted, as many as count, so that mixed scores have the same size
    from the beginning.
    """
    trust, highest = mix.trust, mix.highest
    for e in range(n_own, trust.shape[0]):
        trust[e] = n_rows / (n_rows + FEW_ROWS)
    for place in range(highest.shape[0]):
        highest[place] = 0.0
    for e in range(trust.shape[0]):
        value = trust[e]
        for place in range(highest.shape[0]):  # kept in order
            if value > highest[place]:
                highest[place], value = value, highest[place]
    total = 0.0
    for place in range(highest.shape[0]):
        total += highest[place]
    if total > 0.0:
        for e in range(trust.shape[0]):
            trust[e] = highest.shape[0] * trust[e] / total


@helper
def _is_let_in(history, score):
    """Return whether a row may enter the reservoir: its score must not be among the lowest fifth.

    The gate follows that quantile of the scores, at a speed that does not slow down, so that it
    cannot shut out what has become usual. A few of those below it enter all the same. Otherwise a
    rare kind of rows that was refused at first would be refused for ever.
    """
    is_low = score < history.gate[0]
    history.gate[0] += _GATE_RATE * (_REFUSED - (1.0 if is_low else 0.0))
    if not is_low or history.n_rows[0] + 1 < _GATED_FROM:
        return True
    return uniform(history.seed[0] + 1, history.n_rows[0]) < _LET_IN


@helper
def _enter(members, state, scratch, row, changes):
    """Offer a row to the reservoir, which is a uniform sample of the rows that were offered."""
    history = state.history
    history.n_offered[0] += 1
    slot, size = history.n_points[0], history.raw.shape[1]
    is_taken = slot == size
    if is_taken:
        slot = int(uniform(history.seed[0], history.n_rows[0]) * history.n_offered[0])
        if slot >= size:
            return
    members.take_in_of_all(state.own, scratch, history, row, slot, is_taken)
    if not is_taken:
        history.n_points[0] += 1
    changes.mark(slot)
    for j in range(row.x.shape[0]):
        history.raw[j, slot], history.scaled.points[j, slot] = row.x[j], row.scaled.x[j]
    for j in range(row.white.x.shape[0]):
        history.white.points[j, slot] = row.white.x[j]
    history.scaled.reach[slot] = row.scaled.reach[0]
    history.white.reach[slot] = row.white.reach[0]


@compiled
def scan(
    state, members, searches, X, others, weight, learns, threshold, row, scratch, mix, changes,
    said, scores, margin, n_points,
):  # fmt: skip
    """Score the rows of X in order, and learn each after it was scored, if asked to.

    Writes the members' scores (low means new), their mix, and the threshold before each row; and
    the size of the reservoir after it. `others` has the scores of detectors of other libraries.
    """
    history, n_own = state.history, mix.scores.shape[0] - others.shape[1]
    for i in range(X.shape[0]):
        mixed = 0.0
        margin[i] = state.mixed.threshold[0]
        for j in range(X.shape[1]):
            row.x[j] = X[i, j]
        if history.n_rows[0] > 0:
            look(history, row, searches)
            members.score_members(state.own, scratch, history, row, 0, mix)
            for e in range(others.shape[1]):
                mix.scores[n_own + e] = others[i, e]
            _trust_members(history.n_rows[0], n_own, mix)
            mixed = mix_highest(state.mixed, mix.lowest.shape[0], mix.scores, mix.trust, mix.lowest)
        scores[i, 0] = mixed
        for e in range(mix.scores.shape[0]):
            said[i, e] = mix.scores[e] if history.n_rows[0] > 0 else 0.0
        n_points[i] = history.n_points[0]
        if not learns or weight[i] == 0.0:
            continue  # a row without weight is as good as absent
        is_let_in = True
        if history.n_rows[0] >= _SCORED_FROM:
            is_let_in = _is_let_in(history, mixed)
            learn_highest(state.mixed, threshold, mix.scores, mixed, weight[i])
        members.note_row_of_all(state.own, scratch, history, row, weight[i])
        count(
            row.x, weight[i], history.n_rows[0], history.total[0], history.mean, history.square,
            history.products, row.z,
        )  # fmt: skip
        if is_let_in:
            _enter(members, state, scratch, row, changes)
            n_points[i] = history.n_points[0]
        history.total[0] += weight[i]
        history.n_rows[0] += 1
        if history.n_rows[0] == history.renewal[0]:
            renew(history, row, searches)
            members.follow_scales_of_all(state.own, scratch, history, row)
            changes.mark_all()
