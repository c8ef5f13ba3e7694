"""The targets of a table: labels as text, or numbers."""

import math
from typing import Any

import numpy as np

from kernelstream.cli.run_options import Options
from kernelstream.estimators.labels import as_written
from kernelstream.estimators.many_classes import look_like_numbers
from kernelstream.tables import Block, SourceError, as_float, shortened

__all__ = ["ask_for_task", "targets_of"]

_LONGEST_LABEL = 1000  # characters: in an array of labels each takes the memory of the longest
_FEW_ROWS = 30  # from which it cannot be told whether a target is a label
_SHARE_OF_NUMBERS = 0.9  # share of rows with a number of their own from which it is no label
_MOST_GRADES = 20  # distinct numbers with a fraction that may be labels


def targets_of(
    block: Block, options: Options, problems: dict[int, str]
) -> np.ndarray | None:  # fmt: skip
    """Return the targets of a block, and add the rows without a usable one to `problems`."""
    if options.task == "novelty":
        return None
    if block.target is None:
        columns = f" (of {', '.join(block.columns[:20])})" if block.columns else ""
        raise SourceError(
            f"--target is missing: name the column to predict{columns}, or give its position."
        )
    if options.task == "classify":
        labels = [_label(label) for label in block.target]
        for i, label in enumerate(labels):
            if not label:
                problems.setdefault(i, "it has no label")
            elif len(label) > _LONGEST_LABEL:
                problems.setdefault(
                    i, f"its label has {len(label):,} characters, of {_LONGEST_LABEL:,} at most"
                )
        _refuse_numbers(labels, options)
        return np.asarray(as_written([label[:_LONGEST_LABEL] for label in labels]))
    y = np.array([as_float(value) for value in block.target])
    for i in np.flatnonzero(~np.isfinite(y)).tolist():
        target = shortened(block.target[i])
        problems.setdefault(i, f"its target is {target}, which is not a number")
    return y


def ask_for_task(sample: Block, options: Options) -> None:
    """Raise if a number would be learned as labels and --task was not given."""
    if not options.asks or sample.target is None:
        return
    found = [label for label in map(_label, sample.target) if label]
    distinct = {label: as_float(label) for label in found}
    if len(found) < _FEW_ROWS or not all(map(math.isfinite, distinct.values())):
        return
    has_fractions = not all(number.is_integer() for number in distinct.values())
    if look_like_numbers(len(distinct), len(found)) or (
        has_fractions and len(distinct) > _MOST_GRADES
    ):
        raise SourceError(
            f"target {options.target!r} has {len(distinct):,} distinct numbers in {len(found):,} "
            "rows; pass --task regress to predict a number, or --task classify if they are labels."
        )


def _refuse_numbers(labels: list[str], options: Options) -> None:
    """Raise if the labels are measured numbers, nearly a different one in every row."""
    values = set(labels)
    if len(labels) < _FEW_ROWS or len(values) < _SHARE_OF_NUMBERS * len(labels):
        return
    numbers = [as_float(value) for value in values if value]
    if all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers):
        raise SourceError(
            f"target {options.target!r} has nearly a different number in every row, such as "
            f"{labels[0]}; pass --task regress to predict a number."
        )


def _label(label: Any) -> str:
    """Return a label as text, the same from all sources: 3 and 3.0 are "3", no label is ""."""
    if label is None or label != label:  # NaN
        return ""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)
