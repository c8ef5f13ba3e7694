"""What every part is made of: a public face, a compiled rule, and a declaration of state.

A part has two faces. The public one (`RBF`, `SMD`, `OldestOut`, ...) is a small class with
``get_params``/``set_params``, equality by type and value, and a repr, so that ``clone`` and grid
search work. The other is its *rule*: a ``NamedTuple`` of plain numbers with methods, which runs
as ordinary Python and, marked with `rule`, inside compiled code too.

A part answers for itself: what it remembers (`Field`), what it goes with (`Part.check_with`), and
its name (`part`, the decorator that registers it).
"""

from kernelstream.parts.base import Part
from kernelstream.parts.checks import integer_at_least, number, one_of
from kernelstream.parts.choice import Choice, Unused
from kernelstream.parts.fields import LARGEST_NUMBER, LARGEST_SQUARE, SLACK, Field
from kernelstream.parts.parameters import parameters
from kernelstream.parts.registry import (
    Entry,
    all_parts,
    as_part,
    by_name,
    discover,
    make,
    named,
    names,
    part,
)
from kernelstream.parts.rules import rule
from kernelstream.parts.user_warnings import warn_user

__all__ = [
    "LARGEST_NUMBER",
    "LARGEST_SQUARE",
    "SLACK",
    "Choice",
    "Entry",
    "Field",
    "Part",
    "Unused",
    "all_parts",
    "as_part",
    "by_name",
    "discover",
    "integer_at_least",
    "make",
    "named",
    "names",
    "number",
    "one_of",
    "parameters",
    "part",
    "rule",
    "warn_user",
]
