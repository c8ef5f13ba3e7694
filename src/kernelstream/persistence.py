"""The public path of `kernelstream.files.bytes`."""

from kernelstream.files import bytes as _home
from kernelstream.files.bytes import *  # noqa: F403

__all__ = _home.__all__
