"""Output files of commands: checked before the work begins, and replaced when it is done."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

from kernelstream.files.bytes import beside

__all__ = ["check_folder", "check_outputs", "replaced"]


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, str | Path | None]
) -> None:
    """Check the files that a command writes, before it opens any.

    Parameters
    ----------
    outputs : dict of Path or None
        The output files by option. No two of them may be the same file.
    inputs : dict of path-like or None
        The files that the command reads, by what they are. None of them may be an output.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        _check_file(option, path)
        for what, source in inputs.items():
            if source is not None and str(source) != "-" and _are_same(path, Path(source)):
                raise ValueError(f"{option} {path} is {what} itself: give another name.")
    for (first, path), (second, other) in combinations(given.items(), 2):
        if _are_same(path, other):
            raise ValueError(
                f"{first} {path} and {second} {other} are the same file: give each a name of its "
                "own."
            )


def _are_same(path: Path, other: Path) -> bool:
    """Return whether two paths lead to one file, which need not exist, also through links."""
    if path.exists() and other.exists():
        return path.samefile(other) and not _is_device(path)
    return path.resolve() == other.resolve()


def _is_device(path: Path) -> bool:
    """Return whether a path is a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file()


def _check_file(option: str, path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder: give the name of a file.")
    if not path.parent.is_dir():
        raise ValueError(
            f"{option} {path}: there is no folder {path.parent}: make it first, or give another "
            "name."
        )
    needed = path if _is_device(path) else path.resolve().parent
    if not os.access(needed, os.W_OK):
        raise ValueError(f"{option} {path}: {needed} may not be written: give another place.")


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary file, which takes the place of `path` if the block ends without an error.

    Parameters
    ----------
    path : Path
        Of a link, the file that it leads to is replaced. A device is written to as it is.
    """
    if _is_device(path):
        yield path
        return
    with beside(path.resolve()) as temporary:
        yield temporary


def check_folder(option: str, path: Path | None) -> None:
    """Check a folder that is created later if it does not exist."""
    if path is None:
        return
    there = next(folder for folder in (path, *path.parents, Path()) if folder.exists())
    if not there.is_dir():
        raise ValueError(f"{option} {path}: {there} is a file, not a folder: give another name.")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{option} {path}: {there} may not be written: give another place.")
