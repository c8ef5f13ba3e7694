"""What an experiment leaves: numbers, and what they say."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

__all__ = ["Check", "Outcome", "Row"]


class Row(NamedTuple):
    """A line of the table: a quantity, the paper's figure or "-", and ours."""

    quantity: str
    paper: str
    ours: str


class Check(NamedTuple):
    """A statement of the paper, whether it holds here, and the figures that say so."""

    statement: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    series : dict
        What the picture is drawn from, in the words of JSON.
    rows : list of Row
    checks : list of Check
    notes : list of str
        Where ours differs from the paper's, and why.
    """

    series: dict[str, Any]
    rows: list[Row]
    checks: list[Check]
    notes: list[str] = field(default_factory=list)

    def with_notes(self, notes: list[str]) -> "Outcome":
        """The same with more notes, in front."""
        return replace(self, notes=[*notes, *self.notes])
