"""The queue between the requests that bring rows and the thread that learns them."""

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

from kernelstream.serve.blocks import Block

__all__ = ["Accepted", "Answer", "Closed", "Pending", "QueueFull", "RowQueue"]


class QueueFull(Exception):  # noqa: N818 (it names a state, not a mistake)
    """The queue has no room: the caller should send the rows again later.

    Parameters
    ----------
    n_waiting : int
        How many rows wait.
    retry_after : int
        Seconds after which the caller may try again.
    """

    def __init__(self, n_waiting: int, retry_after: int):
        super().__init__(
            f"{n_waiting:,} rows wait to be learned: send these again in {retry_after} s."
        )
        self.retry_after = retry_after


class Closed(Exception):  # noqa: N818
    """The model does not learn: the service is stopping, its writer failed, or its disk did."""


class Accepted(NamedTuple):
    """How many rows of a request are on the disk.

    Attributes
    ----------
    n_accepted : int
    n_repeated : int
        Rows with an id that was learned before.
    """

    n_accepted: int
    n_repeated: int


class Answer(NamedTuple):
    """The result of a request whose rows were learned.

    Attributes
    ----------
    accepted : Accepted
    predictions : list
        Of all rows. Rows that were not learned are predicted by the model after the request.
    skipped : list of dict
        Each with the row's number in the request and the reason.
    """

    accepted: Accepted
    predictions: list[Any]
    skipped: list[dict[str, Any]]


class Pending(NamedTuple):
    """A request in the queue, and the two moments that its sender may wait for."""

    block: Block
    logged: "Future[Accepted]"
    learned: "Future[Answer]"

    @classmethod
    def of(cls, block: Block) -> "Pending":
        """Return a new request."""
        pending = cls(block, Future(), Future())
        for future in (pending.logged, pending.learned):
            future.set_running_or_notify_cancel()  # a caller that goes away changes nothing
        return pending

    def refuse(self, error: Exception) -> None:
        """Give the error to everybody who waits."""
        for future in (self.logged, self.learned):
            if not future.done():
                future.set_exception(error)


class RowQueue:
    """Requests that wait for the writer, of at most so many rows.

    Parameters
    ----------
    most_rows : int
    rows_of_a_batch : int
        From how many rows on `take` returns what it has.
    """

    def __init__(self, most_rows: int, rows_of_a_batch: int):
        self.n_rows = 0
        self._most_rows, self._rows_of_a_batch = most_rows, rows_of_a_batch
        self._waiting: deque[Pending] = deque()
        self._changed = threading.Condition()
        self._closed, self._is_woken = "", False

    def put(self, pending: Pending, rows_per_second: float) -> None:
        """Add a request, or raise `QueueFull` or `Closed`."""
        n = len(pending.block.X)
        with self._changed:
            if self._closed:
                raise Closed(self._closed)
            if self.n_rows + n > self._most_rows and self._waiting:
                wait = int(self.n_rows / rows_per_second) if rows_per_second > 1.0 else 1
                raise QueueFull(self.n_rows, min(max(wait, 1), 60))
            self._waiting.append(pending)
            self.n_rows += n
            self._changed.notify()

    def take(self, together: bool, seconds: float | None = None) -> list[Pending] | None:
        """Return the requests that wait, up to a batch, or one of them.

        Parameters
        ----------
        together : bool
            Whether to return several requests.
        seconds : float, default=None
            How long to wait for the first one; None: until one comes or the queue is closed.

        Returns
        -------
        list of Pending or None
            Empty after so many seconds without a request, or after `wake`; None if the queue is
            closed and empty.
        """
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                if not self._changed.wait(seconds) or self._is_woken:
                    self._is_woken = False
                    return []
            batch: list[Pending] = []
            n = 0
            while self._waiting and (not batch or (together and n < self._rows_of_a_batch)):
                batch.append(self._waiting.popleft())
                n += len(batch[-1].block.X)
            self.n_rows -= n
            return batch

    def wake(self) -> None:
        """Let the thread that waits in `take` look at what else there is to do."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """Refuse requests from now on."""
        with self._changed:
            self._closed = reason
            self._changed.notify_all()
