"""Where points live, and where kernel values are made.

A store holds the rows of a model's points in slots, and answers in kernel values; the loop does not
know which store it has. `Store` says what is asked of it.
"""

from typing import Any

from kernelstream.stores.base import (
    NOTHING_PENDING,
    STAGED_ROWS,
    Memory,
    Store,
    Values,
    as_sparse_rows,
    write_row,
)
from kernelstream.stores.dense import DenseStore
from kernelstream.stores.device import DeviceStore, StoresOn
from kernelstream.stores.device_arrays import DeviceMatrix, DeviceRows, rows_on
from kernelstream.stores.devices import Device, as_device
from kernelstream.stores.folded import FoldedStore, SparseFoldedStore
from kernelstream.stores.forest import ForestStore, SparseForestStore
from kernelstream.stores.landmarks import LandmarkStore, SparseLandmarkStore
from kernelstream.stores.sparse import SparseStore

__all__ = [
    "NOTHING_PENDING",
    "STAGED_ROWS",
    "DenseStore",
    "Device",
    "DeviceMatrix",
    "DeviceRows",
    "DeviceStore",
    "FoldedStore",
    "ForestStore",
    "LandmarkStore",
    "Memory",
    "SparseFoldedStore",
    "SparseForestStore",
    "SparseLandmarkStore",
    "SparseStore",
    "Store",
    "Values",
    "as_device",
    "as_sparse_rows",
    "rows_on",
    "store_class",
    "write_row",
]


# Stores for dense and for sparse rows: of points, and of explicit features by the kernel's name.
_OF_POINTS = DenseStore, SparseStore
_OF_FEATURES = {
    "fixed": (FoldedStore, SparseFoldedStore),
    "landmarks": (LandmarkStore, SparseLandmarkStore),
    "forest": (ForestStore, SparseForestStore),
}


def store_class(
    is_folded: bool, feature_store: str, is_sparse: bool, device: Device | None = None
) -> Any:
    """Return the kind of store: of points or of explicit features, for dense or for sparse rows.

    It is called with a kernel, how many slots and features there are, and the precision.
    """
    if device is not None:
        return StoresOn(device)
    return (_OF_FEATURES[feature_store] if is_folded else _OF_POINTS)[is_sparse]
