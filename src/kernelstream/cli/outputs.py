"""Checks, before the work begins, that a command can write its output files."""

import os
from pathlib import Path

__all__ = ["check_file", "check_folder"]


def check_file(option: str, path: Path | None, source: str = "", replaced: bool = False) -> None:
    """Check a file that is written later. It must not be the `source`, which would be lost.

    `replaced` means that a temporary file is renamed to it, which would replace a device.
    """
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder: give the name of a file.")
    if replaced and path.exists() and not path.is_file():
        raise ValueError(f"{option} {path} is not an ordinary file: give another name.")
    if not path.parent.is_dir():
        raise ValueError(
            f"{option} {path}: there is no folder {path.parent}: make it first, or give another "
            "name."
        )
    if path.exists() and source and Path(source).exists() and path.samefile(source):
        raise ValueError(f"{option} {path} is the table itself: give another name.")
    needed = path if path.exists() and not replaced else path.parent
    if not os.access(needed, os.W_OK):
        raise ValueError(f"{option} {path}: {needed} may not be written: give another place.")


def check_folder(option: str, path: Path | None) -> None:
    """Check a folder that is created later if it does not exist."""
    if path is None:
        return
    there = next(folder for folder in (path, *path.parents, Path()) if folder.exists())
    if not there.is_dir():
        raise ValueError(f"{option} {path}: {there} is a file, not a folder: give another name.")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{option} {path}: {there} may not be written: give another place.")
