"""Files of data sets: where they are looked for, and how they are read, checked and cached."""

import csv
import gzip
import hashlib
import io
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream import persistence
from kernelstream.datasets.openml import OpenML

__all__ = ["Arrays", "DatasetError", "Stored", "checksum"]

Arrays = dict[str, np.ndarray]
_OWN_DIGEST = "checksum"  # in cached files, so that damage to another edition is detected too
_UNREADABLE = (
    OSError, EOFError, ValueError, TypeError, KeyError, csv.Error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


class DatasetError(OSError):
    """A data set cannot be found, downloaded or read, or has other content than expected."""


class Stored(NamedTuple):
    """A data set in a file: its arrays, and where it is downloaded from if there is no file.

    `arrays` has the dtype and shape of each array, `digest` is the `checksum` of all arrays.
    """

    file: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    digest: str
    openml: OpenML | None = None

    def read(self, name: str, data: Any) -> Arrays:
        """Return the arrays, from the first folder with the file, or downloaded and cached."""
        folders = _folders(data)
        for folder in folders.values():
            for path in (folder / self.file, self._kept_in(folder)):
                if path.exists():
                    return self._from_file(name, path)
        if self.openml is None:
            raise DatasetError(f"the data set {name!r} was not found.\n{self._remedy(folders)}")
        return self._fetched(name, self.openml, folders)

    def _kept_in(self, folder: Path) -> Path:
        """Return the path of the cached data set, which is always an .npz file."""
        return folder / (self.file.split(".")[0] + ".npz")

    def _from_file(self, name: str, path: Path) -> Arrays:
        try:
            found = _READERS[path.suffix](path)
        except _UNREADABLE as error:
            raise DatasetError(
                f"{path} cannot be read ({_cause(error)}). If it is damaged or cut short, put a "
                f"whole copy of the data set {name!r} there, or delete it."
            ) from None
        try:
            arrays = self._typed(found)
            if checksum(arrays) not in (self.digest, str(found.get(_OWN_DIGEST))):
                raise ValueError("its arrays have the right shapes, but other content")
        except ValueError as error:
            raise DatasetError(
                f"{path} is not the data set {name!r}: {error}. Replace it, or delete it."
            ) from None
        return arrays

    def _typed(self, found: Arrays) -> Arrays:
        """Check the declared arrays; return them in their dtypes, or raise with the difference."""
        missing = [array for array in self.arrays if array not in found]
        if missing:
            raise ValueError(f"it has no {missing[0]!r}, only {', '.join(found) or 'nothing'}")
        arrays = {
            array: _as_type(array, found[array], dtype) for array, (dtype, _) in self.arrays.items()
        }
        for array, (_, shape) in self.arrays.items():
            if arrays[array].shape != shape:
                raise ValueError(f"{array!r} has the shape {arrays[array].shape}, not {shape}")
        return arrays

    def _fetched(self, name: str, openml: OpenML, folders: dict[str, Path]) -> Arrays:
        if sys.stderr.isatty():
            print(f"Fetching {name} from OpenML, once; this may take minutes.", file=sys.stderr)
        try:
            arrays = self._typed(openml.fetch())
        except Exception as error:  # the remedy is the same for all causes
            raise DatasetError(
                f"the data set {name!r} was not found, and could not be fetched from OpenML "
                f"({_cause(error)}).\n{self._remedy(folders)}"
            ) from None
        digest = checksum(arrays)
        if digest != self.digest:
            warnings.warn(
                f"OpenML's copy of {name!r} has the right shape, but not the content that the "
                "documented figures were measured on: expect others.", stacklevel=4,
            )  # fmt: skip
        path = self._kept_in(_own_folder())
        try:
            _keep({**arrays, _OWN_DIGEST: np.array(digest)}, path)
        except OSError as error:
            warnings.warn(
                f"{path} cannot be written ({_cause(error)}): {name!r} will be fetched again next "
                "time. Set $KERNELSTREAM_CACHE to a folder that can be written.", stacklevel=4,
            )  # fmt: skip
        return arrays

    def _remedy(self, folders: dict[str, Path]) -> str:
        wanted = ", ".join(f"{array} {shape}" for array, (_, shape) in self.arrays.items())
        looked = "\n".join(
            f"  {folder} ({origin}{'' if folder.is_dir() else '; there is no such folder'})"
            for origin, folder in folders.items()
        )
        return (
            f"It is the file {self.file}, with {wanted}.\nLooked for it in\n{looked}\n"
            "Put it into one of these folders, or set $KERNELSTREAM_DATA to the folder that has it."
        )


def _own_folder() -> Path:
    """Return the cache folder for downloaded data sets."""
    chosen = os.environ.get("KERNELSTREAM_CACHE")
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen or home or "~/.cache").expanduser() / "kernelstream" / "datasets"


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _folders(data: Any) -> dict[str, Path]:
    """Return the folders to look in, in order, by where they were given."""
    named = {"data=": data, "$KERNELSTREAM_DATA": os.environ.get("KERNELSTREAM_DATA")}
    given = {origin: Path(folder).expanduser() for origin, folder in named.items() if folder}
    return {**given, "the library's own": _own_folder()}


def _read_npz(path: Path) -> Arrays:
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _read_csv(path: Path) -> Arrays:
    """Return the columns of a table by name, with the names in its first line."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    return dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))


_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": _read_npz, ".csv": _read_csv, ".gz": _read_csv,
}  # fmt: skip


def _as_type(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Return the array in its declared dtype. Text from a table may be converted to numbers."""
    if array.dtype.kind != "U" and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(f"{name!r} has the type {array.dtype}, not {dtype}")
    return array.astype(dtype, copy=False)


def checksum(arrays: Arrays) -> str:
    """Return SHA-256 of the names, dtypes, shapes and contents, for any file format."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        is_text = array.dtype.kind == "U"  # its dtype depends on the longest text
        kind = "text" if is_text else array.dtype.newbyteorder("<").str
        digest.update(f"{name} {kind} {array.shape}\n".encode())
        digest.update(_text_bytes(array) if is_text else _number_bytes(array))
    return digest.hexdigest()


def _text_bytes(array: np.ndarray) -> bytes:
    return "".join(f"{len(text)} {text}\n" for text in array.ravel().tolist()).encode()


def _number_bytes(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _keep(arrays: Arrays, path: Path) -> None:
    """Write an .npz file atomically."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    path.parent.mkdir(parents=True, exist_ok=True)
    persistence.write(path, content.getvalue())
