"""What the tests of both distributions share."""

from tests.conftest import without_compiler

__all__ = ["without_compiler"]
