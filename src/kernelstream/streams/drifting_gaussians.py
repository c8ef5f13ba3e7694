"""Two classes in the plane, each a mixture of two Gaussians that drift."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kernelstream.parts import integer_at_least, number

__all__ = ["drifting_gaussians"]

# The paper gives no formulas. The four Gaussians follow one path, in the range of its figure 1
# (left): upwards by 3000 in 2000 rows, and once to the right and to the left meanwhile. Sizes and
# speed are chosen so that its learners make as many mistakes as in figure 1 (middle), about 140 to
# 180.
_START = np.array([200.0, 200.0])
_SWING, _SWING_HEIGHT = 300.0, 3000.0
_HALF_SIDE = 130.0


def drifting_gaussians(
    n_rows: int = 2000, speed: float = 1.5, spread: float = 60.0, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return two classes in the plane, each a mixture of two Gaussians whose means drift.

    The means are the corners of a square; opposite corners belong to one class. The square moves
    upwards and swings sideways, so that the lower two Gaussians pass through the places of the
    upper two, which belong to the other class: a learner must forget. This is the stream of figure
    1 of the SILK paper. With an RBF kernel of ``gamma=1/31250`` (a width of 125) ILK makes about
    145 mistakes in 2000 rows, and 160 at best if it forgets nothing.

    Parameters
    ----------
    n_rows : int, default=2000
        The number of rows.
    speed : float, default=1.5
        How far the means move upwards per row. Zero makes the stream stationary.
    spread : float, default=60.0
        The standard deviation of each Gaussian.
    random_state : int, RandomState instance or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_rows, 2)
        The points.
    y : ndarray of shape (n_rows,)
        The classes -1 and +1.

    References
    ----------
    Cheng, Vishwanathan, Schuurmans, Wang, Caelli: Implicit Online Learning with Kernels. NIPS 2006.

    Examples
    --------
    >>> from kernelstream.streams import drifting_gaussians
    >>> X, y = drifting_gaussians(random_state=0)
    >>> (X[:100].mean(axis=0) // 100).tolist(), (X[-100:].mean(axis=0) // 100).tolist()
    ([2.0, 2.0], [1.0, 31.0])
    """
    integer_at_least("n_rows", n_rows, 1)
    number("speed", speed)
    number("spread", spread, at_least=0.0)
    random = check_random_state(random_state)
    y, half = random.choice([-1, 1], size=(2, n_rows))  # the class, and which of its Gaussians
    corners = _HALF_SIDE * np.stack([y * half, half], axis=1)
    height = speed * np.arange(n_rows)
    swing = _SWING * np.sin(2 * np.pi * height / _SWING_HEIGHT)
    means = _START + np.stack([swing, height], axis=1) + corners
    return means + spread * random.standard_normal((n_rows, 2)), y
