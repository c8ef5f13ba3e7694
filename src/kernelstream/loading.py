"""The public path of `kernelstream.files.loading`."""

from kernelstream.files import loading as _home
from kernelstream.files.loading import *  # noqa: F403

__all__ = _home.__all__
