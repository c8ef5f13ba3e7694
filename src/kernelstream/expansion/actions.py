"""What a budget answers when a row wants to become a point, and how that is carried out.

An action answers the slot that the new point takes, or -1 where it takes none. Each budget has one
type of action, so that compiled code holds what its budget may do and nothing else.
"""

from typing import Any, NamedTuple

from kernelstream.expansion.mergers import merge
from kernelstream.expansion.operations import (
    add_to_rest,
    correct_for_drop,
    drop,
    give_up,
    project,
    project_new,
)
from kernelstream.parts import rule

__all__ = [
    "IS_DROPPED", "IS_MERGED", "IS_PROJECTED", "JOINS", "MERGES", "REPLACES",
    "SUMMING", "Merging", "Projecting", "Replacing", "Summing",
]  # fmt: skip

# What becomes of the new point:
JOINS = 0  # there is room: it takes the next slot
REPLACES = 1  # it takes the place of the point in `slot`, which is dropped or projected
IS_DROPPED = 2  # at once
IS_PROJECTED = 3  # on the points
MERGES = 4  # it takes the place of the point in `slot`, which is merged with `partner`
IS_MERGED = 5  # with `partner`


@rule
class Replacing(NamedTuple):
    """Of budgets that drop what goes."""

    what: int
    slot: int

    def carry_out(self, expansion, tile, i, point):
        if self.what == IS_DROPPED:
            give_up(expansion, point)
            return -1
        if self.what == JOINS:
            expansion.n_points[0] = self.slot + 1
        else:
            tile.gram.correct_norms(expansion, tile, self.slot, i, point)
            drop(expansion, tile, self.slot, i)
        return self.slot

    def merged_with(self):
        """Return the slot that was merged with what went, and how far towards it; -1: none was."""
        return -1, 0.0


@rule
class Projecting(NamedTuple):
    """Of budgets that replace what goes by a combination of the other points."""

    what: int
    slot: int
    weights: Any  # of the combination; the last is the new point's
    gap: float  # the squared distance that remains

    def carry_out(self, expansion, tile, i, point):
        if self.what == IS_DROPPED:
            give_up(expansion, point)
            return -1
        if self.what == IS_PROJECTED:
            project_new(expansion, tile, self.weights, self.gap, i, point)
            return -1
        if self.what == JOINS:
            expansion.n_points[0] = self.slot + 1
        else:
            project(expansion, tile, self.weights, self.slot, self.gap, i, point)
        return self.slot

    def merged_with(self):
        return -1, 0.0


@rule
class Merging(NamedTuple):
    """Of budgets that make one point of two."""

    what: int
    slot: int
    partner: int
    share: float  # how far from the partner to the point that goes the merged one lies
    gram: Any  # (points, points): kernel values between points
    memory: Any  # (points,)

    def carry_out(self, expansion, tile, i, point):
        if self.what == IS_DROPPED:
            give_up(expansion, point)
            return -1
        if self.what == JOINS:
            expansion.n_points[0] = self.slot + 1
        elif self.what == REPLACES:
            k_slot = self.gram[self.slot, : expansion.n_points[0]]
            correct_for_drop(expansion, k_slot, tile, self.slot, i, point)
            drop(expansion, tile, self.slot, i)
        else:
            goes = self.slot if self.what == MERGES else -1
            merge(expansion, tile, self.gram, self.memory, goes, self.partner, self.share, i, point)
            return goes
        return self.slot

    def merged_with(self):
        merges = self.what == MERGES or self.what == IS_MERGED
        return (self.partner if merges else -1), self.share


@rule
class Summing(NamedTuple):
    """Of models with a weight for each explicit feature: a row is added to the weights."""

    def carry_out(self, expansion, tile, i, point):
        for m in range(point.n_active[0]):
            output = point.active[m]
            past = expansion.average.past_of_new(point.coef[output, 0])
            tile.pending.past[i, output] = past
            for s in range(expansion.coef.shape[1]):
                tile.pending.coef[i, s, output] = point.coef[output, s]
            add_to_rest(tile.raw, output, point.coef[output], 1.0, tile.k, tile.n_points + i, i)
        return -1

    def merged_with(self):
        return -1, 0.0


SUMMING = Summing()
