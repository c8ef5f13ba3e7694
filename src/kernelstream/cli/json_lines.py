"""Files of JSON lines that a resumed run continues."""

import json
from pathlib import Path
from typing import Any, TextIO

from kernelstream.cli.outputs import replaced

__all__ = ["JsonLines"]


class JsonLines:
    """A file of JSON lines. A resumed run drops the lines after its checkpoint.

    Parameters
    ----------
    path : Path or None
        None: nothing is written.
    resumed : int
        The row of the checkpoint.
    """

    def __init__(self, path: Path | None, resumed: int):
        self.path, self.resumed = path, resumed
        self.file: TextIO | None = None

    def __enter__(self) -> "JsonLines":
        if self.path is not None:
            kept = []
            if self.resumed and self.path.exists():
                lines = self.path.read_text(encoding="utf-8").splitlines()
                kept = [line for line in lines if _rows_of(line) <= self.resumed]
            with replaced(self.path) as new, new.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in kept)
            self.file = self.path.open("a", encoding="utf-8")
        return self

    def write(self, line: dict[str, Any]) -> None:
        """Write a line, so that other programs see it at once."""
        if self.file is not None:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()

    def __exit__(self, *error: object) -> None:
        if self.file is not None:
            self.file.close()


def _rows_of(line: str) -> float:
    try:
        return float(json.loads(line)["rows"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # cut short by a crash
