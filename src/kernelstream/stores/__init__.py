"""Where points live, and where kernel values are made.

A store holds the rows of a model's points in slots, and answers in kernel values; the loop does not
know which store it has. `Store` says what is asked of it.
"""

from kernelstream.stores.base import STAGED_ROWS, Memory, Store, as_sparse_rows, write_row
from kernelstream.stores.dense import DenseStore
from kernelstream.stores.sparse import SparseStore

__all__ = [
    "STAGED_ROWS",
    "DenseStore",
    "Memory",
    "SparseStore",
    "Store",
    "as_sparse_rows",
    "write_row",
]
