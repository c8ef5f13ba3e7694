"""A linear function of which a few weights change their sign, again and again."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kernelstream.parts import integer_at_least, number

__all__ = ["flipping_weights"]


def flipping_weights(
    n_rows: int = 20_000, n_features: int = 20, n_relevant: int = 5, every: int = 20,
    noise: float = 0.0, random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Make a regression stream with a few relevant features, whose weights flip sign.

    Features are standard normal. The first few count, with weights of size one, and every so many
    rows one of these changes its sign; the others never count. A learner should follow the first
    quickly and leave the others alone, which no single step size can do. This is the problem by
    which Sutton introduced step sizes per weight.

    Parameters
    ----------
    n_rows : int, default=20000
        The number of rows.
    n_features, n_relevant : int, default=20 and 5
        How many features there are, and how many of them count.
    every : int, default=20
        How many rows pass between two changes.
    noise : float, default=0.0
        The standard deviation of what is added to the targets.
    random_state : int, RandomState instance or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
        The rows.
    y : ndarray of shape (n_rows,)
        The targets.

    References
    ----------
    Sutton: Adapting Bias by Gradient Descent: An Incremental Version of Delta-Bar-Delta. AAAI 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.streams import flipping_weights
    >>> X, y = flipping_weights(40, random_state=0)
    >>> for rows in (slice(0, 20), slice(20, 40)):
    ...     np.linalg.lstsq(X[rows, :5], y[rows])[0].round().tolist()
    [-1.0, 1.0, 1.0, 1.0, 1.0]
    [-1.0, 1.0, -1.0, 1.0, 1.0]
    """
    integer_at_least("n_rows", n_rows, 1)
    integer_at_least("n_features", n_features, 1)
    integer_at_least("n_relevant", n_relevant, 1)
    integer_at_least("every", every, 1)
    number("noise", noise, at_least=0.0)
    if n_relevant > n_features:
        raise ValueError(
            f"n_relevant={n_relevant!r} is more than n_features={n_features!r}: choose fewer."
        )
    random = check_random_state(random_state)
    X = random.standard_normal((n_rows, n_features))
    change = np.arange(n_rows) // every
    flips = np.zeros((change[-1] + 1, n_relevant), int)
    flips[np.arange(len(flips)), random.randint(n_relevant, size=len(flips))] = 1
    weights = 1.0 - 2.0 * (np.cumsum(flips, axis=0) % 2)
    y = (X[:, :n_relevant] * weights[change]).sum(axis=1)
    return X, y + noise * random.standard_normal(n_rows)
