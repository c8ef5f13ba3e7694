"""The counting sequence of USPS digits (section 6.2 of the SVMD paper), for two experiments."""

from typing import NamedTuple

import numpy as np

from kernelstream.streams import counting
from kernelstream_lab.experiments.setting import Setting

__all__ = ["Counter", "counter"]


class Counter(NamedTuple):
    """The stream, the shape of its images, the gamma of the kernel, and the rows per run."""

    X: np.ndarray
    y: np.ndarray
    shape: tuple[int, int]
    gamma: float
    rows_a_run: int


def counter(setting: Setting) -> Counter:
    """Return a stream with 600 of each digit, twice from 000 to 999; a quick run counts to 99.

    The training digits of USPS have too few eights and fives, so the test digits follow them.
    """
    digits = setting.usps()
    n_digits = setting.choose(3, 2)
    X, y = counting(
        np.concatenate([digits.X, digits.X_test]),
        np.concatenate([digits.y, digits.y_test]),
        n_digits=n_digits,
    )
    return Counter(X, y, digits.shape, digits.gamma(sigma=8, n_pixels=256), len(X) // 2)
