"""Many small models at once."""

from kernelstream.fleet.fleet import Fleet

__all__ = ["Fleet"]
