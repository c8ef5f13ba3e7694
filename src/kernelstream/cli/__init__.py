"""The command line: ``kernelstream demo``."""

import sys

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
    app()
