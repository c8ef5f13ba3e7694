"""Files of every kind of model, as this version writes them: ``make golden`` writes them again.

`tests/data` holds one small file for each entry of `MODELS`, the store of a keyed fleet, the folder
of a service, and `expected.json` with what each model predicts. `test_golden_files.py` reads them.
Files of a released version are never written again.
"""

import gzip
import json
import shutil
import uuid
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import kernelstream as ks
from kernelstream import budgets, kernels, margins, scalings, step_sizes, updates
from kernelstream.serve import Block, ServedModel

from .conftest import interpret

FOLDER = Path(__file__).parent / "data"
EXPECTED = FOLDER / "expected.json"
N = 70  # more than a tile of the second order
RANDOM = np.random.default_rng(0)
X = np.round(RANDOM.normal(size=(N, 3)), 3)
CLASSES = np.digitize(X[:, 0] * X[:, 1], [-0.2, 0.2])
NUMBERS = np.round(np.sin(2 * X[:, 0]) + X[:, 1], 3)
TREE = ks.label_kernels.Taxonomy.from_nested({"low": [0, 1], 2: None})
TABLE = [
    {"a": float(x[0]), "b": None if i % 7 == 3 else float(x[1]), "c": "red" if x[2] > 0 else "blue"}
    for i, x in enumerate(X)
]


ON_ALL_ROWS = ("svrseq", "adatron")


def classifier(**params):
    return ks.KernelClassifier(**{"budget": 6, **params}).partial_fit(X, CLASSES)


def regressor(rows=X, **params):
    return ks.KernelRegressor(**{"budget": 6, **params}).partial_fit(rows, NUMBERS)


def preset(name):
    """A model of a preset for its first task, small."""
    task = ks.presets.tasks(name)[0]
    model = ks.make(name, task)
    if name not in ON_ALL_ROWS and not isinstance(model.budget, str):
        params = model.budget.get_params() if hasattr(model.budget, "get_params") else {}
        if params.get("size") is not None:
            model.set_params(budget=type(model.budget)(**{**params, "size": 8}))
        elif not params:
            model.set_params(budget=8)
    y = {"classifier": CLASSES > 0, "regressor": NUMBERS, "novelty": None}[task]
    return model.fit(X, y) if name in ON_ALL_ROWS else model.partial_fit(X, y)


MODELS = {
    **{f"preset-{name}": lambda name=name: preset(name) for name in ks.presets.names()},
    "averaged": lambda: regressor(budget=budgets.LeastLoss(6), predictor="averaged"),
    "balanced": lambda: classifier(class_weight="balanced", fit_intercept=True),
    "ballseptron-margin": lambda: ks.make("ballseptron", "classifier", budget=5).fit(X, CLASSES),
    "exact": lambda: classifier(budget=budgets.OldestOut(6, exact=True), regularization=0.1),
    "expiring": lambda: regressor(budget=budgets.OldestOut(6, max_age=15), regularization=0.1),
    "fading": lambda: regressor(budget=budgets.SmallestOut(6, half_life=9)),
    "forest": lambda: ks.make(
        "adagrad", "regressor", kernel=kernels.Forest(2, 9, n_candidates=2)
    ).partial_fit(X, NUMBERS),
    "fourier": lambda: regressor(kernel=kernels.RandomFourier(6, gamma=0.5), budget="auto"),
    "huber": lambda: regressor(loss="huber", nu=0.3, budget=budgets.Merge(6)),
    "independent": lambda: regressor(budget=budgets.Independent(0.05, size=6)),
    "landmarks": lambda: regressor(
        kernel=kernels.Nystroem(kernels.RBF(0.5), X[:4]), budget="auto", step_size="sqrt_decay"
    ),
    "many-classes": lambda: ks.KernelClassifier(budget=6).partial_fit(X, np.arange(N)),
    "matrix": lambda: classifier(
        label_structure=ks.label_kernels.LabelMatrix([0, 1, 2], 0.5 + 0.5 * np.eye(3))
    ),
    "novelty": lambda: ks.NoveltyDetector("poly", budget=6).partial_fit(X.astype(np.float32)),
    "nu": lambda: classifier(margin=margins.Nu(0.3, rule="linear"), step_size="inverse_decay"),
    "per-weight": lambda: ks.make(
        "smd-linear", "regressor", step_size=step_sizes.VectorSMD()
    ).partial_fit(X, NUMBERS),
    "renewed": lambda: ks.make(
        "sog-svr", "regressor", kernel=kernels.Bias() + kernels.Matern(0.5),
        budget=budgets.Independent(0.003, 8), scaling=scalings.Renewed(metric=True),
        target_scaling="renewed", fit_intercept=False, update=updates.Dual(forgetting=0.99),
    ).partial_fit(X, NUMBERS),
    "running": lambda: regressor(scaling="running", target_scaling="running", kernel="laplacian"),
    "sparse": lambda: regressor(sparse.csr_array(X * (X > 0.3)), kernel="laplacian"),
    "table": lambda: ks.KernelRegressor(budget=6, missing="mean").partial_fit(TABLE, NUMBERS),
    "tree": lambda: classifier(label_structure=TREE, update="implicit"),
    "waiting": lambda: with_waiting_rows(regressor()),
    "watched": lambda: watched(),
    "auto-classifier": lambda: ks.AutoClassifier(budget=32).partial_fit(X, CLASSES),
    "auto-regressor": lambda: ks.AutoRegressor(budget=32).partial_fit(X, NUMBERS),
    "auto-detector": lambda: ks.AutoDetector(budget=32).partial_fit(X),
    "auto-detector-sparse": lambda: ks.AutoDetector(budget=32).partial_fit(
        sparse.csr_array(np.tile(X, (1, 25)))
    ),
    "committee-novelty": lambda: ks.Committee(
        [ks.make(name, "novelty", budget=5) for name in ("svmd", "norma")], "novelty"
    ).partial_fit(X),
    "fleet": lambda: fleet(),
    "keyed": lambda: keyed("svmd", "classifier", CLASSES, budget=5),
    "keyed-estimators": lambda: keyed(ks.make("linear-pa", "regressor"), "regressor", NUMBERS),
}  # fmt: skip


def with_waiting_rows(model):
    model.predict(X[:3], ids=["a", "b", "c"])
    return model


def watched():
    model = ks.KernelRegressor(budget=6)
    ks.prequential(model, X, NUMBERS)
    return model


def fleet():
    models = ks.Fleet("pa", "regressor", n_models=2, n_features=3, budget=budgets.LeastLoss(4))
    models.learn(X, NUMBERS, models=np.arange(N) % 2)
    return models


def keyed(name, task, y, **params):
    models = ks.KeyedFleet(name, task, **params)
    models.learn(["hall", "cellar"] * (N // 2), X, y)
    return models


def rows_for(model):
    """The first rows of the stream, as the model takes them."""
    if isinstance(model, ks.KeyedFleet):
        return (["hall", "cellar"] * 3, X[:6])
    if isinstance(model, ks.Fleet):
        return (X[:2],)
    if model.learns_from_tables():
        return (TABLE[:6],)
    if model.machine_.is_sparse:
        wide = model.n_features_in_ == 75
        return (sparse.csr_array(np.tile(X, (1, 25)) if wide else X * (X > 0.3))[:6],)
    return (X[:6].astype(model.machine_.dtype),)


def scores(model):
    """The scores or predictions of the first rows, in plain numbers."""
    ask = getattr(model, "decision_function", getattr(model, "score_samples", model.predict))
    return np.asarray(ask(*rows_for(model))).tolist()


def learn_more(model):
    """Learn the first rows once more, if the model learns from streams."""
    rows = rows_for(model)
    if not isinstance(model, ks.Fleet | ks.KeyedFleet) and not model.machine_.learns_from_streams:
        return
    y = None
    if model.task != "novelty":
        labels = getattr(model, "classes_", None)
        y = NUMBERS if labels is None else np.asarray(labels)[np.arange(N) % len(labels)]
        y = y[: np.asarray(scores(model)).shape[0]]
    learn = model.learn if hasattr(model, "learn") else model.partial_fit
    learn(*rows, y)


def stored(folder):
    """A keyed fleet with a store, saved beside it; models have left and come back."""
    store = ks.ModelStore(folder / "store.db")
    models = ks.KeyedFleet("svmd", "regressor", budget=4, max_models=2, store=store)
    for start in range(0, 40, 10):
        rows = slice(start, start + 10)
        models.learn([f"key {i % 4}" for i in range(start, start + 10)], X[rows], NUMBERS[rows])
    models.save(folder / "stored.ks")
    models.learn(["key 0"], X[:1], NUMBERS[:1])  # after the fleet was saved
    store.close()


def serve(folder):
    """The folder of a service: a checkpoint, a log that goes on after it, and rows that wait."""
    model = ks.make("linear-pa", "regressor")
    served = ServedModel("m", model, folder, checkpoint_rows=20)
    for start in range(0, 50, 10):
        ids = [f"row {i}" for i in range(start, start + 10)]
        rows = slice(start, start + 10)
        served.learn(Block(X[rows], NUMBERS[rows].tolist(), ids)).result()
    served.wait_for_targets(Block(X[60:62], ids=["late 0", "late 1"]))
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.lock"))  # as after a crash
    served.close()
    shutil.rmtree(folder)
    copy.rename(folder)


def write():  # pragma: no cover
    """Write all files again."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    expected = {}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpret(patch)
        for name, make in MODELS.items():
            model = make()
            content = gzip.compress(model.to_bytes(), mtime=0)
            (FOLDER / f"{name}.ks.gz").write_bytes(content)
            before = scores(model)
            learn_more(model)
            expected[name] = [before, scores(model)]
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=0))
        stored(FOLDER)
        serve(FOLDER / "service")
    EXPECTED.write_text(json.dumps(expected, indent=0) + "\n")


if __name__ == "__main__":
    write()
