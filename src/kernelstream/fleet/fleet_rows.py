"""Rows, targets and model numbers as a fleet takes them, checked."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from kernelstream.estimators.bad_rows import unmasked
from kernelstream.estimators.labels import Labels, as_labels
from kernelstream.fleet.records import Models

__all__ = ["checked_members", "checked_rows", "checked_targets", "target_numbers"]


def checked_members(models: Any, n_rows: int, n_models: int) -> np.ndarray | None:
    """Return which model each row is for; None: row i is for model i."""
    if models is None:
        if n_rows != n_models:
            raise ValueError(
                f"X has {n_rows} rows for {n_models} models: give one row for each, or "
                "say with models= which model each row is for."
            )
        return None
    members = np.asarray(models)
    if members.shape != (n_rows,) or members.dtype.kind not in "iu":
        raise ValueError(
            f"models has the shape {members.shape} and the type {members.dtype}: give one "
            f"whole number for each of the {n_rows} rows."
        )
    if n_rows and (members.min() < 0 or members.max() >= n_models):
        raise ValueError(
            f"models={models!r} names models that there are not: they go from 0 to {n_models - 1}."
        )
    return members.astype(np.int64)


def checked_rows(X: Any, models: Models, skips: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows as the models keep them, and which of them are bad.

    With `skips` bad rows are zero afterwards; otherwise the loop refuses them.
    """
    dtype = models.machine.dtype
    with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused later
        X = check_array(
            unmasked(X), dtype=dtype, order="C", ensure_all_finite=False, ensure_min_samples=0,
            input_name="X",
        )  # fmt: skip
    if X.shape[1] != models.n_given:
        raise ValueError(
            f"X has {X.shape[1]} features, but these models learn from rows of {models.n_given}."
        )
    bad = np.zeros(len(X), dtype=bool)
    if skips:
        with np.errstate(over="ignore", invalid="ignore"):
            bad = models.unfit(X)
        if bad.any():
            X = np.where(bad[:, None], 0.0, X).astype(dtype)
    return X, bad


def checked_targets(y: Any, n_rows: int, task: str) -> np.ndarray:
    """Return one target for each row: labels, or finite numbers."""
    if task == "novelty":
        return np.ones(n_rows)
    if y is None:
        raise ValueError(f"y is missing: task={task!r} needs the target of each row.")
    y = unmasked(y)
    if task == "classifier":
        y = as_labels(y)
    else:
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y")
    if y.shape != (n_rows,):
        raise ValueError(
            f"y has the shape {y.shape}, X has {n_rows} rows: give one target for each row."
        )
    return y


def target_numbers(y: np.ndarray, labels: Labels | None) -> np.ndarray:
    """Return targets as the numbers that models learn."""
    if labels is None:
        return y
    _, codes, new = labels.including(y)
    if new:
        raise ValueError(
            f"y contains the label {y.tolist()[new[0]]!r}, but the classes of this fleet are "
            f"{labels.names!r}: declare every class with classes=."
        )
    return codes
