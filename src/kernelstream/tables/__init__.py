"""Tables as streams of rows, read one block at a time from files or pipes, encoded as numbers.

A *source* yields blocks of records as they are in a file, in bounded memory. An *encoder* is made
from the first block and encodes records as numbers: it knows which columns are numbers, dates or
categories. It is plain data and is saved with the model, so that columns are always encoded in the
same way.
"""

from kernelstream.tables.columns import TableEncoder
from kernelstream.tables.sources import Block, SourceError, open_source
from kernelstream.tables.values import as_float, shortened

__all__ = [
    "Block", "SourceError", "TableEncoder", "as_float",
    "open_source", "shortened",
]  # fmt: skip
