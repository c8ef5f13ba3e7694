"""One model of a service: one thread writes, anybody reads, and what was acknowledged is kept.

a request's rows -> checked -> queue -> log, on the disk -> acknowledged -> learned -> checkpoint
"""

import logging
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream.files.bytes import FileError
from kernelstream.files.checkpoints import Checkpointer
from kernelstream.parts import integer_at_least, one_of
from kernelstream.serve.estimator import Outcome, ServedEstimator
from kernelstream.serve.fleet import ServedFleet
from kernelstream.serve.limits import Limits
from kernelstream.serve.log import Block, Log, RecentIds, joined
from kernelstream.serve.rows import encoder_of
from kernelstream.serve.statistics import Statistics
from kernelstream.serve.turns import pause
from kernelstream.serve.waiting import DurableRoom
from kernelstream.tables import shortened
from kernelstream.threads import pausing

__all__ = ["Accepted", "Answer", "Closed", "QueueFull", "ServedModel"]

_LOGGER = logging.getLogger("kernelstream.serve")
_WATCHED = 8  # keys of a fleet whose errors are counted, each for itself
_BLOCK = 1000  # rows that are learned at a time, between which predictions see what was learned


class QueueFull(Exception):  # noqa: N818 (it names what it is about)
    """So many rows wait to be learned that the caller should come back later.

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
    """The model does not learn any more, since the service is stopping or its writer has failed."""


class Accepted(NamedTuple):
    """What became of the rows of a request when they were on the disk.

    Attributes
    ----------
    n_accepted : int
    n_repeated : int
        Rows with an id that had been learned before.
    """

    n_accepted: int
    n_repeated: int


class Answer(NamedTuple):
    """What became of the rows of a request when they were learned.

    Attributes
    ----------
    accepted : Accepted
    predictions : list
        Of all rows; of those that were not learned, by the model after them.
    skipped : list of dict
        The row of the request, and the reason.
    """

    accepted: Accepted
    predictions: list[Any]
    skipped: list[dict[str, Any]]


class _Pending(NamedTuple):
    block: Block
    logged: "Future[Accepted]"
    learned: "Future[Answer]"


class _Queue:
    """Requests that wait for the writer, as many rows as may wait."""

    def __init__(self, most_rows: int):
        self.n_rows = 0
        self._most_rows = most_rows
        self._waiting: deque[_Pending] = deque()
        self._changed = threading.Condition()
        self._closed = ""

    def put(self, pending: _Pending, rows_per_second: float) -> None:
        """Join the queue, or raise where it is full or closed."""
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

    def take(self, together: bool) -> list[_Pending]:
        """All that waits, up to about a thousand rows, or one request; nothing at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            batch: list[_Pending] = []
            n = 0
            while self._waiting and (not batch or (together and n < _BLOCK)):
                batch.append(self._waiting.popleft())
                n += len(batch[-1].block.X)
            self.n_rows -= n
            return batch

    def close(self, reason: str) -> None:
        """Refuse what comes from now on."""
        with self._changed:
            self._closed = reason
            self._changed.notify_all()


class ServedModel:
    """A model that learns on a thread of its own, and loses nothing that it has acknowledged.

    Any thread may call any method. Predictions never wait: they see the last block that was
    learned. Rows to learn wait in a queue for the writer. It writes what has come meanwhile to the
    log, waits for the disk, acknowledges, and learns. A row with an id is learned at most once, as
    long as its id is among the last `limits.recent_ids`.

    Parameters
    ----------
    name : str
    model : estimator or KeyedFleet
        Where the folder has a checkpoint, that one is used instead.
    folder : str or path-like
        For checkpoints and the log. It is made if it is not there, and held until `close`.
    checkpoint_rows : int, default=10_000
        How many rows come between two checkpoints.
    sync : {"batch", "request"}, default="batch"
        Whether requests that come together are written to the disk together, or one by one.
    limits : Limits, default=Limits()
    extra : dict, default=None
        What the model's file holds beside the model, such as how columns are encoded.
    store : str or path-like, default=None
        The file of the `ModelStore` that a fleet was saved with. It is copied into the folder at
        the first start, and not changed.

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
        found, self.position, saved = self._checkpoints.resume_with_extra(lambda: model)
        self.extra = (extra or {}) if saved is None else saved
        self.served = _served(found, Path(folder), None if store is None else Path(store))
        self.statistics = Statistics(self.served.task, self.extra.pop("service", None))
        self._watched: OrderedDict[Any, Statistics] = OrderedDict()
        self._n_changes = 0
        self.failure: str | None = None
        self._looking = threading.Lock()  # at the statistics
        self._recent_ids = RecentIds(self.limits.recent_ids)
        self._log = Log(Path(folder), self._recent_ids)
        self._checkpoint_position = self.position
        self._replay()
        self.served.warm_up()
        self._queue = _Queue(max(self.limits.queued_rows, self.limits.rows))
        self._admission = threading.Lock()
        self._room = DurableRoom(Path(folder), self.limits.waiting_rows)
        self._room.discharge([i for i in self._room.ids if i in self._recent_ids])
        encoder = encoder_of(self.extra)
        self._columns = self.served.columns if encoder is None else encoder.names
        self._width = self.served.n_features
        self._labels = set(self.served.classes)
        self._writer = threading.Thread(target=self._write, name=f"writer of {name}", daemon=True)
        self._writer.start()

    # --- reading ---------------------------------------------------------------------------------

    @property
    def version(self) -> tuple[Any, ...]:
        """Something that is another when anything that is shown has changed."""
        pace = round(self.statistics.rows_per_second, 1)
        return self._n_changes, self.n_queued, len(self._room), self.failure, pace

    @property
    def n_queued(self) -> int:
        """How many rows wait to be learned."""
        return self._queue.n_rows

    @property
    def n_features(self) -> int | None:
        """How long a row must be, once that is known."""
        return self._width

    def predict(self, X: np.ndarray, keys: list[Any] | None = None) -> list[Any]:
        """What the model predicts, as of the last block that was learned."""
        return self.served.predict(Block(X, keys=keys))

    def wait_for_targets(self, block: Block) -> None:
        """Keep rows that were predicted until their targets come (`waiting`).

        They are on the disk when this returns.
        """
        try:
            self._room.admit(block)
        except OSError as error:
            raise Closed(f"the rows cannot be kept ({error}): try later.") from None

    def state(self, history: bool = False) -> dict[str, Any]:
        """Everything that a person can read, as plain data."""
        with self._looking:
            summary = self.statistics.summary()
            points = list(self.statistics.history.points)
        found = {
            "name": self.name, **self.served.describe(), "columns": self._columns,
            "encoded": "encoder" in self.extra or self.served.takes_tables,
            "position": self.position,
            "checkpoint_position": self._checkpoint_position, "n_queued": self.n_queued,
            "n_without_target": len(self._room), "failure": self.failure, **summary,
        }  # fmt: skip
        return found | ({"history": points} if history else {})

    def key_state(self, key: Any) -> dict[str, Any] | None:
        """What a person can read of the model of one key of a fleet; None where it has none.

        Its errors are counted since this was first asked for, of the eight keys that were asked for
        last: to do so for a million keys would take more memory than their models.
        """
        found = self.served.key(key)
        if found is None:
            return None
        with self._looking:
            statistics = self._watched.pop(key, None) or Statistics(self.served.task)
            self._watched[key] = statistics
            if len(self._watched) > _WATCHED:
                self._watched.popitem(last=False)
            history = list(statistics.history.points)
            return {"task": self.served.task, **found, **statistics.summary(), "history": history}

    # --- learning --------------------------------------------------------------------------------

    def problems(self, block: Block) -> dict[int, str]:
        """Why rows cannot be learned, by row: what can be told before they are."""
        targets = {} if block.targets is None else self.target_problems(block.targets)
        return targets | self.key_problems(block) | self.served.row_problems(block)

    def target_problems(self, targets: list[Any]) -> dict[int, str]:
        """Why targets cannot be learned, by row."""
        found = self.served.target_problems(targets)
        if self.served.task == "regression":  # which would take "1.5" and true for numbers
            return found | {
                i: f"its target {shortened(target)} is not a number"
                for i, target in enumerate(targets)
                if isinstance(target, str | bool)
            }
        if self.served.task == "classification":
            found |= self._label_problems(targets)
            with self._admission:
                sound = [label for i, label in enumerate(targets) if i not in found]
                beyond = self._labels_beyond(sound)
            found |= {
                i: f"its label is new, and the model has {self.limits.classes:,} classes, which "
                "is the limit"
                for i, label in enumerate(targets)
                if i not in found and label in beyond
            }
        return found

    def _label_problems(self, labels: list[Any]) -> dict[int, str]:
        """Texts that are too long, or would not come back as they are."""
        longest, found = self.limits.label_characters, {}
        for i, label in enumerate(labels):
            if isinstance(label, str) and len(label) > longest:
                found[i] = f"its label has {len(label):,} characters, of {longest:,} at most"
            elif isinstance(label, str) and label.endswith("\0"):  # which NumPy would cut off
                found[i] = "its label ends with a null character: leave that out"
        return found

    def _labels_beyond(self, labels: list[Any]) -> set[Any]:
        """New labels for which the model has no room; the caller holds the admission."""
        new = [label for label in dict.fromkeys(labels) if label not in self._labels]
        return set(new[max(self.limits.classes - len(self._labels), 0) :])

    def key_problems(self, block: Block) -> dict[int, str]:
        """Keys that are too long, and new ones beyond the limit."""
        found: dict[int, str] = {}
        if block.keys is None:
            return found
        most, longest = self.limits.keys, self.limits.id_characters
        new = self.served.new_keys(block)
        room = max(most - self.served.numbers()["n_keys"], 0)
        for place, (key, rows) in enumerate(new.items()):
            n = len(str(key))
            if not 0 < n <= longest:
                found |= dict.fromkeys(rows, f"its key has {n:,} characters, of 1 to {longest}")
            elif place >= room:
                found |= dict.fromkeys(
                    rows, f"its key is new, and there are {most:,} keys, which is the limit"
                )
        return found

    def unknown_keys(self, block: Block) -> dict[int, str]:
        """Rows that cannot be predicted, since their key has no model yet."""
        new = {} if block.keys is None else self.served.new_keys(block)
        return {
            row: f"its key {key!r} is unknown: no row of it was learned"
            for key, rows in new.items()
            for row in rows
        }

    def learn(self, block: Block) -> "Future[Answer]":
        """Learn rows that `problems` has no objection to; done when they are learned."""
        return self.submit(block).learned

    def submit(self, block: Block) -> Any:
        """Queue rows; `logged` of the answer is done when they are on the disk, `learned` later.

        Raises
        ------
        QueueFull, Closed
        """
        pending = _Pending(block, Future(), Future())
        for future in (pending.logged, pending.learned):
            future.set_running_or_notify_cancel()  # a caller that goes away changes nothing
        labels = (block.targets or []) if self.served.task == "classification" else []
        with self._admission:
            self._check_admission(block, labels)
            self._queue.put(pending, self.statistics.rows_per_second)
            # what the rows of the queue will add to the model
            self._width = block.width if self._width is None else self._width
            self._labels.update(labels)
        return pending

    def waiting(self, ids: list[str]) -> tuple[list[int], Block | None, list[int]]:
        """Which of these ids are those of rows that wait, these rows, and which were learned.

        Such rows, with their targets, are what `submit` takes; then they no longer wait.
        """
        wait, block = self._room.found(ids)
        rest = set(range(len(ids))) - set(wait)
        return wait, block, [i for i in sorted(rest) if ids[i] in self._recent_ids]

    def _check_admission(self, block: Block, labels: list[Any]) -> None:
        """The width must fit, and the classes: another request may have come since `problems`."""
        if None not in (block.width, self._width) and block.width != self._width:
            raise ValueError(
                f"rows have {block.width} features, and the model {self.name!r} learns from "
                f"{self._width}: send rows of {self._width}."
            )
        if self._labels_beyond(labels):
            raise ValueError(
                f"some labels are new, and the model {self.name!r} has {self.limits.classes:,} "
                "classes, which is the limit: leave these rows out."
            )

    def refuse(self, reasons: list[str]) -> None:
        """Count rows that were refused before they got into the queue."""
        with self._looking:
            for reason in reasons:
                self.statistics.note_refused(reason, None)
        self._n_changes += 1

    def close(self) -> None:
        """Learn what waits, save a checkpoint and let the folder go; a second call does nothing."""
        self._queue.close("the service is stopping: send the rows again when it is back.")
        self._writer.join()
        if self.failure is None and self.position > self._checkpoint_position:
            self._save()
        self._log.close()
        self._room.close()
        self.served.close()
        self._checkpoints.close()

    # --- the writer ------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Learn what the log has beyond the checkpoint, in the blocks in which it was learned."""
        for block in self._log.replay(self.position):
            self._learn(block)
        self._log.open(self.position)

    def _write(self) -> None:
        while batch := self._queue.take(self._together):
            try:
                self._handle(batch)
            except BaseException as error:
                self._fail(batch, error)
                return

    def _handle(self, batch: list[_Pending]) -> None:
        pause()
        block, places = self._without_repeated(batch)
        if len(block.X):
            pause()
            try:
                self._log.append(block)
            except OSError as error:  # nothing was acknowledged, and nothing is learned
                for pending in batch:
                    _refuse(pending, Closed(f"the log cannot be written ({error}): try later."))
                return
            pause()
            self._recent_ids.add(block.ids or [])
        # also rows that waited though they had been learned
        self._room.discharge([i for pending in batch for i in pending.block.ids or []])
        accepted = []
        for pending, rows in zip(batch, places, strict=True):
            accepted.append(Accepted(len(rows), len(pending.block.X) - len(rows)))
            pending.logged.set_result(accepted[-1])
            self.statistics.n_repeated += accepted[-1].n_repeated
        said, reasons = _by_row(len(block.X), self._learn(block))
        pause()
        first = 0
        for pending, rows, counts in zip(batch, places, accepted, strict=True):
            own = said[first : first + len(rows)]
            answer = self._answer(pending, rows, first, counts, own, reasons)
            pending.learned.set_result(answer)
            first += len(rows)
        if self.position - self._checkpoint_position >= (self._checkpoints.every_rows or 0):
            self._save()

    def _without_repeated(self, batch: list[_Pending]) -> tuple[Block, list[list[int]]]:
        """The rows of several requests as one block, and which rows of each request these are."""
        seen: set[str] = set()
        places, blocks = [], []
        for pending in batch:
            ids = pending.block.ids
            rows = list(range(len(pending.block.X)))
            if ids is not None:
                rows = [i for i in rows if ids[i] is None or not self._is_known(ids[i], seen)]
            places.append(rows)
            blocks.append(pending.block.take(rows))
        return joined(blocks, self.position), places

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
            with self._looking:
                self.statistics.note(outcome, part.targets, self.position, numbers)
            self._note_keys(part, outcome)
            self.position += len(part.X)
            self._n_changes += 1
            outcomes.append(outcome)
        return outcomes

    def _note_keys(self, part: Block, outcome: Outcome) -> None:
        """Count what happened to the keys that are watched."""
        with self._looking:
            watched = list(self._watched.items())
        for key, statistics in watched:
            rows = {row for row, other in enumerate(part.keys or []) if other == key}
            if rows:
                pause()
                numbers = self.served.key(key) or {}
                with self._looking:
                    statistics.note(outcome.of(rows), part.targets, self.position, numbers)

    def _answer(
        self, pending: _Pending, rows: list[int], first: int, counts: Accepted, said: list[Any],
        reasons: dict[int, str],
    ) -> Answer:  # fmt: skip
        """What a request is told; its rows begin at `first` in the block."""
        predictions: list[Any] = [None] * len(pending.block.X)
        for row, prediction in zip(rows, said, strict=True):
            predictions[row] = prediction
        others = sorted(set(range(len(predictions))) - set(rows))
        if others and self.served.is_ready:
            said_now = self.served.predict(pending.block.take(others))
            for row, prediction in zip(others, said_now, strict=True):
                predictions[row] = prediction
        skipped = [
            {"row": row, "reason": reasons[first + i]}
            for i, row in enumerate(rows)
            if first + i in reasons
        ]
        return Answer(counts, predictions, skipped)

    def _save(self) -> None:
        """Save a checkpoint, and begin a segment of the log at its position."""
        if not self.served.is_ready:
            return
        with self._looking:
            extra = {**self.extra, "service": self.statistics.to_json()}
        try:
            self._checkpoints.save(self.served, self.position, extra)
            self._checkpoint_position = self.position
            self._log.begin_segment(self.position, min(self._checkpoints.positions()))
        except (OSError, FileError) as error:  # the log has all that the checkpoint would have
            _LOGGER.warning("model %s: no checkpoint could be saved: %s", self.name, error)

    def _fail(self, batch: list[_Pending], error: BaseException) -> None:
        """The writer cannot go on: say so to all who wait, and to all who come."""
        self.failure = f"{type(error).__name__}: {error}"
        reason = f"learning has stopped ({self.failure}): restart the service."
        self._queue.close(reason)
        while batch:
            for pending in batch:
                _refuse(pending, Closed(reason))
            batch = self._queue.take(together=True)


def _by_row(n_rows: int, outcomes: list[Outcome]) -> tuple[list[Any], dict[int, str]]:
    """Predictions by row of a block, None where a row was left out, and why it was."""
    said: list[Any] = [None] * n_rows
    reasons: dict[int, str] = {}
    for k, outcome in enumerate(outcomes):
        start = k * _BLOCK
        for row, prediction in zip(outcome.rows.tolist(), outcome.predictions, strict=True):
            said[start + row] = prediction
        reasons |= {start + bad.row: bad.reason for bad in outcome.skipped}
    return said, reasons


def _served(model: Any, folder: Path, store: Path | None) -> Any:
    """A model with what a service asks of it."""
    kinds: list[Any] = [ServedEstimator, ServedFleet]
    for kind in kinds:
        if isinstance(model, kind.serves):
            return kind.opened(model, folder, store)
    raise TypeError(
        f"a {type(model).__name__} cannot be served: give an estimator of this library, such as "
        "KernelClassifier or a committee, or a KeyedFleet."
    )


def _refuse(pending: _Pending, error: Exception) -> None:
    for future in (pending.logged, pending.learned):
        if not future.done():
            future.set_exception(error)
