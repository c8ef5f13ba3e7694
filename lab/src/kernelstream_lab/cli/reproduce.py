"""Runs the experiments of the papers by name, with plots and one page of all results."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kernelstream.datasets import DatasetError
from kernelstream_lab.experiments import Experiment, all_experiments, find
from kernelstream_lab.experiments.files import write
from kernelstream_lab.experiments.outcome import Outcome
from kernelstream_lab.experiments.page import write_page

__all__ = ["chosen", "list_experiments", "reproduce"]


@dataclass(frozen=True)
class _Run:
    """The result of one experiment. Without an outcome, `problem` says why."""

    experiment: Experiment
    seconds: float
    outcome: Outcome | None = None
    problem: str = ""
    failed: bool = False


def chosen(names: list[str]) -> list[Experiment]:
    """Return the experiments with these names; "all" means all of them."""
    if not names:
        raise ValueError(
            "no experiment was named: give names, or 'all'; --list shows what there is."
        )
    return all_experiments() if names == ["all"] else [find(name) for name in names]


def list_experiments(console: Console) -> None:
    """Print one line per experiment."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "original", "question"):
        table.add_column(column, no_wrap=column == "name")
    for experiment in all_experiments():
        where = f"{experiment.paper.rpartition('. ')[2]}, {experiment.figure}"
        table.add_row(experiment.name, where, experiment.question)
    console.print(table, highlight=False)


def reproduce(
    experiments: list[Experiment], data: Path | None, out: Path, seed: int, quick: bool
) -> bool:
    """Run experiments, write their files and the page, and return whether none failed."""
    console = Console()
    runs = []
    with _progress(len(experiments)) as tell:
        for position, experiment in enumerate(experiments):
            begun = partial(_tell_of, tell, experiment.name, position)
            runs.append(_attempt(experiment, data, out, seed, quick, begun))
    console.print(_summary(runs))
    for remark in _remarks(runs):
        console.print(f"\n{remark}", highlight=False, markup=False)
    if any(run.outcome for run in runs):
        console.print(f"\nThe page is {write_page(out)}", highlight=False, soft_wrap=True)
    return not any(run.failed for run in runs)


def _tell_of(
    tell: Callable[[str, float], None], name: str, position: int, text: str, share: float
) -> None:
    """Report the progress of one experiment as a part of the progress of all."""
    tell(f"{name}: {text}", position + share)


def _attempt(
    experiment: Experiment, data: Path | None, out: Path, seed: int, quick: bool,
    tell: Callable[[str, float], None],
) -> _Run:  # fmt: skip
    """Run one experiment; an error in it does not stop the others."""
    begin = time.perf_counter()
    try:
        outcome = experiment.run(data=data, seed=seed, quick=quick, progress=tell)
        seconds = round(time.perf_counter() - begin, 1)
        circumstances = {"seed": seed, "quick": quick, "seconds": seconds}
        write(experiment, outcome, circumstances, out)
    except DatasetError as error:  # only a full run needs all data sets
        kind = "skipped: data not found" if quick else "failed: data not found"
        return _Run(experiment, 0.0, problem=f"{kind}: {error}", failed=not quick)
    except Exception:
        return _Run(experiment, 0.0, problem=f"failed:\n{traceback.format_exc()}", failed=True)
    return _Run(experiment, seconds, outcome)


def _summary(runs: list[_Run]) -> Table:
    table = Table(title="The papers' experiments")
    table.add_column("experiment", no_wrap=True)
    for column in ("checks", "hold", "seconds"):
        table.add_column(column, justify="right")
    for run in runs:
        if run.outcome is None:
            table.add_row(run.experiment.name, run.problem.split(":")[0], "", "")
            continue
        holding = [check.holds for check in run.outcome.checks]
        table.add_row(
            run.experiment.name, f"{len(holding)}", f"{sum(holding)}", f"{run.seconds:.1f}"
        )
    return table


def _remarks(runs: list[_Run]) -> list[str]:
    """Return the claims that do not hold, and the experiments that did not run."""
    broken = [
        f"{run.experiment.name} does not show: {check.statement} ({check.evidence})"
        for run in runs
        if run.outcome is not None
        for check in run.outcome.checks
        if not check.holds
    ]
    return broken + [f"{run.experiment.name} {run.problem}" for run in runs if run.problem]


@contextmanager
def _progress(n_experiments: int) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar over all experiments on a terminal, and nothing elsewhere."""
    console = Console(stderr=True)
    columns: list[Any] = [BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=n_experiments)
        yield lambda text, done: bar.update(task, completed=done, description=text)
