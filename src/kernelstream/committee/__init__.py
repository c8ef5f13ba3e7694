"""Machines side by side, mixed online.

Every member predicts each row before it learns it. What the members said is then mixed by a scan
over the rows, which learns from the targets how much each member counts (`mixing`). So the result
does not depend on how a stream is cut into blocks, and members may run on several threads.
"""

from kernelstream.committee.auto import AutoClassifier, AutoRegressor
from kernelstream.committee.detector import AutoDetector
from kernelstream.committee.estimators import (
    Committee,
    CommitteeClassifier,
    CommitteeDetector,
    CommitteeRegressor,
)
from kernelstream.committee.machine import CommitteeMachine
from kernelstream.committee.members import Member
from kernelstream.committee.mixing import HighestMean, Mixing, NewtonStacking, RidgeStacking
from kernelstream.committee.novelty import DetectorMember, DetectorMemberRule, NoveltyMachine
from kernelstream.committee.wrapped import Wrapped
from kernelstream.committee.wrapped_machine import WrappedMachine

__all__ = [
    "AutoClassifier",
    "AutoDetector",
    "AutoRegressor",
    "Committee",
    "CommitteeClassifier",
    "CommitteeDetector",
    "CommitteeMachine",
    "CommitteeRegressor",
    "DetectorMember",
    "DetectorMemberRule",
    "HighestMean",
    "Member",
    "Mixing",
    "NewtonStacking",
    "NoveltyMachine",
    "RidgeStacking",
    "Wrapped",
    "WrappedMachine",
]
