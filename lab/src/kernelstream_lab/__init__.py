"""The research behind kernelstream: the papers' experiments, and the public benchmark.

This distribution adds the commands ``reproduce``, ``benchmark`` and ``compare`` to `kernelstream`.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
