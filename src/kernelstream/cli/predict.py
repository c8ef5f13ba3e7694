"""``kernelstream predict`` and ``kernelstream info``: use and describe a saved model."""

import csv
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kernelstream import committee as _committee  # noqa: F401 (whose estimators files may hold)
from kernelstream import persistence
from kernelstream.cli.by_key import ByKey, Further, listed, separated
from kernelstream.cli.widths import matched
from kernelstream.estimators.files import with_header
from kernelstream.loading import load_with_header
from kernelstream.tables import SourceError, TableEncoder, open_source

__all__ = ["describe", "newest", "predict"]


def predict(
    model_path: Path, source: str, out: TextIO, form: str | None = None, block_rows: int = 1000,
    proba: bool = False, std: bool = False, device: str | None = None,
) -> tuple[int, list[str]]:  # fmt: skip
    """Write one line per row of the source: its number, the prediction and the score.

    With `proba`, the probability of every class follows; with `std`, the standard deviation of the
    number that is predicted. A bad row has an empty prediction. On a `device` the model's points
    are put there. Returns the number of rows, and what is wrong with the bad ones.
    """
    model_path = newest(model_path)
    model, header, _ = _read(model_path, device)
    extra = header.get("extra") or {}
    if "encoder" not in extra:
        raise SourceError(
            f"{model_path} was not made by `kernelstream run` and does not say how columns are "
            "encoded as numbers: use ks.load and model.predict."
        )
    encoder, key = TableEncoder.from_json(extra["encoder"]), extra.get("run", {}).get("key")
    columns = extra.get("progress", {}).get("columns") or encoder.names
    further = model.further(proba, std)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "prediction", "score", *further.names])
    n_rows, bad = 0, []
    for block in open_source(source, extra.get("target"), block_rows, form, features=columns):
        keys, block = separated(block, key)
        X, problems = encoder.encode(block)
        problems = model.key_problems(keys) | problems
        good = block.without(problems)
        found: dict[int, Any] = {}
        if good.size:
            said = model.said(None if keys is None else [keys[i] for i in good], X[good])
            said += further.of(X[good])
            lines = zip(*(column.tolist() for column in said), strict=True)
            found = dict(zip(good.tolist(), lines, strict=True))
        for i, place in enumerate(block.places):
            writer.writerow([n_rows + i, *found.get(i, [""] * (2 + len(further.names)))])
            if i in problems:
                bad.append(f"{place}: {problems[i]}")
        n_rows += len(block.places)
    return n_rows, bad


def _read(path: Path, device: str | None = None) -> tuple[Any, dict[str, Any], int]:
    """A saved model or keyed fleet with one face, its file's header, and the file's size."""
    if persistence.read_header(path).get("class") == "KeyedFleet":
        if device is not None:
            raise SourceError(
                f"{path} holds many small models, which stay on the host: leave --device out."
            )
        fleet, header = load_with_header(path)
        return ByKey(fleet), header, path.stat().st_size
    content = persistence.read(path)
    model, header = with_header(content, kernel=_no_kernel, name=str(path), device=device)
    return _Single(model), header, len(content)


class _Single:
    """An estimator with the questions that can be asked of `ByKey` too."""

    def __init__(self, model: Any):
        self.model = model

    def key_problems(self, keys: list[Any] | None) -> dict[int, str]:
        """What is wrong with the keys of rows, by row: there are none."""
        return {}

    def said(self, keys: list[Any] | None, X: Any) -> list[np.ndarray]:
        """Predictions and scores of rows."""
        rows = matched(self.model, X)
        return [self.model.predict(rows), _scores(self.model, rows)]

    def further(self, proba: bool, std: bool) -> Further:
        """The columns that were asked for."""
        if proba and std:
            raise SourceError("--proba is for classes and --std for numbers: leave one out.")
        return self._probabilities() if proba else self._deviations() if std else Further()

    def _probabilities(self) -> Further:
        """The probability of every class."""
        if not hasattr(self.model, "classes_"):
            raise SourceError("--proba is for classifiers: this model has no classes.")
        if not hasattr(self.model, "predict_proba"):
            raise SourceError(f"--proba: {self.model.no_probabilities()}")
        names = tuple(f"p({name})" for name in self.model.classes_.tolist())
        return Further(names, lambda X: list(self.model.predict_proba(matched(self.model, X)).T))

    def _deviations(self) -> Further:
        """The standard deviation of the number that is predicted."""
        if self.model.task != "regression":
            raise SourceError("--std is for numbers: this model predicts none.")
        why_not = self.model.no_deviations()
        if why_not is not None:
            raise SourceError(f"--std: {why_not}")
        return Further(
            ("std",), lambda X: [self.model.predict(matched(self.model, X), return_std=True)[1]]
        )

    def described(self, header: dict[str, Any]) -> dict[str, Any]:
        """What can be read of the model."""
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
            found["classes"] = listed(len(model.classes_), model.classes_.tolist())
        return found


def _scores(model: Any, X: Any) -> np.ndarray:
    """One number per row: the highest score, the prediction itself, or the novelty score."""
    if not hasattr(model, "decision_function"):
        return model.predict(X)
    scores = model.decision_function(X)
    return scores if scores.ndim == 1 else scores.max(axis=1)


def newest(path: Path) -> Path:
    """The file itself, or the newest valid checkpoint if the path is a folder."""
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
