"""How far a row is from its neighbours after the features were made uncorrelated."""

from typing import NamedTuple

from kernelstream.committee.novelty.history import MOST_CORRELATED
from kernelstream.committee.novelty.members.base import DetectorMember, DetectorMemberRule
from kernelstream.committee.novelty.neighbours import relative_distance
from kernelstream.parts import part, rule

__all__ = ["WhiteLocal"]


@rule(defaults=DetectorMemberRule)
class WhiteLocalRule(NamedTuple):
    """The distance to the neighbours in whitened features."""

    def newness(self, own, scratch, history, row):
        return relative_distance(history.white, row.white, 1.0)


@part("detector_member", "white-local")
class WhiteLocal(DetectorMember):
    """As `Local`, for features that were made uncorrelated, and with the power 1 of D.

    It needs the covariance of the features, which is kept for up to 64 of them.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.AutoDetector(members=["white-local"]).partial_fit([[0.0], [1.0], [0.5]]).n_seen_
    3
    """

    most_features = MOST_CORRELATED
    reads_covariance = True
    searches = "white"

    def to_rule(self) -> WhiteLocalRule:
        return WhiteLocalRule()
