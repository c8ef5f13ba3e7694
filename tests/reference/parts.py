"""Which parts a specification knows."""

from typing import Any

from kernelstream.parts import named

__all__ = ["is_named"]


def is_named(part: Any, *names: str) -> bool:
    """Return whether a part is registered under one of these names."""
    return any(named(name) is type(part) for name in names)
