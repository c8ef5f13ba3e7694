"""Models of a keyed fleet that are estimators: committees, dictionaries, averaged perceptrons.

A list of estimators with the methods of a `Fleet`. Each costs what a single estimator costs, in
memory and in time.
"""

import copy
import pickle
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array

from kernelstream import committee as _committee  # noqa: F401 (whose estimators files may hold)
from kernelstream.estimators import files
from kernelstream.estimators.base import Rows
from kernelstream.estimators.labels import Labels, as_labels
from kernelstream.estimators.rows import checked_weights
from kernelstream.files.bytes import FileError
from kernelstream.files.parts import to_json
from kernelstream.fleet.fleet_models import Members
from kernelstream.fleet.record_loop import RowsBefore
from kernelstream.learner.gate import Gate
from kernelstream.learner.rows import extreme, refuse_extreme

__all__ = ["EstimatorFleet", "Estimators"]


class Estimators(list[Any]):
    """Estimators, each safe for readers by itself; None stands for an untrained one."""

    def __init__(self, models: Any = ()):
        super().__init__(models)
        self.gate = Gate()

    def __reduce__(self) -> Any:
        return Estimators, (list(self),)


class EstimatorFleet:
    """Estimators side by side, with the methods of a `Fleet` that keyed fleets use."""

    def __init__(
        self, prototype: Any, task: str, n_models: int, n_features: int, classes: Any = None,
        dtype: Any = "float64",
    ):  # fmt: skip
        self.prototype, self.task, self.n_features = prototype, task, n_features
        self.dtype = np.dtype(dtype)
        # Whoever asks has refused bad rows; those that only their step shows are left out.
        self._new = clone(prototype).set_params(on_bad_row="skip")
        self._labels = None
        if task == "classifier":
            self._labels = Labels(classes, prototype.structure())
        self._models = Estimators([None] * n_models)

    def __len__(self) -> int:
        return len(self._models)

    def known(self) -> Members:
        """Return the models, and the labels that they know."""
        return Members(self._models, self._labels)  # type: ignore[arg-type]

    def kind(self) -> tuple[Any, ...]:
        """Return what models must have in common to live in one fleet."""
        names = None if self._labels is None else self._labels.names
        models = clone(self.prototype).set_params(on_bad_row="raise")  # which may be a function
        return repr(models), self.task, self.n_features, self.dtype, names

    def bytes_per_model(self) -> int:
        """Return about how much memory a model takes, measured on an untrained one."""
        X, y = np.zeros((1, self.n_features), self.dtype), np.ones(1)
        machine = self._new.new_machine(Rows(X, y, np.ones(1), self._labels), whole_data=False)
        return len(pickle.dumps(machine))

    # --- learning and scoring --------------------------------------------------------------------

    def learn_rows(
        self, X: Any, y: Any, models: np.ndarray, sample_weight: Any
    ) -> tuple[RowsBefore, np.ndarray]:
        """Learn rows. Return their scores before that, and which rows are bad by themselves."""
        skips = self.prototype.skips_bad_rows()
        X = check_array(
            X, dtype=self.dtype, order="C", ensure_min_samples=0, input_name="X",
            ensure_all_finite=False if skips else "allow-nan" if self._fills() else True,
        )  # fmt: skip
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but these models learn from rows of "
                f"{self.n_features}."
            )
        y, weight = self._checked_targets(y, len(X)), checked_weights(sample_weight, len(X))
        bad = ~self._can_be_known(X)
        if y is not None and self.task == "regressor":
            if not skips:
                refuse_extreme(y, weight)
            bad |= extreme(y, weight)
        scores, margins = np.full((len(X), self._width()), np.nan), np.zeros(len(X))
        refused = ~bad
        for place, rows in _grouped(models, np.flatnonzero(~bad)):
            if self._models[place] is None:
                self._models[place] = clone(self._new)
            model = self._models[place]
            block = model.learn_block(
                X[rows], None if y is None else y[rows], self._classes(model), weight[rows]
            )
            learned = rows if block.rows is None else rows[block.rows]
            if len(learned):
                found = [model.per_label(trail.scores) for trail in block.trails]
                scores[learned] = np.concatenate(found)
                margins[learned] = np.concatenate([trail.margin for trail in block.trails])
            refused[learned] = False
        return RowsBefore(_narrow(scores), margins, refused), bad

    def _fills(self) -> bool:
        """Return whether the models fill in missing values."""
        return bool(self.prototype.missing != "error")

    def _can_be_known(self, X: np.ndarray) -> np.ndarray:
        """Return which rows have only numbers, and gaps that the models fill in."""
        return np.asarray((~np.isinf(X) if self._fills() else np.isfinite(X)).all(axis=1))

    def _checked_targets(self, y: Any, n_rows: int) -> np.ndarray | None:
        if self.task == "novelty":
            return None
        if y is None:
            raise ValueError(f"y is missing: task={self.task!r} needs the target of each row.")
        if self._labels is None:
            y = check_array(y, dtype=float, ensure_2d=False, ensure_min_samples=0, input_name="y")
        else:
            y = as_labels(y)
            unknown = [name for name in y.tolist() if name not in self._labels.index]
            if unknown:
                raise ValueError(
                    f"y contains the label {unknown[0]!r}, but the classes of this fleet are "
                    f"{self._labels.names!r}: declare every class with classes=."
                )
        if y.shape != (n_rows,):
            raise ValueError(
                f"y has the shape {y.shape}, X has {n_rows} rows: give one target for each row."
            )
        return y

    def _classes(self, model: Any) -> Any:
        """Return the classes to declare before a classifier's first row."""
        if self._labels is None or model.__sklearn_is_fitted__():
            return None
        return self._labels.as_array()

    def _width(self) -> int:
        if self._labels is None or self._labels.single_output:
            return 1
        return len(self._labels)

    def scored(
        self, X: np.ndarray, models: np.ndarray, members: Members
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of rows by models of one moment, and the thresholds of these models."""
        scores, margins = np.full((len(X), self._width()), np.nan), np.zeros(len(X))
        sound = self._can_be_known(np.asarray(X, dtype=float))
        if not (sound.all() or self.prototype.skips_bad_rows()):
            sound[:] = True  # and the model says what is wrong
        for place, rows in _grouped(models, np.flatnonzero(sound)):
            model = members.models[place]  # type: ignore[index]
            scores[rows] = model.per_label(model.outputs(X[rows]))
            if self.task == "novelty":
                margins[rows] = model.offset_
        return _narrow(scores), margins

    def probable(
        self, X: np.ndarray, models: np.ndarray, members: Members
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of the classes by models of one moment, and zero margins."""
        assert self._labels is not None
        found = np.full((len(X), len(self._labels)), np.nan)
        sound = self._can_be_known(np.asarray(X, dtype=float))
        if not (sound.all() or self.prototype.skips_bad_rows()):
            sound[:] = True  # and the model says what is wrong
        for place, rows in _grouped(models, np.flatnonzero(sound)):
            found[rows] = members.models[place].predict_proba(X[rows])  # type: ignore[index]
        return found, np.zeros(len(X))

    def decoded(self, scores: np.ndarray, margins: np.ndarray, labels: Labels | None) -> np.ndarray:
        """Return predictions from scores."""
        if labels is not None:
            return labels.as_array()[labels.predicted(scores.reshape(len(scores), -1))]
        return self.prototype.decode(scores[:, None], margins)

    # --- models ----------------------------------------------------------------------------------

    def add(self, n: int) -> "EstimatorFleet":
        """Add untrained models."""
        self._models = Estimators([*self._models, *[None] * n])
        return self

    def put(self, models: np.ndarray, contents: list[bytes] | None = None) -> None:
        """Replace models by those whose bytes `packed` returned; None: by untrained models."""
        others = [None] * len(models) if contents is None else self.unpacked(contents)
        found = Estimators(self._models)
        for place, model in zip(models.tolist(), others, strict=True):
            found[place] = model
        self._models = found

    def packed(self, models: np.ndarray) -> list[bytes]:
        """Return all that each of some models knows, as bytes."""
        return [self._models[place].to_bytes() for place in models.tolist()]

    def unpacked(self, contents: list[bytes]) -> Estimators:
        """Return models from the bytes that `packed` returned, checked."""
        found = Estimators(files.from_bytes(content, max_bytes=None) for content in contents)
        for model in found:
            if repr(model) != repr(self._new) or model.n_features_in_ != self.n_features:
                raise FileError(f"{model!r} is not a model of {self.prototype!r}.")
        return found

    def estimator_of(self, models: Estimators) -> Any:
        """Return a copy of the first of some models, as an estimator of its own."""
        return copy.deepcopy(models[0]).set_params(on_bad_row=self.prototype.on_bad_row)

    def model(self, index: int) -> Any:
        """Return a copy of one model."""
        return self.estimator_of(Estimators([self._models[index]]))

    def subset(self, models: Any) -> "EstimatorFleet":
        """Return a fleet of copies of some of the models."""
        fleet = copy.copy(self)
        chosen = np.arange(len(self))[models]
        copies = Estimators(copy.deepcopy(self._models[place]) for place in chosen)
        fleet.__dict__.update(_models=copies)
        return fleet

    def readable(self, name: str, models: Any) -> np.ndarray:
        """Return a number of each of some models; NaN where such models have none."""
        return np.array([getattr(model, name, np.nan) for model in models])

    @property
    def n_seen_(self) -> np.ndarray:
        """Return the number of rows that each model has learned."""
        is_new = (model is None or not model.__sklearn_is_fitted__() for model in self._models)
        return np.array([0 if new else model.n_seen_ for new, model in
                         zip(is_new, self._models, strict=True)])  # fmt: skip

    # --- files -----------------------------------------------------------------------------------

    def described(self, beside: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays of a file."""
        contents = self.packed(np.arange(len(self)))
        joined = b"".join(contents)
        arrays = {
            "models": np.frombuffer(joined + b"\0" * (-len(joined) % 8), dtype="<i8"),
            "sizes": np.array([len(content) for content in contents], dtype=np.int64),
        }
        header = {
            **beside, "preset": to_json(self.prototype, arrays), "task": self.task, "params": {},
            "n_features": self.n_features, "dtype": self.dtype.name,
            "labels": None if self._labels is None else self._labels.to_json(),
        }  # fmt: skip
        return header, arrays

    def take_over(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take over the labels and models of a file."""
        if self.task == "classifier":
            self._labels = Labels.from_json(header["labels"], self.prototype.structure())
        content, sizes = arrays["models"].astype("<i8").tobytes(), arrays["sizes"]
        if (sizes < 0).any() or not sizes.sum() <= len(content) < sizes.sum() + 8:
            raise FileError("the sizes of the models make no sense.")
        ends = np.cumsum(sizes).tolist()
        starts = [0, *ends[:-1]]
        pieces = [content[start:end] for start, end in zip(starts, ends, strict=True)]
        self._models = self.unpacked(pieces if ends else [])


def _grouped(places: np.ndarray, rows: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return the rows of each model, in their order."""
    order = rows[np.argsort(places[rows], kind="stable")]
    found, starts = np.unique(places[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


def _narrow(scores: np.ndarray) -> np.ndarray:
    return scores[:, 0] if scores.shape[1] == 1 else scores
