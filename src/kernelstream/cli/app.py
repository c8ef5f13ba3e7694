"""The commands."""

from pathlib import Path
from typing import Annotated

import typer

import kernelstream

app = typer.Typer(
    name="kernelstream",
    help="Kernel machines that learn from a stream and set their own step size.",
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
    """Kernel machines that learn from a stream and set their own step size."""


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="The folder for the plot; it is made if it is not there.")
    ] = Path("kernelstream-demo"),
) -> None:
    """SVMD against NORMA on a drifting stream of digits: a table and a plot."""
    from kernelstream.cli.demo import run

    run(out)
