"""Columns of tables by name: every model of a fleet reads them in one order."""

from typing import Any

import numpy as np

from kernelstream.files.bytes import FileError
from kernelstream.tables.columns import Columns
from kernelstream.tables.frames import as_table, names_of

__all__ = ["in_order", "names_from_header", "refuse_other_columns"]


def in_order(X: Any, names: list[str] | None, skips: bool = False) -> tuple[Any, list[str] | None]:
    """Return rows as an array with the columns in the order of `names`, and these names.

    Parameters
    ----------
    X : array-like, data frame or list of dict
    names : list of str or None
        The columns that the models know. None: the first table says.
    skips : bool, default=False
        Whether a row with an entry that is not a number becomes a bad row, rather than an error.

    Returns
    -------
    X : array-like
        As it was given, if it has no names.
    names : list of str or None
    """
    found = names_of(X)
    table = None if found is None else as_table(X, names)
    if table is None:
        return X, names
    columns = Columns.of_numbers(table.names)
    problems = columns.problems(table) if skips else {}
    if not problems:
        return columns.encoded(table), table.names
    rows = np.full((table.n_rows, columns.width), np.inf)
    sound = np.array([row not in problems for row in range(table.n_rows)])
    rows[sound] = columns.encoded(table[sound])
    return rows, table.names


def refuse_other_columns(names: list[str] | None, others: list[str] | None, what: str) -> None:
    """Refuse models that learned from the same columns in another order, or from other columns."""
    if names is None or others is None or names == others:
        return
    raise ValueError(
        f"{what} learned from the columns {', '.join(others)}, and the first from "
        f"{', '.join(names)}: give all of them tables with the same columns in the same order."
    )


def names_from_header(header: dict[str, Any], n_features: int) -> list[str] | None:
    """Return the names of the columns that a file holds, checked."""
    names = header.get("feature_names")
    if names is None:
        return None
    if not (isinstance(names, list) and len(names) == n_features == len(set(names))):
        raise FileError(f"the file has the columns {names!r} for {n_features} features.")
    return [str(name) for name in names]
