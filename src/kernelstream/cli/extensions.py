"""Commands of other distributions, which declare them as entry points of `GROUP`."""

from importlib.metadata import EntryPoint, entry_points

import typer

__all__ = ["GROUP", "add_commands"]

GROUP = "kernelstream.commands"

# The commands of kernelstream-lab. Without it they say how to install it.
_OF_THE_LAB = "benchmark", "compare", "reproduce"

_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def add_commands(app: typer.Typer) -> None:
    """Add the commands of installed distributions, and messages for those that are missing."""
    found = {entry_point.name: entry_point for entry_point in entry_points(group=GROUP)}
    for name in sorted(found):
        _add(app, found[name])
    for name in _OF_THE_LAB:
        if name not in found:
            _add_refusal(
                app,
                name,
                f"the command {name} belongs to kernelstream-lab, which is not installed: "
                "pip install kernelstream-lab, or pip install ./lab in the source folder.",
            )


def _add(app: typer.Typer, entry_point: EntryPoint) -> None:
    """Add a command. If it cannot be imported, it says so when it is called."""
    try:
        command = entry_point.load()
    except Exception as error:
        owner = entry_point.dist.name if entry_point.dist else entry_point.value
        _add_refusal(
            app,
            entry_point.name,
            f"the command {entry_point.name} of {owner} cannot be imported "
            f"({type(error).__name__}: {error}): install {owner} again, or remove it.",
        )
    else:
        app.command(entry_point.name)(command)


def _add_refusal(app: typer.Typer, name: str, message: str) -> None:
    """Add a hidden command that takes any arguments and ends with a message."""

    @app.command(name, hidden=True, context_settings=_ANYTHING)
    def refuse() -> None:
        typer.echo(f"kernelstream: {message}", err=True)
        raise typer.Exit(1)
