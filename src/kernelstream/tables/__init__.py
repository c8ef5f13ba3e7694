"""Tables as streams of rows, read one block at a time from files or pipes, encoded as numbers.

A *source* yields blocks of records as they are in a file, in bounded memory. An *encoder* is made
from the first block and encodes records as numbers: it knows which columns are numbers, dates or
categories. It is plain data and is saved with the model, so that columns are always encoded in the
same way.
"""

from kernelstream.tables.columns import TableEncoder, encoder_from_json
from kernelstream.tables.encoding import Encoder, as_float, shortened
from kernelstream.tables.sources import Block, SourceError, open_source

__all__ = [
    "Block", "Encoder", "SourceError", "TableEncoder", "as_float", "encoder_from_json",
    "open_source", "shortened",
]  # fmt: skip
