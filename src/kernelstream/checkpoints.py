"""The public path of `kernelstream.files.checkpoints`."""

from kernelstream.files.checkpoints import (
    Checkpointer,
)

__all__ = [
    "Checkpointer",
]
