"""The kernel expansion: what a model is made of, and what may be done to its points.

`record` holds the arrays, and the options of a model as types; `operations` are the linear rules by
which points come, go, and become one; `actions` are what a budget answers, each of which carries
itself out by these operations. None of it knows a part.
"""

from kernelstream.expansion.actions import (
    IS_DROPPED,
    IS_MERGED,
    IS_PROJECTED,
    JOINS,
    MERGES,
    REPLACES,
    Merging,
    Projecting,
    Replacing,
)
from kernelstream.expansion.options import (
    Average,
    Births,
    ComputedGram,
    EveryOutput,
    NoAverage,
    StoredGram,
    TouchedOutputs,
    Uncorrected,
    Undated,
)
from kernelstream.expansion.record import (
    SMALLEST_SCALE,
    AllChanges,
    Expansion,
    NoChanges,
    Point,
    Tile,
    expansion_fields,
)

__all__ = [
    "IS_DROPPED",
    "IS_MERGED",
    "IS_PROJECTED",
    "JOINS",
    "MERGES",
    "REPLACES",
    "SMALLEST_SCALE",
    "AllChanges",
    "Average",
    "Births",
    "ComputedGram",
    "EveryOutput",
    "Expansion",
    "Merging",
    "NoAverage",
    "NoChanges",
    "Point",
    "Projecting",
    "Replacing",
    "StoredGram",
    "Tile",
    "TouchedOutputs",
    "Uncorrected",
    "Undated",
    "expansion_fields",
]
