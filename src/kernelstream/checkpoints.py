"""The public path of `kernelstream.files.checkpoints`."""

from kernelstream.files import checkpoints as _home
from kernelstream.files.checkpoints import *  # noqa: F403

__all__ = _home.__all__
