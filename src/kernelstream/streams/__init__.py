"""Data in the order of a stream: the papers' orders and generators."""

from kernelstream.streams.counting import counting

__all__ = ["counting"]
