"""The options of the commands that learn and predict, with their help."""

from pathlib import Path
from typing import Annotated

import typer

# What help lists, as text: to ask the registry would take longer than to show the help.
PRESETS = (
    "svmd, svmd-single-step, norma, ilk, silk, silk-md, pa, linear-pa, svrseq, sog-svr, "
    "sog-svr-paper, sog-svc, perceptron, averaged-perceptron, voted-perceptron, ballseptron, alma, "
    "pegasos, adatron, lasvm, smd-linear, adagrad, rls"
)
LOSSES = "hinge, log_loss, perceptron; epsilon_insensitive, huber, squared_error; novelty"

Source = Annotated[
    str,
    typer.Argument(
        help="CSV, ARFF or LIBSVM (also .gz, or - for standard input), Parquet, Arrow or NumPy."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Device for the model's support vectors, such as cuda; worth it from --budget 1024 on."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column to predict, by name or position; LIBSVM text needs none."),
]
Key = Annotated[str | None, typer.Option(help="Column of keys: one model is learned per key.")]
Task = Annotated[
    str | None,
    typer.Option(help="classify (the default for a target of labels), regress or novelty."),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "--preset",
        help=f"auto, a committee with nothing to tune (the default), or one of {PRESETS}.",
    ),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        help="The kernel of a single algorithm: rbf (the default), poly, linear, laplacian; see "
        "kernelstream parts."
    ),
]
Gamma = Annotated[
    float | None, typer.Option(help="gamma of the kernel; the default depends on the scaling.")
]
Budget = Annotated[
    int | None,
    typer.Option(
        help="Largest number of support vectors, of the largest member in a committee; by "
        "default 512, or what was chosen for the committee."
    ),
]
Loss = Annotated[
    str | None, typer.Option(help=f"The loss, one of {LOSSES}; the default depends on the task.")
]
Nu = Annotated[
    float | None, typer.Option(help="Share of rows that violate the margin or raise alarms.")
]
PromptTargets = Annotated[
    bool,
    typer.Option(
        "--prompt-targets",
        help="Add a member to the committee that repeats the last target, if targets are always "
        "known before the next row is predicted.",
    ),
]
Categories = Annotated[
    str,
    typer.Option(help="Encoding of text columns: onehot (hashed beyond 64 categories) or hash."),
]
Scale = Annotated[
    bool,
    typer.Option(help="Centre and scale numbers by the rows before. The committee always does."),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="A missing number or date: mean (the mean so far; the default), indicator (and a "
        "feature that says so), or skip (a bad row)."
    ),
]
Features = Annotated[
    int | None,
    typer.Option(min=1, help="Number of features of LIBSVM text; by default up to 1,048,576."),
]
FileFormat = Annotated[
    str | None,
    typer.Option(
        "--format", help="csv, arff, libsvm, parquet, arrow or numpy; by default by its name."
    ),
]
BlockRows = Annotated[int, typer.Option(min=1, help="Number of rows read at a time.")]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for checkpoints, from which the same command resumes."),
]
CheckpointRows = Annotated[int, typer.Option(min=1, help="Number of rows between two checkpoints.")]
ModelFile = Annotated[Path | None, typer.Option(help="Save the model to this file.")]
PlotFile = Annotated[Path | None, typer.Option(help="Plot error and step size to this file.")]
MetricsFile = Annotated[
    Path | None, typer.Option(help="Write one line of JSON per block to this file.")
]
BadRowsFile = Annotated[
    Path | None, typer.Option(help="Write one line of JSON per bad row to this file.")
]
ModelUrl = Annotated[
    str | None,
    typer.Option(help="URL of a service's model, which learns the rows instead."),
]
TokenFile = Annotated[Path | None, typer.Option(help="File with the service's token.")]
