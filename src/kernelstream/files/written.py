"""What estimators and fleets have in common as files."""

from collections.abc import Callable
from typing import Any

from kernelstream.files.bytes import write

__all__ = ["Written"]


class Written:
    """What can be written to a file."""

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """Return the content of the file that `save` writes; `beside` joins its header, as JSON."""
        raise TypeError(f"{type(self).__name__} must say what its file holds.")

    def write_to(
        self, path: Any, beside: dict[str, Any] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Write the file of `save`; `beside` joins its header, as JSON.

        Parameters
        ----------
        path : str or path-like
        beside : dict, default=None
        check : callable, default=None
            Called when the file is written; it raises if the file is of no use.
        """
        write(path, self.to_bytes(beside))
        if check is not None:
            check()

    def save(self, path: Any) -> None:
        """Write it to a file: arrays and JSON, nothing executable. `kernelstream.load` reads it.

        The file is written beside its place and renamed, so that a crash leaves the old one. A
        function given as ``on_bad_row`` is saved as "skip"; one given as kernel goes to `load`.
        Models that a keyed fleet has in a store stay there: a loaded fleet is given the store again
        by `attach`.

        Parameters
        ----------
        path : str or path-like
        """
        self.write_to(path)
