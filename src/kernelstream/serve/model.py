"""One model of a service: one thread learns, any thread reads, and acknowledged rows are kept.

a request's rows -> checked -> queue -> log, on the disk -> acknowledged -> learned -> checkpoint
"""

import logging
import threading
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.files.bytes import FileError
from kernelstream.files.checkpoints import Checkpointer
from kernelstream.parts import integer_at_least, one_of
from kernelstream.serve.admission import Admission
from kernelstream.serve.blocks import Block, joined
from kernelstream.serve.delayed_labels import DurablePendingRows
from kernelstream.serve.disk import DiskState
from kernelstream.serve.estimator import Outcome, ServedEstimator
from kernelstream.serve.fleet import ServedFleet
from kernelstream.serve.limits import Limits
from kernelstream.serve.log import Log, RecentIds
from kernelstream.serve.queue import Accepted, Answer, Closed, Pending, RowQueue
from kernelstream.serve.reader_priority import pause
from kernelstream.serve.rows import encoder_of
from kernelstream.serve.statistics import Statistics
from kernelstream.threads import pausing

__all__ = ["ServedModel"]

_LOGGER = logging.getLogger("kernelstream.serve")
_WATCHED_KEYS = 8  # keys of a fleet with statistics of their own
_BLOCK = 1000  # rows that are learned at a time; predictions see what was learned between two
_RETRY_SECONDS = 0.5  # between two looks whether a failed write is due again


class ServedModel:
    """A model that learns on a thread of its own, and loses nothing that it has acknowledged.

    Any thread may call any method. Predictions never wait: they see the last block that was
    learned. Rows to learn wait in a queue for the writer thread. The writer takes the rows that
    have come, writes them to the log, waits for the disk, acknowledges them, and learns them. A row
    with an id is learned at most once while its id is among the last `limits.recent_ids`.

    If the disk fails, rows are refused, and nothing that was acknowledged is lost. `disk` counts
    and logs failed writes, and the writer tries again by itself.

    Parameters
    ----------
    name : str
    model : estimator or KeyedFleet
        If the folder has a checkpoint, the checkpoint is used instead.
    folder : str or path-like
        For checkpoints and the log. It is created if missing, and locked until `close`.
    checkpoint_rows : int, default=10_000
        The number of rows between two checkpoints.
    sync : {"batch", "request"}, default="batch"
        Whether requests that come together are written to the disk together or one by one.
    limits : Limits, default=Limits()
    extra : dict, default=None
        What the model's file has beside the model, such as the encoding of columns.
    store : str or path-like, default=None
        The file of the `ModelStore` that a fleet was saved with. It is copied into the folder at
        the first start, and stays as it is.

    Examples
    --------
    >>> import tempfile
    >>> import kernelstream as ks
    >>> from kernelstream.serve import Block, ServedModel
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> rows = Block(np.array([[0.0], [1.0]]), ["no", "yes"], ["a", "b"])
    >>> served = ServedModel("line", ks.make("linear-pa", "classifier"), folder)
    >>> served.learn(rows).result().accepted
    Accepted(n_accepted=2, n_repeated=0)
    >>> served.learn(rows).result().accepted  # a retry
    Accepted(n_accepted=0, n_repeated=2)
    >>> served.close()
    """

    def __init__(
        self, name: str, model: Any, folder: Any, *, checkpoint_rows: int = 10_000,
        sync: str = "batch", limits: Limits | None = None, extra: dict[str, Any] | None = None,
        store: Any = None,
    ):  # fmt: skip
        self.name = name
        self.limits = Limits() if limits is None else limits
        self._together = one_of("sync", sync, ["batch", "request"]) == "batch"
        every = integer_at_least("checkpoint_rows", checkpoint_rows, 1)
        self._checkpoints = Checkpointer(Path(folder), every_rows=every, keep=2)
        with ExitStack() as held:  # let go by a model that does not start
            held.callback(self._checkpoints.close)
            found, self.position, saved = self._checkpoints.resume_with_extra(lambda: model)
            self.extra = (extra or {}) if saved is None else saved
            self.served = _served(found, Path(folder), None if store is None else Path(store))
            held.callback(self.served.close)
            self.statistics = Statistics(self.served.task, self.extra.pop("service", None))
            self._statistics_lock = threading.Lock()
            self._watched: OrderedDict[Any, Statistics] = OrderedDict()
            self._n_changes = 0
            self.failure: str | None = None
            self.disk = DiskState(name)
            self._recent_ids = RecentIds(self.limits.recent_ids)
            self._log = Log(Path(folder), self._recent_ids)
            self._checkpoint_position = self.position
            self._replay()
            self.served.warm_up()
            self._queue = RowQueue(max(self.limits.queued_rows, self.limits.rows), _BLOCK)
            self._pending_rows = DurablePendingRows(
                Path(folder),
                self.limits.waiting_rows,
                lambda error: self.disk.note_failure("delayed rows", error),
            )
            self._pending_rows.remove([i for i in self._pending_rows.ids if i in self._recent_ids])
            encoder = encoder_of(self.extra)
            self._columns = self.served.columns if encoder is None else encoder.names
            self.admission = Admission(name, self.served, self.limits)
            self._writer = threading.Thread(
                target=self._write, name=f"writer of {name}", daemon=True
            )
            self._writer.start()
            held.pop_all()

    # --- reading ---------------------------------------------------------------------------------

    @property
    def version(self) -> tuple[Any, ...]:
        """Return a version that changes whenever the displayed state changes."""
        pace = round(self.statistics.rows_per_second, 1)
        shown = self.failure, self.disk.problem, pace
        return self._n_changes, self.n_queued, len(self._pending_rows), *shown

    @property
    def n_queued(self) -> int:
        """Return how many rows wait to be learned."""
        return self._queue.n_rows

    @property
    def n_features(self) -> int | None:
        """Return how many features a row must have, once that is known."""
        return self.admission.n_features

    @property
    def not_ready(self) -> str | None:
        """Return why the model cannot accept rows; None if it can."""
        return self.failure or self.disk.problem

    def predict(self, X: np.ndarray, keys: list[Any] | None = None) -> list[Any]:
        """Predict by the model after the last block that was learned."""
        predictions: list[Any] = self.served.predict(Block(X, keys=keys))
        return predictions

    def wait_for_targets(self, block: Block) -> None:
        """Keep rows that were predicted until their targets come (`waiting`).

        They are on the disk when this returns.
        """
        try:
            self._pending_rows.add(block)
        except OSError as error:
            self.disk.note_failure("delayed rows", error)
            self._queue.wake()  # the writer tries again
            raise Closed(f"the rows cannot be kept ({error}): try later.") from None
        self.disk.note_success("delayed rows")

    def state(self, history: bool = False) -> dict[str, Any]:
        """Return everything that a person can read, as plain data."""
        with self._statistics_lock:
            summary = self.statistics.summary()
            points = list(self.statistics.history.points)
        found = {
            "name": self.name, **self.served.describe(), "columns": self._columns,
            "encoded": "encoder" in self.extra or self.served.takes_tables,
            "position": self.position,
            "checkpoint_position": self._checkpoint_position, "n_queued": self.n_queued,
            "n_without_target": len(self._pending_rows), "failure": self.failure,
            "disk_problem": self.disk.problem, "failed_writes": dict(self.disk.failed_writes),
            "ready": self.not_ready is None, **summary,
        }  # fmt: skip
        return found | ({"history": points} if history else {})

    def key_state(self, key: Any) -> dict[str, Any] | None:
        """Return what a person can read of the model of one key of a fleet; None without a model.

        Errors are counted from the first call for a key on, and for the last eight keys only: for a
        million keys they would take more memory than the models.
        """
        found = self.served.key(key)
        if found is None:
            return None
        with self._statistics_lock:
            statistics = self._watched.pop(key, None) or Statistics(self.served.task)
            self._watched[key] = statistics
            if len(self._watched) > _WATCHED_KEYS:
                self._watched.popitem(last=False)
            history = list(statistics.history.points)
            return {"task": self.served.task, **found, **statistics.summary(), "history": history}

    # --- learning --------------------------------------------------------------------------------

    def learn(self, block: Block) -> "Future[Answer]":
        """Queue rows without `admission.problems`; the future is done when they are learned."""
        return self.submit(block).learned

    def submit(self, block: Block) -> Pending:
        """Queue rows: `logged` is done when they are on the disk, `learned` later.

        Raises
        ------
        QueueFull, Closed
        """
        pending = Pending.of(block)
        with self.admission.lock:
            self.admission.check(block)
            self._queue.put(pending, self.statistics.rows_per_second)
            self.admission.note(block)
        return pending

    def waiting(self, ids: list[str]) -> tuple[list[int], Block | None, list[int]]:
        """Return which ids belong to rows that wait, these rows, and which ids were learned.

        Give the rows with their targets to `submit`; then they no longer wait.
        """
        wait, block = self._pending_rows.found(ids)
        rest = set(range(len(ids))) - set(wait)
        return wait, block, [i for i in sorted(rest) if ids[i] in self._recent_ids]

    def refuse(self, reasons: list[str]) -> None:
        """Count rows that were refused before they reached the queue."""
        with self._statistics_lock:
            for reason in reasons:
                self.statistics.note_refused(reason, None)
        self._n_changes += 1

    def close(self) -> None:
        """Learn the queued rows, save a checkpoint and unlock the folder. May be called twice."""
        self._queue.close("the service is stopping: send the rows again when it is back.")
        self._writer.join()
        if self.failure is None and self.position > self._checkpoint_position:
            self._save()
        self._log.close()
        self._pending_rows.close()
        self.served.close()
        self._checkpoints.close()

    # --- the writer ------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Learn the log's rows after the checkpoint, in the blocks in which they were learned."""
        for block in self._log.replay(self.position):
            self._learn(block)
        self._log.open(self.position)

    def _write(self) -> None:
        """Handle requests until the queue is closed, and repeat writes that failed."""
        batch: list[Pending] | None = []
        try:
            while True:
                seconds = None if self.disk.problem is None else _RETRY_SECONDS
                batch = self._queue.take(self._together, seconds)
                if batch is None:
                    return
                if batch:
                    self._handle(batch)
                if self.disk.problem is not None and self.disk.is_retry_due():
                    self._write_again()
        except BaseException as error:
            self._fail(batch or [], error)

    def _handle(self, batch: list[Pending]) -> None:
        pause()
        block, kept_rows = self._without_repeated(batch)
        if len(block.X):
            pause()
            try:
                self._log.append(block)
            except OSError as error:  # nothing was acknowledged, and nothing is learned
                self.disk.note_failure("log", error)
                for pending in batch:
                    pending.refuse(Closed(f"the log cannot be written ({error}): try later."))
                return
            self.disk.note_success("log")
            pause()
            self._recent_ids.add(block.ids or [])
        # also rows that waited though they had been learned
        self._pending_rows.remove([i for pending in batch for i in pending.block.ids or []])
        accepted = []
        for pending, rows in zip(batch, kept_rows, strict=True):
            accepted.append(Accepted(len(rows), len(pending.block.X) - len(rows)))
            pending.logged.set_result(accepted[-1])
            self.statistics.n_repeated += accepted[-1].n_repeated
        predictions, reasons = _by_row(len(block.X), self._learn(block))
        pause()
        first = 0
        for pending, rows, counts in zip(batch, kept_rows, accepted, strict=True):
            own = predictions[first : first + len(rows)]
            answer = self._answer(pending, rows, first, counts, own, reasons)
            pending.learned.set_result(answer)
            first += len(rows)
        is_due = self.position - self._checkpoint_position >= (self._checkpoints.every_rows or 0)
        if is_due and not self.disk.fails("checkpoint"):  # which has times of its own to try again
            self._save()

    def _without_repeated(self, batch: list[Pending]) -> tuple[Block, list[list[int]]]:
        """Return the rows of several requests as one block, and their numbers in each request."""
        seen: set[str] = set()
        kept_rows, blocks = [], []
        for pending in batch:
            ids = pending.block.ids
            rows = list(range(len(pending.block.X)))
            if ids is not None:
                rows = [i for i in rows if ids[i] is None or not self._is_known(ids[i], seen)]
            kept_rows.append(rows)
            blocks.append(pending.block.take(rows))
        return joined(blocks, self.position), kept_rows

    def _is_known(self, row_id: Any, seen: set[str]) -> bool:
        if row_id in seen or row_id in self._recent_ids:
            return True
        seen.add(row_id)
        return False

    def _learn(self, block: Block) -> list[Outcome]:
        """Learn a block, a thousand rows at a time."""
        outcomes = []
        for start in range(0, len(block.X), _BLOCK):
            part = block.slice(start, start + _BLOCK)
            pause()
            with pausing(pause):
                outcome = self.served.learn(part)
            pause()
            numbers = self.served.numbers()
            with self._statistics_lock:
                self.statistics.note(outcome, part.targets, self.position, numbers)
            self._note_keys(part, outcome)
            self.position += len(part.X)
            self._n_changes += 1
            outcomes.append(outcome)
        return outcomes

    def _note_keys(self, part: Block, outcome: Outcome) -> None:
        """Add the rows of watched keys to their statistics."""
        with self._statistics_lock:
            watched = list(self._watched.items())
        for key, statistics in watched:
            rows = {row for row, other in enumerate(part.keys or []) if other == key}
            if rows:
                pause()
                numbers = self.served.key(key) or {}
                with self._statistics_lock:
                    statistics.note(outcome.of(rows), part.targets, self.position, numbers)

    def _answer(
        self, pending: Pending, rows: list[int], first: int, counts: Accepted,
        of_rows: list[Any], reasons: dict[int, str],
    ) -> Answer:  # fmt: skip
        """Return the answer to a request whose rows begin at `first` in the block."""
        predictions: list[Any] = [None] * len(pending.block.X)
        for row, prediction in zip(rows, of_rows, strict=True):
            predictions[row] = prediction
        others = sorted(set(range(len(predictions))) - set(rows))
        if others and self.served.is_ready:
            of_others = self.served.predict(pending.block.take(others))
            for row, prediction in zip(others, of_others, strict=True):
                predictions[row] = prediction
        skipped = [
            {"row": row, "reason": reasons[first + i]}
            for i, row in enumerate(rows)
            if first + i in reasons
        ]
        return Answer(counts, predictions, skipped)

    def _save(self) -> None:
        """Save a checkpoint, and begin a segment of the log once the checkpoint was read back."""
        if not self.served.is_ready:
            return
        with self._statistics_lock:
            extra = {**self.extra, "service": self.statistics.to_json()}
        try:
            self._checkpoints.save(self.served, self.position, extra)  # and read it back
            self._log.begin_segment(self.position, min(self._checkpoints.positions()))
        except (OSError, FileError) as error:  # the log has every row that the checkpoint lacks
            self.disk.note_failure("checkpoint", error)
            return
        self._checkpoint_position = self.position
        self.disk.note_success("checkpoint")

    def _write_again(self) -> None:
        """Try a write after one has failed, so that readiness returns without any request."""
        if self.disk.fails("checkpoint") or self.position > self._checkpoint_position:
            self._save()
        if self.disk.problem is not None and not self.disk.fails("checkpoint"):
            try:
                self._log.append_ids()
            except OSError as error:
                self.disk.note_failure("log", error)
            else:
                self.disk.note_success("log")

    def _fail(self, batch: list[Pending], error: BaseException) -> None:
        """Stop learning, and say so to everybody who waits or comes later."""
        self.failure = f"{type(error).__name__}: {error}"
        _LOGGER.critical("model %s: learning has stopped", self.name, exc_info=error)
        reason = f"learning has stopped ({self.failure}): restart the service."
        self._queue.close(reason)
        rest: list[Pending] | None = batch
        while rest is not None:
            for pending in rest:
                pending.refuse(Closed(reason))
            rest = self._queue.take(together=True)


def _by_row(n_rows: int, outcomes: list[Outcome]) -> tuple[list[Any], dict[int, str]]:
    """Return a block's predictions by row, None for a row that was left out, and the reasons."""
    predictions: list[Any] = [None] * n_rows
    reasons: dict[int, str] = {}
    for k, outcome in enumerate(outcomes):
        start = k * _BLOCK
        for row, prediction in zip(outcome.rows.tolist(), outcome.predictions, strict=True):
            predictions[start + row] = prediction
        reasons |= {start + bad.row: bad.reason for bad in outcome.skipped}
    return predictions, reasons


def _served(model: Any, folder: Path, store: Path | None) -> Any:
    """Return a model with the methods that a service needs."""
    kinds: list[Any] = [ServedEstimator, ServedFleet]
    for kind in kinds:
        if isinstance(model, kind.serves):
            return kind.opened(model, folder, store)
    raise TypeError(
        f"a {type(model).__name__} cannot be served: give an estimator of this library, such as "
        "KernelClassifier or a committee, or a KeyedFleet."
    )
