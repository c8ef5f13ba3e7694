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


def draw_run(progress: Any, task: str, path: Path) -> None:
    """Plot the mean error, the recent error and the step size over the rows of a run."""
    rows, mean, recent, step, _ = np.array(progress.series).T
    name = {"classify": "error", "regress": "squared error", "novelty": "share of alarms"}[task]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 5), sharex=True, layout="constrained", height_ratios=[2, 1]
    )
    above.plot(rows, mean, color=BLUE, lw=1.8, label="all rows so far")
    above.plot(rows, recent, color=ORANGE, lw=1.2, label="the last 1,000")
    below.plot(rows, step, color=BLUE, lw=1.4)
    for event in progress.events:
        for axes in (above, below):
            axes.axvline(event, color=GREY, lw=0.8, ls=":")
    above.set(ylabel=f"mean {name}" if task != "novelty" else name)
    if task != "regress":
        above.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    above.set_ylim(bottom=0)
    below.set(xlabel="rows", ylabel="step size", yscale="log")
    above.legend(frameon=False)
    tidy(above, below)
    figure.savefig(path, dpi=130)
    plt.close(figure)
