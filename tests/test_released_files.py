"""Files of every released format version can still be read, and still say the same.

When the format changes, run this file as a program before the change is released, and keep what it
writes: ``python -m tests.test_released_files``.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import kernelstream as ks
from kernelstream.persistence import FORMAT_VERSION

FOLDER = Path(__file__).parent / "data"
X = np.round(np.random.default_rng(0).normal(size=(80, 3)), 3)
Y = np.digitize(X[:, 0] * X[:, 1], [-0.2, 0.2])
TREE = ks.label_kernels.Taxonomy.from_nested({"low": [0, 1], 2: None})
MODELS = {
    "multiclass": lambda: ks.KernelClassifier(budget=8, fit_intercept=True).partial_fit(X, Y),
    "binary": lambda: ks.KernelClassifier(budget=ks.budgets.LeastLoss(6), nu=0.2).fit(X, Y > 0),
    "names": lambda: ks.make("pa", "classifier", budget=9).fit(X, np.array(["a", "b", "c"])[Y]),
    "tree": lambda: ks.KernelClassifier(label_structure=TREE, budget=7).partial_fit(X, Y),
    "matrix": lambda: ks.KernelClassifier(
        label_structure=ks.label_kernels.LabelMatrix([0, 1, 2], 0.5 + 0.5 * np.eye(3)), budget=7
    ).partial_fit(X, Y),
    "regressor": lambda: ks.KernelRegressor(budget=ks.budgets.Merge(8)).partial_fit(X, X[:, 0]),
    "dictionary": lambda: ks.make("sog-svr", "regressor").partial_fit(X, X[:, 0]),
    "sparse": lambda: ks.KernelRegressor("laplacian", budget=10).partial_fit(
        sparse.csr_array(X * (X > 0.3)), X[:, 0]
    ),
    "expiring": lambda: ks.make(
        "norma", "regressor", budget=ks.budgets.OldestOut(8, max_age=15)
    ).partial_fit(X, X[:, 0]),
    "averaged": lambda: ks.make(
        "pa", "regressor", budget=ks.budgets.LeastLoss(8), predictor="averaged"
    ).partial_fit(X, X[:, 0]),
    "voted": lambda: ks.make("voted-perceptron", "classifier", budget=12).fit(X, Y),
    "fading": lambda: ks.make("silk-md", "classifier", budget=8).partial_fit(X, Y),
    "exact": lambda: ks.KernelClassifier(
        budget=ks.budgets.OldestOut(8, exact=True), regularization=0.1
    ).partial_fit(X, Y),
    "lasvm": lambda: ks.make("lasvm", "classifier", budget=20).partial_fit(X, Y),
    "gradient": lambda: ks.make("sog-svr-paper", "regressor").partial_fit(X, X[:, 0]),
    "alma": lambda: ks.make("alma", "classifier", budget=12).partial_fit(X, Y),
    "novelty": lambda: ks.NoveltyDetector("poly", budget=10).partial_fit(X.astype(np.float32)),
}


def said(model):
    """What a model says of some rows, in plain numbers."""
    scores = model.predict if isinstance(model, ks.KernelRegressor) else model.decision_function
    return np.asarray(scores(X[:10])).tolist()


def new_fleet():
    fleet = ks.Fleet("svmd", "regressor", n_models=4, n_features=3, budget=5)
    fleet.learn(X, X[:, 0], models=np.arange(80) % 4)
    return fleet


def write():  # pragma: no cover
    fleet = new_fleet()
    fleet.save(FOLDER / f"fleet-v{FORMAT_VERSION}.ks")
    text = json.dumps(fleet.score_samples(X[:4]).tolist())
    (FOLDER / f"fleet-v{FORMAT_VERSION}.json").write_text(text)
    for name, make in MODELS.items():
        model = make()
        model.save(FOLDER / f"v{FORMAT_VERSION}-{name}.ks")
        (FOLDER / f"v{FORMAT_VERSION}-{name}.json").write_text(json.dumps(said(model)))


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("v*.ks")), ids=lambda path: path.stem)
def test_it_can_be_read_and_says_the_same(path):
    model = ks.load(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    np.testing.assert_allclose(said(model), expected, rtol=1e-5, atol=1e-6)
    y = model.classes_[:2] if hasattr(model, "classes_") else [0.0, 1.0]
    model.partial_fit(X[:2], y)  # and goes on
    assert model.n_seen_ == 82


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("fleet-*.ks")), ids=lambda path: path.stem)
def test_a_fleet_can_be_read_and_says_the_same(path):
    fleet = ks.load(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    np.testing.assert_allclose(fleet.score_samples(X[:4]), expected, rtol=1e-9)
    fleet.learn(X[:4], X[:4, 0])  # and goes on
    assert fleet.n_seen_.tolist() == [21] * 4


def test_the_present_version_is_among_them():
    names = {path.stem for path in FOLDER.glob(f"v{FORMAT_VERSION}-*.ks")}
    assert names == {f"v{FORMAT_VERSION}-{name}" for name in MODELS}
    assert (FOLDER / f"fleet-v{FORMAT_VERSION}.ks").exists()


if __name__ == "__main__":
    write()
