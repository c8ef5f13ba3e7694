"""How a part declares the arrays that it remembers."""

import math
from typing import Any, NamedTuple

__all__ = ["LARGEST_NUMBER", "LARGEST_SQUARE", "SLACK", "Field"]

# Where two outcomes differ by less than this, relative to the numbers compared, the decision goes
# the documented way. BLAS rounds a row in a tile differently from the row alone (about 1e-14);
# without slack that rounding would choose between them.
SLACK = 1e-12

# What learning may leave in a model, and so what a file may hold. Coefficients stay below 1e60, or
# 1e110 where points are projected, and are divided by a scalar of at least 1e-60; times a kernel
# value (1e100) they are still numbers. Their squares, and one over a distance squared, are larger.
LARGEST_NUMBER = 1e180
LARGEST_SQUARE = 1e300


class Field(NamedTuple):
    """One array of a part's state.

    `axes` names the sizes of the model that the array spans: "outputs", "points" (the slots),
    "points_and_one", "lines" (the coefficients that a point keeps), "functions" (f, or f and its
    trace), "features" (of a row), "few_features" (the same up to 64, else none), "scale", "tile"
    (rows that wait, one after the other), "six", "none". An array without axes holds one number.
    `fill` is the value of entries that nothing has written yet.
    `below` names the size that integers stay below; `least` and `largest` are what other numbers
    stay within; a file must respect them. `scratch`: working memory of one step, which no later
    step reads: it is neither saved nor checked. `beside_points`: it may live where the points do,
    on a device, since no loop of compiled code has to read it.

    Examples
    --------
    >>> from kernelstream.parts import Field
    >>> Field(("points",), 0.0).dtype
    <class 'float'>
    """

    axes: tuple[str, ...]
    fill: float | int
    dtype: Any = float
    below: str | None = None
    least: float = -math.inf
    largest: float = LARGEST_NUMBER
    scratch: bool = False
    beside_points: bool = False
