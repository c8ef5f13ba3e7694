"""The options of ``kernelstream run``, and the state of a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["SERIES", "TASKS", "Options", "Progress"]

TASKS = {"classify": "classifier", "regress": "regressor", "novelty": "novelty"}
SERIES = ("rows", "error", "recent_error", "step_size", "n_support")  # what the plot needs
_MOST_LINES = 2000  # of the plot


@dataclass
class Options:
    """The options of the command."""

    source: str
    target: str | None
    task: str
    asks: bool = False  # whether --task was not given
    algorithm: str | None = None  # a preset; None or "auto": the committee
    params: dict[str, Any] = field(default_factory=dict)
    form: str | None = None
    n_features: int | None = None
    hashed: bool = False
    scale: bool = True
    missing: str | None = None  # "mean", "indicator" or "skip"; None: "mean"
    block_rows: int = 1000
    checkpoint: Path | None = None
    checkpoint_rows: int = 10_000
    model: Path | None = None
    plot: Path | None = None
    metrics: Path | None = None
    bad_rows: Path | None = None
    key: str | None = None


@dataclass
class Progress:
    """The state of a run: plain data, saved with every checkpoint."""

    n_rows: int = 0  # of the source, with bad rows
    n_learned: int = 0
    n_bad: int = 0
    error: float = 0.0  # sum over the learned rows
    recent: list[float] = field(default_factory=list)
    bad: list[list[str]] = field(default_factory=list)  # place and reason of the first bad rows
    # for the plot: a line for every block, or for every second one, every fourth, ...
    series: list[list[float | None]] = field(default_factory=list)
    series_step: int = 1  # blocks from one line to the next
    n_blocks: int = 0
    events: list[int] = field(default_factory=list)  # the last rows at which the stream changed
    n_events: int = 0
    baselines: dict[str, Any] = field(default_factory=dict)  # of `Baselines`
    columns: list[str] = field(default_factory=list)  # with the column of keys, if there is one

    @property
    def mean_error(self) -> float:
        """Return the mean error over all rows."""
        return self.error / self.n_learned if self.n_learned else float("nan")

    @property
    def recent_error(self) -> float:
        """Return the mean error over the last thousand rows."""
        return float(np.mean(self.recent)) if self.recent else float("nan")

    def note(self, model: Any) -> dict[str, Any]:
        """Record the state after a block, and return a line of the metrics."""
        line = {
            "rows": self.n_rows, "learned": self.n_learned, "bad": self.n_bad,
            "error": self.mean_error, "recent_error": self.recent_error,
            "step_size": getattr(model, "step_size_", None),
            "n_support": getattr(model, "n_support_", None),
        }  # fmt: skip
        if self.series and (self.n_blocks - 1) % self.series_step:  # the last is between
            self.series.pop()
        self.series.append([line[name] for name in SERIES])
        self.n_blocks += 1
        if len(self.series) > _MOST_LINES:
            self.series = self.series[::2]
            self.series_step *= 2
        return line
