"""100,000 sensors on Spark, with a kill in the middle: nothing is lost, nothing is said twice.

    pip install 'kernelstream[spark]'     # and Java 17
    python examples/spark_sensors.py

Files of readings arrive in a folder. A driver learns a novelty detector for every sensor and writes
a row for every reading. In the midst of its work this driver and its Java are killed (kill -9);
another one goes on from the checkpoint. In the end there is one answer for every reading, and every
model is, bit for bit, that of a `KeyedFleet` that learned all readings in this process.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import kernelstream as ks
from kernelstream import spark as kspark

PARAMS = {"gamma": 0.1, "budget": 8, "C": 0.1, "regularization": 0.01}
FEATURES = ["temperature", "humidity"]


def session():
    return kspark.session(
        "local[2]", spark__ui__enabled="false", spark__ui__showConsoleProgress="false",
        spark__sql__shuffle__partitions=4, spark__log__level="ERROR", spark__driver__memory="3g",
    )  # fmt: skip


def write_readings(folder, n_sensors, n_files):
    """One reading of every sensor in a file, in any order."""
    random = np.random.default_rng(0)
    level = random.normal([20.0, 50.0], [5.0, 10.0], size=(n_sensors, 2))
    files = []
    for number in range(n_files):
        who = random.permutation(n_sensors)
        readings = level[who] + random.normal(size=(n_sensors, 2))
        frame = pd.DataFrame(readings, columns=FEATURES)
        frame.insert(0, "sensor", [f"sensor-{i:06d}" for i in who])
        frame["row"] = np.arange(number * n_sensors, (number + 1) * n_sensors)
        path = folder / "in" / f"{number:03d}.parquet"
        frame.to_parquet(path)
        os.utime(path, (number, number))  # Spark reads files by their age
        files.append(frame)
    return files


def drive(folder):
    """The driver: learn all files that are there."""
    schema = "sensor string, temperature double, humidity double, row long"
    reader = session().readStream.schema(schema).option("maxFilesPerTrigger", 1)
    said = kspark.learn_stream(
        reader.parquet(str(folder / "in")), key="sensor", features=FEATURES, order="row",
        preset="silk", blocks=16, **PARAMS,
    )  # fmt: skip
    writer = said.writeStream.format("parquet").option("path", str(folder / "alarms"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def start(folder):
    """A driver in a process of its own."""
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, __file__, str(folder)], stdout=log, stderr=log, start_new_session=True
        )


def kill_in_the_middle(folder, n_files):
    """Kill a driver and its Java when half of the files are learned; how many were."""
    driver, commits = start(folder), folder / "checkpoint" / "commits"
    while True:
        done = sum(file.name.isdigit() for file in commits.glob("*")) if commits.exists() else 0
        if done >= n_files // 2:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            return done
        if driver.poll() is not None:
            raise RuntimeError((folder / "log").read_text()[-2000:])
        time.sleep(0.05)


def contents(fleet):
    return {k: m for keys, models in fleet.chunks() for k, m in zip(keys, models, strict=True)}


def main(n_sensors=100_000, n_files=8):
    """Whether all answers and all models are what they should be."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        (folder / "in").mkdir()
        files = write_readings(folder, n_sensors, n_files)
        began = time.perf_counter()
        done = kill_in_the_middle(folder, n_files)
        print(f"killed after {done} of {n_files} batches, {time.perf_counter() - began:.0f} s")
        began = time.perf_counter()
        if start(folder).wait() != 0:
            raise RuntimeError((folder / "log").read_text()[-2000:])
        print(f"another driver has learned the rest, {time.perf_counter() - began:.0f} s")
        fleet, wanted = ks.KeyedFleet("silk", "novelty", **PARAMS), []
        for frame in files:
            keys, X = frame["sensor"].tolist(), frame[FEATURES].to_numpy()
            wanted.append(fleet.prequential(keys, X)[0])
        spark = session()
        said = spark.read.parquet(str(folder / "alarms")).select("row", "prediction").toPandas()
        said = said.sort_values("row")
        once = np.array_equal(said["row"], np.arange(n_sensors * n_files))
        right = once and np.array_equal(said["prediction"], np.concatenate(wanted))
        found = kspark.to_fleet(kspark.checkpoint_models(spark, folder / "checkpoint"))
        same = contents(found) == contents(fleet)
        spark.stop()
    print(f"{len(said):,} answers, each reading once: {once}, as in one process: {right}")
    print(f"{len(found):,} models, bit for bit as in one process: {same}")
    return right and same


if __name__ == "__main__":
    if len(sys.argv) > 1:
        drive(Path(sys.argv[1]))
    else:
        sys.exit(0 if main() else 1)
