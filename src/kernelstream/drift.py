"""Detects changes of a stream: rows at which the loss has risen by more than chance explains.

The test is a game. At every row a player bets that the next loss is larger than the mean of the
last ones. A bet of the share s of the wealth multiplies the wealth by ``1 + s (loss / mean - 1)``.
As long as the expected loss is not above that mean, no such bet wins on average, for any
distribution of the losses. A player who starts again with one unit whenever less is left then needs
at least 10,000 rows on average to win 10,000 units. When the wealth reaches 10,000 units, that row
is an event.

References
----------
Shin, Ramdas, Rinaldo: E-detectors: a nonparametric framework for sequential change detection.
New England Journal of Statistics in Data Science 2, 2024.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compiled import as_argument, compiled

__all__ = ["LossWatch"]

_SHARES = (0.1, 0.3, 0.8)  # small shares detect small changes, large shares sudden ones
_WEALTH = 10_000.0  # an event is when the mean wealth of the bets reaches this
_WINDOW = 300  # rows over which the mean loss is taken
_LARGEST = 100.0  # a loss counts as at most this times the mean: one row alone is no event
_FIRST = 200  # rows without bets, at the beginning and after an event, to estimate the mean


class LossWatch(NamedTuple):
    """The state of the test. `look` returns the next state; nothing is changed in place.

    Attributes
    ----------
    n_rows : int
        The number of losses so far, or since the last event, after which the test starts again.
    mean_loss : float
        The mean of about the last 300 losses; with fewer than 600 losses, the mean of their second
        half.
    wealth : tuple of float
        The wealth of each of the bets.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.drift import LossWatch
    >>> losses = np.r_[np.full(400, 0.1), np.full(200, 0.9)]
    >>> watch, events = LossWatch().look(losses)
    >>> bool(400 <= events[0] < 430)
    True
    """

    n_rows: int = 0
    mean_loss: float = 0.0
    wealth: tuple[float, ...] = (1.0,) * len(_SHARES)

    def look(self, losses: np.ndarray) -> tuple["LossWatch", np.ndarray]:
        """Test the losses of further rows, each measured before its row was learned.

        Parameters
        ----------
        losses : ndarray of shape (n,)
            The losses, in order.

        Returns
        -------
        watch : LossWatch
            The state after these losses.
        events : ndarray of int
            The positions of the events in `losses`.
        """
        wealth, events = np.array(self.wealth), np.empty(len(losses), np.int64)
        n_rows, mean, n_events = _look(
            as_argument(losses), int(self.n_rows), float(self.mean_loss), wealth, events
        )
        return LossWatch(int(n_rows), float(mean), tuple(wealth.tolist())), events[:n_events]

    @classmethod
    def from_json(cls, saved: Any) -> "LossWatch":
        """The state that a file holds as a list."""
        n_rows, mean, wealth = saved
        watch = cls(int(n_rows), float(mean), tuple(float(w) for w in wealth))
        numbers = (watch.n_rows, watch.mean_loss, *watch.wealth)
        if len(watch.wealth) != len(_SHARES) or not all(
            math.isfinite(number) and number >= 0 for number in numbers
        ):
            raise ValueError(f"{saved!r} is not what is known of losses.")
        return watch


@compiled
def _look(losses, n_rows, mean, wealth, events):
    """Bet on every loss; write the events and the wealth, and answer the rest of the state."""
    n_events = 0
    for i in range(losses.shape[0]):
        loss = losses[i]
        if n_rows >= _FIRST and mean > 0.0:
            gain, total = min(loss / mean, _LARGEST) - 1.0, 0.0
            for j in range(wealth.shape[0]):
                wealth[j] = max(1.0, wealth[j] * (1.0 + _SHARES[j] * gain))
                total += wealth[j]
            if total >= _WEALTH * wealth.shape[0]:
                events[n_events] = i
                n_events += 1
                n_rows, mean = 0, 0.0
                for j in range(wealth.shape[0]):
                    wealth[j] = 1.0
        n_rows += 1
        mean += (loss - mean) / min(0.5 * (n_rows + 1), _WINDOW)
    return n_rows, mean, n_events
