"""A keyed fleet as a service learns with it: the methods of `ServedEstimator`, with keys."""

from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.files.bytes import FileError
from kernelstream.fleet import KeyedFleet, ModelStore
from kernelstream.fleet.keys import to_text
from kernelstream.learner.rows import BadRow
from kernelstream.serve.blocks import Block
from kernelstream.serve.estimator import (
    MOST_CLASSES,
    Outcome,
    ServedEstimator,
    nothing_learned,
    number_problems,
    problems_by_row,
)
from kernelstream.threads import between_steps

__all__ = ["ServedFleet"]

# A wave takes a fixed time of some 0.4 ms, and 0.4 ms more for every hundred rows.
_ROWS_OF_A_WAVE = 200
_TASKS = {"classifier": "classification", "regressor": "regression", "novelty": "novelty"}


class ServedFleet:
    """A keyed fleet with the methods that a service needs.

    Parameters
    ----------
    model : KeyedFleet
        With its store, if some of its models are in one.
    """

    serves = KeyedFleet
    has_keys = True
    takes_tables = False
    columns: list[str] | None = None

    def __init__(self, model: KeyedFleet):
        self.model = model
        self.task = _TASKS[model.task]

    @classmethod
    def opened(cls, model: KeyedFleet, folder: Path, store: Path | None) -> "ServedFleet":
        """Return the fleet of a file, with a copy of its store in the service's folder.

        The store that the file was saved with is copied at the first start and stays as it is, so
        that the file and its store can be served again from the beginning.
        """
        if model.store is not None:
            raise ValueError(
                f"{model!r} holds its ModelStore itself: save the fleet, close the store, and "
                "serve the fleet's file with store=, the store's path."
            )
        if model.lacks_store:
            own = folder / "models.db"
            if not own.exists():
                if store is None or not store.exists():
                    raise ValueError(
                        "some models of this fleet are in a ModelStore: put its file beside that "
                        "of the fleet, with the same name and the ending .db."
                    )
                ModelStore.copy_file(store, own)
            model.attach(ModelStore(own))
        return cls(model)

    def close(self) -> None:
        """Close the store, if there is one."""
        if self.model.store is not None:
            self.model.store.close()

    @property
    def is_ready(self) -> bool:
        """Return whether the fleet can predict."""
        return self.model.fleet_ is not None

    @property
    def reads_disk(self) -> bool:
        """Return whether a prediction may read the disk, because some models are in a store."""
        return self.model.store is not None

    @property
    def n_features(self) -> int | None:
        """Return how many features a row has, once that is known."""
        return self.model.n_features

    @property
    def classes(self) -> list[Any]:
        """Return the labels so far."""
        known = self.is_ready and self.task == "classification"
        return self.model.classes_.tolist() if known else []

    def row_problems(self, block: Block) -> dict[int, str]:
        """Return why rows cannot be learned, by row, as far as it is known before learning."""
        return number_problems(block.X)

    def new_keys(self, block: Block) -> dict[Any, list[int]]:
        """Return the keys without a model and their rows, in the order of the rows."""
        found: dict[Any, list[int]] = {}
        for row, key in enumerate(block.keys or []):
            found.setdefault(key, []).append(row)
        found.pop(None, None)  # rows without a key, which are refused elsewhere
        return {key: rows for key, rows in found.items() if key not in self.model}

    def target_problems(self, targets: list[Any]) -> dict[int, str]:
        """Return why targets cannot be learned, by row."""
        return problems_by_row(self.model.target_check(), targets)

    def predict(self, block: Block) -> list[Any]:
        """Return labels, numbers, or +1 (familiar) and -1 (alarm); None without a model."""
        return self._asked(self.model.predict, block)

    def scores(self, block: Block) -> list[Any]:
        """Return a score per row, or one per class; None for a key without a model."""
        return self._asked(self.model.score_samples, block)

    def _asked(self, ask: Any, block: Block) -> list[Any]:
        new = {row for rows in self.new_keys(block).values() for row in rows}
        known = [row for row in range(len(block.X)) if row not in new]
        said: list[Any] = [None] * len(block.X)
        if known:
            part = block.take(known)
            try:
                answers = ask(part.keys, part.X).tolist()
            except BadRow as bad:
                raise BadRow(known[bad.row], bad.reason) from None
            for row, answer in zip(known, answers, strict=True):
                said[row] = answer
        return said

    def learn(self, block: Block) -> Outcome:
        """Predict every row, then learn it; rows that cannot be learned are left out."""
        wrong = self.target_problems(block.targets) if block.targets is not None else {}
        rows = [row for row in range(len(block.X)) if row not in wrong]
        said: dict[int, Any] = {}
        for wave in self._waves(block, rows):
            said |= self._step(block, wave, wrong)
            between_steps()
        skipped = [BadRow(row, wrong[row]) for row in sorted(wrong)]
        if not said:
            return nothing_learned(skipped)
        learned = sorted(said)
        predictions = np.array([said[row] for row in learned])
        targets = None if block.targets is None else np.array([block.targets[i] for i in learned])
        return Outcome(
            np.array(learned), predictions.tolist(), self._errors(predictions, targets),
            np.zeros(0, dtype=np.int64), skipped, {},
        )  # fmt: skip

    def _waves(self, block: Block, rows: list[int]) -> list[list[int]]:
        """Split rows into waves that are learned at once, so short that predictions wait little.

        The first block is one wave, since its labels are the classes of the fleet.
        """
        most = _ROWS_OF_A_WAVE if self.is_ready else max(len(rows), 1)
        return [
            wave[start : start + most]
            for wave in self._waves_of_moments(block, rows)
            for start in range(0, len(wave), most)
        ]

    def _waves_of_moments(self, block: Block, rows: list[int]) -> list[list[int]]:
        """Split rows into waves in which scores and the margins before the wave give predictions.

        A score gives a label or a number. In novelty detection it is an alarm if it is below the
        margin, which is read before the wave: so no key occurs twice in a wave.
        """
        if self.task != "novelty":
            return [rows]
        waves: list[list[int]] = []
        n_before: dict[Any, int] = {}
        for row in rows:
            key = (block.keys or [])[row]
            wave = n_before.get(key, 0)
            n_before[key] = wave + 1
            if wave == len(waves):
                waves.append([])
            waves[wave].append(row)
        return waves

    def _step(self, block: Block, rows: list[int], wrong: dict[int, str]) -> dict[int, Any]:
        """Predict and learn rows; return predictions by row. Bad rows are added to `wrong`."""
        fleet, before = self.model, self.model.prototype.on_bad_row
        while rows:
            part, refused = block.take(rows), list[BadRow]()
            fleet.prototype.on_bad_row = refused.append
            try:
                alarms = self.predict(part) if self.task == "novelty" else []
                scores = fleet.learn(part.keys, part.X, part.targets)
            except BadRow as bad:  # nothing was learned: go on without it
                wrong[rows.pop(bad.row)] = bad.reason
                continue
            except FileError:  # the store's, after or before these rows were learned
                raise
            except Exception as error:  # nothing was learned
                wrong |= dict.fromkeys(rows, str(error))
                return {}
            finally:
                fleet.prototype.on_bad_row = before
            wrong |= {rows[bad.row]: bad.reason for bad in refused}
            kept = np.array([i for i, row in enumerate(rows) if row not in wrong], dtype=int)
            if self.task == "novelty":  # to a new model nothing is familiar
                said = [-1 if alarms[i] is None else alarms[i] for i in kept]
            else:
                said = fleet.decoded(part.keys or [], scores, kept).tolist()
            return dict(zip([rows[i] for i in kept], said, strict=True))
        return {}

    def _errors(self, said: np.ndarray, targets: np.ndarray | None) -> np.ndarray:
        if targets is None:
            return (said < 0).astype(float)
        if self.task == "classification":
            return np.asarray(said != targets, dtype=float)
        return np.asarray((said - targets) ** 2)

    def describe(self) -> dict[str, Any]:
        """Return the readable state."""
        found: dict[str, Any] = {
            "class": "KeyedFleet", "models": repr(self.model.prototype), "task": self.task,
            "n_features": self.n_features,
        }  # fmt: skip
        if self.task == "classification":
            classes = self.classes
            found |= {"n_classes": len(classes), "classes": classes[:MOST_CLASSES]}
        return found | self.numbers()

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that change during learning."""
        return {"n_seen": self.model.n_rows_, "n_keys": len(self.model)}

    def keys(self, limit: int, by_drift: bool) -> list[dict[str, Any]]:
        """Return some keys with the readable state of their models.

        Parameters
        ----------
        limit : int
            How many at most.
        by_drift : bool
            Whether the keys that drift most come first, or those that learned last.
        """
        found = self.model.leading(limit, "drift_score" if by_drift else "idle_rows")
        columns = [values.tolist() if hasattr(values, "tolist") else values
                   for values in found.values()]  # fmt: skip
        lines = [dict(zip(found, line, strict=True)) for line in zip(*columns, strict=True)]
        return [{**line, "text": to_text(line["key"])} for line in lines]

    def key(self, key: Any) -> dict[str, Any] | None:
        """Return the readable state of the model of a key; None without a model."""
        if key not in self.model:
            return None
        return {
            "key": key, "text": to_text(key), **ServedEstimator(self.model.model(key)).numbers()
        }  # fmt: skip

    def warm_up(self) -> None:
        """Compile learning and predicting, on a fleet that is thrown away."""
        if self.is_ready:
            twin = ServedFleet(self.model.alike())
            X = np.zeros((2, self.model.n_features or 1))
            targets = [twin.classes[0] if twin.classes else 0.0] * 2
            block = Block(X, None if self.task == "novelty" else targets, keys=["a", "b"])
            twin.learn(block)
            twin.predict(block)

    def write_to(self, path: Any, header: dict[str, Any], check: Any = None) -> None:
        """Write the fleet's file."""
        self.model.write_to(path, header, check)
