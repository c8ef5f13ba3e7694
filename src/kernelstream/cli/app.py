"""The commands of the command line."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import kernelstream
from kernelstream.cli import arguments
from kernelstream.cli.extensions import add_commands
from kernelstream.cli.messages import errors_as_messages
from kernelstream.cli.serve import register as register_serve

app = typer.Typer(
    name="kernelstream",
    help="Kernel machines that learn from a stream and adapt their own step size.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelstream {kernelstream.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Kernel machines that learn from a stream and adapt their own step size."""


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the plot; it is created if it does not exist.")
    ] = Path("kernelstream-demo"),
) -> None:
    """Compare AutoClassifier, SVMD and NORMA on a drifting stream of digits: a table and a plot."""
    from kernelstream.cli.demo import run
    from kernelstream.cli.outputs import check_folder

    with errors_as_messages():
        check_folder("--out", out)
        run(out)


@app.command()
def run(
    source: arguments.Source,
    target: arguments.Target = None,
    key: arguments.Key = None,
    task: arguments.Task = None,
    algorithm: arguments.Algorithm = None,
    kernel: arguments.Kernel = None,
    gamma: arguments.Gamma = None,
    budget: arguments.Budget = None,
    loss: arguments.Loss = None,
    nu: arguments.Nu = None,
    prompt_targets: arguments.PromptTargets = False,
    categories: arguments.Categories = "onehot",
    scale: arguments.Scale = True,
    missing: arguments.Missing = None,
    features: arguments.Features = None,
    file_format: arguments.FileFormat = None,
    block: arguments.BlockRows = 1000,
    checkpoint: arguments.CheckpointFolder = None,
    checkpoint_rows: arguments.CheckpointRows = 10_000,
    model: arguments.ModelFile = None,
    plot: arguments.PlotFile = None,
    metrics: arguments.MetricsFile = None,
    bad_rows: arguments.BadRowsFile = None,
    to: arguments.ModelUrl = None,
    device: arguments.Device = None,
    token_file: arguments.TokenFile = None,
) -> None:
    """Learn a table as a stream: predict each row, then learn it.

    Bad rows are skipped and reported. The exit code is 0 for success, 1 for failure, and 130 if
    Ctrl-C stopped the run; with --checkpoint the same command then resumes it.
    """
    from rich.console import Console

    from kernelstream.cli.run import run as run_source
    from kernelstream.cli.run_options import TASKS, Options
    from kernelstream.parts import one_of

    with errors_as_messages():
        if to is not None:
            from kernelstream.cli.serve import feed_service

            typer.echo(feed_service(source, target, to, token_file, file_format, key))
            return
        one_of("--task", task or "classify", list(TASKS))
        params: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "budget": budget, "nu": nu}
        params["loss"], params["device"] = loss, device
        params["prompt_targets"] = prompt_targets or None
        options = Options(
            source=source, target=target, task=task or "classify", asks=task is None,
            algorithm=algorithm,
            params={name: value for name, value in params.items() if value is not None},
            form=file_format, n_features=features,
            hashed=one_of("--categories", categories, ["onehot", "hash"]) == "hash", scale=scale,
            missing=missing and one_of("--missing", missing, ["mean", "indicator", "skip"]),
            block_rows=block, checkpoint=checkpoint, checkpoint_rows=checkpoint_rows, model=model,
            plot=plot, metrics=metrics, bad_rows=bad_rows, key=key,
        )  # fmt: skip
        _, finished = run_source(options, Console(stderr=True))
    if not finished:
        again = "the same command goes on from here" if checkpoint else "nothing was kept"
        typer.echo(f"kernelstream: stopped; {again}.", err=True)
        raise typer.Exit(130)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A saved model, or a folder of checkpoints.")],
    source: arguments.Source,
    target: Annotated[
        str | None,
        typer.Option(help="Column of targets to leave out, where the model does not know it."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of keys of a fleet, where it does not know it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default standard output.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add a column with the probability of each class.")
    ] = False,
    std: Annotated[
        bool,
        typer.Option("--std", help="Add the standard deviation of the number that is predicted."),
    ] = False,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="csv, arff, libsvm, parquet, arrow, numpy, if the name does not say."
        ),
    ] = None,
    device: arguments.Device = None,
) -> None:
    """Predict every row of a table: one line per row with its number, prediction and score.

    A bad row has an empty prediction, is reported on standard error and is counted. The exit code
    is 0 if every other row was predicted, and 1 if the model or the source cannot be used.
    """
    from kernelstream.cli.outputs import check_outputs, replaced
    from kernelstream.cli.predict import newest
    from kernelstream.cli.predict import predict as predict_source

    with errors_as_messages():
        model = newest(model)
        check_outputs({"--out": out}, {"the table": source, "the model": model})
        options: dict[str, Any] = {
            "form": file_format,
            "proba": proba,
            "std": std,
            "device": device,
            "target": target,
            "key": key,
        }
        if out is None:
            n_rows, bad = predict_source(model, source, sys.stdout, **options)
        else:
            with replaced(out) as new, new.open("w", encoding="utf-8", newline="") as file:
                n_rows, bad = predict_source(model, source, file, **options)
        for line in bad:
            typer.echo(f"bad: {line}", err=True)
        typer.echo(f"{n_rows:,} rows, {len(bad):,} bad", err=True)


@app.command()
def info(
    model: Annotated[
        Path, typer.Argument(help="A saved model, a checkpoint, or a folder of checkpoints.")
    ],
) -> None:
    """Describe a saved model."""
    from kernelstream.cli.predict import describe

    with errors_as_messages():
        found = describe(model)
        width = max(map(len, found))
        for name, value in found.items():
            typer.echo(f"{name:<{width}}  {value}")


@app.command()
def parts(
    markdown: Annotated[bool, typer.Option(help="Print a page of Markdown.")] = False,
) -> None:
    """List the parts that models are made of: kernels, losses, step sizes, budgets, ..."""
    from kernelstream.cli.parts import as_markdown, rows

    if markdown:
        typer.echo(as_markdown())
        return
    widths = [max(len(row[i]) for row in rows()) for i in range(3)]
    for *columns, text in rows():
        cells = (cell.ljust(width) for cell, width in zip(columns, widths, strict=True))
        typer.echo("  ".join([*cells, text]))


@app.command()
def video(
    source: Annotated[
        Path, typer.Argument(help="Frames as .npz or .npy, or a video file (needs PyAV).")
    ],
    out: Annotated[Path, typer.Option(help="File for the masks, an .npz with the array `masks`.")],
    gif: Annotated[
        Path | None, typer.Option(help="File for a GIF of frames and masks side by side.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Name of the array of frames; by default `frames`, or the first one."),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="A preset for novelty detection.")] = "silk",
    budget: Annotated[int, typer.Option(min=1, help="Number of colours per pixel.")] = 20,
    width: Annotated[float, typer.Option(help="Kernel width, for colours in [0, 1].")] = 0.05,
    threshold: Annotated[
        float, typer.Option(help="A score below this share of the margin is foreground.")
    ] = 0.5,
    caution: Annotated[float, typer.Option(help="Weight with which foreground is learned.")] = 0.02,
) -> None:
    """Find what moves in the video of a static camera: one mask per frame."""
    from kernelstream.cli.outputs import check_outputs
    from kernelstream.cli.video import subtract
    from kernelstream.vision import BackgroundSubtractor

    with errors_as_messages():
        check_outputs({"--out": out, "--gif": gif}, {"the video": source})
        subtractor = BackgroundSubtractor(
            algorithm, budget=budget, width=width, threshold=threshold, caution=caution
        )
        done = subtract(source, out, gif, key, subtractor)
        typer.echo(
            f"{done['frames']:,} frames of {done['width']} x {done['height']}, "
            f"{done['frames per second']:.0f} per second, "
            f"{done['foreground']:.1%} foreground: {out}",
            err=True,
        )


@app.command()
def warmup(
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes at a time; by default one per core.")
    ] = None,
) -> None:
    """Compile the Auto estimators now, on all cores, so that their first call starts at once.

    The result is kept on disk, for this version of the library and this user.
    """
    import time

    from rich.console import Console
    from rich.progress import Progress

    from kernelstream.cli.warmup import warm_up

    begin = time.perf_counter()
    with errors_as_messages(), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)
        warm_up(
            jobs,
            lambda text, done, total: bar.update(
                task, description=text, completed=done, total=total
            ),
        )
    typer.echo(f"Compiled and kept in {time.perf_counter() - begin:.0f} s.")


register_serve(app, errors_as_messages)
add_commands(app)
