"""Rows that were predicted and wait for delayed labels."""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice, pairwise
from typing import Any, Self

import numpy as np
from scipy import sparse

from kernelstream.parts import integer_at_least

__all__ = ["PendingRows"]


class PendingRows:
    """Predicted rows that wait for their targets, each under an id that the caller chose.

    A prediction is needed now, and the true target is known days later. `add` keeps predicted rows.
    When targets come, `rows_of` returns the rows, and `remove` forgets them once they are learned.
    These are two calls so that a block whose learning fails still waits.

    Parameters
    ----------
    max_rows : int, default=10_000
        How many rows may wait. Beyond that the oldest rows are dropped, and counted in
        `n_expired`.

    Examples
    --------
    >>> import numpy as np
    >>> pending = PendingRows(max_rows=2)
    >>> pending.add(["a", "b", "c"], np.arange(6.0).reshape(3, 2))
    >>> len(pending), pending.n_expired, "a" in pending
    (2, 1, False)
    >>> pending.rows_of(["c", "b"])
    array([[4., 5.],
           [2., 3.]])
    >>> pending.remove(["c", "b"])
    >>> len(pending)
    0
    """

    def __init__(self, max_rows: int = 10_000) -> None:
        self.max_rows = integer_at_least("max_rows", max_rows, 1)
        self.n_expired = 0
        # One array holds all rows: an array per row would fragment the memory. Slots are taken in
        # any order, and ids are kept in the order of arrival. (A plain dict would search for its
        # oldest entry among the removed ones.)
        self._rows = np.empty((0, 0))
        self._free: list[int] = []
        self._slots: OrderedDict[Any, int] = OrderedDict()
        self._keys: dict[Any, Any] = {}
        self._sparse_width: int | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: Any) -> bool:
        return as_id(id) in self._slots

    @property
    def ids(self) -> list[Any]:
        """Return the ids of the rows that wait, in the order of arrival."""
        return list(self._slots)

    def add(self, ids: Iterable[Any], X: Any, keys: Iterable[Any] | None = None) -> None:
        """Keep rows under their ids; a row replaces an earlier row with the same id.

        Parameters
        ----------
        ids : sequence of str or int
            One per row, all different.
        X : ndarray or CSR matrix of shape (n_rows, n_features)
        keys : sequence, default=None
            The key of the model of each row, for a fleet.
        """
        ids = _different(ids)
        if len(ids) != X.shape[0]:
            raise ValueError(f"ids has {len(ids)} entries, but X has {X.shape[0]} rows.")
        rows = _single_rows(X)
        self._begin_array(rows)
        self._sparse_width = X.shape[1] if sparse.issparse(X) else None
        self.remove(ids)  # then they are the latest ones
        n_beyond = max(len(self) + len(ids) - self.max_rows, 0)
        self.n_expired += n_beyond
        n_before = min(n_beyond, len(self))  # the others are among the new rows
        self.remove(list(islice(self._slots, n_before)))
        new = slice(n_beyond - n_before, None)
        slots = self._take_slots(len(ids[new]))
        self._rows[slots] = rows[new]
        self._slots.update(zip(ids[new], slots, strict=True))
        if keys is not None:
            self._keys.update(zip(ids[new], list(keys)[new], strict=True))

    def _begin_array(self, rows: np.ndarray) -> None:
        """Create the array again unless it has the shape and dtype of these rows."""
        if self._rows.shape[1:] == rows.shape[1:] and self._rows.dtype == rows.dtype:
            return
        if len(self):
            raise ValueError(
                f"rows of shape {rows.shape[1:]} and type {rows.dtype} cannot wait beside those of "
                f"shape {self._rows.shape[1:]} and type {self._rows.dtype}."
            )
        self._rows, self._free = np.empty((0, *rows.shape[1:]), rows.dtype), []

    def _take_slots(self, n: int) -> list[int]:
        """Return n free slots; the array grows if there are too few."""
        n_old, n_needed = len(self._rows), len(self) + n
        if n_needed > n_old:
            n_new = min(max(n_needed, 2 * n_old), self.max_rows)
            longer = np.empty((n_new, *self._rows.shape[1:]), self._rows.dtype)
            longer[:n_old] = self._rows
            self._rows = longer
            self._free += range(n_old, n_new)
        n_left = len(self._free) - n
        slots = self._free[n_left:]
        del self._free[n_left:]
        return slots

    def rows_of(self, ids: Iterable[Any]) -> Any:
        """Return the rows under these ids, in this order; they stay.

        Parameters
        ----------
        ids : sequence of str or int
            All different; a row must wait under each.

        Returns
        -------
        ndarray or CSR matrix of shape (n_ids, n_features)
        """
        rows = self._rows[[self._slots[id] for id in self._present(ids)]]
        if self._sparse_width is None:
            return rows
        starts = np.cumsum([0, *(len(columns) for columns, _ in rows)])
        columns = np.concatenate([columns for columns, _ in rows])
        values = np.concatenate([values for _, values in rows])
        return sparse.csr_array((values, columns, starts), shape=(len(rows), self._sparse_width))

    def keys_of(self, ids: Iterable[Any]) -> list[Any]:
        """Return the keys of these rows; None for a row without a key."""
        return [self._keys.get(id) for id in self._present(ids)]

    def remove(self, ids: Iterable[Any]) -> None:
        """Forget the rows under these ids."""
        ids = list(map(as_id, ids))
        slots = [self._slots.pop(id) for id in ids if id in self._slots]
        self._rows[slots] = 0  # which drops references to objects
        self._free += slots
        for id in ids:
            self._keys.pop(id, None)

    def _present(self, ids: Iterable[Any]) -> list[Any]:
        ids = _different(ids)
        if not ids:
            raise ValueError("ids is empty: give the id of at least one row that waits.")
        for id in ids:
            if id not in self._slots:
                raise ValueError(
                    f"no row waits under the id {id!r}: it was never given to predict, its target "
                    f"has already been learned, or more than {self.max_rows:,} rows came after it."
                )
        return ids

    # --- files ------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what a file keeps: plain data for the header, and arrays by name."""
        header = {
            "max_rows": self.max_rows,
            "n_expired": self.n_expired,
            "ids": self.ids,
            "keys": [self._keys.get(id) for id in self._slots] if self._keys else None,
            "sparse_width": self._sparse_width,
        }
        if not self._slots:
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
        """Return the rows that `to_parts` described, or raise if a file cannot have come from it.

        Parameters
        ----------
        header : dict
        arrays : dict
        n_features : int
            How many features a row must have.
        allow_nan : bool, default=False
            Whether NaN may stand for missing values, which are filled in when the rows are learned.
        """
        pending = cls(header["max_rows"])
        ids, keys, width = header["ids"], header["keys"], header["sparse_width"]
        n_rows = len(ids)
        if n_rows > pending.max_rows or (keys is not None and len(keys) != n_rows):
            raise ValueError(f"{n_rows} rows wait, with room for {pending.max_rows}.")
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
            pending.add(ids, rows, keys)
        pending.n_expired = integer_at_least("n_expired", header["n_expired"], 0)
        return pending


def as_id(id: Any) -> Any:
    """Return an id as it is kept and saved: a str or an int."""
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
    """Return the rows of X one by one; a sparse row is a pair of its columns and values."""
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
