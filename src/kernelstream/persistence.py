"""The public path of `kernelstream.files.bytes`."""

from kernelstream.files.bytes import (
    FORMAT_VERSION,
    FileError,
    beside,
    from_bytes,
    read,
    read_header,
    strange_headers,
    to_bytes,
    write,
)

__all__ = [
    "FORMAT_VERSION",
    "FileError",
    "beside",
    "from_bytes",
    "read",
    "read_header",
    "strange_headers",
    "to_bytes",
    "write",
]
