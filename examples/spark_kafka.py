"""A model for every sensor of a Kafka topic, learned by Spark, with a prediction for every message.

    pip install 'kernelstream[spark]'     # and Java 17
    docker run -d -p 9092:9092 apache/kafka
    python examples/spark_kafka.py localhost:9092 readings kept

Messages are JSON with the sensor as their key, so that Kafka keeps those of a sensor in one
partition and in their order:

    {"sensor": "hall", "a": 0.7, "b": -1.2, "y": 0.4}

The query goes on until it is stopped, and from where it was when it is started again with the same
folder. Predictions are in the folder's ``predictions``, each message once, models in its
``checkpoint`` (`kernelstream.spark.checkpoint_models`).
"""

import sys

import pyspark
from pyspark.sql import functions as fn

from kernelstream import spark as kspark

PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
SCHEMA = "sensor string, a double, b double, y double"


def messages(spark, servers, topic):
    """The topic as a stream with the columns of Kafka's source."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000_000)  # bounds the rows of a batch, and so the memory
        .load()
    )


def readings(messages):
    """The rows of messages. One that is no JSON has a null key, and is left out and counted."""
    parsed = fn.from_json(fn.col("value").cast("string"), SCHEMA).alias("r")
    return messages.select(parsed, "partition", "offset").select("r.*", "partition", "offset")


def learn(readings):
    """Predictions, each by the model of its sensor before it learned the row."""
    return kspark.learn_stream(
        readings, key="sensor", features=["a", "b"], target="y", order="offset",
        preset="svmd", budget=32, blocks=64, on_bad_row="skip",
    )  # fmt: skip


def start(said, folder, **trigger):
    """Write predictions to files: this sink writes every row exactly once."""
    return (
        said.writeStream.format("parquet")
        .option("path", f"{folder}/predictions")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(**trigger)
        .start()
    )


if __name__ == "__main__":
    servers, topic, folder = sys.argv[1:]
    spark = kspark.session(spark__jars__packages=PACKAGE)
    said = learn(readings(messages(spark, servers, topic)))
    start(said, folder, processingTime="10 seconds").awaitTermination()
