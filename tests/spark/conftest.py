"""A Spark session for the tests, or the reason why there is none."""

import os
import sys

import numpy as np
import pytest

import kernelstream as ks


@pytest.fixture(scope="session")
def spark():
    """Two cores, and workers that learn by plain Python: compiling would take longer."""
    kspark = pytest.importorskip("kernelstream.spark", exc_type=ImportError)
    from .driver import QUIET

    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        session = kspark.session(
            "local[2]", spark__executorEnv__NUMBA_DISABLE_JIT=1,
            spark__executorEnv__PYTHONWARNINGS="ignore", **QUIET,
        )  # fmt: skip
    except RuntimeError as no_java:
        pytest.skip(str(no_java))
    yield session
    session.stop()


@pytest.fixture
def as_in_workers(without_compiler):
    """Plain Python down to the last sum, whose terms compiled code adds in another order."""


def table(n=120, seed=0, first=0):
    """Rows of ten sensors, some of which send more than others."""
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(seed)
    sensors = np.minimum(random.geometric(0.3, n), 10)
    X = random.normal(size=(n, 2))
    return pandas.DataFrame({
        "sensor": [f"s{i}" for i in sensors], "a": X[:, 0], "b": X[:, 1],
        "y": np.sin(X[:, 0]) + 0.1 * sensors, "time": np.arange(first, first + n),
    })  # fmt: skip


def in_one_process(frame, **params):
    """The same by one fleet: its models, and its predictions."""
    fleet = ks.KeyedFleet("svmd", "regressor", **{"budget": 4, "gamma": 0.5, **params})
    said, _ = fleet.prequential(
        frame["sensor"].tolist(), frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    )
    return fleet, said


def contents(fleet):
    """Every model's bytes, by key."""
    return {k: m for keys, models in fleet.chunks() for k, m in zip(keys, models, strict=True)}
