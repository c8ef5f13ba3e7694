"""A service: models that learn while they are asked, over HTTP, with a live page.

The engine (`ServedModel`) needs no web server; `kernelstream serve` starts one around it.
"""

from kernelstream.serve.blocks import Block
from kernelstream.serve.limits import Limits
from kernelstream.serve.model import ServedModel
from kernelstream.serve.queue import Accepted, Answer, Closed, QueueFull

__all__ = ["Accepted", "Answer", "Block", "Closed", "Limits", "QueueFull", "ServedModel"]
