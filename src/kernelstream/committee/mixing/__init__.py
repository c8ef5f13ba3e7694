"""How much does each member count?

A mixing is a scan over rows. At each row it is given the members' scores, says the mixed ones, and
then learns from the target. Two mixers with a short and a long memory stand side by side, and a
third of the same kind mixes the two: drifting streams need the first, stationary ones the second.
"""

from kernelstream.committee.mixing.base import Mixing
from kernelstream.committee.mixing.highest import HighestMean
from kernelstream.committee.mixing.newton import NewtonStacking
from kernelstream.committee.mixing.ridge import RidgeStacking

__all__ = ["HighestMean", "Mixing", "NewtonStacking", "RidgeStacking"]
