"""Labels that are no classes, and what many classes take in memory."""

from typing import Any

import numpy as np

from kernelstream.learner.state import arrays
from kernelstream.parts import warn_user

__all__ = ["look_like_numbers", "refuse_many_classes", "warn_of_ids"]

_MANY_CLASSES, _SHARE_OF_ROWS = 256, 0.9  # from here on labels look like ids
_MANY_NUMBERS = 50  # distinct numbers, from which on they may be a number to predict
_FEW_ROWS, _SHARE_OF_NUMBERS = 200, 0.5  # from so many rows on, so many of them are enough
_LARGEST = 2**32  # bytes that late classes may take
_COPIES = 15  # measured with AutoClassifier: room to grow, and what undoes a block
_HARMLESS = 100  # classes that need no closer look


def look_like_numbers(n_classes: int, n_rows: int) -> bool:
    """Return whether numbers that are labels nearly never repeat.

    Parameters
    ----------
    n_classes : int
        The number of distinct numbers.
    n_rows : int
    """
    share = _SHARE_OF_NUMBERS if n_rows >= _FEW_ROWS else _SHARE_OF_ROWS
    return n_classes >= _MANY_NUMBERS and n_classes >= share * n_rows


def warn_of_ids(n_classes: int, n_rows: int, are_numbers: bool = False) -> bool:
    """Warn if nearly every row has a class of its own; return whether it did.

    Parameters
    ----------
    n_classes, n_rows : int
    are_numbers : bool, default=False
        Whether the labels are numbers.
    """
    if n_classes >= _MANY_CLASSES and n_classes >= _SHARE_OF_ROWS * n_rows:
        what = (
            f"y has {n_classes:,} classes in {n_rows:,} rows, nearly one for every row: it looks "
            "like an identifier, from which nothing can be learned. Give the column that is to be "
            "predicted as y; for a number use AutoRegressor or KernelRegressor."
        )
    elif are_numbers and look_like_numbers(n_classes, n_rows):
        what = (
            f"y has {n_classes:,} distinct numbers in {n_rows:,} rows, and each becomes a class: "
            "to predict a number use AutoRegressor or KernelRegressor."
        )
    else:
        return False
    warn_user(what)
    return True


def refuse_many_classes(machine: Any, n_classes: int) -> None:
    """Refuse late classes that would take more memory than 4 GiB.

    Parameters
    ----------
    machine : Learner
    n_classes : int
        How many classes there will be.
    """
    if n_classes <= _HARMLESS:
        return
    needed = _COPIES * n_classes * _bytes_of_a_class(machine)
    if needed > _LARGEST:
        raise ValueError(
            f"y has {n_classes:,} classes so far, for which this model would take "
            f"{needed / 2**30:,.0f} GiB: to predict a number use AutoRegressor or KernelRegressor; "
            "for so many classes declare them by classes=, or use KernelClassifier with a small "
            "budget."
        )


def _bytes_of_a_class(machine: Any) -> float:
    """Return how much memory one output takes."""
    members = getattr(machine, "members", None)
    if members is not None:
        return sum(map(_bytes_of_a_class, members))
    state, n = getattr(machine, "state", None), getattr(machine, "n_outputs", 0)
    if state is None:
        return 0.0
    found = 0.0
    for _, array in arrays(state):
        shape = list(getattr(array, "shape", ()))
        if n in shape:
            shape.remove(n)
            found += float(np.prod(shape)) * array.itemsize
    return found
