"""A driver that is killed loses nothing and says nothing twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

kspark = pytest.importorskip("kernelstream.spark", exc_type=ImportError)

from .conftest import contents, in_one_process, table  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("as_in_workers"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
DRIVER = Path(__file__).with_name("driver.py")


def write_files(folder, n_files, n_rows=60):
    (folder / "in").mkdir()
    frame = table(n_files * n_rows)
    for i in range(n_files):
        part = frame[i * n_rows : (i + 1) * n_rows].sample(frac=1, random_state=i)
        part.to_parquet(folder / "in" / f"{i:03d}.parquet")
        os.utime(folder / "in" / f"{i:03d}.parquet", (i, i))  # files are read by their age
    return frame


def start(folder):
    """A driver with all its processes in one group; it learns by plain Python, as the tests do."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore",
                   "PYSPARK_PYTHON": sys.executable}  # fmt: skip
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder)], stdout=log, stderr=log,
            start_new_session=True, env=environment,
        )  # fmt: skip


def n_batches(folder):
    commits = folder / "query-checkpoint" / "commits"
    return sum(file.name.isdigit() for file in commits.glob("*")) if commits.exists() else 0


def kill_after(folder, n_more, delay):
    """Kill a driver, its JVM and all, when it has finished so many batches more."""
    wanted, driver, patience = n_batches(folder) + n_more, start(folder), time.time() + 300
    while n_batches(folder) < wanted:
        assert driver.poll() is None, (folder / "log").read_text()[-3000:]
        assert time.time() < patience, "the driver does nothing"
        time.sleep(0.02)
    time.sleep(delay)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def check(spark, folder, frame):
    fleet, predictions = in_one_process(frame)
    said = spark.read.parquet(str(folder / "query-out")).toPandas().sort_values("time")
    assert said["time"].tolist() == frame["time"].tolist()  # none is missing, none is there twice
    assert np.array_equal(said["prediction"].to_numpy(), predictions)
    models = kspark.checkpoint_models(spark, folder / "query-checkpoint")
    assert contents(kspark.to_fleet(models)) == contents(fleet)


def run_with_kills(spark, folder, n_files, kills):
    frame = write_files(folder, n_files)
    for n_more, delay in kills:
        kill_after(folder, n_more, delay)
        assert n_batches(folder) < n_files  # it was killed at work
    assert start(folder).wait(timeout=600) == 0, (folder / "log").read_text()[-3000:]
    check(spark, folder, frame)  # a kill may have made one batch of two files


@pytest.mark.nightly
def test_a_driver_that_is_killed(spark, tmp_path):
    run_with_kills(spark, tmp_path, 5, [(2, 0.3)])


@pytest.mark.nightly
def test_a_driver_that_is_killed_five_times(spark, tmp_path):
    random = np.random.default_rng(0)
    kills = [(1 + int(random.integers(2)), random.uniform(0, 1)) for _ in range(5)]
    run_with_kills(spark, tmp_path, 30, kills)
