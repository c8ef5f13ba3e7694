"""Points that live on a device: a GPU, say.

Points, kernel values and the products with coefficients are made there. What the loop reads comes
to the host: the kernel values among a tile's own rows, those of the points that may go, and the raw
scores. The loop itself is the one that learns on the host.

Kernel values are made for a stretch of rows at once, more than a tile, since a device does large
matrix products best. When rows of a tile have become points, their lines among the kernel values
of the stretch take the places of the points that went: that is all that the later rows of the
stretch need.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.kernels import Kernel
from kernelstream.stores.base import NOTHING_PENDING, CheckedCache, Values, write_row
from kernelstream.stores.device_arrays import Ahead, Block, DeviceMatrix, DeviceRows
from kernelstream.stores.devices import Device, HostMemory, Library
from kernelstream.stores.sparse import NO_SLOTS, NoSlots

__all__ = [
    "DeviceStore",
    "StoresOn",
]

# Rows of a tile, each of which takes some calls; but the loop corrects the rest of it at every new
# point. Measured, 512 is best.
_TILE = 512
_STRETCH = 1024  # rows whose kernel values are made at once,
_NUMBERS = 2**27  # but not more values than this
# Points from which on matrices over pairs of them are better on the device; measured: docs/gpu.md.
_MANY_PAIRS = 512


class StoresOn(NamedTuple):
    """The kind of store whose rows are on one device."""

    device: Device

    def __call__(
        self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype
    ) -> "DeviceStore":
        """Return an empty store."""
        return DeviceStore(kernel, n_slots, n_features, dtype, self.device)

    def n_bytes(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """Return how much memory points take on the device, and their row cache on the host."""
        return (n_slots + _STRETCH) * (n_features + 2) * dtype.itemsize

    def zeros(self, shape: tuple[int, int], dtype: Any) -> Any:
        """Return a matrix over pairs of points: on the device, where there may be many."""
        return _zeros(self.device.open(), shape, dtype)


def _zeros(library: Library, shape: tuple[int, int], dtype: Any) -> Any:
    if shape[0] < _MANY_PAIRS or not library.has_float64:
        return np.zeros(shape, dtype)
    return DeviceMatrix(library, library.zeros(shape, np.dtype(dtype)), dtype)


class DeviceStore:
    """Slots whose rows are on a device. Rows are written here and nowhere else."""

    is_sparse = False
    writes_in_loop = False
    n_first = 0

    def __init__(
        self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype, device: Device
    ):
        self.kernel = kernel
        self.n_slots = n_slots
        self.n_features = n_features
        self.dtype = np.dtype(dtype)
        self.device = device
        self._open(device.open())
        self._allocate(n_slots, n_features)

    def points_in_memory(self) -> None:
        """Return None: points are on the device."""

    def zeros(self, shape: tuple[int, int], dtype: Any) -> Any:
        """Return a matrix over pairs of points: on the device, where there may be many."""
        return _zeros(self.library, shape, dtype)

    def _open(self, library: Library) -> None:
        self.library = library
        self.memory = HostMemory(library)
        self.journal: list[tuple[Any, ...]] | None = None
        self._ahead: Ahead | None = None

    def _allocate(self, n_slots: int, n_features: int) -> None:
        """Empty slots, and behind them room for the rows of a stretch."""
        self.rows = self.library.zeros((n_slots + _STRETCH, n_features), self.dtype)
        self.norms = self.library.zeros((n_slots + _STRETCH,), self.dtype)
        self.row_cache = np.zeros(n_slots, self.dtype)

    # --- rows in and out -------------------------------------------------------------------------

    def taken(self, X: Any) -> DeviceRows:
        """Return rows as this store works with them; they go to the device when it needs them."""
        if not isinstance(X, DeviceRows):
            return DeviceRows(Block(self.library, self.dtype, X), 0, X.shape[0])
        if X.dtype == self.dtype and X.block.library is self.library:
            return X
        source = X.block.source[X.start : X.stop, :]
        return DeviceRows(Block(self.library, self.dtype, source), 0, len(X))

    def row_cache_of(self, X: Any) -> np.ndarray:
        """Return the row cache of rows."""
        rows = self.taken(X)
        block = rows.block
        if block.cache is None:
            block.norms = self.kernel.row_cache(block.array)
            block.cache = self.library.to_host(block.norms)
        return block.cache[rows.start : rows.stop]

    def at(self, slots: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the points in some slots, as `replace` takes them."""
        found = self.library.lines_of(self.rows, self.library.places(slots))
        return DeviceRows(Block(self.library, self.dtype, found), 0, len(slots)), (
            self.row_cache[slots]
        )

    def stored(self, n_points: int) -> np.ndarray:
        """Return a copy of the rows of the first n points."""
        return self.library.to_host(self.rows[:n_points, :])

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return the stored arrays of the first n points, by name."""
        return {"row_cache": self.row_cache[:n_points], "points": self.stored(n_points)}

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: CheckedCache) -> None:
        """Take over what `to_arrays` gave."""
        self.restore(arrays["points"], checked_cache(arrays["points"]))

    def restore(self, rows: Any, row_cache: np.ndarray) -> None:
        """Take rows as the first points."""
        n, self._ahead = len(row_cache), None
        if n:
            self.rows[:n, :] = self.taken(rows).array
            self.norms[:n] = self.library.to_device(row_cache, self.dtype)
            self.row_cache[:n] = row_cache

    def copy(self, n_points: int) -> "DeviceStore":
        """Return a copy with the first n points and nothing else."""
        copy = DeviceStore(self.kernel, self.n_slots, self.n_features, self.dtype, self.device)
        copy._take_points(self, n_points, self.n_features)
        copy.memory = self.memory
        return copy

    def _take_points(self, other: "DeviceStore", n: int, n_features: int) -> None:
        self.rows[:n, :n_features] = other.rows[:n, :n_features]
        self.norms[:n], self.row_cache[:n] = other.norms[:n], other.row_cache[:n]

    def grow(self, n_slots: int) -> None:
        """Make room for more points."""
        larger = DeviceStore(self.kernel, n_slots, self.n_features, self.dtype, self.device)
        larger._take_points(self, min(n_slots, len(self.row_cache)), self.n_features)
        self.rows, self.norms, self.row_cache = larger.rows, larger.norms, larger.row_cache
        self.n_slots = n_slots

    def widen(self, n_features: int) -> None:
        """Give every row more features, which are zero, or take such features away."""
        other = DeviceStore(self.kernel, len(self.row_cache), n_features, self.dtype, self.device)
        other._take_points(self, len(self.row_cache), min(n_features, self.n_features))
        self.rows, self.n_features, self._ahead = other.rows, n_features, None

    # --- kernel values ---------------------------------------------------------------------------

    def tile_rows(self, n_points: int) -> int:
        """Return how many rows best share the transfers of a tile."""
        return _TILE

    def _values(self, n_lines: int, X: DeviceRows) -> Any:
        """Return k(first lines, X) on the device."""
        summed = self.kernel.loses_digits(self.row_cache_of(X), self.dtype)
        points, norms = self.rows[:n_lines, :], self.norms[:n_lines]
        return self.kernel.values(points, X.array, norms, X.norms, summed)

    def basis(self, n_points: int, X: Any, x: np.ndarray) -> DeviceMatrix:
        """Return k(points, X), which stays on the device."""
        values = self._values(n_points, self.taken(X))
        return DeviceMatrix(self.library, values, self.dtype)

    def block(self, n_points: int, X: Any, x: np.ndarray, out: np.ndarray) -> None:
        """Write k(points, X) of the first n points into `out`."""
        out[...] = self.library.to_host(self._values(n_points, self.taken(X)))

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return k(points, X) above k(X, X); of the points, the requested rows."""
        rows = self.taken(X)
        most = 0 if lines is None else min(_STRETCH, _NUMBERS // max(n_points, 1))
        ahead, n_rows = self._ahead_of(n_points, rows, most), len(rows)
        first = rows.start - ahead.start
        columns = slice(first, first + n_rows)
        points = ahead.k[:n_points, columns]
        k = self.memory.lend("block", (n_points + n_rows, n_rows), self.dtype)
        for wanted in [slice(0, n_points)] if lines is None else lines:
            if wanted.stop > wanted.start:
                self.library.read(points[wanted, :], k[wanted])
        first += ahead.first
        self.library.read(ahead.k[first : first + n_rows, columns], k[n_points:])
        self.library.wait()
        diagonal = self.kernel.diagonal(x)
        if diagonal is not None:  # exactly, whatever rounding made of it
            k[n_points:].reshape(-1)[:: n_rows + 1] = diagonal
        return Values(k, n_points, DeviceMatrix(self.library, points, self.dtype), NOTHING_PENDING)

    def _ahead_of(self, n_points: int, rows: DeviceRows, most: int) -> Ahead:
        """Return kernel values of a stretch with these rows in it, and others up to `most`."""
        ahead, block = self._ahead, rows.block
        if (
            ahead is None or ahead.block is not block
            or not ahead.start <= rows.start <= rows.stop <= ahead.stop
        ):  # fmt: skip
            stop = min(block.source.shape[0], max(rows.stop, rows.start + most))
            stretch, end = DeviceRows(block, rows.start, stop), n_points + stop - rows.start
            self.row_cache_of(stretch)
            # rows stand behind the points for a moment: one product for both
            self.rows[n_points:end, :] = stretch.array
            self.norms[n_points:end] = stretch.norms
            k = self._values(end, stretch)
            ahead = self._ahead = Ahead(block, rows.start, stop, n_points, k)
        return ahead

    def features(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> Any:
        """Raise: there are no explicit features."""
        raise TypeError("a device holds points, not explicit features.")

    # --- writing ---------------------------------------------------------------------------------

    def writer(self, X: Any, x: np.ndarray, values: Values) -> NoSlots:
        """Return the writer of the loop; rows are written after it."""
        return NO_SLOTS

    def write(self, trail: Any, done: int, X: Any, x: np.ndarray) -> None:
        """Put the rows that became points into their slots, and merge points, in order."""
        rows, slots, ahead = self.taken(X), trail.slot[:done], self._ahead
        assert ahead is not None
        came = np.flatnonzero(slots >= 0)
        if (trail.partner[:done] >= 0).any():
            self._replay(trail, done, rows)
        elif came.size:
            self._write_last(slots, came, rows, x, ahead)
        if rows.stop == ahead.stop:
            self._ahead = None  # it is of no more use

    def _write_last(
        self, slots: np.ndarray, came: np.ndarray, rows: DeviceRows, x: np.ndarray, ahead: Ahead
    ) -> None:
        """Put those rows of a tile that came into their slots."""
        # of rows that took the same slot one after the other, the last is there
        newest = np.full(len(self.row_cache), -1)
        newest[slots[came]] = came
        slots = np.flatnonzero(newest >= 0)
        came = newest[slots]
        library, block, line = self.library, ahead.block, ahead.first + rows.start - ahead.start
        places = library.places(np.stack([slots, came + rows.start, came + line]))
        self._put(
            slots, places[0, :], library.lines_of(block.array, places[1, :]),
            library.lines_of(block.norms, places[1, :]), x[came],
        )  # fmt: skip
        if rows.stop < ahead.stop:  # others of the stretch are to come
            library.put(ahead.k, places[0, :], library.lines_of(ahead.k, places[2, :]))

    def _put(self, slots: np.ndarray, places: Any, rows: Any, norms: Any, x: np.ndarray) -> None:
        """Write rows into slots, each of which is named once; `places` are these on the device."""
        library = self.library
        if self.journal is not None:
            self.journal.append((
                slots, places, library.lines_of(self.rows, places),
                library.lines_of(self.norms, places), self.row_cache[slots],
            ))  # fmt: skip
        library.put(self.rows, places, rows)
        library.put(self.norms, places, norms)
        self.row_cache[slots] = x

    def _replay(self, trail: Any, done: int, rows: DeviceRows) -> None:
        """Merge points on the host, where it happens row by row."""
        slots, partners = trail.slot[:done], trail.partner[:done]
        changed = np.unique(np.concatenate([slots[slots >= 0], partners[partners >= 0]]))
        place = np.full(changed[-1] + 2, -1)  # the last entry stays so, for what is below zero
        place[changed] = np.arange(len(changed))
        points, X = np.asarray(self.at(changed)[0]), np.asarray(rows)
        for i in range(done):
            write_row(points, place[slots[i]], place[partners[i]], trail.share[i], X[i])
        self.replace(changed, points, self.kernel.row_cache(points))

    def replace(self, slots: np.ndarray, X: Any, x: np.ndarray) -> None:
        """Put rows into slots, each of which is named once."""
        self._ahead = None
        if len(slots):
            norms = self.library.to_device(np.ascontiguousarray(x), self.dtype)
            self._put(slots, self.library.places(slots), self.taken(X).array, norms, x)

    def begin(self) -> None:
        """Remember from now on which rows are overwritten."""
        self.journal = []

    def end(self) -> None:
        """Forget what was kept for undoing."""
        self.journal = self._ahead = None

    def undo(self) -> None:
        """Take back what was written since `begin`."""
        self._ahead = None
        for slots, places, rows, norms, row_cache in reversed(self.journal or []):
            self.library.put(self.rows, places, rows)
            self.library.put(self.norms, places, norms)
            self.row_cache[slots] = row_cache

    # --- pickle ----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("library", "memory", "journal", "_ahead")
        state = {k: v for k, v in self.__dict__.items() if k not in left_out}
        return {**state, "rows": self.stored(self.rows.shape[0]), "norms": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows, row_cache = state.pop("rows"), state.pop("row_cache")
        self.__dict__.update(state)
        self._open(self.device.open())
        self._allocate(len(row_cache), self.n_features)
        self.restore(rows[: len(row_cache)], row_cache)
