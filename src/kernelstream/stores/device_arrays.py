"""Rows and matrices on a device."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.stores.devices import Library, as_device

__all__ = ["Ahead", "Block", "DeviceMatrix", "DeviceRows", "rows_on"]


class Block:
    """Rows that were handed over together: on the host until the device needs them."""

    def __init__(self, library: Library, dtype: np.dtype, source: Any):
        self.library = library
        self.dtype = np.dtype(dtype)
        self.source = source
        self._array: Any = None
        self.cache: np.ndarray | None = None  # the row cache, on the host
        self.norms: Any = None  # and on the device

    @property
    def array(self) -> Any:
        """Return the rows on the device."""
        if self._array is None:
            self._array = self.library.to_device(self.source, self.dtype)
        return self._array

    def on_host(self, start: int, stop: int) -> np.ndarray:
        """Return some of the rows as an array of NumPy."""
        if isinstance(self.source, np.ndarray):
            return self.source[start:stop].astype(self.dtype, copy=False)
        return self.library.to_host(self.array[start:stop, :])


class DeviceRows:
    """Rows `start` to `stop` of a block, to which NumPy's functions and indexing apply."""

    def __init__(self, block: Block, start: int, stop: int):
        self.block, self.start, self.stop = block, start, stop

    @property
    def shape(self) -> tuple[int, int]:
        """Return how many rows, and how long they are."""
        return self.stop - self.start, self.block.source.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Return the precision on the device."""
        return self.block.dtype

    @property
    def array(self) -> Any:
        """Return the rows on the device."""
        return self.block.array[self.start : self.stop, :]

    @property
    def norms(self) -> Any:
        """Return the row cache on the device."""
        return self.block.norms[self.start : self.stop]

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return DeviceRows(self.block, self.start + start, self.start + max(stop, start))
        elif isinstance(key, int | np.integer):
            return self.block.on_host(self.start + int(key), self.start + int(key) + 1)[0]
        library = self.block.library
        places = library.places(self.start + np.arange(len(self))[key])
        taken = Block(library, self.dtype, library.lines_of(self.block.array, places))
        return DeviceRows(taken, 0, taken.source.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.block.on_host(self.start, self.stop).astype(dtype or self.dtype, copy=False)


def rows_on(device: Any, X: Any) -> DeviceRows:
    """Return an array of any library as rows of a device."""
    chosen = as_device(device)
    assert chosen is not None
    return DeviceRows(Block(chosen.open(), np.dtype(chosen.dtype), X), 0, X.shape[0])


class DeviceMatrix:
    """A matrix on a device. Products with NumPy's arrays are made there and come to the host.

    Slices of it are read and written as those of an array of NumPy, from one to the other, too.
    """

    ndim = 2

    def __init__(self, library: Library, array: Any, dtype: Any):
        self.library, self.array, self.dtype = library, array, np.dtype(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of rows and columns."""
        return tuple(self.array.shape)

    @property
    def T(self) -> "DeviceMatrix":  # noqa: N802 (as NumPy calls it)
        """Return the transposed matrix."""
        return DeviceMatrix(self.library, self.array.T, self.dtype)

    def copy(self) -> "DeviceMatrix":
        """Return the same numbers in memory of their own."""
        return DeviceMatrix(self.library, self.library.copy(self.array), self.dtype)

    def __getitem__(self, key: Any) -> "DeviceMatrix":
        return DeviceMatrix(self.library, self.array[key], self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        there = value.array if isinstance(value, DeviceMatrix) else value
        self.array[key] = self.library.to_device(there, self.dtype)

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        product = self.array @ self.library.to_device(other, self.dtype)
        return self.library.to_host(product)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.library.to_host(self.array).astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _matrix_on, (self.library, np.asarray(self))


def _matrix_on(library: Library, matrix: np.ndarray) -> DeviceMatrix:
    """Return a matrix of the host as one on a device, with memory of its own."""
    return DeviceMatrix(
        library, library.copy(library.to_device(matrix, matrix.dtype)), matrix.dtype
    )


class Ahead(NamedTuple):
    """Kernel values of a stretch of rows, made before all of them are due."""

    block: Block
    start: int  # the first row of the stretch
    stop: int
    first: int  # the line of k at which the rows of the stretch begin; points come before
    k: Any  # (first + rows, rows), on the device
