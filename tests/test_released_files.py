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
    "novelty": lambda: ks.NoveltyDetector("poly", budget=10).partial_fit(X.astype(np.float32)),
}


def said(model):
    """What a model says of some rows, in plain numbers."""
    scores = model.predict if isinstance(model, ks.KernelRegressor) else model.decision_function
    return np.asarray(scores(X[:10])).tolist()


def write():  # pragma: no cover
    for name, make in MODELS.items():
        model = make()
        model.save(FOLDER / f"v{FORMAT_VERSION}-{name}.ks")
        (FOLDER / f"v{FORMAT_VERSION}-{name}.json").write_text(json.dumps(said(model)))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ks")), ids=lambda path: path.stem)
def test_it_can_be_read_and_says_the_same(path):
    model = ks.load(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    np.testing.assert_allclose(said(model), expected, rtol=1e-5, atol=1e-6)
    y = model.classes_[:2] if hasattr(model, "classes_") else [0.0, 1.0]
    model.partial_fit(X[:2], y)  # and goes on
    assert model.n_seen_ == 82


def test_the_present_version_is_among_them():
    names = {path.stem for path in FOLDER.glob(f"v{FORMAT_VERSION}-*.ks")}
    assert names == {f"v{FORMAT_VERSION}-{name}" for name in MODELS}


if __name__ == "__main__":
    write()
