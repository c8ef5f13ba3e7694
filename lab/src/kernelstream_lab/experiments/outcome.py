"""The results of an experiment."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

__all__ = ["Check", "Outcome", "Row"]


class Row(NamedTuple):
    """A line of the table: a quantity, its value in the paper or "-", and our value."""

    quantity: str
    paper: str
    ours: str


class Check(NamedTuple):
    """A claim of the paper, whether it holds here, and the figures that show it."""

    statement: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Outcome:
    """The results of an experiment.

    Attributes
    ----------
    series : dict
        The data of the plot, as values that JSON can hold.
    rows : list of Row
        The lines of the table.
    checks : list of Check
        The claims of the paper, checked.
    notes : list of str
        Where our results differ from those of the paper, and why.
    """

    series: dict[str, Any]
    rows: list[Row]
    checks: list[Check]
    notes: list[str] = field(default_factory=list)

    def with_notes(self, notes: list[str]) -> "Outcome":
        """Return a copy with more notes at the beginning."""
        return replace(self, notes=[*notes, *self.notes])
