"""The names that are promised."""

import subprocess
import sys

import numpy as np
import pytest

import kernelstream as ks

from .streams import IN_STREAMS


def test_promised_names():
    for name in ("KernelClassifier", "KernelRegressor", "NoveltyDetector", "make", "load"):
        assert name in ks.__all__
        assert callable(getattr(ks, name))
    assert {
        "svmd", "svmd-single-step", "norma", "ilk", "silk", "silk-md", "pa", "svrseq", "sog-svr",
        "sog-svc", "perceptron", "averaged-perceptron", "voted-perceptron", "ballseptron", "alma",
        "pegasos", "adatron", "lasvm",
    } <= set(ks.presets.names())  # fmt: skip
    ks.kernels.RBF(gamma=1 / 128)
    ks.kernels.Polynomial(degree=9, gamma=1.0, coef0=0.0)
    ks.kernels.Linear()
    ks.kernels.Laplacian(gamma=0.1)
    ks.step_sizes.SMD(initial=0.1, meta=0.1, decay=0.99)
    ks.step_sizes.SqrtDecay(initial=1.0, tau=100)
    ks.step_sizes.Constant(0.1)
    ks.budgets.OldestOut(512)
    ks.budgets.SmallestOut(128)
    ks.budgets.LeastLoss(256)
    ks.budgets.Independent(tolerance=0.01)
    ks.budgets.Unbounded()
    ks.label_kernels.Taxonomy.from_parents([-1, 0, 0])
    ks.label_kernels.Taxonomy.from_paths(["D/05/C", "D/21"])
    ks.label_kernels.LabelGraph.from_edges([(0, 1)])
    ks.margins.Fixed(1.0)
    ks.margins.Nu(0.05, rule="relative")
    ks.Fleet("silk", "novelty", n_models=19200, n_features=1)
    assert len(ks.datasets.load("digits").X) == 1797
    assert set(dir(ks)) == set(ks.__all__)


def test_every_public_name_exists():
    for name in ks.__all__:
        getattr(ks, name)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, kernelstream; print({'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    ("preset", "task"),
    # the others have no points, and refuse a number of them: test_linear.py
    [case for case in IN_STREAMS if case[0] not in ("smd-linear", "adagrad", "rls")],
)
def test_presets_are_rows_of_a_table(preset, task):
    model, changed, other = (ks.make(preset, task, budget=32) for _ in range(3))
    policies = {
        "ilk": "SmallestOut",
        "silk": "SmallestOut",
        "silk-md": "SmallestOut",
        "averaged-perceptron": "LeastLoss",
        "pa": "LeastLoss",
        "linear-pa": "LeastLoss",
    }
    policy = getattr(ks.budgets, policies.get(preset, "OldestOut"))
    expected = ks.budgets.Independent(0.01, 32) if preset.startswith("sog") else policy(32)
    if preset == "silk-md":
        expected = ks.budgets.SmallestOut(32, half_life=128)
    assert ks.budgets.as_budget(model.budget) == expected
    changed.set_params(step_size__initial=0.77)
    assert other.step_size.initial != 0.77  # a model's parts are its own
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = ks.make(preset, task, budget=32)  # not every preset has a step size to choose
    model.partial_fit(X, (X[:, 0] > 0).astype(int))
    assert model.n_seen_ == 50


def test_the_counting_sequence_counts():
    y = np.repeat(np.arange(10), 60)
    X, shown = ks.streams.counting(np.arange(600)[:, None], y, n_digits=2, n_passes=3)
    assert shown[:6].tolist() == [0, 0, 0, 1, 0, 2]
    assert shown[198:202].tolist() == [9, 9, 0, 0]
    assert len(np.unique(X)) == 600  # every image once
    assert (y[X[:, 0]] == shown).all()
    with pytest.raises(ValueError, match=r"needs 600 images of the digit 0, and y has 60"):
        ks.streams.counting(np.arange(600)[:, None], y)
