"""The errors of the simplest predictions, with which a model's error is compared."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Baselines"]


@dataclass
class Baselines:
    """The errors of two baselines: the most frequent label or the mean so far, and the last target.

    It is plain data, saved with every checkpoint.
    """

    n_rows: int = 0
    constant_error: float = 0.0  # sums over the rows
    last_error: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)  # of labels
    total: float = 0.0  # of numbers
    last: Any = None

    def look(self, y: np.ndarray, are_labels: bool) -> None:
        """Predict the targets of some rows in turn, and count them."""
        for target in y.tolist():
            (self._look_at_label if are_labels else self._look_at_number)(target)
            self.last = target
            self.n_rows += 1

    def _look_at_label(self, label: str) -> None:
        best = max(self.counts, key=self.counts.__getitem__, default=None)
        self.constant_error += label != best
        self.last_error += label != self.last
        self.counts[label] = self.counts.get(label, 0) + 1

    def _look_at_number(self, y: float) -> None:
        self.constant_error += (y - self.total / max(self.n_rows, 1)) ** 2
        self.last_error += (y - (0.0 if self.last is None else self.last)) ** 2
        self.total += y

    def means(self) -> tuple[float, float]:
        """Return the mean errors of both baselines."""
        return self.constant_error / self.n_rows, self.last_error / self.n_rows
