"""Keyed streams on Spark, on this machine: rows per second, state, and recovery.

python benchmarks/spark.py [N_KEYS ...]

Every batch has ten rows of every key (at most two million rows). The first batch starts Python and
loads compiled code; the figures are medians of the others.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from kernelstream import KeyedFleet
from kernelstream import spark as kspark

FEATURES = ["a", "b", "c", "d"]
PARAMS = {"preset": "svmd", "budget": 8, "gamma": 0.25}
N_BATCHES = 4


def write_batch(folder, number, n_keys, n_rows):
    random = np.random.default_rng(number)
    X = random.normal(size=(n_rows, len(FEATURES)))
    frame = pd.DataFrame(X, columns=FEATURES)
    frame.insert(0, "sensor", random.permutation(n_rows) % n_keys)
    frame["y"] = np.sin(X[:, 0]) + X[:, 1]
    frame["time"] = np.arange(number * n_rows, (number + 1) * n_rows)
    frame.to_parquet(folder / f"{number}.parquet")


def start(spark, folder, blocks, output):
    columns = ["sensor long", *(f"{name} double" for name in FEATURES), "y double", "time long"]
    reader = spark.readStream.schema(", ".join(columns)).option("maxFilesPerTrigger", 1)
    said = kspark.learn_stream(
        reader.parquet(str(folder / "in")), key="sensor", features=FEATURES, target="y",
        order="time", blocks=blocks, output=output, **PARAMS,
    )  # fmt: skip
    writer = said.writeStream.format("parquet").option("path", str(folder / "out"))
    checkpoint = str(folder / "checkpoint")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def size(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(spark, n_keys, blocks, output="predictions"):
    n_rows = min(10 * n_keys, 2_000_000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "in").mkdir()
        for number in range(N_BATCHES):
            write_batch(folder / "in", number, n_keys, n_rows)
        query = start(spark, folder, blocks, output)
        query.awaitTermination()
        state = size(folder / "checkpoint") / N_BATCHES
        batches = [p["durationMs"]["triggerExecution"] for p in query.recentProgress
                   if p["numInputRows"]]  # fmt: skip
        write_batch(folder / "in", N_BATCHES, n_keys, n_rows)
        began = time.perf_counter()
        query = start(spark, folder, blocks, output)
        query.awaitTermination()
        again = time.perf_counter() - began
    seconds = np.median(batches[1:]) / 1000
    return {
        "keys": n_keys, "blocks": blocks, "rows per batch": n_rows, "output": output,
        "seconds per batch": round(float(seconds), 2), "rows per second": round(n_rows / seconds),
        "MB of state written per batch": round(state / 1e6, 1),
        "seconds to go on": round(again - float(seconds), 1),
    }  # fmt: skip


def main(sizes):
    fleet = KeyedFleet("svmd", "regressor", **{k: v for k, v in PARAMS.items() if k != "preset"})
    print(f"{fleet.bytes_per_model(n_features=len(FEATURES))} bytes per model")
    spark = kspark.session(
        "local[2]", spark__ui__enabled="false", spark__ui__showConsoleProgress="false",
        spark__sql__shuffle__partitions=4, spark__log__level="ERROR", spark__driver__memory="4g",
    )  # fmt: skip
    for n_keys in sizes:
        print(measure(spark, n_keys, blocks=max(8, n_keys // 2000)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [10_000, 20_000, 100_000])
