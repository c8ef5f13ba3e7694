"""``kernelstream predict`` and ``kernelstream info``: use and describe a saved model."""

import csv
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kernelstream import committee as _committee  # noqa: F401 (whose estimators files may hold)
from kernelstream import persistence
from kernelstream.cli.by_key import ByKey, Further, listed, separated
from kernelstream.cli.sparse_width import matched
from kernelstream.estimators.files import with_header
from kernelstream.learner.rows import NOT_FINITE, BadRow
from kernelstream.loading import load_with_header
from kernelstream.tables import Block, SourceError, open_source, sound_rows

__all__ = ["describe", "newest", "predict"]


def predict(
    model_path: Path, source: str, out: TextIO, form: str | None = None, block_rows: int = 1000,
    proba: bool = False, std: bool = False, device: str | None = None,
    target: str | None = None, key: str | None = None,
) -> tuple[int, list[str]]:  # fmt: skip
    """Write one line per row of the source: its number, the prediction and the score.

    With `proba`, the probability of every class follows; with `std`, the standard deviation of the
    number that is predicted. A bad row has an empty prediction. On a `device` the model's points
    are put there. `target` and `key` name the columns of targets and keys, where the file of the
    model does not. Returns the number of rows, and what is wrong with the bad ones.
    """
    model_path = newest(model_path)
    model, header, _ = _read(model_path, device)
    extra = header.get("extra") or {}
    target, key = target or extra.get("target"), key or extra.get("run", {}).get("key")
    further = model.further(proba, std)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "prediction", "score", *further.names])
    n_rows, bad = 0, []
    columns = model.names(extra)
    for block in open_source(source, target, block_rows, form, features=columns):
        keys, block = separated(block, key)
        X, problems = model.rows(block)
        problems |= model.key_problems(keys)
        found: dict[int, Any] = {}
        while (good := block.without(problems)).size:
            try:
                own = None if keys is None else [keys[i] for i in good]
                said = model.said(own, X[good])
                said += further.of(own, X[good])
            except BadRow as refused:
                problems[int(good[refused.row])] = refused.reason
                continue
            lines = zip(*(column.tolist() for column in said), strict=True)
            found = dict(zip(good.tolist(), lines, strict=True))
            break
        for i, row in found.items():
            if row[1] != row[1]:  # NaN: the model has no score for it
                problems[i] = NOT_FINITE
                found[i] = [""] * len(row)
        for i, place in enumerate(block.places):
            writer.writerow([n_rows + i, *found.get(i, [""] * (2 + len(further.names)))])
            if i in problems:
                bad.append(f"{place}: {problems[i]}")
        n_rows += len(block.places)
    return n_rows, bad


def _read(path: Path, device: str | None = None) -> tuple[Any, dict[str, Any], int]:
    """Return a saved model or fleet with the methods of `ByKey`, its header and its size."""
    if persistence.read_header(path).get("class") == "KeyedFleet":
        if device is not None:
            raise SourceError(
                f"{path} holds many small models, which stay on the host: leave --device out."
            )
        fleet, header = load_with_header(path)
        return ByKey(fleet, header.get("extra") or {}), header, path.stat().st_size
    content = persistence.read(path)
    model, header = with_header(content, kernel=_no_kernel, name=str(path), device=device)
    return _Single(model), header, len(content)


class _Single:
    """An estimator with the methods of `ByKey` that predicting needs."""

    def __init__(self, model: Any):
        self.model = model

    def names(self, extra: dict[str, Any]) -> list[str] | None:
        """Return the names of the columns that the model learned from, if it knows them."""
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else names.tolist()

    def rows(self, block: Block) -> tuple[Any, dict[int, str]]:
        """Return the rows as the model takes them, and why rows cannot be encoded, by row."""
        names, is_sparse = self.names({}), self.model.machine_.is_sparse
        width = len(block.columns)
        if names is None and not is_sparse and width != self.model.n_features_in_ and width:
            raise SourceError(
                f"the source has {width:,} columns of features, and the model learned from "
                f"{self.model.n_features_in_:,}, without names: leave the others out, or name the "
                "column of targets by --target."
            )
        block = block.as_made_with(block.columns if names is None else names, is_sparse)
        rows = sound_rows(block, range(len(block.places)))
        if names is None and not is_sparse:
            rows.is_named = False
        rows = matched(self.model, rows)
        found = enumerate(self.model.row_problems(rows))
        return rows, {i: problem for i, problem in found if problem is not None} | block.broken

    def key_problems(self, keys: list[Any] | None) -> dict[int, str]:
        """Return what is wrong with the keys of rows, by row: there are none."""
        return {}

    def said(self, keys: list[Any] | None, X: Any) -> list[np.ndarray]:
        """Return predictions and scores of rows."""
        return [self.model.predict(X), _scores(self.model, X)]

    def further(self, proba: bool, std: bool) -> Further:
        """Return the columns that were asked for."""
        if proba and std:
            raise SourceError("--proba is for classes and --std for numbers: leave one out.")
        return self._probabilities() if proba else self._deviations() if std else Further()

    def _probabilities(self) -> Further:
        """Return the probability of every class."""
        if not hasattr(self.model, "classes_"):
            raise SourceError("--proba is for classifiers: this model has no classes.")
        if not hasattr(self.model, "predict_proba"):
            raise SourceError(f"--proba: {self.model.no_probabilities()}")
        classes = self.model.classes_
        order = np.argsort(classes)
        names = tuple(f"p({name})" for name in classes[order].tolist())
        return Further(names, lambda keys, X: list(self.model.predict_proba(X).T[order]))

    def _deviations(self) -> Further:
        """Return the standard deviation of each predicted number."""
        if self.model.task != "regression":
            raise SourceError("--std is for numbers: this model predicts none.")
        why_not = self.model.no_deviations()
        if why_not is not None:
            raise SourceError(f"--std: {why_not}")
        return Further(("std",), lambda keys, X: [self.model.predict(X, return_std=True)[1]])

    def described(self, header: dict[str, Any]) -> dict[str, Any]:
        """Return the readable state of the model."""
        model = self.model
        found = {
            "model": type(model).__name__,
            "parameters": _changed(model),
            "features": listed(model.n_features_in_, header["feature_names"]),
            "rows learned": f"{model.n_seen_:,}",
            "rows left out": f"{model.n_skipped_:,}",
            **_state(model),
        }
        if hasattr(model, "classes_"):
            found["classes"] = listed(len(model.classes_), np.sort(model.classes_).tolist())
        return found


def _scores(model: Any, X: Any) -> np.ndarray:
    """Return a number per row: the highest score, the prediction itself, or the novelty score."""
    if not hasattr(model, "decision_function"):
        return np.asarray(model.predict(X))
    scores = model.decision_function(X)
    return np.asarray(scores if scores.ndim == 1 else scores.max(axis=1))


def newest(path: Path) -> Path:
    """Return the file itself, or the newest valid checkpoint of a folder."""
    if not path.exists():
        raise SourceError(f"{path}: there is no such file.")
    if not path.is_dir():
        return path
    found, problem = [], ""
    for file in sorted(path.glob("checkpoint-*.ks")):
        try:
            header, _ = persistence.from_bytes(persistence.read(file))
            found.append((header["position"], file))
        except (OSError, KeyError, persistence.FileError) as error:
            problem = f" that can be used ({file.name}: {error})"
    if not found:
        raise SourceError(f"{path} is a folder without a checkpoint{problem}: give a model's file.")
    return max(found)[1]


def describe(path: Path) -> dict[str, Any]:
    """Describe a saved model, or the newest checkpoint of a folder."""
    path = newest(path)
    model, header, n_bytes = _read(path)
    extra = header.get("extra") or {}
    found: dict[str, Any] = {
        "file": f"{path}, {n_bytes:,} bytes, format version {header['format_version']}",
        **model.described(header),
    }
    if "position" in header:
        found["checkpoint at row"] = f"{header['position']:,}"
    if "run" in extra:
        found["learned from"] = f"{extra['run']['source']}, target {extra['run']['target']}"
    if "progress" in extra and extra["progress"]["n_learned"]:
        progress = extra["progress"]
        found["error so far"] = f"{progress['error'] / progress['n_learned']:.4g}"
    return found


def _state(model: Any) -> dict[str, str]:
    if hasattr(model, "kernel_"):
        return {
            "kernel": repr(model.kernel_),
            "support vectors": f"{model.n_support_:,}",
            "step size": f"{model.step_size_:.4g}",
            "margin": f"{model.margin_:.4g}",
        }
    if hasattr(model, "weights_"):
        return {"weights": ", ".join(f"{name} {w:.3g}" for name, w in model.weights_.items())}
    return {"threshold": f"{model.offset_:.4g}"}


def _no_kernel(X: Any, Z: Any) -> Any:
    raise SourceError("the model's kernel is a function, which its file does not hold.")


def _changed(model: Any) -> str:
    default = type(model)().get_params(deep=False)
    now = model.get_params(deep=False)
    pairs = [f"{k}={v!r}" for k, v in now.items() if repr(v) != repr(default[k])]
    return ", ".join(pairs) or "defaults"
