"""Checks of what comes beside the rows."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from kernelstream.estimators.bad_rows import unmasked

__all__ = ["checked_weights", "require_weight"]


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return one weight for each row, all of them ones where none are given."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = check_array(
        unmasked(sample_weight), dtype=np.float64, ensure_2d=False, order="C", copy=True,
        input_name="sample_weight",
    )  # fmt: skip
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}: one number per row."
        )
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight contains {weight.min()}: negative values mean nothing here, give "
            "numbers of at least 0."
        )
    return weight


def require_weight(weight: np.ndarray) -> None:
    """Refuse data without any weight."""
    if not weight.size:
        raise ValueError("X has no rows: there is nothing to fit.")
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: there is nothing to fit.")
