"""Spark's models and predictions are those of a fleet in one process, bit for bit."""

import json
import runpy
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import kernelstream as ks

kspark = pytest.importorskip("kernelstream.spark", exc_type=ImportError)

from pyspark.sql import functions as fn  # noqa: E402

from kernelstream.spark.job import BLOCK, ORDER, TIE, Columns  # noqa: E402
from kernelstream.spark.placement import (  # noqa: E402
    _WATCHES,
    PARTITIONS,
    block_numbers,
    index_of,
    numbered,
)

from .conftest import contents, in_one_process, table  # noqa: E402
from .driver import COLUMNS, PARAMS, SCHEMA, learn_files  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("as_in_workers"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def shuffled(frame):
    return frame.sample(frac=1, random_state=1)


def test_tables_at_rest(spark, tmp_path):
    frame = table()
    df = spark.createDataFrame(shuffled(frame))
    first, second = df.where("time < 60"), df.where("time >= 60")
    early = kspark.fit_keys(first, **COLUMNS, **PARAMS, blocks=3)
    path = str(tmp_path / "models")
    kspark.fit_keys(second, **COLUMNS, **PARAMS, blocks=2, models=early).write.parquet(path)
    models = spark.read.parquet(path)  # which has kept what the models learn
    fleet, _ = in_one_process(frame)
    found = kspark.to_fleet(models)
    assert contents(found) == contents(fleet)
    assert found.n_rows_ == len(frame)
    said = kspark.predict(df, models).toPandas().sort_values("time")
    assert said.columns.tolist() == [*frame.columns, "prediction", "score"]
    wanted = fleet.predict(frame["sensor"].tolist(), frame[["a", "b"]].to_numpy())
    assert np.array_equal(said["prediction"].to_numpy(), wanted)
    files = kspark.save_models(models, tmp_path / "files")
    assert sorted(key for file in files for key in ks.load(file)) == sorted(fleet)


def test_keys_of_two_columns_labels_and_rows_left_out(spark):
    frame = table(60)
    x = [
        row[: 1 if time == 7 else 2]
        for time, row in enumerate(frame[["a", "b"]].to_numpy().tolist())
    ]
    hall = [None if time == 5 else 2**60 + time % 2 for time in frame["time"]]
    label = ["low" if y < 0 else "mid" if y < 0.5 else "high" for y in frame["y"]]
    label[9] = None
    rows = list(zip(frame["sensor"], hall, x, label, frame["time"].tolist(), strict=True))
    df = spark.createDataFrame(
        rows, "sensor string, hall long, x array<double>, y string, time long"
    )
    params = {"classes": ["high", "low", "mid"], "budget": 4, "on_bad_row": "skip"}
    models = kspark.fit_keys(
        df, key=["sensor", "hall"], features="x", target="y", order="time", n_features=2,
        blocks=2, preset="svmd", **params,
    ).cache()  # fmt: skip
    kept = [row for row in rows if row[4] not in (5, 7, 9)]
    fleet = ks.KeyedFleet("svmd", "classifier", **params)
    fleet.learn([(s, h) for s, h, *_ in kept], [r[2] for r in kept], [r[3] for r in kept])
    found = kspark.to_fleet(models)
    assert contents(found) == contents(fleet)
    assert found.n_skipped_ == 3
    said = kspark.predict(df, models).toPandas().set_index("time")["prediction"]
    wanted = fleet.predict([(s, h) for s, h, *_ in kept], [r[2] for r in kept])
    assert said.loc[[row[4] for row in kept]].tolist() == wanted.tolist()
    assert said.loc[[5, 7]].isna().all()
    strict = {**params, "on_bad_row": "raise"}
    with pytest.raises(Exception, match="key None and time 5: its key is null"):
        kspark.fit_keys(
            df.where("time = 5"), key=["sensor", "hall"], features="x", target="y", order="time",
            n_features=2, **strict,
        ).collect()  # fmt: skip


def test_streams_that_stop_and_go_on(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    frame = table(150)
    parts = [frame[i : i + 50] for i in (0, 50, 100)]
    shuffled(parts[0]).to_parquet(folder / "0.parquet")
    learn_files(spark, tmp_path)
    shuffled(parts[1]).to_parquet(folder / "1.parquet")
    learn_files(spark, tmp_path)
    fleet, predictions = in_one_process(frame[:100])
    said = spark.read.parquet(str(tmp_path / "query-out")).toPandas().sort_values("time")
    assert said["time"].tolist() == list(range(100))
    assert np.array_equal(said["prediction"].to_numpy(), predictions)
    models = kspark.checkpoint_models(spark, tmp_path / "query-checkpoint")
    assert contents(kspark.to_fleet(models)) == contents(fleet)

    # Another number of blocks would find other models: it needs a new checkpoint.
    for file in folder.iterdir():
        file.unlink()
    shuffled(parts[2]).to_parquet(folder / "2.parquet")
    with pytest.raises(Exception, match=r"start it with blocks=3|another number of blocks"):
        learn_files(spark, tmp_path, blocks=5)
    learn_files(spark, tmp_path, "five", blocks=5, models=models, output="counts")
    counts = spark.read.parquet(str(tmp_path / "five-out")).toPandas()
    assert counts["n_models"].sum() <= len(fleet)
    assert counts["n_rows"].min() > 0
    found = kspark.to_fleet(kspark.checkpoint_models(spark, tmp_path / "five-checkpoint"))
    fleet, _ = in_one_process(frame)
    assert contents(found) == contents(fleet)
    assert found.n_rows_ == 150


def test_other_columns_than_those_of_the_checkpoint_are_refused(spark, tmp_path):
    (tmp_path / "in").mkdir()
    table(20).to_parquet(tmp_path / "in" / "0.parquet")
    learn_files(spark, tmp_path)
    table(20, first=20).to_parquet(tmp_path / "in" / "1.parquet")
    with pytest.raises(Exception, match="was learned with the columns"):
        learn_files(spark, tmp_path, features=["b", "a"])


def test_a_stream_of_the_rate_source(spark, tmp_path):
    """Rows by the clock: whatever batches there were, each row is learned once and in order."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).load()
    a, b = (fn.col("value") % 7) / 8, (fn.col("value") % 5) / 4  # exact in JVM and NumPy
    rows = source.select(
        fn.concat(fn.lit("s"), (fn.col("value") % 3).cast("string")).alias("sensor"),
        a.alias("a"), b.alias("b"), (a - b / 2).alias("y"), fn.col("value").alias("time"),
    )  # fmt: skip
    said = kspark.learn_stream(rows, **COLUMNS, **PARAMS, blocks=2)
    writer = said.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    while query.lastProgress is None or query.lastProgress["batchId"] < 2:
        assert query.exception() is None
        query.awaitTermination(0.2)
    query.stop()
    found = spark.read.parquet(str(tmp_path / "out")).toPandas().sort_values("time")
    assert len(found) >= 80
    time = np.arange(len(found))
    assert found["time"].tolist() == time.tolist()
    frame = found.assign(a=time % 7 / 8, b=time % 5 / 4, y=time % 7 / 8 - time % 5 / 8)
    assert found["sensor"].tolist() == [f"s{i % 3}" for i in time]
    _, predictions = in_one_process(frame)
    assert np.array_equal(found["prediction"].to_numpy(), predictions)
    models = kspark.to_fleet(kspark.checkpoint_models(spark, tmp_path / "checkpoint"))
    fleet, _ = in_one_process(frame[: models.n_rows_])  # a batch may have been on its way
    assert models.n_rows_ >= 80
    assert contents(models) == contents(fleet)


def test_messages_of_kafka(spark, tmp_path):
    """The example, from what Kafka's source gives; a broker is not needed for that."""
    path = Path(__file__).parents[2] / "examples" / "spark_kafka.py"
    example = runpy.run_path(str(path))
    frame = table(40)
    values = [
        json.dumps({"sensor": s, "a": a, "b": b, "y": y})
        for s, a, b, y in frame[["sensor", "a", "b", "y"]].itertuples(index=False)
    ]
    values[7], values[9] = "no JSON", '{"sensor": "s1", "a": 1.0}'
    rows = [
        (bytearray(b"key"), bytearray(value.encode()), "readings", 0, i, None, 0)
        for i, value in enumerate(values)
    ]
    schema = (
        "key binary, value binary, topic string, partition int, offset long, "
        "timestamp timestamp, timestampType int"
    )
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "topic"))
    messages = spark.readStream.schema(schema).parquet(str(tmp_path / "topic"))
    query = example["start"](
        example["learn"](example["readings"](messages)), tmp_path, availableNow=True
    )
    query.awaitTermination()
    said = spark.read.parquet(str(tmp_path / "predictions")).toPandas().sort_values("offset")
    assert said["offset"].tolist() == list(range(40))
    assert said["offset"][said["prediction"].isna()].tolist() == [7, 9]
    fleet = ks.KeyedFleet("svmd", "regressor", budget=32)
    kept = frame.drop(index=[7, 9])
    wanted, _ = fleet.prequential(
        kept["sensor"].tolist(), kept[["a", "b"]].to_numpy(), kept["y"].to_numpy()
    )
    assert np.array_equal(said["prediction"].dropna().to_numpy(), wanted)
    found = kspark.to_fleet(kspark.checkpoint_models(spark, tmp_path / "checkpoint"))
    assert (found.n_rows_, found.n_skipped_) == (38, 2)


def test_a_committee_for_every_key(spark, tmp_path):
    """Models that are no records: to 1e-9 those of one process, also from a checkpoint."""
    committee = ks.Committee({"one": "svmd", "two": "norma"}, "regressor")
    frame = table(60)
    (tmp_path / "in").mkdir()
    for i in (0, 1):
        shuffled(frame[30 * i : 30 * i + 30]).to_parquet(tmp_path / "in" / f"{i}.parquet")
        learn_files(spark, tmp_path, params={"preset": committee})
    models = kspark.checkpoint_models(spark, tmp_path / "query-checkpoint")
    fleet = ks.KeyedFleet(committee, "regressor")
    wanted, _ = fleet.prequential(
        frame["sensor"].tolist(), frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    )
    said = spark.read.parquet(str(tmp_path / "query-out")).toPandas().sort_values("time")
    np.testing.assert_allclose(said["prediction"], wanted, rtol=1e-9, atol=1e-12)
    found = kspark.to_fleet(kspark.reshard(models, 2))
    assert sorted(found) == sorted(fleet)
    for key in fleet:
        assert found.model(key).weights_ == pytest.approx(fleet.model(key).weights_, rel=1e-9)


def test_one_model_by_a_tree_of_averages(spark):
    frame = table(200)
    df = spark.createDataFrame(frame)
    params = {"preset": "svmd", "gamma": 0.5, "budget": 8}
    columns = {"features": ["a", "b"], "target": "y", "order": "time"}
    model = kspark.fit_average(df, **columns, **params, parts=5, fan_in=3)
    rows = Columns.of(df, (), **columns).prepared(df, 5, "double").toPandas()
    rows["part"] = rows[TIE] % 5
    parts = []
    for _, part in rows.sort_values(ORDER).groupby("part"):
        one = ks.make("svmd", "regressor", gamma=0.5, budget=8)
        parts.append(one.partial_fit(part[["a", "b"]].to_numpy(), part["y"].to_numpy()))
    wanted = ks.average([ks.average(parts[:3]), ks.average(parts[3:])])
    X = frame[["a", "b"]].to_numpy()
    assert model.n_seen_ == 200
    # Sums of the kernel's values are compiled here, and plain Python in the workers.
    assert np.allclose(model.predict(X), wanted.predict(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="no rows"):
        kspark.fit_average(df.where("time < 0"), **columns, **params, parts=1)
    assert BLOCK not in df.columns


@pytest.mark.parametrize(("wrong", "message"), [
    ({"key": "b"}, "'b' is of type double; keys are strings or integers"),
    ({"features": ["a", "c"]}, "no column 'c'"),
    ({"features": ["sensor"]}, "'sensor' is of type string; give columns of numbers"),
    ({"features": []}, "empty"),
    ({"target": None, "task": "regressor"}, "all others need one"),
    ({"task": "classifier"}, "name all classes"),
    ({"blocks": 0}, "blocks"),
    ({"on_bad_row": print}, "on_bad_row is a function"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_runs(spark, wrong, message):
    df = spark.createDataFrame(table(4))
    with pytest.raises((ValueError, TypeError), match=message):
        kspark.fit_keys(df, **{**COLUMNS, **PARAMS, **wrong})


def test_tables_that_are_no_stream_and_no_models(spark):
    df = spark.createDataFrame(table(4))
    with pytest.raises(ValueError, match="use fit_keys"):
        kspark.learn_stream(df, **COLUMNS)
    with pytest.raises(ValueError, match="no table of models"):
        kspark.predict(df, df)


# --- where blocks go ------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 3, 64, 500])
def test_blocks_spread_evenly_over_partitions(spark, blocks):
    numbers = block_numbers(blocks)
    rows = spark.createDataFrame([(number,) for number in numbers], "block int")
    hashes = [row[0] for row in rows.select(fn.hash("block")).collect()]
    for partitions in [d for d in range(1, blocks + 1) if blocks % d == 0]:
        counts = np.bincount(np.array(hashes) % partitions, minlength=partitions)
        assert set(counts) == {blocks // partitions}
    index = fn.col("id")
    found = spark.range(blocks).select(numbered(index, blocks).alias("n"), "id")
    found = found.select("n", index_of(fn.col("n"), blocks).alias("back"), "id").collect()
    assert [row["n"] for row in sorted(found, key=lambda row: row["id"])] == list(numbers)
    assert all(row["back"] == row["id"] for row in found)


def test_partitions_are_set_and_a_checkpoint_with_others_warns(spark, tmp_path, caplog):
    folder = tmp_path / "in"
    folder.mkdir()
    frame = table(100)
    before = spark.conf.get(PARTITIONS)
    try:
        spark.conf.set(PARTITIONS, "200")  # Spark's default
        frame[:50].to_parquet(folder / "0.parquet")
        learn_files(spark, tmp_path, blocks=6)
        assert spark.conf.get(PARTITIONS) == "2"  # of two cores
        assert len(list((tmp_path / "query-checkpoint/state/0").glob("[0-9]*"))) == 2
        frame[50:].to_parquet(folder / "1.parquet")
        _WATCHES.clear()  # what other queries asked for
        with caplog.at_level("WARNING", "kernelstream"):
            learn_files(spark, tmp_path, blocks=6, partitions=3)
            for _ in range(100):
                if caplog.records:
                    break
                time.sleep(0.1)
        assert "has 2 shuffle partitions" in caplog.text
        assert "start it with partitions=2" in caplog.text
        found = kspark.checkpoint_models(spark, tmp_path / "query-checkpoint")
        assert contents(kspark.to_fleet(found)) == contents(in_one_process(frame)[0])
        stream = spark.readStream.schema(SCHEMA).parquet(str(folder))
        with pytest.warns(UserWarning, match="partitions=4 does not divide blocks=6"):
            kspark.learn_stream(stream, **COLUMNS, blocks=6, partitions=4)
    finally:
        spark.conf.set(PARTITIONS, before)


# --- targets are not changed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "kind", "values", "wrong"),
    [
        ([0, 1], "double", [0.0, 1.0], 1.7),
        ([False, True], "int", [0, 1], 7),
        ([False, True], "double", [0.0, 1.0], 0.5),
        ([0, 1], "boolean", [False, True], None),
        ([0, 1], "decimal(4, 1)", [Decimal(0), Decimal(1)], Decimal("1.7")),
        (["a", "b"], "string", ["a", "b"], "c"),
    ],
)
def test_a_label_is_never_cast_into_another(spark, classes, kind, values, wrong):
    rows = [("s", float(i), values[i % 2], i) for i in range(20)]
    schema = f"sensor string, a double, y {kind}, time long"
    columns = {"key": "sensor", "features": ["a"], "target": "y", "order": "time"}
    params = {"classes": classes, "budget": 4, "blocks": 1, "preset": "norma"}
    df = spark.createDataFrame(rows, schema)
    fleet = kspark.to_fleet(kspark.fit_keys(df, **columns, **params))
    expected = ks.KeyedFleet("norma", "classifier", classes=classes, budget=4)
    expected.learn(["s"] * 20, [[row[1]] for row in rows], [classes[i % 2] for i in range(20)])
    assert contents(fleet) == contents(expected)
    if wrong is None:
        return
    bad = spark.createDataFrame([*rows, ("s", 0.0, wrong, 20)], schema)
    with pytest.raises(Exception, match=rf"{wrong}"):
        kspark.fit_keys(bad, **columns, **params).collect()
    skipping = kspark.to_fleet(kspark.fit_keys(bad, **columns, **params, on_bad_row="skip"))
    assert skipping.n_skipped_ == 1
    assert contents(skipping) == contents(expected)


def test_targets_of_another_kind_are_refused_before_anything_runs(spark):
    df = spark.createDataFrame([("s", 1.0, "1", 0)], "sensor string, a double, y string, time long")
    columns = {"key": "sensor", "features": ["a"], "target": "y", "order": "time"}
    for params in ({"classes": [0, 1]}, {}):
        with pytest.raises(TypeError, match=r"'y' is of type string.*cast the column"):
            kspark.fit_keys(df, **columns, **params)
    with pytest.raises(TypeError, match=r"'a' is of type double.*strings"):
        kspark.fit_keys(df, **{**columns, "target": "a"}, classes=["x", "y"])
