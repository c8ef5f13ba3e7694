"""Predictions go first: the thread that learns pauses while predictions are asked for.

Python's threads share a lock, which a request and the writer both need several times. Without
pauses they would hand it to each other again and again. A step of learning keeps the lock for less
than a millisecond in most cases; between two steps the writer sleeps long enough for a request to
be answered at once (docs/service.md has the measurements).
"""

from time import monotonic, sleep

__all__ = ["note_prediction", "pause", "pause_seconds"]

_PAUSE = 0.001  # seconds: three requests of one row
_RECENT = 0.01  # seconds after a prediction in which the next one is expected


class _Predictions:
    last = 0.0  # when the latest one was sent


def note_prediction() -> None:
    """Remember that a prediction was sent just now."""
    _Predictions.last = monotonic()


def pause_seconds() -> float:
    """Return how long to pause: 0 if no prediction was sent recently."""
    return _PAUSE if monotonic() - _Predictions.last < _RECENT else 0.0


def pause() -> None:
    """Pause if predictions are asked for."""
    if seconds := pause_seconds():
        sleep(seconds)
