"""How does a gradient become coefficients?

An update turns the loss at the current row into a move of f, of its trace v and of the intercept,

    f <- keep f + alpha . k(x, .)
    v <- keep_v v + cross f + beta . k(x, .)

It answers a `Decay`, what becomes of the old f and v, and writes the new point's coefficients into
a `Move`; the loop does what remains, the same way for every update. Updates that do not fit this
form name a loop of their own (`Update.loop`) or a solver for `fit` (`Update.solver`).

A new update is one new file in this folder, with the decorator ``part("update", name)``.
"""

from typing import Any

from kernelstream.parts import Unused, as_part, discover
from kernelstream.updates.adatron import Adatron
from kernelstream.updates.alma import ALMA
from kernelstream.updates.ballseptron import Ballseptron
from kernelstream.updates.base import Decay, Move, Row, Update, UpdateRule
from kernelstream.updates.dual import Dual
from kernelstream.updates.explicit import Explicit
from kernelstream.updates.implicit import Implicit
from kernelstream.updates.lasvm import LASVM
from kernelstream.updates.rls import RLS

__all__ = [
    "ALMA",
    "LASVM",
    "RLS",
    "Adatron",
    "Ballseptron",
    "Decay",
    "Dual",
    "Explicit",
    "Implicit",
    "Move",
    "Row",
    "Unused",
    "Update",
    "UpdateRule",
    "as_update",
]

discover(__name__, __path__)


def as_update(update: Any) -> Any:
    """Return an update part from its name or itself.

    Parameters
    ----------
    update : str or update part

    Examples
    --------
    >>> from kernelstream.updates import as_update
    >>> type(as_update("explicit")).__name__
    'Explicit'
    """
    return as_part("update", "update", update, Update)
