"""Which model of a fleet belongs to which key, and when it learned last."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

__all__ = ["NOWHERE", "KeyIndex"]

NOWHERE = -1


class KeyIndex:
    """The position of every key's model in a fleet.

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
        """Return the number of positions without a key."""
        return len(self._free)

    def keys(self) -> list[Any]:
        """Return the keys, in the order in which they came."""
        return list(self._place_of)

    def taken(self) -> np.ndarray:
        """Return the positions of these keys."""
        return np.fromiter(self._place_of.values(), np.int64, len(self))

    def of(self, keys: list[Any]) -> np.ndarray:
        """Return the positions of keys; -1 for a key without one."""
        # in one go through C: this is all that a row costs beyond what it costs in a fleet
        return np.fromiter(map(self._place_of.get, keys, repeat(NOWHERE)), np.int64, len(keys))

    def add(self, n: int) -> None:
        """Add n free positions."""
        start = len(self._key_at)
        self._free.extend(range(start, start + n))
        self._key_at.extend([None] * n)
        self.last = np.concatenate([self.last, np.full(n, NOWHERE)])

    def offered(self, keys: Iterable[Any]) -> dict[Any, int]:
        """Return free positions for new keys, without taking them (`settle`)."""
        return dict(zip(keys, self._free, strict=False))

    def settle(self, places: dict[Any, int], now: int) -> None:
        """Give new keys these positions."""
        if not places:
            return
        settled = set(places.values())
        self._free = [at for at in self._free if at not in settled]
        self._place_of.update(places)
        for key, at in places.items():
            self._key_at[at] = key
        self.last[list(places.values())] = now

    def learned(self, places: np.ndarray, now: int) -> None:
        """Note that the models of these positions, where not free, have learned now."""
        self.last[places[self.last[places] >= 0]] = now

    def leave(self, places: np.ndarray) -> None:
        """Free these positions."""
        for at in places.tolist():
            del self._place_of[self._key_at[at]]
            self._key_at[at] = None
        self.last[places] = NOWHERE
        self._free.extend(places.tolist())

    def keys_at(self, places: np.ndarray) -> list[Any]:
        """Return the keys at some positions."""
        return [self._key_at[at] for at in places.tolist()]

    def idle(self, before: int | None, most: int | None) -> np.ndarray:
        """Return the positions that learned last before a moment, and the idlest beyond `most`."""
        here = self.last >= 0
        goes = here & (self.last < before) if before is not None else np.zeros(len(here), bool)
        n_over = 0 if most is None else int(here.sum() - goes.sum()) - most
        if n_over > 0:
            stays = np.flatnonzero(here & ~goes)
            goes[stays[np.argpartition(self.last[stays], n_over - 1)[:n_over]]] = True
        return np.flatnonzero(goes)
