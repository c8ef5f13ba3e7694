"""The command line: ``kernelstream demo``."""

import logging
import sys
import warnings
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
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
    if sys.stderr is None or not sys.stderr.isatty():  # only results and errors, where nobody looks
        logging.getLogger("kernelstream").setLevel(logging.ERROR)
    app()


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    """A warning in one line, without the place in the code."""
    if sys.stderr is not None:
        print(f"kernelstream: {message}", file=sys.stderr)
