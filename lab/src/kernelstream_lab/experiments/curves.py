"""Runs of several learners over one stream, and plots like those of the papers."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.drawing import BLUE, GREY, ORANGE, PURPLE, in_percent, tidy
from kernelstream.evaluate import PrequentialResult, prequential
from kernelstream_lab.experiments.outcome import Check, Row
from kernelstream_lab.experiments.setting import Setting

__all__ = [
    "Learner", "about_half", "compare", "draw_average_error", "draw_error_and_step", "error_rows",
    "in_between", "in_percent", "numbers", "percent", "plot", "result_of", "spaced", "unit_rows",
]  # fmt: skip

# The line styles of the papers, with colours added.
_LINES = {
    "svmd": (BLUE, "-"), "single-step": (ORANGE, ":"), "norma": (GREY, "--"),
    "silk": (PURPLE, "-"), "svmd beside": (BLUE, "-."), "batch": ("black", "-."),
    "small": (GREY, ":"), "middle": (ORANGE, "--"), "large": (BLUE, "-"),
}  # fmt: skip


class Learner(NamedTuple):
    """A model, its label in the legend, and its line style in the figures."""

    label: str
    line: str
    model: Any


def percent(share: float, digits: int = 1) -> str:
    """Format a share: 0.169 as "16.9 %"."""
    return f"{100 * share:.{digits}f} %"


def numbers(values: Any) -> list[float]:
    """Round to five digits, as floats for JSON."""
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=float)]


def spaced(n_rows: int, n_points: int = 700) -> np.ndarray:
    """Return row numbers to draw: all early rows, and later ones evenly spaced on a log scale."""
    rows = np.unique(np.geomspace(1, n_rows, min(n_rows, n_points)).round().astype(int))
    return rows - 1


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Scale rows to unit length."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def result_of(result: PrequentialResult, line: str, rows: np.ndarray | None = None) -> dict:
    """Return the stored results of a run: errors and step sizes at some rows, and totals."""
    rows = spaced(len(result.errors)) if rows is None else rows
    return {
        "line": line,
        "row": (rows + 1).tolist(),
        "average_error": numbers(result.average_error[rows]),
        "step_size": numbers(result.step_sizes[rows]),
        "error": result.error_rate,
        "largest_step": float(result.step_sizes.max()),
    }


def compare(setting: Setting, learners: list[Learner], X: Any, y: Any) -> dict[str, dict]:
    """Run every learner once over the same stream, and return the results by label."""
    return {
        learner.label: result_of(prequential(learner.model, X, y), learner.line)
        for learner in setting.each(learners, lambda learner: learner.label)
    }


def error_rows(runs: dict[str, dict]) -> list[Row]:
    """Return table rows with the average error of every run, which the papers only draw."""
    return [
        Row(f"average error, {label}", "-", percent(run["error"])) for label, run in runs.items()
    ]


def about_half(runs: dict[str, dict]) -> tuple[Row, Check]:
    """Check that the first learner makes about half the errors of the last."""
    first, *_, last = (run["error"] for run in runs.values())
    ratio = percent(first / last, 0)
    return (
        Row("errors of SVMD, as a share of NORMA's", "about half", ratio),
        Check(
            "SVMD makes about half as many errors as NORMA (40 to 60 %).",
            0.4 <= first / last <= 0.6,
            f"{percent(first)} and {percent(last)}, that is {ratio}",
        ),
    )


def in_between(runs: dict[str, dict]) -> Check:
    """Check that the errors of the learners increase in the order given."""
    errors = [run["error"] for run in runs.values()]
    return Check(
        "SVMD makes the fewest errors, NORMA the most, and the single-step version is in between.",
        errors == sorted(errors) and len(set(errors)) == len(errors),
        ", ".join(percent(error) for error in errors),
    )


def plot(axes: Any, x: Any, y: Any, line: str, label: str | None = None, **options: Any) -> None:
    """Plot a line in the style of its learner."""
    colour, style = _LINES[line]
    axes.plot(x, y, **{"color": colour, "ls": style, "lw": 1.7, "label": label, **options})


_ERROR_TICKS = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]


def draw_average_error(axes: Any, runs: dict[str, dict]) -> None:
    """Plot the average error so far over the rows, both on a log scale."""
    for label, run in runs.items():
        shown = f"{label}: {percent(run['error'])}"
        plot(axes, run["row"], run["average_error"], run["line"], shown)
    lowest = min(min(run["average_error"][len(run["row"]) // 3 :]) for run in runs.values())
    axes.set(xscale="log", yscale="log", xlabel="rows seen", ylabel="average error so far")
    axes.set_yticks([tick for tick in _ERROR_TICKS if tick >= 0.5 * lowest])
    axes.set(xlim=(1, max(run["row"][-1] for run in runs.values())), ylim=(0.8 * lowest, 1.05))
    in_percent(axes.yaxis)


def draw_error_and_step(figure: Any, series: dict[str, Any]) -> None:
    """Plot average error (left) and step size (right): figures 3, 4 and 6 of the SVMD paper."""
    left, right = figure.subplots(1, 2)
    draw_average_error(left, series["runs"])
    for label, run in series["runs"].items():
        shown = f"{label}: {percent(run['error'])}"
        plot(right, run["row"], run["step_size"], run["line"], shown, lw=1.4)
    right.set(xscale="log", yscale="log", xlabel="rows seen", ylabel="step size")
    right.set(xlim=left.get_xlim())
    right.legend(frameon=False)
    tidy(left, right)
