"""Which rows a model can learn: what is wrong with a row is found before it is acknowledged."""

import threading
from typing import Any

from kernelstream.serve.blocks import Block
from kernelstream.serve.limits import Limits
from kernelstream.tables import shortened

__all__ = ["Admission"]


class Admission:
    """Checks rows, targets and keys against a model, its limits, and the rows in its queue.

    Any thread may call any method.

    Parameters
    ----------
    name : str
        The model's name.
    served : ServedEstimator or ServedFleet
    limits : Limits
    """

    def __init__(self, name: str, served: Any, limits: Limits):
        self._name, self._served, self._limits = name, served, limits
        self.lock = threading.Lock()  # held while rows are admitted to the queue
        # of the model, once it has learned the rows in its queue
        self.n_features: int | None = served.n_features
        self._labels = set(served.classes)

    def problems(self, block: Block) -> dict[int, str]:
        """Return why rows cannot be learned, by row."""
        targets = {} if block.targets is None else self.target_problems(block.targets)
        of_rows: dict[int, str] = self._served.row_problems(block)
        return targets | self.key_problems(block) | of_rows

    def target_problems(self, targets: list[Any]) -> dict[int, str]:
        """Return why targets cannot be learned, by row."""
        found: dict[int, str] = self._served.target_problems(targets)
        if self._served.task == "regression":  # which would take "1.5" and true for numbers
            return found | {
                i: f"its target {shortened(target)} is not a number"
                for i, target in enumerate(targets)
                if isinstance(target, str | bool)
            }
        if self._served.task == "classification":
            found |= self._label_problems(targets)
            with self.lock:
                sound = [label for i, label in enumerate(targets) if i not in found]
                beyond = self._labels_beyond(sound)
            found |= {
                i: f"its label is new, and the model has {self._limits.classes:,} classes, which "
                "is the limit"
                for i, label in enumerate(targets)
                if i not in found and label in beyond
            }
        return found

    def _label_problems(self, labels: list[Any]) -> dict[int, str]:
        """Return labels that are too long, or that NumPy would change, by row."""
        longest, found = self._limits.label_characters, {}
        for i, label in enumerate(labels):
            if isinstance(label, str) and len(label) > longest:
                found[i] = f"its label has {len(label):,} characters, of {longest:,} at most"
            elif isinstance(label, str) and label.endswith("\0"):  # which NumPy would cut off
                found[i] = "its label ends with a null character: leave that out"
        return found

    def _labels_beyond(self, labels: list[Any]) -> set[Any]:
        """Return new labels for which the model has no room. The caller holds the lock."""
        new = [label for label in dict.fromkeys(labels) if label not in self._labels]
        return set(new[max(self._limits.classes - len(self._labels), 0) :])

    def key_problems(self, block: Block) -> dict[int, str]:
        """Return keys that are too long, and new keys beyond the limit, by row."""
        found: dict[int, str] = {}
        if block.keys is None:
            return found
        most, longest = self._limits.keys, self._limits.id_characters
        new = self._served.new_keys(block)
        room = max(most - self._served.numbers()["n_keys"], 0)
        for n_before, (key, rows) in enumerate(new.items()):
            n = len(str(key))
            if not 0 < n <= longest:
                found |= dict.fromkeys(rows, f"its key has {n:,} characters, of 1 to {longest}")
            elif n_before >= room:
                found |= dict.fromkeys(
                    rows, f"its key is new, and there are {most:,} keys, which is the limit"
                )
        return found

    def unknown_keys(self, block: Block) -> dict[int, str]:
        """Return rows that cannot be predicted because their key has no model yet."""
        new = {} if block.keys is None else self._served.new_keys(block)
        return {
            row: f"its key {key!r} is unknown: no row of it was learned"
            for key, rows in new.items()
            for row in rows
        }

    def check(self, block: Block) -> None:
        """Raise if the width or the classes do not fit, which another request may have changed.

        The caller holds the lock.
        """
        if None not in (block.width, self.n_features) and block.width != self.n_features:
            raise ValueError(
                f"rows have {block.width} features, and the model {self._name!r} learns from "
                f"{self.n_features}: send rows of {self.n_features}."
            )
        if self._labels_beyond(self._labels_of(block)):
            raise ValueError(
                f"some labels are new, and the model {self._name!r} has "
                f"{self._limits.classes:,} classes, which is the limit: leave these rows out."
            )

    def note(self, block: Block) -> None:
        """Remember what the model will have learned from a block. The caller holds the lock."""
        self.n_features = block.width if self.n_features is None else self.n_features
        self._labels.update(self._labels_of(block))

    def _labels_of(self, block: Block) -> list[Any]:
        return (block.targets or []) if self._served.task == "classification" else []
