"""The plot of a run."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from kernelstream.drawing import BLUE, GREY, ORANGE, tidy

__all__ = ["check_picture", "draw_run"]


def check_picture(option: str, path: Path) -> None:
    """Raise an error if the suffix of a file name is not that of a known image format."""
    known = mpl.backend_bases.FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(
            f"{option} {path}: a picture's name ends with its kind, such as .png, .svg or .pdf."
        )


def draw_run(progress: Any, task: str, path: Path, kind: str) -> None:
    """Plot the mean error, the recent error and the step size over the rows of a run."""
    # None, for a model without a step size, becomes NaN
    rows, mean, recent, step, _ = np.array(progress.series, dtype=float).T
    name = {"classify": "error", "regress": "squared error", "novelty": "share of alarms"}[task]
    has_steps = bool(np.isfinite(step).any())
    figure, all_axes = plt.subplots(
        1 + has_steps, 1, figsize=(9, 5), sharex=True, layout="constrained", squeeze=False,
        height_ratios=[2, 1][: 1 + has_steps],
    )  # fmt: skip
    axes_of = list(all_axes[:, 0])
    above = axes_of[0]
    above.plot(rows, mean, color=BLUE, lw=1.8, label="all rows so far")
    above.plot(rows, recent, color=ORANGE, lw=1.2, label="the last 1,000")
    if has_steps:
        axes_of[1].plot(rows, step, color=BLUE, lw=1.4)
        axes_of[1].set(ylabel="step size", yscale="log")
    for event in progress.events:
        for axes in axes_of:
            axes.axvline(event, color=GREY, lw=0.8, ls=":")
    above.set(ylabel=f"mean {name}" if task != "novelty" else name)
    if task != "regress":
        above.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    above.set_ylim(bottom=0)
    axes_of[-1].set(xlabel="rows")
    above.legend(frameon=False)
    tidy(*axes_of)
    figure.savefig(path, dpi=130, format=kind)
    plt.close(figure)
