"""``kernelstream predict`` and ``kernelstream info``: use and describe a saved model."""

import csv
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kernelstream import committee as _committee  # noqa: F401 (whose estimators files may hold)
from kernelstream import persistence
from kernelstream.cli.widths import matched
from kernelstream.estimators.files import with_header
from kernelstream.tables import SourceError, encoder_from_json, open_source

__all__ = ["describe", "newest", "predict"]


def predict(
    model_path: Path, source: str, out: TextIO, form: str | None = None, block_rows: int = 1000,
    proba: bool = False, device: str | None = None,
) -> tuple[int, list[str]]:  # fmt: skip
    """Write one line per row of the source: its number, the prediction and the score.

    With `proba`, the probability of every class follows. A bad row has an empty prediction. On a
    `device` the model's points are put there. Returns the number of rows, and what is wrong with
    the bad ones.
    """
    model_path = newest(model_path)
    _refuse_keys(model_path)
    content = persistence.read(model_path)
    model, header = with_header(content, name=str(model_path), device=device)
    extra = header.get("extra") or {}
    if "encoder" not in extra:
        raise SourceError(
            f"{model_path} was not made by `kernelstream run` and does not say how columns are "
            "encoded as numbers: use ks.load and model.predict."
        )
    encoder = encoder_from_json(extra["encoder"])
    classes = _classes(model) if proba else []
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "prediction", "score", *(f"p({name})" for name in classes)])
    n_rows, bad = 0, []
    for block in open_source(source, extra.get("target"), block_rows, form, features=encoder.names):
        X, problems = encoder.encode(block)
        good = block.without(problems)
        found: dict[int, Any] = {}
        if good.size:
            rows = matched(model, X[good])
            said = [model.predict(rows), _scores(model, rows)]
            said += list(model.predict_proba(rows).T) if classes else []
            lines = zip(*(column.tolist() for column in said), strict=True)
            found = dict(zip(good.tolist(), lines, strict=True))
        for i, place in enumerate(block.places):
            writer.writerow([n_rows + i, *found.get(i, [""] * (2 + len(classes)))])
            if i in problems:
                bad.append(f"{place}: {problems[i]}")
        n_rows += len(block.places)
    return n_rows, bad


def _classes(model: Any) -> list[Any]:
    if not hasattr(model, "classes_"):
        raise SourceError("--proba is for classifiers: this model has no classes.")
    if not hasattr(model, "predict_proba"):
        raise SourceError(f"--proba: {model.no_probabilities()}")
    return model.classes_.tolist()


def _refuse_keys(path: Path) -> None:
    if persistence.read_header(path).get("class") == "KeyedFleet":
        raise SourceError(f"{path} has a model for every key: use ks.load(path).predict(keys, X).")


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
    _refuse_keys(path)
    content = persistence.read(path)
    model, header = with_header(content, kernel=_no_kernel, name=str(path))
    extra = header.get("extra") or {}
    found: dict[str, Any] = {
        "file": f"{path}, {len(content):,} bytes, format version {header['format_version']}",
        "model": type(model).__name__,
        "parameters": ", ".join(f"{k}={v!r}" for k, v in _changed(model).items()) or "defaults",
        "features": _listed(model.n_features_in_, header["feature_names"]),
        "rows learned": f"{model.n_seen_:,}",
        "rows left out": f"{model.n_skipped_:,}",
        **_state(model),
    }
    if hasattr(model, "classes_"):
        found["classes"] = _listed(len(model.classes_), model.classes_.tolist())
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


def _changed(model: Any) -> dict[str, Any]:
    default = type(model)().get_params(deep=False)
    now = model.get_params(deep=False)
    return {k: v for k, v in now.items() if repr(v) != repr(default[k])}


def _listed(n: int, names: list[Any]) -> str:
    if not names:
        return f"{n:,}"
    some = ", ".join(str(name) for name in names[:8])
    return f"{n:,} ({some}{', ...' if n > 8 else ''})"
