"""Random numbers that belong to a row or a feature: the same in blocks of any size."""

import numpy as np

from kernelstream.compile import helper

__all__ = ["integer", "uniform"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@helper
def integer(seed, counter):
    """Return a number below 2^53 for each counter: splitmix64 (Steele, Lea and Flood 2014)."""
    bits = np.uint64(seed) + np.uint64(counter) * _GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    bits = bits ^ (bits >> np.uint64(31))
    return np.int64(bits >> np.uint64(11))


@helper
def uniform(seed, row):
    """Return a number in [0, 1) for each row."""
    return integer(seed, row) * 2.0**-53
