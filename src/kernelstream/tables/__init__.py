"""Tables as streams of rows, read one block at a time from files or pipes, encoded as numbers.

A *source* yields blocks of records as they are in a file, in bounded memory. An *encoder* is made
from the first block and encodes records as numbers: it knows which columns are numeric and which
are categorical, and how they are scaled. It is plain data and is saved with the model, so that
columns are always encoded in the same way.
"""

from kernelstream.tables.encoding import Encoder, as_float, shortened
from kernelstream.tables.sources import Block, SourceError, open_source

__all__ = ["Block", "Encoder", "SourceError", "as_float", "open_source", "shortened"]
