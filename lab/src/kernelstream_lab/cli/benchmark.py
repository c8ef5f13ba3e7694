"""Runs the public benchmark: a progress bar, one table per task, and the files of the report."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kernelstream.parts import one_of
from kernelstream_lab.benchmark import CONTESTANTS, STREAMS, TASKS, Stream, run_all, write_report
from kernelstream_lab.benchmark.report import COLUMNS, Line, cells, summary
from kernelstream_lab.benchmark.run import QUICK_ROWS

__all__ = ["benchmark", "chosen_contestants", "chosen_streams", "list_all"]


def chosen_streams(task: str | None, names: str | None) -> list[Stream]:
    """Return the streams of a task, or the named ones, separated by commas."""
    if task is not None:
        one_of("--task", task, list(TASKS))
    wanted = _split(names)
    for name in wanted:
        one_of("--streams", name, list(STREAMS))
    found = [
        stream
        for name, stream in STREAMS.items()
        if (task is None or stream.task == task) and (not wanted or name in wanted)
    ]
    if not found:
        raise ValueError(
            f"--streams {names} has no stream of --task {task}: leave one of them out."
        )
    return found


def chosen_contestants(streams: list[Stream], names: str | None) -> list[str] | None:
    """Return the named contestants, separated by commas; None means all."""
    if names is None:
        return None
    known = {name for stream in streams for name in CONTESTANTS[stream.task]}
    return [one_of("--contestants", name, sorted(known)) for name in _split(names)]


def _split(names: str | None) -> list[str]:
    return [] if names is None else [name.strip() for name in names.split(",")]


def list_all(console: Console) -> None:
    """Print the streams, and the contestants of each task."""
    table = Table(box=None, pad_edge=False)
    for column in ("stream", "task", "half", "rows", "what it is"):
        table.add_column(column, no_wrap=column == "stream")
    for stream in STREAMS.values():
        table.add_row(stream.name, stream.task, stream.half, f"{stream.n_rows:,}", stream.about)
    console.print(table, highlight=False)
    for task, contestants in CONTESTANTS.items():
        console.print(f"\n{task}: {', '.join(contestants)}", highlight=False, soft_wrap=True)


def benchmark(
    streams: list[Stream], contestants: list[str] | None, out: Path, quick: bool, console: Console
) -> None:
    """Measure the missing results, print the tables, and write tables and picture."""
    columns = [
        BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    ]  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task_id = bar.add_task("")
        results = run_all(
            streams, contestants, out / ("quick" if quick else "results"),
            QUICK_ROWS if quick else None,
            lambda text, done, total: bar.update(
                task_id, description=text, completed=done, total=total
            ),
        )  # fmt: skip
    for task in TASKS:
        lines = summary(results, task)
        if lines:
            console.print(_table(task, lines), highlight=False)
    path = write_report(results, out)
    console.print(f"\nThe tables are in {path}, the picture beside them.", highlight=False)


def _table(task: str, lines: list[Line]) -> Table:
    measured = "area under the ROC curve" if task == "novelty" else TASKS[task]
    table = Table(
        title=f"\n{task}: {measured}", title_justify="left", box=None, padding=(0, 1, 0, 0),
        caption="bold: learners of kernelstream", caption_justify="left", pad_edge=False,
    )  # fmt: skip
    for column in COLUMNS:  # without the library they fit into 80 characters
        if column == "contestant":
            table.add_column(column, min_width=max(len(name) for name in CONTESTANTS[task]))
        elif column != "library":
            table.add_column(column, justify="right", width=max(6, *map(len, column.split())))
    for line in lines:
        name, library, *figures = cells(task, line)
        table.add_row(name, *figures, style="bold" if library == "kernelstream" else None)
    return table
