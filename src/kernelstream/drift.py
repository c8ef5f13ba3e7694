"""Detects changes of a stream: rows at which the loss has risen by more than chance explains.

The test is a betting game. At every row a player bets that the next loss is larger than the mean of
the last losses. A bet of the share s of the wealth multiplies the wealth by
``1 + s (loss / mean - 1)``. As long as the expected loss is not above that mean, no bet wins on
average, for any distribution of the losses. A player who restarts with one unit whenever less is
left then needs at least 10,000 rows on average to win 10,000 units. When the wealth reaches 10,000
units, that row is an event.

A loss that rises regularly, by day or by season, is no change. So the test remembers how high the
loss has been: the means of blocks of 50 rows, spread over the later half of the stream. After four
events, the players bet against the larger of the recent mean and the level that the loss exceeded
15 % of that time. (What follows a real change is learned, so that the loss soon falls again and
spends less time up there.)

References
----------
Shin, Ramdas, Rinaldo: E-detectors: a nonparametric framework for sequential change detection.
New England Journal of Statistics in Data Science 2, 2024.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import as_argument, compiled, helper

__all__ = ["LossWatch"]

_SHARES = (0.1, 0.3, 0.8)  # small shares detect small changes, large shares sudden ones
_WEALTH = 10_000.0  # the mean wealth of the bets that makes an event
_WINDOW = 300  # rows over which the mean loss is taken
_LARGEST = 100.0  # a loss counts as at most this times the mean: one row alone is no event
_FIRST = 200  # rows without bets, at the beginning and after an event, to estimate the mean

_BLOCK = 50  # rows whose mean loss is one level
_MOST_LEVELS = 128  # when there are so many, every other one goes, and fewer blocks are taken
_FEWEST_LEVELS = 20  # before they count
_EVENTS = 4  # from then on levels count: what has risen so often may be regular
_SHARE_ABOVE = 0.15  # of the time that the loss regularly spends above the level


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
    n_events : int
        The number of events so far.
    levels : tuple of float
        The mean losses of some blocks of 50 rows, in order.
    stride, n_skipped : int
        One block in so many is kept as a level; the number of blocks since the last one.
    n_in_block : int
        The number of losses in the block that is not complete yet.
    block_loss : float
        Their sum.

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
    n_events: int = 0
    levels: tuple[float, ...] = ()
    stride: int = 1
    n_skipped: int = 0
    n_in_block: int = 0
    block_loss: float = 0.0

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
        levels = np.zeros(_MOST_LEVELS)
        levels[: len(self.levels)] = self.levels
        counts = np.array([
            self.n_rows, self.n_events, len(self.levels), self.stride, self.n_skipped,
            self.n_in_block,
        ])  # fmt: skip
        sums = np.array([self.mean_loss, self.block_loss])
        n_found = _look(as_argument(losses), counts, sums, wealth, levels, events)
        n_rows, n_events, n_levels, stride, n_skipped, n_in_block = counts.tolist()
        mean_loss, block_loss = sums.tolist()
        watch = LossWatch(
            n_rows, mean_loss, tuple(wealth.tolist()), n_events, tuple(levels[:n_levels].tolist()),
            stride, n_skipped, n_in_block, block_loss,
        )  # fmt: skip
        return watch, events[:n_found]

    @classmethod
    def from_json(cls, saved: Any) -> "LossWatch":
        """Return the state that a file holds as a list."""
        n_rows, mean, wealth, n_events, levels, stride, n_skipped, n_in_block, total = saved
        watch = cls(
            int(n_rows), float(mean), tuple(float(w) for w in wealth), int(n_events),
            tuple(float(level) for level in levels), int(stride), int(n_skipped), int(n_in_block),
            float(total),
        )  # fmt: skip
        numbers = [
            number for value in watch
            for number in (value if isinstance(value, tuple) else (value,))
        ]  # fmt: skip
        sound = all(math.isfinite(number) and number >= 0 for number in numbers)
        sound &= len(watch.wealth) == len(_SHARES) and len(watch.levels) <= _MOST_LEVELS
        if not (sound and watch.n_skipped < watch.stride and watch.n_in_block < _BLOCK):
            raise ValueError(f"{saved!r} is not the state of a test of losses.")
        return watch


@compiled
def _look(losses, counts, sums, wealth, levels, events):
    """Bet on every loss, write the events and the state, and return the number of events.

    `counts` and `sums` hold the state of `LossWatch` as `look` writes it.
    """
    n_rows, n_events, n_levels = counts[0], counts[1], counts[2]
    stride, n_skipped, n_in_block = counts[3], counts[4], counts[5]
    mean, block_loss = sums[0], sums[1]
    n_found, regular = 0, _regular_level(levels, n_levels, n_events)
    for i in range(losses.shape[0]):
        loss, level = losses[i], max(mean, regular)
        if n_rows >= _FIRST and level > 0.0:
            gain, total = min(loss / level, _LARGEST) - 1.0, 0.0
            for j in range(wealth.shape[0]):
                wealth[j] = max(1.0, wealth[j] * (1.0 + _SHARES[j] * gain))
                total += wealth[j]
            if total >= _WEALTH * wealth.shape[0]:
                events[n_found] = i
                n_found, n_events = n_found + 1, n_events + 1
                n_rows, mean = 0, 0.0
                regular = _regular_level(levels, n_levels, n_events)
                for j in range(wealth.shape[0]):
                    wealth[j] = 1.0
        n_rows += 1
        mean += (loss - mean) / min(0.5 * (n_rows + 1), _WINDOW)
        block_loss += loss
        n_in_block += 1
        if n_in_block == _BLOCK:
            n_skipped += 1
            if n_skipped == stride:
                n_skipped = 0
                if n_levels == levels.shape[0]:  # every other one goes: they span the whole stream
                    n_levels //= 2
                    for k in range(n_levels):
                        levels[k] = levels[2 * k + 1]
                    stride *= 2
                levels[n_levels] = block_loss / _BLOCK
                n_levels += 1
                regular = _regular_level(levels, n_levels, n_events)
            block_loss, n_in_block = 0.0, 0
    counts[0], counts[1], counts[2] = n_rows, n_events, n_levels
    counts[3], counts[4], counts[5] = stride, n_skipped, n_in_block
    sums[0], sums[1] = mean, block_loss
    return n_found


@helper
def _regular_level(levels, n_levels, n_events):
    """Return the level that the loss exceeds regularly; zero as long as nothing is known of it."""
    if n_events < _EVENTS or n_levels < _FEWEST_LEVELS:
        return 0.0
    first = n_levels // 2
    rank = int((1.0 - _SHARE_ABOVE) * (n_levels - first))
    found = 0.0
    for i in range(first, n_levels):  # the level of that rank, without memory for a sorted copy
        n_below, n_equal = 0, 0
        for j in range(first, n_levels):
            n_below += levels[j] < levels[i]
            n_equal += levels[j] == levels[i]
        if n_below <= rank < n_below + n_equal:
            found = levels[i]
    return found
