"""How far out a row is where features are correlated."""

from typing import Any, NamedTuple

from kernelstream.committee.novelty.history import MOST_CORRELATED
from kernelstream.committee.novelty.members.base import DetectorMember, DetectorMemberRule
from kernelstream.committee.novelty.moments import inverse_root, log_length2, multiply
from kernelstream.parts import Field, part, rule

__all__ = ["Mahalanobis"]


class MahalanobisState(NamedTuple):
    """The correlations as they were at the last renewal."""

    precision: Any  # (correlated, correlated): chol((C + r I) / (1 + r))^-1, r = 0.01 + d/t


class MahalanobisScratch(NamedTuple):
    """Memory for one row."""

    product: Any  # (correlated,)


@rule(defaults=DetectorMemberRule)
class MahalanobisRule(NamedTuple):
    """The length of a row after whitening."""

    def newness(self, own, scratch, history, row):
        return log_length2(multiply(own.precision, row.z, scratch.product), row.z.shape[0])

    def follow_scales(self, own, scratch, history, row):
        ridge = 0.01 + row.z.shape[0] / history.n_rows[0]
        inverse_root(history.square, history.products, ridge, row.factor, own.precision)


@part("detector_member", "mahalanobis")
class Mahalanobis(DetectorMember):
    """How far out the features are, taken together: Mahalanobis' distance.

    The newness score is ``log(z' ((C + r I) / (1 + r))^-1 z / d + 0.1)`` with ``r = 0.01 + d/t``.
    It needs the covariance of the features, which is kept for up to 64 of them.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.AutoDetector(members=["mahalanobis"]).partial_fit([[0.0], [1.0], [0.5]]).n_seen_
    3
    """

    most_features = MOST_CORRELATED
    reads_covariance = True

    def state(self) -> MahalanobisState:
        return MahalanobisState(Field(("correlated", "correlated"), 0.0))

    def scratch(self) -> MahalanobisScratch:
        return MahalanobisScratch(Field(("correlated",), 0.0))

    def to_rule(self) -> MahalanobisRule:
        return MahalanobisRule()
