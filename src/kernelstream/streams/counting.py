"""The counting sequence: digits in the order in which a decimal counter shows them."""

from typing import Any

import numpy as np

__all__ = ["counting"]


def counting(X: Any, y: Any, n_digits: int = 3, n_passes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Order images of digits so that they count: 000, 001, ... 999, and again.

    The share of each label changes all the time, at many time scales (section 6.2 of the SVMD
    paper). Each image is used at most once, in the order given.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The images.
    y : array-like of shape (n_samples,)
        The label of each image, a digit from 0 to 9.
    n_digits : int, default=3
        The number of digits of the counter.
    n_passes : int, default=2
        How often the counter runs from all zeros to all nines.

    Returns
    -------
    X, y : ndarray
        The reordered images and labels, ``n_passes * n_digits * 10**n_digits`` rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.streams import counting
    >>> y = np.repeat(np.arange(10), 20)
    >>> counting(np.arange(200)[:, None], y, n_digits=2, n_passes=1)[1][:8]
    array([0, 0, 0, 1, 0, 2, 0, 3])
    """
    X, y = np.asarray(X), np.asarray(y)
    numbers = np.arange(10**n_digits)
    shown = np.stack([numbers // 10**place % 10 for place in reversed(range(n_digits))], axis=1)
    sequence = np.tile(shown.ravel(), n_passes)
    order = np.empty(len(sequence), dtype=np.int64)
    for digit in range(10):
        wanted = np.flatnonzero(sequence == digit)
        there = np.flatnonzero(y == digit)
        if len(there) < len(wanted):
            raise ValueError(
                f"the sequence needs {len(wanted)} images of the digit {digit}, and y has "
                f"{len(there)}: use fewer passes or digits, or more data."
            )
        order[wanted] = there[: len(wanted)]
    return X[order], y[order]
