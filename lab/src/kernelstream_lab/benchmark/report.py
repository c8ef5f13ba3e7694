"""The results as tables in Markdown and one picture."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream.drawing import BLUE, GREY, ORANGE, PURPLE, in_percent, tidy
from kernelstream_lab.benchmark.contestants import CONTESTANTS, START_ROWS
from kernelstream_lab.benchmark.run import Result
from kernelstream_lab.benchmark.streams import STREAMS, TASKS

__all__ = ["COLUMNS", "Line", "Means", "as_markdown", "cells", "draw", "summary", "write_report"]

BEST_PEER = "(the best peer on each stream)"
_TITLES = {
    "classify": "Classification: error",
    "regress": "Regression: RMSE over that of the running mean",
    "novelty": "Novelty: AUC",
}
_COLOURS = {"kernelstream": BLUE, "River": ORANGE, "scikit-learn": PURPLE, "baseline": GREY}


class Means(NamedTuple):
    """Mean errors over the streams of each half, and the mean rank over all streams."""

    choosing: float
    reporting: float
    rank: float

    @property
    def error(self) -> float:
        """Return the mean over both halves, or over the only one."""
        return float(np.nanmean([self.choosing, self.reporting]))


class Line(NamedTuple):
    """A contestant over all streams of a task."""

    name: str
    library: str
    start: Means  # over the first rows of each stream, `START_ROWS`
    whole: Means  # over all rows: NaN for slow learners
    microseconds: float  # median over the streams


def _of_task(results: list[Result], task: str) -> dict[tuple[str, str], Result]:
    return {(found.contestant, found.stream): found for found in results if found.task == task}


def summary(results: list[Result], task: str) -> list[Line]:
    """Return a line per contestant that was run on all streams, and one for the best peers.

    The best come first. Equal errors share the mean of their ranks.
    """
    found = _of_task(results, task)
    streams = [name for name in STREAMS if any(stream == name for _, stream in found)]
    names = [
        name for name in CONTESTANTS[task] if all((name, stream) in found for stream in streams)
    ]
    if not streams or not names:
        return []
    start = np.array([[found[n, s].start_error for s in streams] for n in names])
    whole = np.array([[_on_all_rows(found[n, s]) for s in streams] for n in names])
    is_chosen = np.array([STREAMS[stream].half == "choosing" for stream in streams])
    libraries = [CONTESTANTS[task][name].library for name in names]
    lines = [
        Line(
            name, library, _means(start[i], _ranks(start)[i], is_chosen),
            _means(whole[i], _ranks(whole)[i], is_chosen),
            float(np.median([found[name, stream].microseconds for stream in streams])),
        )
        for i, (name, library) in enumerate(zip(names, libraries, strict=True))
    ]  # fmt: skip
    lines.sort(key=lambda line: line.start.error)
    peers = [library in ("River", "scikit-learn") for library in libraries]
    if any(peers):
        none = np.full(len(streams), np.nan)
        best = [_means(np.fmin.reduce(errors[peers]), none, is_chosen) for errors in (start, whole)]
        lines.append(Line(BEST_PEER, "", best[0], best[1], np.nan))
    return lines


def _ranks(errors: np.ndarray) -> np.ndarray:
    """Return the rank of each contestant on each stream, among those that ran on all rows."""
    takes_part = ~np.isnan(errors).any(axis=1)
    there = errors[takes_part]
    larger, equal = there[:, None] > there, there[:, None] == there
    ranks = np.full(errors.shape, np.nan)
    ranks[takes_part] = larger.sum(axis=1) + (equal.sum(axis=1) + 1) / 2
    return ranks


def _means(errors: np.ndarray, ranks: np.ndarray, is_chosen: np.ndarray) -> Means:
    choosing, reporting = (
        float(half.mean()) if half.size else np.nan
        for half in (errors[is_chosen], errors[~is_chosen])
    )
    return Means(choosing, reporting, float(ranks.mean()))


def _on_all_rows(result: Result) -> float:
    n_used = int(result.rows.split(", ")[1])
    most = CONTESTANTS[result.task][result.contestant].most_rows
    was_cut = most == n_used and STREAMS[result.stream].n_rows > n_used
    return np.nan if was_cut else result.error


def shown(task: str, error: float) -> str:
    """Format an error: a percentage, a ratio, or the AUC."""
    if np.isnan(error):
        return "-"
    if task == "classify":
        return f"{error:.1%}"
    return f"{error:.3f}" if task == "regress" else f"{1 - error:.3f}"


COLUMNS = [
    "contestant", "library", "choosing", "reporting", "rank",
    "choosing, all rows", "reporting, all rows", "rank, all rows", "us per row",
]  # fmt: skip


def cells(task: str, line: Line) -> list[str]:
    """Return the cells of a line of the summary."""
    found = [line.name, line.library]
    for means in (line.start, line.whole):
        found += [shown(task, means.choosing), shown(task, means.reporting)]
        found.append("-" if np.isnan(means.rank) else f"{means.rank:.1f}")
    return [*found, "-" if np.isnan(line.microseconds) else f"{line.microseconds:,.0f}"]


def winners(results: list[Result], task: str) -> list[list[str]]:
    """Return for each stream its half, our best contestant, the best peer, the better baseline."""
    found = _of_task(results, task)
    lines = []
    for name, stream in STREAMS.items():
        there = [result for (_, s), result in found.items() if s == name]
        if not there:
            continue
        line = [name, stream.half]
        for libraries in (("kernelstream",), ("River", "scikit-learn"), ("baseline",)):
            some = [r for r in there if CONTESTANTS[task][r.contestant].library in libraries]
            best = min(some, key=lambda result: result.start_error, default=None)
            line.append(
                "-" if best is None else f"{shown(task, best.start_error)} {best.contestant}"
            )
        lines.append([*line, stream.about])
    return lines


_WINNERS = ["stream", "half", "our best", "best peer", "better baseline", "what it is"]


def as_markdown(results: list[Result]) -> str:
    """Return all tables, and the contestants that failed, as Markdown."""
    pieces = []
    for task, title in _TITLES.items():
        lines = summary(results, task)
        if not lines:
            continue
        pieces.append(f"## {title}\n")
        pieces.append(_markdown(COLUMNS, [cells(task, line) for line in lines], n_left=2))
        pieces.append(_markdown(_WINNERS, winners(results, task), n_left=len(_WINNERS)))
    pieces += [
        f"- {found.contestant} failed on {found.stream}: {found.problem}"
        for found in results
        if found.problem
    ]
    return "\n".join(pieces)


def _markdown(head: list[str], lines: list[list[str]], n_left: int) -> str:
    rule = ["---"] * n_left + ["---:"] * (len(head) - n_left)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines]) + "\n"


def draw(results: list[Result], path: Path) -> None:
    """Draw time against error: one plot for each task, one point for each contestant."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = {task: summary(results, task) for task in TASKS}
    tasks = [task for task in TASKS if found[task]]
    figure, plots = plt.subplots(
        1, len(tasks), figsize=(5.6 * len(tasks), 5.4), layout="constrained", squeeze=False
    )
    for axes, task in zip(plots[0], tasks, strict=True):
        _draw_task(axes, task, [line for line in found[task] if line.library])
    tidy(*plots[0])
    handles = [
        plt.Line2D([], [], marker="o", ls="", color=colour, label=library)
        for library, colour in _COLOURS.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_task(axes: Any, task: str, lines: list[Line]) -> None:
    values = [1 - line.start.error if task == "novelty" else line.start.error for line in lines]
    times = [max(line.microseconds, 0.1) for line in lines]
    for line, time, value in zip(lines, times, values, strict=True):
        axes.plot(time, value, "o", color=_COLOURS[line.library], ms=6)
    axes.set(xscale="log", xlabel="microseconds per row", title=_TITLES[task])
    if task == "classify":
        in_percent(axes.yaxis)
    if task == "regress":
        axes.set(yscale="log")
        for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            axis(lambda value, place: f"{value:.2g}")
    # names stand in a column on the right, in the order of their values, each tied to its point
    axes.margins(y=0.03)
    place = axes.transData + axes.transAxes.inverted()
    order = np.argsort(values)
    heights = [place.transform((times[i], values[i]))[1] for i in order]
    for i, height in zip(order, _apart(heights, gap=0.045), strict=True):
        colour = _COLOURS[lines[i].library]
        axes.annotate(
            lines[i].name, (times[i], values[i]), xytext=(1.03, height),
            textcoords="axes fraction", fontsize=8, va="center", color=colour,
            arrowprops={
                "arrowstyle": "-", "lw": 0.4, "color": colour, "shrinkA": 1, "shrinkB": 4,
                "relpos": (0.0, 0.5),
            },
        )  # fmt: skip


def _apart(heights: list[float], gap: float) -> list[float]:
    """Move rising heights so that neighbours are a gap apart and the last is at most one."""
    moved = list(heights)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    limit = 1.0
    for i in reversed(range(len(moved))):
        moved[i] = limit = min(moved[i], limit)
        limit -= gap
    return moved


def write_report(results: list[Result], folder: Path) -> Path:
    """Write the tables and the picture; returns the path of the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(results, folder / "benchmark.png")
    path = folder / "benchmark.md"
    note = (
        "Each row is predicted, then learned. Errors are those of the first "
        f"{START_ROWS:,} rows of each stream, and slow learners are run on no more; then those of "
        "all rows. Times are processor time on one core.\n"
    )
    path.write_text(f"# Benchmark\n\n{note}\n{as_markdown(results)}\n", encoding="utf-8")
    return path
