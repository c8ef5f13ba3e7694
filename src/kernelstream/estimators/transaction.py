"""Learning that is all or nothing: after an error, an estimator is as it was."""

from typing import Any

from kernelstream.learner.learner import Learner

__all__ = ["Transaction", "restore"]


class Transaction:
    """A block that an estimator learns completely or not at all.

    Attributes
    ----------
    machine : Learner or None
        What learns the block, from when it may change on.
    """

    __slots__ = ("_before", "_model", "machine")

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before = dict(model.__dict__)
        self.machine: Learner | None = None

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # what has been committed stays: then there is nothing that could be rolled back
        if kind is not None and (self.machine is None or self.machine.roll_back()):
            restore(self._model, self._before)


def restore(model: Any, before: dict[str, Any]) -> None:
    """Give an estimator the attributes that it had before, and no others."""
    model.__dict__.update(before)
    for name in set(model.__dict__) - set(before):
        del model.__dict__[name]
