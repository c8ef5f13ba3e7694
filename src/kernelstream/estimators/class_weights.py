"""How much the rows of each class count."""

import math
import numbers
from typing import Any

import numpy as np

from kernelstream.estimators.labels import Labels, kind_of
from kernelstream.parts import warn_user

__all__ = ["class_weighted", "counts_from_json"]


def class_weighted(
    class_weight: Any, labels: Labels, codes: np.ndarray, weight: np.ndarray,
    counts: np.ndarray | None, whole_data: bool,
) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """Return the weights of rows times those of their classes, and each class's weight.

    `codes` are the labels as numbers, as a machine learns them, and `counts` the weight of every
    class before these rows. With `whole_data` there are no rows but these.
    """
    if class_weight is None:
        return weight, None
    positions = ((codes + 1.0) / 2.0 if labels.single_output else codes).astype(np.int64)
    if isinstance(class_weight, str) and class_weight == "balanced":
        total = np.zeros(len(labels))
        if counts is not None:
            total[: len(counts)] = counts
        return _balanced(positions, weight, total, whole_data)
    if not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight={class_weight!r} is none of what it may be: None, 'balanced', or a dict "
            "from labels to weights."
        )
    _look_for_strangers(class_weight, labels, whole_data)
    factors = np.array([_factor(class_weight.get(name, 1.0), name) for name in labels.names])
    return weight * (factors[positions] if len(factors) else 1.0), None


def _balanced(
    positions: np.ndarray, weight: np.ndarray, total: np.ndarray, whole_data: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return every row times n / (k n_c), as scikit-learn has it, with what is known at that row.

    n is the weight of all rows so far, this one included, n_c that of its class, and k how many
    classes there are so far. With `whole_data`, of all rows at once.
    """
    if whole_data:
        np.add.at(total, positions, weight)
        share = total.sum() / np.count_nonzero(total) / np.where(total > 0.0, total, 1.0)
        return weight * share[positions], total
    factors, known = np.ones(len(weight)), total.tolist()
    n, k = math.fsum(known), sum(count > 0.0 for count in known)
    for i, (position, own) in enumerate(zip(positions.tolist(), weight.tolist(), strict=True)):
        if own > 0.0:
            k += known[position] == 0.0
            known[position] += own
            n += own
            factors[i] = n / (k * known[position])
    return weight * factors, np.array(known)


def _look_for_strangers(class_weight: dict[Any, Any], labels: Labels, whole_data: bool) -> None:
    """Tell of weights for labels that do not come, which would have no effect."""
    strange = [name for name in class_weight if name not in labels.index]
    for name in strange if labels.names else []:
        if kind_of(name) is not kind_of(labels.names[0]):
            raise ValueError(
                f"class_weight has the label {name!r}, but the labels are like "
                f"{labels.names[0]!r}: give the weights by the labels as they are in y."
            )
    if strange and whole_data:  # in a stream they may come late
        warn_user(
            f"class_weight has the label {strange[0]!r}, which is not in y: its weight has no "
            "effect."
        )


def _factor(factor: Any, name: Any) -> float:
    if isinstance(factor, bool) or not isinstance(factor, numbers.Real) or not (
        0.0 < float(factor) < math.inf
    ):  # fmt: skip
        raise ValueError(
            f"class_weight={{{name!r}: {factor!r}}}: a weight is a number above zero. Leave rows "
            "out that are not to count."
        )
    return float(factor)


def counts_from_json(counts: Any, n_classes: int) -> np.ndarray | None:
    """Return the weight of every class from a file, checked."""
    if counts is None:
        return None
    found = np.array(counts, dtype=float)
    if found.shape != (n_classes,) or not np.isfinite(found).all() or (found < 0.0).any():
        raise ValueError(f"the weights of the classes so far are {counts!r}")
    return found
