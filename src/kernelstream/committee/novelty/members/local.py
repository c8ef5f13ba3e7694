"""How far a row is from its neighbours, compared with their own distances."""

from typing import NamedTuple

from kernelstream.committee.novelty.members.base import DetectorMember, DetectorMemberRule
from kernelstream.committee.novelty.neighbours import relative_distance
from kernelstream.parts import part, rule

__all__ = ["Local"]

# Below 1: a row that is far from all others is new even where these are far from each other.
_POWER = 0.75


@rule(defaults=DetectorMemberRule)
class LocalRule(NamedTuple):
    """The distance to the neighbours in scaled features."""

    def newness(self, own, scratch, history, row):
        return relative_distance(history.scaled, row.scaled, _POWER)


@part("detector_member", "local")
class Local(DetectorMember):
    """How far the row is from its neighbours in the reservoir, compared with their own distances.

    The newness score is ``log((A + 0.01) / (D + 0.01)^(3/4))``: A is the mean distance to the 15
    nearest rows of the reservoir, and D their mean distance to their own 15th neighbour.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.AutoDetector(members=["local"]).partial_fit([[0.0], [1.0], [0.5]]).n_seen_
    3
    """

    searches = "scaled"

    def to_rule(self) -> LocalRule:
        return LocalRule()
