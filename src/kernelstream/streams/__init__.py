"""Streams of the papers, in their orders, and small ones to try things on."""

from kernelstream.streams.counting import counting
from kernelstream.streams.tickets import tickets

__all__ = ["counting", "tickets"]
