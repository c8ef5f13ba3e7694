"""The streams of the papers, and small streams for examples."""

from kernelstream.streams.counting import counting
from kernelstream.streams.drifting_gaussians import drifting_gaussians
from kernelstream.streams.flipping_weights import flipping_weights
from kernelstream.streams.switch import switch
from kernelstream.streams.tickets import tickets

__all__ = ["counting", "drifting_gaussians", "flipping_weights", "switch", "tickets"]
