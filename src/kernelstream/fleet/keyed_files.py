"""Keyed fleets as files: arrays and JSON, with a version and a checksum."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from kernelstream.delayed_labels import PendingRows
from kernelstream.estimators.files import RECORDS, most_bytes
from kernelstream.files.bytes import FileError, check_version, strange_headers, to_bytes, write
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.files.parts import from_json, params_to_json, to_json
from kernelstream.files.written import Written
from kernelstream.fleet.column_names import names_from_header
from kernelstream.fleet.estimators import EstimatorFleet
from kernelstream.fleet.fleet import Fleet
from kernelstream.fleet.keys import keys_from_array, keys_to_array, with_tuples
from kernelstream.fleet.partition import PartitionedByKey
from kernelstream.parts import integer_at_least

__all__ = ["SavedByKey"]

_VERSION = 2  # of what a file says of keys


class SavedByKey(Written, PartitionedByKey):
    """Models by key that can be saved and read again."""

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """Return the content of the file that `save` writes, with a version and a checksum.

        Parameters
        ----------
        beside : dict, default=None
            What joins the header, as JSON.

        Returns
        -------
        bytes
        """
        return self._content(beside)[0]

    def write_to(
        self, path: Any, beside: dict[str, Any] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Write the file of `save`; its store can then go back to this moment.

        Parameters
        ----------
        path : str or path-like
        beside : dict, default=None
            What joins the header, as JSON.
        check : callable, default=None
            Called when the file is written; it raises if the file is of no use.
        """
        content, mark = self._content(beside)
        write(path, content)
        if check is not None:
            check()
        if self.store is not None and mark is not None:
            self.store.confirm(mark)

    def _content(self, beside: dict[str, Any] | None) -> tuple[bytes, dict[str, Any] | None]:
        """Return the content of a file, and the moment of the store that belongs to it."""
        with self._turn:
            self._require_store()
            self._move_out()  # if that has failed before
            mark = None if self.store is None else self.store.mark()
            waiting, waiting_arrays = self.waiting.to_parts()
            places = self._index.taken()
            header: dict[str, Any] = {}
            arrays: dict[str, np.ndarray] = {}
            if self.fleet_ is not None:
                header, arrays = self.fleet_.subset(places).described({})
            else:
                header = {
                    "preset": to_json(self.preset, arrays), "task": self.task,
                    "dtype": self.dtype.name, "params": params_to_json(self.params, arrays),
                }  # fmt: skip
            header = {
                **(beside or {}), **header, "class": "KeyedFleet", "keyed_version": _VERSION,
                "n_features": self.n_features, "feature_names": self.feature_names_,
                "max_models": self.max_models,
                "idle_rows": self.idle_rows, "n_rows": self.n_rows_, "skipped": self.skipped_,
                "classes": None if self.classes is None else np.asarray(self.classes).tolist(),
                "is_empty": self.fleet_ is None,
                "waiting": {**waiting, "version": RECORDS["waiting"]},
                "store": mark,
            }  # fmt: skip
            arrays |= waiting_arrays
            arrays["keys"] = keys_to_array(self._index.keys())
            arrays["last"] = self._index.last[places]
        return to_bytes(header, arrays), mark

    @classmethod
    def from_bytes(cls, content: bytes, max_bytes: Any = "auto") -> Self:
        """Return a fleet from what `to_bytes` gave.

        Anything else (bytes that are cut short or changed, or that come from a newer version) is a
        `FileError`.

        Parameters
        ----------
        content : bytes
        max_bytes : int, "auto" or None, default="auto"
            As in `kernelstream.load`.

        Returns
        -------
        KeyedFleet

        Examples
        --------
        >>> import kernelstream as ks
        >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=8)
        >>> scores = fleet.learn(["a"], [[1.0]], [2.0])
        >>> list(ks.KeyedFleet.from_bytes(fleet.to_bytes()))
        ['a']
        """
        header, arrays = read_bytes(content)
        with strange_headers("the content"):
            if header["class"] != "KeyedFleet":
                raise FileError(f"the content is a {header['class']!r}, not a KeyedFleet.")
            return cls.rebuild(header, arrays, most_bytes(max_bytes, content))

    @classmethod
    def rebuild(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> Self:
        """Return the fleet that `save` described, checked down to every number."""
        check_version("the keyed fleet", header["keyed_version"], _VERSION)
        check_version("the rows that wait", header["waiting"]["version"], RECORDS["waiting"])
        params = {k: from_json(v, arrays, None) for k, v in header["params"].items()}
        fleet = cls(
            from_json(header["preset"], arrays, None), header["task"],
            n_features=header["n_features"], classes=header["classes"], dtype=header["dtype"],
            max_waiting=header["waiting"]["max_rows"], **params,
        )  # fmt: skip
        fleet.feature_names_ = names_from_header(header, header["n_features"] or 0)
        fleet._take_over(header, arrays, max_bytes)
        return fleet

    def _take_over(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> None:
        """Take over the fleet of a file."""
        keys, last = keys_from_array(arrays["keys"]), arrays["last"]
        self.n_rows_ = integer_at_least("n_rows", header["n_rows"], 0)
        for name in ("max_models", "idle_rows"):
            if header[name] is not None:
                setattr(self, name, integer_at_least(name, header[name], 1))
        self.skipped_ = {str(reason): int(n) for reason, n in header["skipped"].items()}
        self._mark = header["store"]
        if not header["is_empty"]:
            self.fleet_ = self._fleet_from_file(header, arrays, max_bytes)
        n_models = 0 if self.fleet_ is None else len(self.fleet_)
        if len(keys) != n_models or last.shape != (n_models,):
            raise FileError(f"the file has {len(keys)} keys for {n_models} models.")
        if n_models and not (last.min() >= 0 and last.max() <= self.n_rows_):
            raise FileError("the file has models of later rows than it has seen.")
        self._index.add(n_models)
        self._index.settle({key: at for at, key in enumerate(keys)}, 0)
        self._index.last[:] = last
        waiting = header["waiting"]
        if waiting["keys"] is not None:
            waiting = {**waiting, "keys": list(map(with_tuples, waiting["keys"]))}
        fills = self.prototype.missing != "error"
        self.waiting = PendingRows.from_parts(waiting, arrays, self.n_features or 0, fills)

    def _fleet_from_file(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], max_bytes: int | None
    ) -> Any:
        if self._has_records():
            return Fleet.rebuild(header, arrays, max_bytes)
        fleet = EstimatorFleet(
            self.prototype, self.task, 0, integer_at_least("n_features", self.n_features, 1),
            (header["labels"] or {}).get("names"), self.dtype,
        )  # fmt: skip
        fleet.take_over(header, arrays)
        return fleet
