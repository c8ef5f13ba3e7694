"""Data for the tests, and how hard hypothesis looks."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import kernelstream as ks
from kernelstream import losses
from kernelstream.committee import estimators as committees
from kernelstream.compile import calls
from kernelstream.fleet import record_loop
from kernelstream.learner import machine, point_rows, weight_rows
from kernelstream.parts import registry

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)  # fmt: skip
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Compiling makes very many objects that live on: to search them all for garbage, again and again,
# took a tenth of the time.
gc.set_threshold(100_000, 20, 20)


def pytest_collection_modifyitems(items):
    """Tests of the command line come last: its processes then find most of it compiled."""
    items.sort(key=lambda item: item.path.parent.name == "cli")


@pytest.fixture
def own_registry():
    """Parts that a test registers are forgotten after it."""
    registries = registry._ENTRIES, losses.registry._ENTRIES
    before = [dict(entries) for entries in registries]
    yield
    for entries, old in zip(registries, before, strict=True):
        entries.clear()
        entries.update(old)


def interpret(patch):
    """Learn by the same lines as plain Python, as long as a patch holds."""
    for module in (machine, record_loop, point_rows, weight_rows):
        patch.setattr(module, "entry_point", lambda function, *_: function.py_func)
    patch.setattr(calls, "compiles", lambda: False)
    patch.setattr(committees, "compile_once", lambda kind: None)


@pytest.fixture
def without_compiler(monkeypatch):
    """Learn by the same lines as plain Python: for few rows that takes less time than compiling."""
    interpret(monkeypatch)


def shared_file(name):
    """A file of the papers' data, or a skip where the folder is not there."""
    folder = os.environ.get("KERNELSTREAM_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in $KERNELSTREAM_DATA")
    return Path(folder) / name


@pytest.fixture(scope="session")
def usps():
    """USPS digits in their original order, in [-1, 1]."""
    shared_file("usps.npz")
    data = ks.datasets.load("usps")
    return data.X_train, data.y_train


@pytest.fixture(scope="session")
def mnist():
    """12,000 MNIST digits as unit vectors."""
    shared_file("mnist.npz")
    data = ks.datasets.load("mnist")
    X = data.X_train[:12000]
    return X / np.linalg.norm(X, axis=1, keepdims=True), data.y_train[:12000]
