"""What estimators and fleets have in common as files."""

from typing import Any

from kernelstream.files.bytes import write

__all__ = ["Written"]


class Written:
    """What can be written to a file."""

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """The content of the file that `save` writes; `beside` joins its header, as JSON."""
        raise TypeError(f"{type(self).__name__} must say what its file holds.")

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
        write(path, self.to_bytes())
