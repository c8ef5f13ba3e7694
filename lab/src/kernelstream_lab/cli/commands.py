"""The commands as functions: their options and help. The work is imported when they are called."""

from pathlib import Path
from typing import Annotated

import typer

from kernelstream.cli.messages import errors_as_messages
from kernelstream.cli.outputs import check_folder

__all__ = ["benchmark", "compare", "reproduce"]


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of experiments, or all.", show_default=False)
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List the experiments and exit.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder in which the data is looked for first.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for plots, tables and the page of all results.")
    ] = Path("kernelstream-results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random generator.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run for seconds, not minutes, on a part of the data.")
    ] = False,
) -> None:
    """Run the experiments of the papers again: plots, tables, and one page, results.html.

    The exit code is 1 if an experiment could not be run. A claim of a paper that does not hold here
    is reported, and is not a failure.
    """
    from rich.console import Console

    from kernelstream_lab.cli import reproduce as work

    if show_list:
        work.list_experiments(Console())
        return
    with errors_as_messages():
        check_folder("--out", out)
        done = work.reproduce(work.chosen(names or []), data, out, seed, quick)
    if not done:
        raise typer.Exit(1)


def compare(
    data: Annotated[
        str, typer.Option(help="Data set: usps or digits. Without usps, digits are used.")
    ] = "usps",
    out: Annotated[Path, typer.Option(help="Folder for the table and the plot.")] = Path(
        "kernelstream-compare"
    ),
    learners: Annotated[
        str | None, typer.Option(help="Presets, separated by commas; by default all classifiers.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Budget of all online learners; by default each preset's own."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of the rows.")] = 0,
) -> None:
    """Compare all classifiers on the same digits, shuffled and counting: a table and a plot."""
    from rich.console import Console

    from kernelstream_lab.cli.compare import compare as compare_learners

    with errors_as_messages():
        check_folder("--out", out)
        names = None if learners is None else [name.strip() for name in learners.split(",")]
        compare_learners(data, out, names, budget, seed, Console())


def benchmark(
    task: Annotated[
        str | None, typer.Option(help="classify, regress or novelty; by default all three.")
    ] = None,
    streams: Annotated[
        str | None, typer.Option(help="Streams, separated by commas; by default all.")
    ] = None,
    contestants: Annotated[
        str | None, typer.Option(help="Contestants, separated by commas; by default all.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for results, tables and picture; a rerun goes on there.")
    ] = Path("kernelstream-benchmark"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Use only the first 500 rows of each stream.")
    ] = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="List streams and contestants, and exit.")
    ] = False,
) -> None:
    """Compare this library with River and scikit-learn on public streams: tables and a picture.

    Every row is predicted, then learned. Nothing is downloaded. Results are kept in the folder, so
    that a run that was stopped goes on; a whole run takes half an hour.
    """
    from rich.console import Console

    from kernelstream_lab.cli import benchmark as work

    with errors_as_messages():
        if show_list:
            work.list_all(Console())
            return
        check_folder("--out", out)
        chosen = work.chosen_streams(task, streams)
        names = work.chosen_contestants(chosen, contestants)
        work.benchmark(chosen, names, out, quick, Console())
