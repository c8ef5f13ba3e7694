"""The models of a service, and what its endpoints do, without HTTP."""

import re
import secrets
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from kernelstream.files.bytes import FileError
from kernelstream.files.loading import load_with_header
from kernelstream.fleet.keys import from_text
from kernelstream.learner.rows import BadRow
from kernelstream.serve.blocks import Block
from kernelstream.serve.bodies import read_labels, read_rows
from kernelstream.serve.connections import Connections, InFlight
from kernelstream.serve.limits import Limits
from kernelstream.serve.metrics import Latencies, exposition
from kernelstream.serve.model import ServedModel
from kernelstream.serve.problems import Problem, bad_rows, reasons
from kernelstream.serve.queue import Closed, QueueFull
from kernelstream.serve.reader_priority import pause
from kernelstream.serve.rows import RowReader

__all__ = ["Service", "unavailable"]

MOST_KEYS = 1000  # that are listed in an answer
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Service:
    """The models of a service by name, and the work of its endpoints.

    Parameters
    ----------
    models : iterable of ServedModel
    limits : Limits, default=Limits()
    token : str, default=None
        The token that callers must send; None for a service that only this machine reaches.
    """

    def __init__(
        self, models: Iterable[ServedModel], limits: Limits | None = None, token: str | None = None
    ):
        self.limits = Limits() if limits is None else limits
        self.models = {model.name: model for model in models}
        self.token = token
        self.latencies = Latencies()
        self.connections, self.in_flight = Connections(self.limits), InFlight(self.limits)
        self.is_stopping = False
        self.n_viewers = 0
        self._readers = {name: RowReader.of_model(m) for name, m in self.models.items()}
        self._prefix, self._counter = secrets.token_hex(6), count()

    @classmethod
    def from_files(
        cls, path: Any, folder: Any, limits: Limits | None = None, token: str | None = None,
        **options: Any,
    ) -> "Service":  # fmt: skip
        """Serve a model's file, or every ``*.ks`` in a folder. A model's name is its file's stem.

        Parameters
        ----------
        path : str or path-like
        folder : str or path-like
            The folder for checkpoints and logs, with a folder per model.
        limits, token
            As in the class.
        **options
            For every `ServedModel`.
        """
        path, limits = Path(path), Limits() if limits is None else limits
        files = sorted(path.glob("*.ks")) if path.is_dir() else [path]
        if not files:
            raise FileError(f"{path} is a folder without a model: put files *.ks into it.")
        if len(files) > limits.models:
            raise ValueError(
                f"{path} has {len(files):,} models, and the limit is {limits.models:,}: raise it "
                f"(--limit models={len(files)}), or serve fewer."
            )
        models: list[ServedModel] = []
        try:
            for file in files:
                if not _NAME.fullmatch(file.stem):
                    raise ValueError(
                        f"{file}: a model's name has letters, digits, '_', '-' and '.' only: "
                        "rename the file."
                    )
                model, header = load_with_header(file)
                models.append(
                    ServedModel(
                        file.stem,
                        model,
                        Path(folder) / file.stem,
                        limits=limits,
                        extra=header.get("extra"),
                        store=file.with_suffix(".db"),
                        **options,
                    )
                )
        except BaseException:
            for model in models:
                model.close()
            raise
        return cls(models, limits, token)

    def close(self) -> None:
        """Learn the queued rows, save every model, and unlock the folders."""
        self.is_stopping = True
        for model in self.models.values():
            model.close()

    def model(self, name: str) -> ServedModel:
        """Return the model of this name."""
        if name not in self.models:
            raise Problem(
                404, "unknown-model", "There is no such model",
                "There is no model of this name: GET /v1/models lists the names.",
            )  # fmt: skip
        return self.models[name]

    # --- what the endpoints do -------------------------------------------------------------------

    def predict(
        self, name: str, body: bytes, content_type: str, wait: bool = False, scores: bool = False
    ) -> dict[str, Any]:
        """Predict rows. With ids or `wait`, the rows wait for their targets under ids."""
        model = self.model(name)
        found = self._read(model, body, content_type)
        block, problems = self._block(model, found)
        if block.targets is not None:
            raise Problem(
                422, "unexpected-targets", "Targets are not used here",
                "predict takes no targets: use step to predict rows and then learn them.",
            )  # fmt: skip
        if not model.served.is_ready:
            raise Problem(
                409, "nothing-learned", "The model has not learned anything yet",
                f"The model {name!r} cannot predict before its first row was learned: use learn.",
            )  # fmt: skip
        waits = block.ids is not None or wait
        # A key without a model has no prediction. It may wait: its target is its model's first.
        of_keys = (
            model.admission.key_problems(block) if waits else model.admission.unknown_keys(block)
        )
        problems = of_keys | model.served.row_problems(block) | problems
        if problems:
            raise bad_rows(problems)
        try:
            answer: dict[str, Any] = {"predictions": model.served.predict(block)}
            if scores:
                answer["scores"] = model.served.scores(block)
        except FileError:  # of a store: the rows are not to blame
            raise
        except BadRow as bad:  # so large that its kernel overflows, say
            raise bad_rows({bad.row: bad.reason}) from None
        except ValueError as error:
            raise _refused(error) from None
        if waits:
            ids: list[str | None] = block.ids or self._new_ids(len(block.X))
            answer["ids"] = ids
            with _queue_problems():
                model.wait_for_targets(block._replace(ids=ids))
        return answer

    def submit(
        self, name: str, body: bytes, content_type: str, skip: bool = False
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Queue rows to learn; return the queued request and the rows that were left out."""
        steps = self.submission(name, body, content_type, skip)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                pending, skipped = end.value
                return pending, skipped
            pause()

    def submission(
        self, name: str, body: bytes, content_type: str, skip: bool = False
    ) -> Generator[None, None, tuple[Any, list[dict[str, Any]]]]:
        """Do the work of `submit` in steps, between which other requests may be answered."""
        model = self.model(name)
        try:
            found = self._read(model, body, content_type)
        except Problem as problem:  # a row that cannot be read is a bad row, too
            model.refuse([bad["reason"] for bad in problem.content.get("rows", [])])
            raise
        yield
        block, problems = self._block(model, found)
        block = block._replace(targets=self._targets(model, block.targets))
        yield
        problems = model.admission.problems(block) | problems
        skipped = self._without_bad(model, problems, skip)
        block = block.take([i for i in range(len(block.X)) if i not in problems])
        if not len(block.X):
            return None, skipped
        with _queue_problems():
            return model.submit(block), skipped

    def keys(self, name: str, limit: str, by_drift: bool) -> list[dict[str, Any]]:
        """Return some keys of a fleet with the readable state of their models."""
        served = self._fleet(name)
        if not (limit.isascii() and limit.isdigit() and 0 < int(limit[:9]) <= MOST_KEYS):
            raise Problem(
                400, "query", "The query cannot be read",
                f"limit={limit[:50]} must be a number from 1 to {MOST_KEYS:,}.",
            )  # fmt: skip
        found: list[dict[str, Any]] = served.keys(int(limit[:9]), by_drift)
        return found

    def key(self, name: str, text: str) -> dict[str, Any]:
        """Return the readable state of the model of one key, which is given as JSON."""
        self._fleet(name)
        try:
            found = self.model(name).key_state(from_text(text))
        except (ValueError, RecursionError):
            raise Problem(
                400, "query", "The query cannot be read",
                f"key={text[:50]} is no key: give it as JSON, such as key=7 or key=\"hall\".",
            ) from None  # fmt: skip
        if found is None:
            raise Problem(
                404, "unknown-key", "There is no such key",
                f"There is no model of the key {text[:100]}: no row of it was learned.",
            )  # fmt: skip
        return found

    def _fleet(self, name: str) -> Any:
        served = self.model(name).served
        if not served.has_keys:
            raise Problem(
                404, "no-keys", "The model has no keys",
                f"{name!r} is a single model, not a fleet with a model for every key.",
            )  # fmt: skip
        return served

    def submit_labels(
        self, name: str, body: bytes, content_type: str
    ) -> tuple[Any, int, list[str]]:
        """Queue rows by delayed labels; return also how many are known, and unknown ids."""
        model = self.model(name)
        if content_type != "application/json":
            raise Problem(
                415, "content-type", "The content type is not supported",
                "labels takes application/json.",
            )  # fmt: skip
        found = read_labels(body, self.limits)
        targets = self._targets(model, found.targets)
        ids = [str(row_id) for row_id in found.ids]
        waiting, block, learned = model.waiting(ids)
        unknown = [ids[i] for i in sorted(set(range(len(ids))) - {*waiting, *learned})]
        if not waiting and not learned:
            raise Problem(
                404, "unknown-ids", "No row waits under these ids",
                "No row waits for a target under these ids: predict must have been called with "
                f"these ids, or with wait=true, and not more than {self.limits.waiting_rows:,} "
                "rows ago.",
                ids=unknown[:100],
            )  # fmt: skip
        problems = {} if targets is None else model.admission.target_problems(targets)
        self._without_bad(model, {i: problems[i] for i in waiting if i in problems}, hint="")
        pending = None
        if block is not None:
            of_block = [(targets or [])[i] for i in waiting]
            with _queue_problems():
                pending = model.submit(block._replace(targets=of_block))
        return pending, len(learned), unknown

    def metrics(self) -> str:
        """Return all metrics in Prometheus' text format."""
        held = {
            "connections": self.connections.n_open, "bytes_in_flight": self.in_flight.n_bytes,
            "viewers": self.n_viewers,
        }  # fmt: skip
        return exposition([model.state() for model in self.models.values()], self.latencies, held)

    # --- how -------------------------------------------------------------------------------------

    def _read(self, model: ServedModel, body: bytes, content_type: str) -> Any:
        """Return the rows of a body, decoded and not yet encoded."""
        name, has_keys = model.name, model.served.has_keys
        has_names = self._readers[name].columns is not None
        found = read_rows(body, content_type, self.limits, has_keys, has_names)
        if has_keys and found.keys is None:
            raise Problem(
                422, "missing-keys", "Keys are missing",
                f"{name!r} has a model for every key: give the key of every row, in keys.",
            )  # fmt: skip
        if found.keys is not None and not has_keys:
            raise Problem(
                422, "unexpected-keys", "Keys are not used here",
                f"{name!r} is a single model, not a fleet with a model for every key: leave keys "
                "out.",
            )  # fmt: skip
        return found

    def _block(self, model: ServedModel, found: Any) -> tuple[Block, dict[int, str]]:
        """Return the rows as the model learns them, and why rows cannot be learned, by row."""
        reader = self._readers[model.name]
        X, problems = reader.read(found.rows, model.n_features, found.all_numbers)
        problems |= {i: "its key is null" for i, key in enumerate(found.keys or []) if key is None}
        return Block(X, found.targets, found.ids, keys=found.keys), problems

    def _targets(self, model: ServedModel, targets: list[Any] | None) -> list[Any] | None:
        if model.served.task == "novelty":
            if targets is not None:
                raise Problem(
                    422, "unexpected-targets", "Targets are not used here",
                    "A novelty detector learns from rows alone: leave targets out.",
                )  # fmt: skip
            return None
        if targets is None:
            raise Problem(
                422, "missing-targets", "Targets are missing",
                "This model needs a target for every row that it learns: give targets, or use "
                "predict.",
            )  # fmt: skip
        return targets

    def _without_bad(
        self, model: ServedModel, problems: dict[int, str], skip: bool = False,
        hint: str = "; learn?on_bad_row=skip does that",
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Count bad rows; return them if they are left out, or raise an error with a hint."""
        if problems:
            model.refuse([problems[row] for row in sorted(problems)])
            if not skip:
                raise bad_rows(problems, hint)
        return reasons(problems)

    def _new_ids(self, n: int) -> list[str | None]:
        return [f"{self._prefix}-{next(self._counter)}" for _ in range(n)]


@contextmanager
def _queue_problems() -> Iterator[None]:
    """Raise the errors of a model's queue as problems."""
    try:
        yield
    except QueueFull as error:
        raise Problem(
            429, "queue-full", "Too many rows wait to be learned", str(error),
            {"Retry-After": str(error.retry_after)}, retry_after=error.retry_after,
        ) from None  # fmt: skip
    except Closed as error:
        raise unavailable(error) from None
    except ValueError as error:
        raise _refused(error) from None


def unavailable(error: Exception) -> Problem:
    """Return the problem that the model does not learn now."""
    return Problem(
        503, "unavailable", "The model does not learn now", str(error), {"Retry-After": "5"}
    )


def _refused(error: ValueError) -> Problem:
    return Problem(422, "refused", "The rows were refused", str(error))
