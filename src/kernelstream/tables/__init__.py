"""Tables: what their columns become, and how they are read from files and pipes.

`values` says what one entry means, `frames` reads data frames and dictionaries, and `columns`
encodes columns as numbers, in the same way for Python, the command line and the service
(docs/design/tables.md). A *source* yields the rows of a file in blocks, in bounded memory.
"""

from kernelstream.tables.columns import numbers_in_order
from kernelstream.tables.encoding import TableEncoder, declared, sound_rows
from kernelstream.tables.frames import names_of
from kernelstream.tables.sources import Block, SourceError, open_source
from kernelstream.tables.values import as_float, is_missing, shortened

__all__ = [
    "Block",
    "SourceError",
    "TableEncoder",
    "as_float",
    "declared",
    "is_missing",
    "names_of",
    "numbers_in_order",
    "open_source",
    "shortened",
    "sound_rows",
]
