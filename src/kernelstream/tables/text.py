"""Text from a file or a pipe, compressed or not, in any usual encoding."""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO

__all__ = ["SourceError", "numbered_lines", "open_text", "read_line"]

_GZIP = b"\x1f\x8b"
_LATIN1 = "kernelstream.latin1"
_LONGEST_LINE = 2**24  # characters


class SourceError(ValueError):
    """A source cannot be read."""


def read_line(file: TextIO, source: str, number: int) -> str:
    """Return the next line, or raise an error if it is too long for memory; "" at the end."""
    line = file.readline(_LONGEST_LINE + 1)
    if len(line) > _LONGEST_LINE:
        raise SourceError(
            f"{source}, line {number}: it has more than {_LONGEST_LINE:,} characters: is this a "
            "table with one row per line?"
        )
    return line


def numbered_lines(file: TextIO, source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text, counted from 1."""
    number = 1
    while line := read_line(file, source, number):
        yield number, line
        number += 1


def _as_latin1(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Latin-1, in which every byte is a character."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_LATIN1, _as_latin1)


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes have been read, as if they had not been."""

    def __init__(self, head: bytes, rest: Any):
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        """Return whether the stream can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the available bytes; wait only if there are none."""
        piece = self.head[: len(buffer)] or _some(self.rest, len(buffer))
        self.head = self.head[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def open_text(source: str) -> Iterator[TextIO]:
    """Open the text of a file, or of standard input if `source` is "-".

    Data compressed by gzip is decompressed, for any file name. Text is UTF-8, or UTF-16 if there is
    a byte order mark; bytes that are not valid UTF-8 are decoded as Latin-1.
    """
    with _raw(source) as raw:
        head, raw = _looked_at(raw, source)
        if head.startswith(_GZIP):
            head, raw = _looked_at(gzip.GzipFile(fileobj=io.BufferedReader(raw)), source)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding, errors = "utf-16", "replace"
        elif b"\0" in head:
            raise SourceError(
                f"{source} is not text: give a table as CSV or LIBSVM text, or say by --format "
                "what it is (parquet, arrow, numpy)."
            )
        else:
            encoding, errors = "utf-8-sig", _LATIN1
        text = io.TextIOWrapper(
            io.BufferedReader(raw), encoding=encoding, errors=errors, newline=""
        )
        with _damage_named(source):
            yield text


@contextmanager
def _damage_named(source: str) -> Iterator[None]:
    """Report damaged gzip data as a `SourceError`."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(
            f"{source}: its gzip data is cut short or damaged ({error}): make or fetch it again."
        ) from None


@contextmanager
def _raw(source: str) -> Iterator[Any]:
    """Yield the bytes, unbuffered, so that the data of a slow pipe is read as it arrives."""
    if source != "-":
        with open(source, "rb", buffering=0) as file:
            yield file
        return
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError(
            "standard input is closed: pipe a table into it, or give the name of a file."
        )
    buffered: IO[bytes] = sys.stdin.buffer
    yield getattr(buffered, "raw", buffered)


def _looked_at(raw: Any, source: str) -> tuple[bytes, _Rejoined]:
    """Return the first bytes, and the stream as if they had not been read."""
    head = b""
    with _damage_named(source):
        while len(head) < 4 and (piece := _some(raw, 1024)):
            head += piece
    return head, _Rejoined(head, raw)


def _some(raw: Any, n: int) -> bytes:
    """Return up to n bytes, as many as one read gives; none at the end."""
    return (raw.read1(n) if hasattr(raw, "read1") else raw.read(n)) or b""
