"""The public path of `kernelstream.files.loading`."""

from kernelstream.files.loading import (
    load,
    load_with_header,
)

__all__ = [
    "load",
    "load_with_header",
]
