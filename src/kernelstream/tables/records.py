"""Reads the records of CSV text, and recovers after an unmatched quote."""

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from kernelstream.tables.text import read_line

__all__ = ["Lines", "Record", "records"]

_LONGEST_FIELD = 2**31 - 1  # Python's own limit is 131,072 characters, for all readers together
_LONGEST_OVER_LINES = 2**20  # most characters of a record of several lines, after its first
_LOST_QUOTE = (
    'it has a quote that is not closed, or in the wrong place (inside a field, write "" for one)'
)


class Lines:
    """The numbered lines of a text; lines can be given back, to be read again."""

    def __init__(self, file: TextIO, source: str = "the text"):
        self.number = 0  # the number of the line that was read last
        self.taken: list[str] = []  # the lines of the current record
        self._read_line = lambda: read_line(file, source, self.number + 1)
        self._length = 0  # the characters taken after the first line
        self._given_back: deque[str] = deque()

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        if len(self.taken) > 1:
            self._length += len(self.taken[-1])
            if self._length > _LONGEST_OVER_LINES:
                raise StopIteration
        elif self.taken:
            self._length = 0
        line = self._given_back.popleft() if self._given_back else self._read_line()
        if not line:
            raise StopIteration
        self.number += 1
        self.taken.append(line)
        return line.replace("\0", "") if "\0" in line else line

    def give_back(self, keep: int) -> None:
        """Give back the lines of the current record except the first `keep`."""
        back = self.taken[keep:]
        self.taken.clear()
        self._given_back.extendleft(reversed(back))
        self.number -= len(back)

    def first(self) -> str:
        """Return the first line that is not blank, and put it back; empty if there is none."""
        for line in self:
            if line.strip():
                self.give_back(keep=0)
                return line
            self.taken.clear()
        return ""


class Record(NamedTuple):
    """The fields of a record, the number of its first line, and its problem, if it has one."""

    fields: list[str]
    line: int
    problem: str | None = None


def records(lines: Lines, delimiter: str, n_fields: int | None = None) -> Iterator[Record]:
    """Yield the records of a text; blank lines are skipped.

    A quoted field may span several lines. An unmatched quote would therefore swallow the rows that
    follow. So a record of several lines is accepted only if its quotes match and it has `n_fields`
    fields, if that number is known. Otherwise only its first line is bad, and the next line begins
    a new record.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    taken = lines.taken
    while True:
        try:
            for fields in reader:
                n_lines = len(taken)
                if n_lines > 1 and n_fields not in (None, len(fields)):
                    break
                taken.clear()
                if len(fields) > 1 or "".join(fields).strip():
                    yield Record(fields, lines.number - n_lines + 1)
            else:
                return
        except csv.Error:
            pass
        lines.give_back(keep=1)
        yield Record([], lines.number, _LOST_QUOTE)
