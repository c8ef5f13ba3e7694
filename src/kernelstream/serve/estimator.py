"""An estimator as a service learns with it.

A service needs only these methods of a model: which rows it refuses, what it predicts, what
happened at the rows of a block, its readable state, and its file. A model that is no estimator is
served by a class with the same methods.
"""

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelstream.estimators import StreamEstimator
from kernelstream.evaluate import prequential
from kernelstream.learner.rows import NOT_FINITE, BadRow
from kernelstream.serve.blocks import Block, as_rows

__all__ = [
    "MOST_CLASSES", "Outcome", "ServedEstimator", "nothing_learned", "number_problems",
    "problems_by_row",
]  # fmt: skip

MOST_CLASSES = 100  # that are listed where a person reads
_MISSING = "a number is missing: leave this row out, or fill it in"
# numbers of a model that are shown and exported, where it has them
_READABLE = ("n_seen_", "step_size_", "margin_", "offset_", "n_support_", "drift_score_")


class Outcome(NamedTuple):
    """The results of the rows of a block."""

    rows: np.ndarray  # which were learned
    predictions: list[Any]  # of these, before they were learned
    errors: np.ndarray
    events: np.ndarray  # rows of the block at which the stream had changed
    skipped: list[BadRow]
    series: dict[str, np.ndarray]  # numbers of the model at each row that was learned

    def of(self, rows: set[int]) -> "Outcome":
        """Return the results of some of the rows."""
        kept = [i for i, row in enumerate(self.rows.tolist()) if row in rows]
        return Outcome(
            self.rows[kept], [self.predictions[i] for i in kept], self.errors[kept],
            self.events[[row in rows for row in self.events.tolist()]],
            [bad for bad in self.skipped if bad.row in rows],
            {name: values[kept] for name, values in self.series.items()},
        )  # fmt: skip


def nothing_learned(skipped: list[BadRow]) -> Outcome:
    """Return the results of a block without a row that could be learned."""
    nothing = np.zeros(0, dtype=np.int64)
    return Outcome(nothing, [], np.zeros(0), nothing, skipped, {})


def problems_by_row(check: Any, targets: list[Any]) -> dict[int, str]:
    """Return what a check finds wrong with targets, by row. Each distinct label is checked once."""
    kinds = list(zip(map(type, targets), targets, strict=True))  # 1, 1.0 and True are equal
    found = {kind: check(kind[1]) for kind in dict.fromkeys(kinds)}
    wrong = {kind: problem for kind, problem in found.items() if problem is not None}
    return {i: wrong[kind] for i, kind in enumerate(kinds) if kind in wrong} if wrong else {}


def number_problems(X: np.ndarray, fills_missing: bool = False) -> dict[int, str]:
    """Return why rows of numbers cannot be learned, by row.

    Parameters
    ----------
    X : ndarray
    fills_missing : bool, default=False
        Whether the model fills in missing numbers, which are NaN.
    """
    if np.isfinite(X).all():
        return {}
    gaps = {} if fills_missing else dict.fromkeys(_rows_with(np.isnan(X)), _MISSING)
    return gaps | dict.fromkeys(_rows_with(np.isinf(X)), NOT_FINITE)


def _rows_with(wrong: np.ndarray) -> list[int]:
    return np.flatnonzero(wrong.any(axis=1)).tolist()


class ServedEstimator:
    """An estimator with the methods that a service needs.

    Parameters
    ----------
    model : StreamEstimator
        A classifier, a regressor or a detector, of one machine or a committee.
    """

    serves = StreamEstimator
    has_keys = False
    reads_disk = False  # in order to predict

    def __init__(self, model: Any):
        self.model = model
        self.task: str = model.task
        # Rows come here as arrays in the order of the columns: the model need not look for names.
        self._names = model.__dict__.pop("feature_names_in_", None)

    @classmethod
    def opened(cls, model: Any, folder: Path, store: Path | None) -> "ServedEstimator":
        """Return the model of a file, which is in memory as a whole."""
        return cls(model)

    def close(self) -> None:
        """Do nothing: no file is open."""

    @property
    def is_ready(self) -> bool:
        """Return whether the model can predict."""
        return bool(self.model.__sklearn_is_fitted__())

    @property
    def n_features(self) -> int | None:
        """Return how many features a row has, once that is known."""
        return self.model.n_features_in_ if self.is_ready else None

    @property
    def columns(self) -> list[str] | None:
        """Return the names of the features, if the model knows them."""
        return None if self._names is None else [str(name) for name in self._names]

    @property
    def classes(self) -> list[Any]:
        """Return the labels so far."""
        known = self.is_ready and self.task == "classification"
        return self.model.classes_.tolist() if known else []

    @property
    def takes_tables(self) -> bool:
        """Return whether rows are dictionaries, which the model itself encodes."""
        return self.is_ready and self.model.learns_from_tables()

    def row_problems(self, block: Block) -> dict[int, str]:
        """Return why rows cannot be learned, by row, as far as it is known before learning."""
        if block.width is not None:
            return number_problems(block.X, fills_missing=self.model.missing != "error")
        rows = block.X.tolist()
        if self._problem(rows) is None:
            return {}
        found = enumerate(self._problem([row]) for row in rows)
        return {i: problem for i, problem in found if problem is not None}

    def _problem(self, rows: list[dict[str, Any]]) -> str | None:
        """Return why a table cannot be encoded; None if it can."""
        try:
            self.model.encoded(rows)
        except BadRow as bad:
            return bad.reason
        except ValueError as error:
            return str(error)
        return None

    def target_problems(self, targets: list[Any]) -> dict[int, str]:
        """Return why targets cannot be learned, by row."""
        return problems_by_row(self.model.target_check(), targets)

    def predict(self, block: Block) -> list[Any]:
        """Return labels, numbers, or +1 (familiar) and -1 (alarm)."""
        return list(self.model.predict(_given(block)).tolist())

    def scores(self, block: Block) -> list[Any]:
        """Return a score per row, or one per class."""
        if self.task == "regression":
            return self.predict(block)
        return list(self.model.decision_function(_given(block)).tolist())

    def learn(self, block: Block) -> Outcome:
        """Predict every row, then learn it; rows that cannot be learned are left out."""
        skipped: list[BadRow] = []
        model, problem = self.model, ""
        # Nearly all blocks are sound: only where one is not, its rows are looked at one by one.
        ways: list[Any] = ["raise", skipped.append]
        for on_bad_row in ways:
            try:
                done = self._learned(block, on_bad_row)
                break
            except Exception as error:  # it has left the model as it was
                problem = str(error)
        else:
            if len(skipped) < len(block.X):
                skipped = [BadRow(i, problem) for i in range(len(block.X))]
            return nothing_learned(skipped)
        series = {
            "step_size": done.step_sizes, "drift_score": done.drift_scores,
            "n_support": done.n_support,
        }  # fmt: skip
        series = {
            name: values
            for name, values in series.items()
            if f"{name}_" in model.readable and np.isfinite(values).all()  # some have no step size
        }
        said = done.predictions.tolist()
        return Outcome(done.rows, said, done.errors, done.events, skipped, series)

    def _learned(self, block: Block, on_bad_row: Any) -> Any:
        model, before = self.model, self.model.on_bad_row
        model.on_bad_row = on_bad_row
        y = None if self.task == "novelty" else list(block.targets or [])
        try:
            return prequential(model, _given(block), y, declare_classes=False)
        finally:
            model.on_bad_row = before

    def describe(self) -> dict[str, Any]:
        """Return the readable state."""
        model = self.model
        found: dict[str, Any] = {
            "class": type(model).__name__, "task": self.task, "n_features": self.n_features
        }  # fmt: skip
        if self.task == "classification":
            classes = self.classes
            found |= {"n_classes": len(classes), "classes": classes[:MOST_CLASSES]}
        return found | self.numbers()

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that change during learning, by name without the last underscore."""
        model = self.model
        if not self.is_ready:
            return {"n_seen": 0}
        found = {
            name.rstrip("_"): getattr(model, name) for name in _READABLE if name in model.readable
        }
        if "weights_" in model.readable:
            found["weights"] = model.weights_
        return found

    def warm_up(self) -> None:
        """Compile learning and predicting, on a copy that is thrown away."""
        if self.is_ready:
            twin = ServedEstimator(copy.deepcopy(self.model))
            X = np.zeros((2, twin.model.n_features_in_))
            if twin.takes_tables:
                X = as_rows([{}, {}])
            targets = [twin.classes[0] if twin.classes else 0.0] * 2
            for n_rows in (2, 1):
                twin.learn(Block(X[:n_rows], targets[:n_rows]))
            if not twin.takes_tables:  # whose rows may not be empty
                twin.predict(Block(X[:1]))

    def write_to(self, path: Any, header: dict[str, Any], check: Any = None) -> None:
        """Write the model's file."""
        saved = copy.copy(self.model)  # with the same machine
        if self._names is not None:
            saved.feature_names_in_ = self._names
        saved.write_to(path, header, check)


def _given(block: Block) -> Any:
    """Return the rows as the estimator takes them."""
    return block.X if block.width is not None else block.X.tolist()
