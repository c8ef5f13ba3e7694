"""Errors of a command, as one line for the user."""

import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["errors_as_messages"]

# Errors whose text says all that the caller needs to know.
_EXPLAINED = ValueError, TypeError, OSError, EOFError, ImportError, zipfile.BadZipFile, zlib.error


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print an error in one line on standard error, with exit code 1, or 130 for Ctrl-C."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has closed it
        sys.stderr.close()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        typer.echo("kernelstream: stopped.", err=True)
        raise typer.Exit(130) from None
    except MemoryError as error:
        typer.echo(f"kernelstream: there is not enough memory for that. {error}", err=True)
        raise typer.Exit(1) from None
    except _EXPLAINED as error:
        typer.echo(f"kernelstream: {error}", err=True)
        raise typer.Exit(1) from None
