"""``kernelstream run --key``: a model for every value of a column."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import kernelstream as ks
from kernelstream.estimators.bad_rows import problems_of_rows
from kernelstream.tables import Block, SourceError, TableEncoder
from kernelstream.tables.columns import Columns

__all__ = ["ByKey", "Found", "Further", "listed", "separated"]


class Found(NamedTuple):
    """The results of the learned rows of a block."""

    errors: np.ndarray
    events: np.ndarray
    rows: np.ndarray


class Further(NamedTuple):
    """Columns that `kernelstream predict` may add."""

    names: tuple[str, ...] = ()
    of: Callable[[Any, Any], list[np.ndarray]] = lambda keys, X: []


class ByKey:
    """A `KeyedFleet` with the methods that a run needs of a model."""

    def __init__(self, fleet: ks.KeyedFleet, extra: dict[str, Any] | None = None):
        self.fleet = fleet
        saved = (extra or {}).get("encoder")
        self.encoder = None if saved is None else TableEncoder.from_json(saved)

    @classmethod
    def make(cls, algorithm: str, task: str, **params: Any) -> ks.KeyedFleet:
        """Return a new fleet, which leaves bad rows out."""
        return ks.KeyedFleet(algorithm, task, on_bad_row="skip", **params)

    @property
    def on_bad_row(self) -> Any:
        """Return the function that is called with bad rows."""
        return self.fleet.prototype.on_bad_row

    @on_bad_row.setter
    def on_bad_row(self, told: Any) -> None:
        self.fleet.prototype.on_bad_row = told

    def __sklearn_is_fitted__(self) -> bool:
        return len(self.fleet) > 0

    @property
    def step_size_(self) -> float:
        """Return the median over the models."""
        return float(np.median(self.fleet.in_memory("step_size_")))

    @property
    def n_support_(self) -> int:
        """Return the support vectors of all models together."""
        return int(self.fleet.in_memory("n_support_").sum())

    @property
    def n_models(self) -> int:
        """Return how many keys there are."""
        return len(self.fleet)

    def write_to(self, path: Any, beside: dict[str, Any] | None = None, check: Any = None) -> None:
        """Write the fleet's file."""
        self.fleet.write_to(path, beside, check)

    def learn(self, keys: list[Any], X: Any, y: np.ndarray | None) -> Found:
        """Predict each row, then learn it."""
        if sparse.issparse(X):
            raise SourceError("--key needs a table with columns: LIBSVM text has none.")
        scores = self.fleet.learn(keys, X, y)
        learned = ~np.isnan(scores.reshape(len(X), -1)).any(axis=1)
        predictions = self.fleet.decoded(keys, scores, learned)
        if y is None:
            errors = (predictions < 0).astype(float)
        elif self.fleet.task == "classifier":
            errors = (predictions != y[learned]).astype(float)
        else:
            errors = (predictions - y[learned]) ** 2
        return Found(errors, np.zeros(0, int), np.flatnonzero(learned))

    # --- what can be asked of a saved one --------------------------------------------------------

    def names(self, extra: dict[str, Any]) -> list[str] | None:
        """Return the names of all columns that rows had, that of the keys included."""
        columns: list[str] | None = extra.get("progress", {}).get("columns")
        return columns

    def rows(self, block: Block) -> tuple[Any, dict[int, str]]:
        """Return the rows as numbers, and why rows cannot be encoded, by row."""
        if sparse.issparse(block.rows):
            raise SourceError("--key needs a table with columns: LIBSVM text has none.")
        encoder = self.encoder or TableEncoder(
            Columns.of_numbers(block.columns), skips_missing=False
        )
        X, problems = encoder.encode(block)
        fills = self.fleet.prototype.missing != "error"
        for i, problem in enumerate(problems_of_rows(X, self.fleet.n_features, fills)[1]):
            if problem is not None:
                problems.setdefault(i, problem)
        return X, problems

    def key_problems(self, keys: list[Any] | None) -> dict[int, str]:
        """Return why the keys of rows cannot be used, by row."""
        if keys is None:
            raise SourceError("the file does not say which column has the keys: name it by --key.")
        unknown = "its key {!r} is unknown: no row of it was learned"
        known = {key: key in self.fleet for key in set(keys) - {None}}
        return {
            i: "its key is null" if key is None else unknown.format(key)
            for i, key in enumerate(keys)
            if not known.get(key, False)
        }

    def said(self, keys: list[Any], X: Any) -> list[np.ndarray]:
        """Return predictions and scores of rows, each by the model of its key."""
        scores = self.fleet.score_samples(keys, X)
        best = scores if scores.ndim == 1 else scores.max(axis=1)
        return [self.fleet.predict(keys, X), best]

    def further(self, proba: bool, std: bool) -> Further:
        """Return the columns that were asked for."""
        if proba and self.fleet.task != "classifier":
            raise SourceError("--proba is for classifiers: these models have no classes.")
        if proba:
            problem = self.fleet.prototype.no_probabilities()
            if problem is not None:
                raise SourceError(f"--proba: {problem} (kernelstream run --loss log_loss)")
            names = tuple(f"p({name})" for name in self.fleet.classes_.tolist())
            return Further(names, lambda keys, X: list(self.fleet.predict_proba(keys, X).T))
        if std:
            raise SourceError(
                "--std is for a single model: use "
                "ks.load(path).model(key).predict(X, return_std=True)."
            )
        return Further()

    def described(self, header: dict[str, Any]) -> dict[str, Any]:
        """Return the readable state of the fleet."""
        fleet = self.fleet
        found = {
            "model": "KeyedFleet, a model for every key",
            "parameters": repr(fleet),
            "features": listed(fleet.n_features or 0, []),
            "rows learned": f"{fleet.n_rows_:,}",
            "rows left out": f"{fleet.n_skipped_:,}",
        }
        if fleet.lacks_store:
            found["keys"] = "in a ModelStore, which must be attached to read them"
            return found
        keys = list(fleet)
        found["keys"] = listed(len(keys), keys)
        if keys:
            found["rows of a key"] = _spread(fleet.in_memory("n_seen_"))
            found["support vectors of a key"] = _spread(fleet.in_memory("n_support_"))
            found["step size of a key"] = _spread(fleet.in_memory("step_size_"))
        if fleet.task == "classifier" and keys:
            found["classes"] = listed(len(fleet.classes_), sorted(fleet.classes_.tolist()))
        return found


def _spread(values: np.ndarray) -> str:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return f"{low:.4g} to {high:.4g}, median {middle:.4g}"


def listed(n: int, names: list[Any]) -> str:
    """Return how many names there are, and the first of them."""
    if not names:
        return f"{n:,}"
    some = ", ".join(str(name) for name in names[:8])
    return f"{n:,} ({some}{', ...' if n > 8 else ''})"


def separated(block: Block, key: str | None) -> tuple[list[Any] | None, Block]:
    """Return the keys of a block's rows, and the block without that column."""
    if key is None:
        return None, block
    if key not in block.columns:
        raise SourceError(
            f"--key: there is no column {key!r} besides the target; the columns are "
            f"{', '.join(block.columns[:20])}."
        )
    at = block.columns.index(key)
    keys = [None if i in block.broken else _key(row[at]) for i, row in enumerate(block.rows)]
    if isinstance(block.rows, np.ndarray):
        rows: Any = np.delete(block.rows, at, axis=1)
    else:
        rows = [[*row[:at], *row[at + 1 :]] for row in block.rows]
    columns = [*block.columns[:at], *block.columns[at + 1 :]]
    return keys, replace(block, columns=columns, rows=rows)


def _key(value: Any) -> Any:
    """Return a key; 3.0 of a numeric column becomes 3, and an empty field becomes None."""
    if isinstance(value, float | np.floating):
        return int(value) if float(value).is_integer() else None
    if isinstance(value, str):
        return value.strip() or None
    return value
