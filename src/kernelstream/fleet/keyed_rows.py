"""The rows of a block that may be learned, each with its key."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.estimators.bad_rows import Sifted, problems_of_rows
from kernelstream.fleet.column_names import in_order
from kernelstream.fleet.keys import as_keys
from kernelstream.learner.rows import BadRow

__all__ = ["KeyedRows", "sifted_rows"]


class KeyedRows(NamedTuple):
    """The rows of a block that may be learned, each with its key."""

    keys: list[Any]
    X: Any
    y: Any
    weight: Any
    kept: np.ndarray  # which rows of the block they are
    bad: list[BadRow]  # the others
    n_rows: int  # of the block
    names: list[str] | None  # of the columns


def sifted_rows(fleet: Any, keys: Any, X: Any, y: Any, weight: Any) -> KeyedRows:
    """Return the rows of a block that a `KeyedFleet` may learn; raise for a bad row, or list it."""
    skips = fleet.prototype.skips_bad_rows()
    X, names = in_order(X, fleet.feature_names_, skips)
    found, problems = as_keys(keys)
    n_rows = X.shape[0] if hasattr(X, "shape") and X.shape else len(X)
    if len(found) != n_rows:
        raise ValueError(f"keys has {len(found)} entries, but X has {n_rows} rows.")
    if not skips:
        for row, problem in problems.items():
            raise BadRow(row, problem)
        return KeyedRows(found, X, y, weight, np.arange(n_rows), [], n_rows, names)
    allow_nan = fleet.prototype.missing != "error"
    sifted = Sifted(
        X, y, weight,
        lambda X: problems_of_rows(X, fleet.n_features, allow_nan), fleet.target_check(),
    )  # fmt: skip
    is_bad = {bad.row for bad in sifted.bad}
    sifted.kept = sifted.kept[[row not in problems for row in sifted.kept.tolist()]]
    bad = [BadRow(row, text) for row, text in problems.items() if row not in is_bad]
    found = [found[row] for row in sifted.kept.tolist()]
    return KeyedRows(found, *sifted.sound(), sifted.kept, [*sifted.bad, *bad], n_rows, names)
