"""A disk that fails at the n-th thing that is done to it, or that is copied before each of them.

A copy is what a crash at this moment leaves. Counted are: files that are opened to be written, both
halves of every write, fsync, rename, delete, temporary files, and the statements of a store.
"""

import errno
import os
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelstream.fleet.store import ModelStore


class Disk:
    """What is done to the files below a folder, one thing after the other."""

    def __init__(self, folder, before_each):
        self.folder, self.before_each = str(Path(folder).resolve()), before_each
        self.n_done = 0

    def count(self, what, path):
        if path is None or str(Path(path).resolve()).startswith(self.folder):
            self.n_done += 1
            self.before_each(self.n_done - 1, what)


class _File:
    """A file that is open to be written."""

    def __init__(self, file, path, disk):
        self._file, self._path, self._disk = file, path, disk

    def write(self, data):
        half = len(data) // 2
        self._disk.count("write", self._path)
        done = self._file.write(data[:half])
        self._disk.count("write the rest", self._path)
        return done + self._file.write(data[half:])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


class _Connection:
    """The connection of a store."""

    def __init__(self, connection, disk):
        self._connection, self._disk = connection, disk

    def _counted(self, name, *arguments):
        try:
            if not str(arguments[0]).startswith("SELECT"):
                self._disk.count("store", None)
        except OSError as error:
            raise sqlite3.OperationalError(f"disk I/O error: {error}") from None
        return getattr(self._connection, name)(*arguments)

    def execute(self, *arguments):
        return self._counted("execute", *arguments)

    def executemany(self, *arguments):
        return self._counted("executemany", *arguments)

    def __getattr__(self, name):
        return getattr(self._connection, name)


@contextmanager
def watched(folder, before_each):
    """Call `before_each(n, what)` before the n-th thing that is done to the files of a folder."""
    disk = Disk(folder, before_each)
    open_file, make = Path.open, tempfile.mkstemp
    replace, unlink, opened = os.replace, os.unlink, ModelStore._opened

    def open_path(path, mode="r", *arguments, **options):
        if not set(mode) & set("wa+"):
            return open_file(path, mode, *arguments, **options)
        disk.count("open", path)
        return _File(open_file(path, mode, *arguments, **options), path, disk)

    def make_file(*arguments, **options):
        disk.count("make", options.get("dir"))
        return make(*arguments, **options)

    def sync(handle):
        place = f"/proc/self/fd/{handle if isinstance(handle, int) else handle.fileno()}"
        disk.count("fsync", os.readlink(place) if os.path.exists(place) else None)
        # and no more: what is copied is what was written

    def rename(old, new, **options):
        disk.count("rename", new)
        replace(old, new, **options)

    def delete(path, **options):
        if Path(path).exists():
            disk.count("delete", path)
        unlink(path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_path)
        patch.setattr(tempfile, "mkstemp", make_file)
        patch.setattr(os, "fsync", sync)
        patch.setattr(os, "replace", rename)
        patch.setattr(os, "unlink", delete)
        patch.setattr(ModelStore, "_opened", lambda self: _Connection(opened(self), disk))
        yield disk


def failing(first, n=1):
    """Fail at some of the things that are done, as a full disk does."""

    def before_each(number, what):
        if first <= number < first + n:
            raise OSError(errno.ENOSPC, f"no space left on device ({what}, {number})")

    return before_each


def copying(folder, into, note=lambda: None):
    """Copy a folder before each thing that is done to it; `note()` says what was known then."""
    into.mkdir()
    notes = []

    def before_each(number, what):
        shutil.copytree(folder, into / str(number), copy_function=_copy)
        notes.append(note())

    before_each.notes = notes
    return before_each


def _copy(source, target):
    try:
        with open(source, "rb") as old, open(target, "wb") as new:
            new.write(old.read())
    except FileNotFoundError:  # a file that was just deleted
        pass
