"""The command line, for example ``kernelstream demo``."""

import logging
import sys
import warnings
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which package is missing."""
    try:
        from kernelstream.cli.app import app
    except ModuleNotFoundError as error:
        if error.name in ("typer", "rich", "matplotlib"):
            sys.exit(
                f"kernelstream: the command line needs {error.name}: "
                "pip install 'kernelstream[cli]'"
            )
        raise
    warnings.showwarning = _show_warning
    if sys.stderr is None or not sys.stderr.isatty():  # nobody waits for the compiler
        logging.getLogger("kernelstream.compile").setLevel(logging.ERROR)
    app()


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning in one line, without its location in the code."""
    if sys.stderr is not None:
        print(f"kernelstream: {message}", file=sys.stderr)
