"""Tables as streams of rows, read a block at a time: files, pipes, and how they become numbers.

A *source* yields blocks of records as they are in a file, in bounded memory; an *encoder*, made
from the first block, turns records into numbers: which columns are numbers and which are
categories, and how they are scaled. It is plain data, and is saved with the model, so that the same
columns mean the same ever after.
"""

from kernelstream.tables.encoding import Encoder, as_float, shortened
from kernelstream.tables.sources import Block, SourceError, open_source

__all__ = ["Block", "Encoder", "SourceError", "as_float", "open_source", "shortened"]
