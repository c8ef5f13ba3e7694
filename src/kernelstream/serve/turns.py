"""Predictions go first: what learns waits a moment while predictions are asked for.

Threads of Python share a lock, which a request and whoever learns both need several times, so that
they would hand it to each other again and again. Between two steps of learning, few of which take
a millisecond of Python, the writer therefore sleeps, long enough for a request to be answered
in one go (docs/service.md has the figures).
"""

from time import monotonic, sleep

__all__ = ["moment", "pause", "was_answered"]

_MOMENT = 0.001  # seconds: three requests of one row
_LATELY = 0.01  # seconds after a prediction in which the next one is expected


class _Predictions:
    last = 0.0  # when one was given


def was_answered() -> None:
    """A prediction was given."""
    _Predictions.last = monotonic()


def moment() -> float:
    """How long to wait, in seconds: nothing where no prediction was given lately."""
    return _MOMENT if monotonic() - _Predictions.last < _LATELY else 0.0


def pause() -> None:
    """Let predictions go first, if any are asked for."""
    if seconds := moment():
        sleep(seconds)
