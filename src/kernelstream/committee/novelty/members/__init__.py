"""What `AutoDetector` looks at: one file for each detector member.

To add a member, put a file here (or anywhere that is imported) with two classes: the member, a
`DetectorMember` under the decorator ``part("detector_member", name)``, and its rule, which gives
rows their newness scores (`DetectorMemberRule` says which methods it may have).
"""

from kernelstream.committee.novelty.members.base import (
    DetectorMember,
    DetectorMemberRule,
    NoArrays,
    chosen_detectors,
    no_arrays,
)
from kernelstream.parts import discover

discover(__name__, __path__)

__all__ = ["DetectorMember", "DetectorMemberRule", "NoArrays", "chosen_detectors", "no_arrays"]
