"""When has a stream changed? When the loss has risen by more than chance explains.

Somebody bets, row after row, that the next loss is larger than the mean of the last ones. A bet of
the share s of what there is turns one unit into ``1 + s (loss / mean - 1)``. As long as the
expected loss is not above that mean, no such bet wins on average, whatever the losses are
distributed like; and somebody who starts anew with one unit whenever less is left has to wait
10,000 rows on average before 10,000 units are there. When they are, that is an event.

References
----------
Shin, Ramdas, Rinaldo: E-detectors: a nonparametric framework for sequential change detection.
New England Journal of Statistics in Data Science 2, 2024.
"""

import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LossWatch"]

_SHARES = (0.1, 0.3, 0.8)  # careful bets notice small changes, bold ones quick changes
_WEALTH = 10_000.0  # how much the bets must have won, in the mean
_WINDOW = 300  # rows over which the mean loss is taken
_LARGEST = 100.0  # a loss counts as at most so many times the mean: one row alone is no event
_FIRST = 200  # rows without a bet, at the beginning and after an event: no mean to speak of


class LossWatch(NamedTuple):
    """What is known of the losses so far. `look` goes on from there; nothing is changed in place.

    Attributes
    ----------
    n_rows : int
        How many losses were looked at, since the last event if there was one: then all begins anew.
    mean_loss : float
        Their mean over the last 300 rows or so; while there are fewer than 600, over the later
        half of them.
    wealth : tuple of float
        What each of the bets has won.
    """

    n_rows: int = 0
    mean_loss: float = 0.0
    wealth: tuple[float, ...] = (1.0,) * len(_SHARES)

    def look(self, losses: np.ndarray) -> tuple["LossWatch", np.ndarray]:
        """Look at the losses of further rows, each suffered before its row was learned.

        Parameters
        ----------
        losses : ndarray of shape (n,)

        Returns
        -------
        watch : LossWatch
            What is known after them.
        events : ndarray of int
            At which of them the losses had risen.
        """
        n_rows, mean, wealth = self
        events = []
        for i, loss in enumerate(losses.tolist()):
            if n_rows >= _FIRST and mean > 0.0:
                gain = min(loss / mean, _LARGEST) - 1.0
                wealth = tuple(
                    max(1.0, w * (1.0 + share * gain))
                    for w, share in zip(wealth, _SHARES, strict=True)
                )
                if sum(wealth) >= _WEALTH * len(_SHARES):
                    events.append(i)
                    n_rows, mean, wealth = LossWatch()
            n_rows += 1
            mean += (loss - mean) / min(0.5 * (n_rows + 1), _WINDOW)
        return LossWatch(n_rows, mean, wealth), np.array(events, dtype=np.int64)

    @classmethod
    def from_json(cls, saved: Any) -> "LossWatch":
        """A watch from the list that a file has of it."""
        n_rows, mean, wealth = saved
        watch = cls(int(n_rows), float(mean), tuple(float(w) for w in wealth))
        numbers = (watch.n_rows, watch.mean_loss, *watch.wealth)
        if len(watch.wealth) != len(_SHARES) or not all(
            math.isfinite(number) and number >= 0 for number in numbers
        ):
            raise ValueError(f"{saved!r} is not what is known of losses.")
        return watch
