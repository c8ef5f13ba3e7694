"""How far out the features of a row are."""

from typing import NamedTuple

from kernelstream.committee.novelty.members.base import DetectorMember, DetectorMemberRule
from kernelstream.committee.novelty.moments import length2, log_length2
from kernelstream.parts import part, rule

__all__ = ["ZScore"]


@rule(defaults=DetectorMemberRule)
class ZScoreRule(NamedTuple):
    """The mean square of the scaled features."""

    def newness(self, own, scratch, history, row):
        n = row.z.shape[0]
        is_sketch = history.entry_square.shape[0] > 0  # the mean square of its entries comes first
        return log_length2(row.x[0] * n if is_sketch else length2(row.z), n)

    def trusted_after(self, n_rows):
        return 1.0


@part("detector_member", "z-score")
class ZScore(DetectorMember):
    """How far out the features are, by their running means and standard deviations.

    The newness score is ``log(z' z / d + 0.1)``. It needs few rows.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.AutoDetector(members=["z-score"]).partial_fit([[0.0], [1.0], [0.5]]).n_seen_
    3
    """

    def to_rule(self) -> ZScoreRule:
        return ZScoreRule()
