"""The page of the command line, written from the commands themselves."""

import typer.main
from made_page import setup_of

TITLE = """# The command line

This page is generated from the commands of this version.
`kernelstream COMMAND --help` shows the same. The commands `benchmark`, `compare` and `reproduce`
belong to a second distribution, kernelstream-lab.
"""


def in_cell(text):
    """A text that is safe in a cell of a table."""
    return " ".join(str(text or "").split()).replace("|", "\\|")


def default_of(option, context):
    value = option.get_default(context, call=False)
    if value is None or value is False or callable(value) or value == ():
        return ""
    return f"`{value}`"


def usage_of(name, command, context):
    return " ".join(["kernelstream", name, *command.collect_usage_pieces(context)])


def section_of(name, command):
    """What a command does, how it is called, its arguments and its options."""
    # Click itself, or the copy of it that Typer may bring: each has a context of its own.
    context = command.context_class(command, info_name=name)
    lines = [
        f"## {name}",
        "",
        command.help or "",
        "",
        "```",
        usage_of(name, command, context),
        "```",
        "",
    ]
    parameters = [p for p in command.get_params(context) if "--help" not in p.opts]
    if not parameters:
        return lines
    lines += ["| parameter | default | what it does |", "|---|---|---|"]
    for parameter in parameters:
        is_option = parameter.param_type_name == "option"
        names = (
            ", ".join(f"`{n}`" for n in [*parameter.opts, *parameter.secondary_opts])
            if is_option
            else f"`{parameter.name.upper()}`"
        )
        help_text = in_cell(getattr(parameter, "help", ""))
        lines.append(f"| {names} | {in_cell(default_of(parameter, context))} | {help_text} |")
    return [*lines, ""]


def page():
    from kernelstream.cli.app import app

    group = typer.main.get_command(app)
    lines = [TITLE]
    for name, command in group.commands.items():
        if not command.hidden:
            lines += section_of(name, command)
    return "\n".join(lines)


setup = setup_of("command_line.md", page)
