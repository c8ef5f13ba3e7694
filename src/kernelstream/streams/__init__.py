"""Streams of the papers, in their orders, and small ones to try things on."""

from kernelstream.streams.counting import counting
from kernelstream.streams.drifting_gaussians import drifting_gaussians
from kernelstream.streams.switch import switch
from kernelstream.streams.tickets import tickets

__all__ = ["counting", "drifting_gaussians", "switch", "tickets"]
