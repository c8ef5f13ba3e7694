"""How much is enough?

The margin of hinge and novelty losses, epsilon or sigma in regression: fixed, or moved by the
nu-trick so that a share nu of the rows violates it. Two learners bring margins of their own: one
that shrinks (ALMA), and one that is a distance (Ballseptron).

A new margin is one new file in this folder, with the decorator ``part("margin")``.
"""

from typing import Any

from kernelstream.margins.ball import Ball
from kernelstream.margins.base import Margin, MarginRule, MarginState
from kernelstream.margins.fixed import Fixed
from kernelstream.margins.nu import Nu
from kernelstream.margins.shrinking import Shrinking
from kernelstream.parts import discover, number

__all__ = ["Ball", "Fixed", "Margin", "MarginRule", "MarginState", "Nu", "Shrinking", "as_margin"]

discover(__name__, __path__)


def as_margin(margin: Any, nu: Any, default: Any) -> Any:
    """Return a margin part from `margin` (a number, a part, or None) and `nu` (a number or None).

    Parameters
    ----------
    margin : float, margin part or None
    nu : float or None
    default : float
        The margin where neither is given.

    Examples
    --------
    >>> from kernelstream.margins import as_margin
    >>> as_margin(None, 0.1, 1.0).nu, as_margin(2.0, None, 1.0).value
    (0.1, 2.0)
    """
    if nu is not None:
        if margin is not None:
            raise ValueError(
                f"nu={nu!r} and margin={margin!r} were both given: nu={nu!r} is short for "
                f"margin=Nu({nu!r}); keep one of the two."
            )
        return Nu(nu)
    if margin is None:
        margin = default
    if isinstance(margin, Margin):
        margin.check()
        return margin
    return Fixed(number("margin", margin, at_least=0))
