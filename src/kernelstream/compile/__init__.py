"""Compiled code: the only package that imports Numba.

`compiled` makes a function that Python calls, `helper` one that compiled code calls, and
`kernelstream.parts.rule` records whose methods compiled code calls. docs/design/compile.md says how
this works.
"""

from kernelstream.compile.calls import Call, in_one_call, one_by_one
from kernelstream.compile.functions import (
    Compiled,
    compiled,
    compiles,
    declare,
    entry_point,
    helper,
    no_message_while_compiling,
    note,
    seconds_compiling,
    stands_in_for,
)
from kernelstream.compile.tables import as_argument

__all__ = [
    "Call",
    "Compiled",
    "as_argument",
    "compiled",
    "compiles",
    "declare",
    "entry_point",
    "helper",
    "in_one_call",
    "no_message_while_compiling",
    "note",
    "one_by_one",
    "seconds_compiling",
    "stands_in_for",
]
