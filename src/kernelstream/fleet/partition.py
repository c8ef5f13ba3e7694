"""Keyed fleets cut into parts by key, and joined again."""

from typing import Any, Self

import numpy as np

from kernelstream.fleet.column_names import refuse_other_columns
from kernelstream.fleet.key_index import KeyIndex
from kernelstream.fleet.keys import part_of
from kernelstream.fleet.models_by_key import FIRST_PLACES, ModelsByKey, kind_of
from kernelstream.parts import integer_at_least

__all__ = ["PartitionedByKey"]


class PartitionedByKey(ModelsByKey):
    """Models by key that can be cut into parts and joined."""

    def split(self, n: int) -> list[Self]:
        """Cut the fleet by keys into n fleets, which are copies without a store.

        The part of a key depends on the key alone (`part_of`), so that all fleets are cut in the
        same way. Rows with delayed labels go with their keys.

        Parameters
        ----------
        n : int

        Returns
        -------
        list of KeyedFleet
        """
        n = integer_at_least("n", n, 1)
        with self._turn:
            parts = [self.alike() for _ in range(n)]
            for keys, contents in self.chunks():
                where = [part_of(key, n) for key in keys]
                for p, part in enumerate(parts):
                    chosen = [i for i, q in enumerate(where) if q == p]
                    part.adopt([keys[i] for i in chosen], [contents[i] for i in chosen])
            for id in self.waiting.ids:
                key = self.waiting.keys_of([id])
                part = parts[part_of(key[0], n)]
                part.waiting.add([id], self.waiting.rows_of([id]), key)
        return parts

    def join(self, *others: Self) -> Self:
        """Take over the models of other fleets of the same kind, which have other keys.

        Parameters
        ----------
        *others : KeyedFleet

        Returns
        -------
        self
        """
        with self._turn:
            for other in others:
                self._check_alike(other)
            for other in others:
                self.feature_names_ = self.feature_names_ or other.feature_names_
                if self.fleet_ is None and other.fleet_ is not None:
                    self.begin_with(other.empty_fleet())
                for keys, contents in other.chunks():
                    self.adopt(keys, contents)
                for id in other.waiting.ids:
                    self.waiting.add([id], other.waiting.rows_of([id]), other.waiting.keys_of([id]))
                self.n_rows_ += other.n_rows_
                for reason, count in other.skipped_.items():
                    self.skipped_[reason] = self.skipped_.get(reason, 0) + count
            self._move_out()
        return self

    def _check_alike(self, other: Self) -> None:
        kinds = {
            None if fleet.fleet_ is None else kind_of(fleet.fleet_) for fleet in (self, other)
        } - {None}
        # estimators are alike where they are written alike
        mine, theirs = (
            (repr(fleet.preset), fleet.task, repr(fleet.prototype)) for fleet in (self, other)
        )
        if mine != theirs or len(kinds) > 1:
            raise ValueError(f"{other!r} is not of the kind of {self!r}.")
        refuse_other_columns(self.feature_names_, other.feature_names_, "a fleet")
        both = next((key for key in other if key in self), None)
        if both is not None:
            raise ValueError(
                f"both fleets have a model of the key {both!r}, and which one learned first is not "
                "known: fleets that are joined must have different keys."
            )

    def empty_fleet(self) -> Any:
        """Return a fleet of untrained models."""
        empty = self.fleet_.subset(slice(0, 1)).add(FIRST_PLACES - 1)
        empty.put(np.arange(1))
        return empty

    def begin_with(self, fleet: Any) -> None:
        """Take a fleet of untrained models, all of whose places are free."""
        self.fleet_, self.n_features, self._index = fleet, fleet.n_features, KeyIndex()
        self._index.add(len(fleet))

    def alike(self) -> Self:
        """Return a fleet of the same kind without models."""
        other = type(self)(
            self.preset, self.task, n_features=self.n_features, classes=self.classes,
            dtype=self.dtype, n_jobs=self.n_jobs, max_waiting=self.waiting.max_rows, **self.params,
        )  # fmt: skip
        other.feature_names_ = self.feature_names_
        if self.fleet_ is not None:
            other.begin_with(self.empty_fleet())
        return other

    def adopt(self, keys: list[Any], contents: list[bytes]) -> None:
        """Take over models of keys that are new here."""
        if not keys:
            return
        if self.fleet_ is None:
            self.begin_with(self._new_fleet(self.n_features or 0, self.classes, FIRST_PLACES))
        given = self._room_for(self.fleet_, keys, dict(zip(keys, contents, strict=True)))
        with self._publishing:
            self._index.settle(given, self.n_rows_)
