"""The detector members of `AutoDetector`, and one scan that scores and learns rows.

A *member* gives each row a newness score before the row is learned (`members`, one file for each).
All members read the same history of the rows (`history`): running moments, frozen scales, a
reservoir of earlier rows, and where the row lies in it (`neighbours`). `scan` goes over the rows,
and `machine` makes a `Learner` of it.
"""

from kernelstream.committee.novelty.machine import NoveltyMachine
from kernelstream.committee.novelty.members import DetectorMember, DetectorMemberRule

__all__ = ["DetectorMember", "DetectorMemberRule", "NoveltyMachine"]
