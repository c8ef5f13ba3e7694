"""The units in which a mixing of numbers measures, which change where the targets' do.

They are those of y until the level or the scale of the targets changes suddenly
(`kernelstream.scalings.breaks`). Then the members go on at the new level with what they know, and
so does the mixing: its units move so that the new targets are in them what the old ones were.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import helper
from kernelstream.scalings.breaks import CHANGED, COUNTS, deviation, faint, new_breaks

__all__ = ["Frame", "frame_deviation", "learn_frame", "new_frame", "to_frame"]

_FAR = 10.0  # standard deviations of the targets, beyond which they say less
_TRUSTED_ROWS = 20


class Frame(NamedTuple):
    """A number y is (y - zero) / unit; and the statistics of the targets."""

    zero: Any  # (1,)
    unit: Any  # (1,)
    n_rows: Any  # (1,)
    mean: Any  # (1,)
    square: Any  # (1,): the sum of squared deviations from it
    breaks: Any


def new_frame() -> Frame:
    """Return the units of y."""
    numbers = np.zeros((3, 1))
    return Frame(
        numbers[0], np.ones(1), np.zeros(1, np.int64), numbers[1], numbers[2], new_breaks()
    )


@helper
def frame_deviation(frame):
    """Return the standard deviation of the targets in these units; infinite: none is known."""
    n = frame.n_rows[0] - frame.breaks.n_before()
    sd = deviation(frame.square[0], max(n, 1), frame.mean[0])
    return sd / frame.unit[0] if sd > 0.0 else math.inf


@helper
def to_frame(frame, y):
    """Return a target in these units, an outlier as far as it is believed."""
    n, mean = frame.n_rows[0] - frame.breaks.n_before(), frame.mean[0]
    if n >= _TRUSTED_ROWS:
        sd = deviation(frame.square[0], n, mean)
        if sd > 0.0:
            y = mean + faint(y - mean, _FAR * sd)
    return (y - frame.zero[0]) / frame.unit[0]


@helper
def learn_frame(frame, y):
    """Count a target; return whether the mixing learns it."""
    n, mean = frame.n_rows[0] - frame.breaks.n_before(), frame.mean[0]
    sd = deviation(frame.square[0], max(n, 1), mean)
    verdict = frame.breaks.judge(frame.mean, frame.square, frame.n_rows, y)
    if verdict == COUNTS:
        away = y - mean
        if n >= _TRUSTED_ROWS and sd > 0.0:
            away = min(max(away, -_FAR * sd), _FAR * sd)
        frame.mean[0] = mean + away / (n + 1)
        frame.square[0] += away * away * n / (n + 1)
    elif verdict == CHANGED:
        n_next = frame.n_rows[0] - frame.breaks.n_before()
        growth = deviation(frame.square[0], n_next, frame.mean[0]) / sd
        if growth > 0.0:
            # the mean stays where it was in these units
            frame.zero[0] = frame.mean[0] - (mean - frame.zero[0]) * growth
            frame.unit[0] *= growth
    frame.n_rows[0] += 1
    return verdict == COUNTS
