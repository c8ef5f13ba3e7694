"""Rows that were predicted and wait for their targets, which come later."""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice, pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse

from kernelstream.parts import integer_at_least

__all__ = ["WaitingRoom"]


class WaitingRoom:
    """Rows that wait for their targets, each under an id of the caller's choice.

    A prediction is needed now, the true target is known days later. `admit` keeps the rows that
    were predicted; when targets come, `rows_of` gives these rows back and `discharge` lets them go.
    The two are apart so that a block whose learning fails still waits.

    Parameters
    ----------
    max_rows : int, default=10_000
        How many rows may wait. Beyond that the rows that have waited longest are given up, and
        counted in `n_expired`.

    Examples
    --------
    >>> import numpy as np
    >>> room = WaitingRoom(max_rows=2)
    >>> room.admit(["a", "b", "c"], np.arange(6.0).reshape(3, 2))
    >>> len(room), room.n_expired, "a" in room
    (2, 1, False)
    >>> room.rows_of(["c", "b"])
    array([[4., 5.],
           [2., 3.]])
    >>> room.discharge(["c", "b"])
    >>> len(room)
    0
    """

    def __init__(self, max_rows: int = 10_000) -> None:
        self.max_rows = integer_at_least("max_rows", max_rows, 1)
        self.n_expired = 0
        # One array has all rows: a small one for each would leave holes in memory that nothing else
        # fits into. Places in it are given in any order, and ids kept in that of their arrival. (A
        # dict would look for its oldest entry among all those that have gone before.)
        self._rows = np.empty((0, 0))
        self._free: list[int] = []
        self._places: OrderedDict[Any, int] = OrderedDict()
        self._keys: dict[Any, Any] = {}
        self._sparse_width: int | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, id: Any) -> bool:
        return as_id(id) in self._places

    @property
    def ids(self) -> list[Any]:
        """The ids of the rows that wait, in the order of their arrival."""
        return list(self._places)

    def admit(self, ids: Iterable[Any], X: Any, keys: Iterable[Any] | None = None) -> None:
        """Keep rows under their ids; a row replaces an earlier one of the same id.

        Parameters
        ----------
        ids : sequence of str or int
            One for each row, all different.
        X : ndarray or CSR matrix of shape (n_rows, n_features)
        keys : sequence, default=None
            For each row, which of several models it belongs to.
        """
        ids = _different(ids)
        if len(ids) != X.shape[0]:
            raise ValueError(f"ids has {len(ids)} entries, but X has {X.shape[0]} rows.")
        rows = _single_rows(X)
        self._begin_array(rows)
        self._sparse_width = X.shape[1] if sparse.issparse(X) else None
        self.discharge(ids)  # so that they are the latest ones
        n_beyond = max(len(self) + len(ids) - self.max_rows, 0)
        self.n_expired += n_beyond
        n_before = min(n_beyond, len(self))  # others are among the new rows
        self.discharge(list(islice(self._places, n_before)))
        new = slice(n_beyond - n_before, None)
        places = self._take_places(len(ids[new]))
        self._rows[places] = rows[new]
        self._places.update(zip(ids[new], places, strict=True))
        if keys is not None:
            self._keys.update(zip(ids[new], list(keys)[new], strict=True))

    def _begin_array(self, rows: np.ndarray) -> None:
        """Begin the array again, unless it is one of such rows."""
        if self._rows.shape[1:] == rows.shape[1:] and self._rows.dtype == rows.dtype:
            return
        if len(self):
            raise ValueError(
                f"rows of shape {rows.shape[1:]} and type {rows.dtype} cannot wait beside those of "
                f"shape {self._rows.shape[1:]} and type {self._rows.dtype}."
            )
        self._rows, self._free = np.empty((0, *rows.shape[1:]), rows.dtype), []

    def _take_places(self, n: int) -> list[int]:
        """Places of the array that are free; it is made longer where there are too few."""
        n_old, n_needed = len(self._rows), len(self) + n
        if n_needed > n_old:
            n_new = min(max(n_needed, 2 * n_old), self.max_rows)
            longer = np.empty((n_new, *self._rows.shape[1:]), self._rows.dtype)
            longer[:n_old] = self._rows
            self._rows = longer
            self._free += range(n_old, n_new)
        n_left = len(self._free) - n
        places = self._free[n_left:]
        del self._free[n_left:]
        return places

    def rows_of(self, ids: Iterable[Any]) -> Any:
        """The rows that wait under these ids, in that order; they go on waiting.

        Parameters
        ----------
        ids : sequence of str or int
            All different, each of a row that waits.

        Returns
        -------
        ndarray or CSR matrix of shape (n_ids, n_features)
        """
        rows = self._rows[[self._places[id] for id in self._present(ids)]]
        if self._sparse_width is None:
            return rows
        starts = np.cumsum([0, *(len(columns) for columns, _ in rows)])
        columns = np.concatenate([columns for columns, _ in rows])
        values = np.concatenate([values for _, values in rows])
        return sparse.csr_array((values, columns, starts), shape=(len(rows), self._sparse_width))

    def keys_of(self, ids: Iterable[Any]) -> list[Any]:
        """The keys that came with these rows; None for a row that had none."""
        return [self._keys.get(id) for id in self._present(ids)]

    def discharge(self, ids: Iterable[Any]) -> None:
        """Let the rows of these ids go."""
        ids = list(map(as_id, ids))
        places = [self._places.pop(id) for id in ids if id in self._places]
        self._rows[places] = 0  # which lets go what is not a number
        self._free += places
        for id in ids:
            self._keys.pop(id, None)

    def _present(self, ids: Iterable[Any]) -> list[Any]:
        ids = _different(ids)
        if not ids:
            raise ValueError("ids is empty: give the id of at least one row that waits.")
        for id in ids:
            if id not in self._places:
                raise ValueError(
                    f"no row waits under the id {id!r}: it was never given to predict, its target "
                    f"has already been learned, or more than {self.max_rows:,} rows came after it."
                )
        return ids

    # --- files ------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a file keeps of it: plain data for the header, and arrays by name."""
        header = {
            "max_rows": self.max_rows,
            "n_expired": self.n_expired,
            "ids": self.ids,
            "keys": [self._keys.get(id) for id in self._places] if self._keys else None,
            "sparse_width": self._sparse_width,
        }
        if not self._places:
            return header, {}
        rows = self.rows_of(self.ids)
        if self._sparse_width is None:
            return header, {"waiting.rows": rows}
        return header, {
            "waiting.values": rows.data,
            "waiting.columns": rows.indices.astype(np.int64),
            "waiting.starts": rows.indptr.astype(np.int64),
        }

    @classmethod
    def from_parts(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], n_features: int,
        allow_nan: bool = False,
    ) -> Self:  # fmt: skip
        """The room that `to_parts` described; an error where a file could not have come from it.

        Parameters
        ----------
        header : dict
        arrays : dict
        n_features : int
            The width that the rows must have.
        allow_nan : bool, default=False
            Whether NaN may stand for missing values, which are filled in when the rows are learned.
        """
        room = cls(header["max_rows"])
        ids, keys, width = header["ids"], header["keys"], header["sparse_width"]
        n_rows = len(ids)
        if n_rows > room.max_rows or (keys is not None and len(keys) != n_rows):
            raise ValueError(f"{n_rows} rows wait, with room for {room.max_rows}.")
        if n_rows and width is None:
            rows: Any = arrays["waiting.rows"]
            if rows.dtype.kind != "f" or rows.shape != (n_rows, n_features):
                raise ValueError(f"the rows that wait have the shape {rows.shape}.")
        elif n_rows:
            if width != n_features:
                raise ValueError(f"the rows that wait have {width} features, not {n_features}.")
            rows = _checked_sparse(arrays, n_rows, width)
        if n_rows:
            values = rows if width is None else rows.data
            sound = ~np.isinf(values) if allow_nan else np.isfinite(values)
            if not sound.all():
                raise ValueError("a row that waits is not finite.")
            room.admit(ids, rows, keys)
        room.n_expired = integer_at_least("n_expired", header["n_expired"], 0)
        return room


def as_id(id: Any) -> Any:
    """An id as it is kept and saved: a string or an integer of Python."""
    plain = id.item() if isinstance(id, np.generic) else id
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise TypeError(f"id={id!r} must be a string or an integer.")
    return plain


def _different(ids: Iterable[Any]) -> list[Any]:
    found = [as_id(id) for id in ids]
    if len(set(found)) < len(found):
        twice = next(id for k, id in enumerate(found) if id in found[:k])
        raise ValueError(f"the id {twice!r} is given twice: every row needs an id of its own.")
    return found


def _single_rows(X: Any) -> np.ndarray:
    """The rows of X, each by itself; a sparse one as a pair of its columns and values."""
    if not sparse.issparse(X):
        return np.asarray(X)
    X = sparse.csr_array(X)
    found = np.empty(X.shape[0], dtype=object)
    for row, (i, j) in enumerate(pairwise(X.indptr.tolist())):
        found[row] = X.indices[i:j].copy(), X.data[i:j].copy()
    return found


def _checked_sparse(arrays: dict[str, np.ndarray], n_rows: int, width: int) -> sparse.csr_array:
    values, columns = arrays["waiting.values"], arrays["waiting.columns"]
    starts = arrays["waiting.starts"]
    rows = sparse.csr_array((values, columns, starts), shape=(n_rows, width))
    rows.check_format(full_check=True)
    return rows
