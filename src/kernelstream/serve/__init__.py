"""A service: models that learn while they are asked, over HTTP, with a live page.

The engine (`ServedModel`) needs no web server; `kernelstream serve` starts one around it.
"""

from kernelstream.serve.limits import Limits
from kernelstream.serve.log import Block
from kernelstream.serve.model import Accepted, Answer, Closed, QueueFull, ServedModel

__all__ = ["Accepted", "Answer", "Block", "Closed", "Limits", "QueueFull", "ServedModel"]
