"""Files of data sets: where they are looked for, how they are read and checked, how kept."""

import csv
import gzip
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream import persistence

__all__ = ["Arrays", "DatasetError", "Stored", "cache_folder", "checksum"]

Arrays = dict[str, np.ndarray]
_UNREADABLE = (
    OSError, EOFError, ValueError, KeyError, csv.Error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


class DatasetError(OSError):
    """A data set that cannot be found, fetched or read, or is not the one that it should be."""


class Stored(NamedTuple):
    """A data set that lies in a file: the arrays in it, and who can fetch them where it does not.

    `arrays` has each array's type and shape, `digest` what `checksum` says of them all.
    """

    file: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    digest: str
    download: Callable[[], Arrays] | None = None

    def read(self, name: str, data: Any) -> Arrays:
        """The arrays, from the first folder that has the file, or fetched and then kept."""
        folders = _folders(data)
        for folder in folders.values():
            for file in (self.file, self.kept_as()):
                if (folder / file).exists():
                    return self._checked(name, folder / file)
        return self._fetched(name, folders)

    def kept_as(self) -> str:
        """The file's name in the library's own folder, where every data set is an .npz file."""
        return self.file.split(".")[0] + ".npz"

    def _checked(self, name: str, path: Path) -> Arrays:
        try:
            found = _READERS[path.suffix](path)
        except _UNREADABLE as error:
            raise DatasetError(
                f"{path} cannot be read ({error or type(error).__name__}): it is damaged or cut "
                f"short. Put a whole copy of {name!r} there, or delete it."
            ) from None
        try:
            return self.check(found)
        except ValueError as error:
            raise DatasetError(
                f"{path} is not the data set {name!r}: {error}. Replace it, or delete it."
            ) from None

    def check(self, found: Arrays) -> Arrays:
        """The declared arrays in their declared types, or a ValueError that says what differs."""
        missing = [array for array in self.arrays if array not in found]
        if missing:
            raise ValueError(f"it has no array {missing[0]!r}, only {', '.join(found)}")
        arrays = {
            array: _typed(array, found[array], dtype) for array, (dtype, _) in self.arrays.items()
        }
        for array, (_, shape) in self.arrays.items():
            if arrays[array].shape != shape:
                raise ValueError(
                    f"{array!r} has the shape {arrays[array].shape} in place of {shape}"
                )
        if checksum(arrays) != self.digest:
            raise ValueError("its arrays have the right shapes, but other content")
        return arrays

    def _fetched(self, name: str, folders: dict[str, Path]) -> Arrays:
        raise DatasetError(self._what_is_missing(name, folders))

    def _what_is_missing(self, name: str, folders: dict[str, Path]) -> str:
        wanted = ", ".join(f"{array} {shape}" for array, (_, shape) in self.arrays.items())
        looked = "\n".join(f"  {folder} ({origin})" for origin, folder in folders.items())
        return (
            f"the data set {name!r} is not there.\n"
            f"It is the file {self.file}, with the arrays {wanted}.\n"
            f"Looked for it in\n{looked}\n"
            "Put it into one of these folders, or set $KERNELSTREAM_DATA to the folder that has it."
        )


def cache_folder() -> Path:
    """Where fetched data sets are kept."""
    chosen = os.environ.get("KERNELSTREAM_CACHE")
    home = os.environ.get("XDG_CACHE_HOME")
    above = Path(chosen) if chosen else (Path(home) if home else Path("~/.cache").expanduser())
    return above / "kernelstream" / "datasets"


def _folders(data: Any) -> dict[str, Path]:
    """Every folder to look in, in order, and who named it."""
    named = {"data=": data, "$KERNELSTREAM_DATA": os.environ.get("KERNELSTREAM_DATA")}
    given = {origin: Path(folder).expanduser() for origin, folder in named.items() if folder}
    return {**given, "the library's own": cache_folder()}


def _read_npz(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _read_csv(path: Path) -> Arrays:
    """The columns of a table, by the names in its first line."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    return dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))


_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": _read_npz, ".csv": _read_csv, ".gz": _read_csv,
}  # fmt: skip


def _typed(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in its declared type. Text, as tables have it, may become numbers."""
    if array.dtype.kind != "U" and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(f"{name!r} has the type {array.dtype} in place of {dtype}")
    return array.astype(dtype, copy=False)


def checksum(arrays: Arrays) -> str:
    """SHA-256 of the names, types, shapes and contents, whatever file they came from."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        is_text = array.dtype.kind == "U"  # whose type says how long the longest happens to be
        kind = "text" if is_text else array.dtype.newbyteorder("<").str
        digest.update(f"{name} {kind} {array.shape}\n".encode())
        digest.update(_text_bytes(array) if is_text else _number_bytes(array))
    return digest.hexdigest()


def _text_bytes(array: np.ndarray) -> bytes:
    return "".join(f"{len(text)} {text}\n" for text in array.ravel().tolist()).encode()


def _number_bytes(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def keep(arrays: Arrays, path: Path) -> None:
    """Write an .npz file in one go: it is whole, or not there."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    path.parent.mkdir(parents=True, exist_ok=True)
    persistence.write(path, content.getvalue())
