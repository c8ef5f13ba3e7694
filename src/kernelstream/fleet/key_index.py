"""Which model of a fleet belongs to which key, and when it learned last."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

__all__ = ["NOWHERE", "KeyIndex"]

NOWHERE = -1


class KeyIndex:
    """A place for every key; a place is the number of a model in a fleet.

    Examples
    --------
    >>> places = KeyIndex()
    >>> places.add(3)
    >>> places.settle(places.offered(["a", "b"]), now=5)
    >>> places.of(["b", "c"]), len(places)
    (array([ 1, -1]), 2)
    """

    def __init__(self) -> None:
        self._place_of: dict[Any, int] = {}  # in the order in which keys came
        self._key_at: list[Any] = []  # None: the place is free
        self._free: list[int] = []
        self.last = np.zeros(0, np.int64)  # when the model of each place learned; -1: it is free

    def __len__(self) -> int:
        return len(self._place_of)

    def __contains__(self, key: Any) -> bool:
        return key in self._place_of

    @property
    def n_free(self) -> int:
        """How many places have no key."""
        return len(self._free)

    def keys(self) -> list[Any]:
        """The keys, in the order in which they came."""
        return list(self._place_of)

    def taken(self) -> np.ndarray:
        """The places of these keys."""
        return np.fromiter(self._place_of.values(), np.int64, len(self))

    def of(self, keys: list[Any]) -> np.ndarray:
        """The places of keys; -1 where a key has none."""
        # in one go through C: this is all that a row costs beyond what it costs in a fleet
        return np.fromiter(map(self._place_of.get, keys, repeat(NOWHERE)), np.int64, len(keys))

    def add(self, n: int) -> None:
        """There are n more places."""
        start = len(self._key_at)
        self._free.extend(range(start, start + n))
        self._key_at.extend([None] * n)
        self.last = np.concatenate([self.last, np.full(n, NOWHERE)])

    def offered(self, keys: Iterable[Any]) -> dict[Any, int]:
        """Free places for new keys, which do not have them before they `settle`."""
        return dict(zip(keys, self._free, strict=False))

    def settle(self, places: dict[Any, int], now: int) -> None:
        """New keys have these places from now on."""
        if not places:
            return
        settled = set(places.values())
        self._free = [at for at in self._free if at not in settled]
        self._place_of.update(places)
        for key, at in places.items():
            self._key_at[at] = key
        self.last[list(places.values())] = now

    def learned(self, places: np.ndarray, now: int) -> None:
        """The models of these places, as far as they are not free, have learned just now."""
        self.last[places[self.last[places] >= 0]] = now

    def leave(self, places: np.ndarray) -> None:
        """The keys of these places have none any more."""
        for at in places.tolist():
            del self._place_of[self._key_at[at]]
            self._key_at[at] = None
        self.last[places] = NOWHERE
        self._free.extend(places.tolist())

    def keys_at(self, places: np.ndarray) -> list[Any]:
        """The keys of some places."""
        return [self._key_at[at] for at in places.tolist()]

    def idle(self, before: int | None, most: int | None) -> np.ndarray:
        """The places that learned last before some moment, and the idlest of more than `most`."""
        here = self.last >= 0
        goes = here & (self.last < before) if before is not None else np.zeros(len(here), bool)
        n_over = 0 if most is None else int(here.sum() - goes.sum()) - most
        if n_over > 0:
            stays = np.flatnonzero(here & ~goes)
            goes[stays[np.argpartition(self.last[stays], n_over - 1)[:n_over]]] = True
        return np.flatnonzero(goes)
