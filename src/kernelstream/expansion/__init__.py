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
    SUMMING,
    Merging,
    Projecting,
    Replacing,
    Summing,
)
from kernelstream.expansion.options import (
    Average,
    Births,
    ComputedGram,
    EveryOutput,
    NoAverage,
    NothingPending,
    Pending,
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
    "SUMMING",
    "AllChanges",
    "Average",
    "Births",
    "ComputedGram",
    "EveryOutput",
    "Expansion",
    "Merging",
    "NoAverage",
    "NoChanges",
    "NothingPending",
    "Pending",
    "Point",
    "Projecting",
    "Replacing",
    "StoredGram",
    "Summing",
    "Tile",
    "TouchedOutputs",
    "Uncorrected",
    "Undated",
    "expansion_fields",
]
