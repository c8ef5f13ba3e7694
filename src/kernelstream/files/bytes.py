"""One file format: a JSON header and raw arrays, nothing executable.

    8 bytes    b"KSTREAM\\n"
    4 bytes    format version, little-endian unsigned
    4 bytes    CRC-32 of everything after this field
    8 bytes    length of the header
    header     JSON, UTF-8; under "arrays" each array's name, dtype, shape, offset and size
    arrays     C order, little-endian, one after the other

Reading checks the version, the checksum and every size before it makes an array, and never runs or
imports anything that a file names.
"""

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "FORMAT_VERSION",
    "FileError",
    "beside",
    "check_version",
    "check_versions",
    "from_bytes",
    "read",
    "read_header",
    "strange_headers",
    "to_bytes",
    "write",
]

FORMAT_VERSION = 3
_MAGIC = b"KSTREAM\n"
_PREFIX = struct.Struct("<8sII")
_LENGTH = struct.Struct("<Q")
_DTYPES = {"<f8", "<f4", "<i8"}
_LARGEST_HEADER = 64 * 2**20


class FileError(ValueError):
    """A file that is not a whole, unharmed model of a version that can be read."""


def check_version(what: str, found: Any, known: int) -> None:
    """Refuse a record of a version other than the known one.

    Parameters
    ----------
    what : str
        The name of the record for the message.
    found : int
        The version in the file.
    known : int
        The version that this kernelstream reads.

    Examples
    --------
    >>> from kernelstream.persistence import check_version
    >>> check_version("the log", 1, 1)
    """
    if found == known:
        return
    remedy = "use the kernelstream that wrote the file, or fit the model again"
    if isinstance(found, int) and found > known:
        remedy = "install a newer kernelstream"
    raise FileError(
        f"{what} has version {found} in the file, and this kernelstream reads version {known}: "
        f"{remedy}."
    )


def check_versions(found: dict[str, Any], known: dict[str, int]) -> None:
    """Refuse records of other versions, or other records than those that are expected.

    Parameters
    ----------
    found, known : dict of int
        The versions in the file and those that this kernelstream reads, by the record's name.

    Examples
    --------
    >>> from kernelstream.persistence import check_versions
    >>> check_versions({"labels": 1}, {"labels": 1})
    """
    for name in sorted(known.keys() | found.keys()):
        if name not in known:
            raise FileError(f"the file has the record {name!r}, which is unknown here.")
        if name not in found:
            raise FileError(f"the file does not say which version of {name!r} it has.")
        check_version(name, found[name], known[name])


def to_bytes(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Return the file's content.

    Parameters
    ----------
    header : dict
        What JSON can say.
    arrays : dict of ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.persistence import from_bytes, to_bytes
    >>> content = to_bytes({"kind": "notes"}, {"numbers": np.arange(3)})
    >>> header, arrays = from_bytes(content)
    >>> header["kind"], arrays["numbers"].tolist()
    ('notes', [0, 1, 2])
    """
    described, chunks, offset = [], [], 0
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if array.dtype.str not in _DTYPES:
            raise TypeError(f"array {name!r} of type {array.dtype} cannot be saved.")
        chunks.append(array.tobytes())
        described.append(
            {"name": name, "dtype": array.dtype.str, "shape": list(array.shape),
             "offset": offset, "size": array.nbytes}
        )  # fmt: skip
        offset += array.nbytes
    text = json.dumps({**header, "arrays": described}, allow_nan=False).encode()
    body = b"".join([_LENGTH.pack(len(text)), text, *chunks])
    return _PREFIX.pack(_MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body


def read_header(path: Any) -> dict[str, Any]:
    """Return the header of a file, which is neither read nor checked beyond it.

    Parameters
    ----------
    path : path-like

    Examples
    --------
    >>> import tempfile
    >>> from kernelstream.persistence import read_header, to_bytes, write
    >>> path = tempfile.mkdtemp() + "/notes.ks"
    >>> write(path, to_bytes({"kind": "notes"}, {}))
    >>> read_header(path)["kind"]
    'notes'
    """
    with Path(path).open("rb") as file:
        start = file.read(_PREFIX.size + _LENGTH.size)
        if len(start) < _PREFIX.size + _LENGTH.size or start[: len(_MAGIC)] != _MAGIC:
            raise FileError("this is not a kernelstream model, or it was cut short.")
        (length,) = _LENGTH.unpack_from(start, _PREFIX.size)
        try:
            header = json.loads(file.read(min(length, _LARGEST_HEADER)))
        except (ValueError, RecursionError) as error:
            raise FileError(f"the header cannot be read: {error}.") from None
    if not isinstance(header, dict):
        raise FileError("the header is not one.")
    return header


def from_bytes(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and arrays of a file's content; raise `FileError` if it is damaged.

    Parameters
    ----------
    content : bytes

    Examples
    --------
    >>> from kernelstream.persistence import from_bytes, to_bytes
    >>> from_bytes(to_bytes({"kind": "notes"}, {}))[0]["kind"]
    'notes'
    """
    if len(content) < _PREFIX.size + _LENGTH.size or content[: len(_MAGIC)] != _MAGIC:
        raise FileError("this is not a kernelstream model, or it was cut short.")
    _, version, checksum = _PREFIX.unpack_from(content)
    check_version("the format", version, FORMAT_VERSION)
    body = memoryview(content)[_PREFIX.size :]
    if zlib.crc32(body) != checksum:
        raise FileError("the checksum does not match: the file was cut short or changed.")
    (length,) = _LENGTH.unpack_from(body)
    if length > min(_LARGEST_HEADER, len(body) - _LENGTH.size):
        raise FileError(f"the header claims {length} bytes, which the file does not have.")
    start = _LENGTH.size + length
    try:
        header = json.loads(bytes(body[_LENGTH.size : start]))
        arrays = {entry["name"]: _array(entry, body[start:]) for entry in header.pop("arrays")}
    except FileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(f"the header cannot be read: {error}.") from None
    header["format_version"] = version
    return header, arrays


@contextmanager
def strange_headers(name: str) -> Iterator[None]:
    """Yield whatever a strange header may lead to is a `FileError`.

    Parameters
    ----------
    name : str
        What the error calls the file.

    Examples
    --------
    >>> from kernelstream.persistence import strange_headers
    >>> with strange_headers("model.ks"):
    ...     {}["budget"]
    Traceback (most recent call last):
        ...
    kernelstream.files.bytes.FileError: ...
    """
    try:
        yield
    except FileError:
        raise
    except KeyError as error:
        raise FileError(f"{name} does not describe a model: {error} is missing.") from error
    except Exception as error:
        raise FileError(f"{name} does not describe a model: {error}") from error


def _array(entry: dict[str, Any], data: memoryview) -> np.ndarray:
    dtype, shape = entry["dtype"], entry["shape"]
    offset, size = entry["offset"], entry["size"]
    numbers = [offset, size, *shape]
    if dtype not in _DTYPES or any(type(n) is not int or n < 0 for n in numbers):
        raise FileError(f"array {entry['name']!r} is described as {entry!r}, which makes no sense.")
    expected = np.dtype(dtype).itemsize
    for n in shape:
        expected *= n
    if size != expected or offset + size > len(data):
        raise FileError(
            f"array {entry['name']!r} claims {size} bytes, which the file does not have."
        )
    return np.frombuffer(data[offset : offset + size], dtype=dtype).reshape(shape)


def write(path: Any, content: bytes) -> None:
    """Replace the file at `path` in one go: it holds the old content or the new, never a part.

    Parameters
    ----------
    path : path-like
    content : bytes

    Examples
    --------
    >>> import tempfile
    >>> from kernelstream.persistence import read, write
    >>> path = tempfile.mkdtemp() + "/file"
    >>> write(path, b"all of it")
    >>> read(path)
    b'all of it'
    """
    with beside(path) as temporary:
        Path(temporary).write_bytes(content)


@contextmanager
def beside(path: Any) -> Iterator[Path]:
    """Yield a new file to be written, which then takes the place of `path` in one go.

    Parameters
    ----------
    path : path-like
        What is replaced when the block ends without an error.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from kernelstream.persistence import beside
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "file"
    >>> with beside(path) as new:
    ...     _ = new.write_text("all of it")
    >>> path.read_text()
    'all of it'
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}: make it first.")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files for the owner alone
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # make the new name durable too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Any) -> bytes:
    """Return the content of the file at `path`.

    Parameters
    ----------
    path : path-like

    Examples
    --------
    See `write`.

    >>> import tempfile
    >>> from kernelstream.persistence import read, write
    >>> path = tempfile.mkdtemp() + "/file"
    >>> write(path, b"content")
    >>> len(read(path))
    7
    """
    return Path(path).read_bytes()
