"""A driver that learns a folder of files as a stream, one file in a batch, and may be killed.

python driver.py FOLDER
"""

import sys
from pathlib import Path

from kernelstream import spark as kspark

COLUMNS = {"key": "sensor", "features": ["a", "b"], "target": "y", "order": "time"}
PARAMS = {"preset": "svmd", "budget": 4, "gamma": 0.5}
SCHEMA = "sensor string, a double, b double, y double, time long"
QUIET = {"spark__ui__enabled": "false", "spark__ui__showConsoleProgress": "false",
         "spark__sql__shuffle__partitions": 2, "spark__log__level": "ERROR"}  # fmt: skip


def learn_files(spark, folder, name="query", params=PARAMS, **more):
    """Learn all files that are there, and stop."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    said = kspark.learn_stream(
        stream.parquet(str(Path(folder, "in"))), **{**COLUMNS, **params, "blocks": 3, **more}
    )
    query = (
        said.writeStream.format("parquet")
        .option("path", str(Path(folder, f"{name}-out")))
        .option("checkpointLocation", str(Path(folder, f"{name}-checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    learn_files(kspark.session("local[2]", **QUIET), sys.argv[1])
