"""Streams: a block of keys is a group of Structured Streaming, its fleet the group's state."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as st
from pyspark.sql.streaming import StatefulProcessor

from kernelstream.parts import one_of
from kernelstream.spark.job import (
    BLOCK,
    NO_KEY,
    ORDER,
    OTHER_BLOCKS,
    TIE,
    Columns,
    Job,
    new_job,
    quoted,
)
from kernelstream.spark.models import STATE, job_of, reshard
from kernelstream.spark.needs import prepare_state_store
from kernelstream.spark.placement import numbered, set_partitions, watch_partitions
from kernelstream.spark.rows import answer_fields, answers, learn_frame, wanted_rows

__all__ = ["learn_stream"]

_AT = "ks_at"  # the order column as it came
_PACKED_AT_ONCE = 100_000  # rows


def learn_stream(
    df: DataFrame, *, key: Any, features: Any, target: str | None = None, order: str,
    preset: Any = "svmd", task: str | None = None, blocks: int = 64, output: str = "predictions",
    partitions: int | None = None, models: DataFrame | None = None, **params: Any,
) -> DataFrame:  # fmt: skip
    """Learn a model for every key of a stream, and predict each row before it is learned.

    The models are the state of the query. They survive whatever its checkpoint survives, and are
    bit for bit those of a `KeyedFleet` that learned the same batches. In a batch, rows are learned
    in the order of the column `order`; a row that comes in a later batch is learned later.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A streaming one.
    key, features, target, order, preset, task, blocks
        As in `fit_keys`. A checkpoint keeps the number of blocks.
    output : {"predictions", "counts"}, default="predictions"
        "predictions": a row for every row, with its key, its place in the order, ``prediction`` and
        ``score``, both null if the row was left out. "counts": a row for each block in a batch,
        with ``block``, ``n_rows``, ``n_skipped``, ``n_models`` and ``n_bytes`` so far.
    partitions : int, default=None
        The number of shuffle partitions, which the checkpoint keeps as well. It is set for the
        session (``spark.sql.shuffle.partitions``) and should divide `blocks`, so that every
        partition has equally many blocks. None: the session's own number if it divides `blocks`;
        otherwise, and with Spark's default of 200, as many partitions as cores or a few more.
    models : pyspark.sql.DataFrame, default=None
        Models to start from in the first batch, from `fit_keys` or `checkpoint_models`; where they
        are in another number of blocks they are put into this one.
    **params
        As of `KeyedFleet`.

    Returns
    -------
    pyspark.sql.DataFrame
        A streaming one, to be written with ``outputMode("append")`` and a ``checkpointLocation``.

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> said = kspark.learn_stream(
    ...     df, key="sensor", features=["a", "b"], target="y", order="time", budget=32
    ... )  # doctest: +SKIP
    >>> query = (
    ...     said.writeStream.format("parquet").option("path", "predictions")
    ...     .option("checkpointLocation", "checkpoint").start()
    ... )  # doctest: +SKIP
    """
    if not df.isStreaming:
        raise ValueError("df is a table at rest: use fit_keys, or read it by spark.readStream.")
    one_of("output", output, ["predictions", "counts"])
    columns = Columns.of(df, key, features, target, order)
    job = new_job(columns, blocks, preset, task, **params)
    prepare_state_store(df.sparkSession)
    watch_partitions(df.sparkSession, set_partitions(df.sparkSession, job.blocks, partitions))
    rows = job.prepared(df).select(BLOCK, *wanted_rows(job), fn.col(quoted(order)).alias(_AT))
    packed = rows.mapInArrow(_packed, "block int, rows binary")
    kind = _Predicting if output == "predictions" else _Counting
    learner: _Learner = kind(job)
    return packed.groupBy("block").transformWithStateInPandas(
        learner, learner.schema(df.schema[order].dataType), "Append", "None",
        _first_cells(df, models, job).groupBy("block"),
    )  # fmt: skip


def _first_cells(df: DataFrame, models: DataFrame | None, job: Job) -> DataFrame:
    """Create a cell for every block, so that a missing cell is an error."""
    numbers = df.sparkSession.range(job.blocks).select(
        numbered(fn.col("id"), job.blocks).alias("block")
    )
    empty = fn.lit(bytearray(job.template))
    if models is None:
        return numbers.select("block", empty.alias("cell"))
    if job_of(models).blocks != job.blocks:
        models = reshard(models, job.blocks)
    found = numbers.join(models.select("block", "cell"), "block", "left")
    return found.select("block", fn.coalesce("cell", empty).alias("cell"))


def _packed(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield rows packed by blocks: a row for each block, and in it a table of Arrow.

    Spark hands rows to a group one by one, which takes longer than all the rest; and a table keeps
    the types of its columns on the way.
    """
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting >= _PACKED_AT_ONCE:
            yield _by_blocks(waiting)
            waiting, n_waiting = [], 0
    if n_waiting:
        yield _by_blocks(waiting)


def _by_blocks(batches: list[Any]) -> Any:
    table = pa.Table.from_batches(batches)
    numbers = table.column(BLOCK).to_numpy()
    order = np.argsort(numbers, kind="stable")
    table = table.drop_columns([BLOCK]).take(order)
    blocks, starts = np.unique(numbers[order], return_index=True)
    contents = []
    for start, stop in pairwise([*starts.tolist(), len(order)]):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, stop - start).combine_chunks())
        contents.append(sink.getvalue().to_pybytes())
    arrays = [pa.array(blocks, pa.int32()), pa.array(contents, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, ["block", "rows"])


def _unpacked(contents: list[bytes]) -> pd.DataFrame:
    """Return all rows of a block, in their order."""
    tables = [pa.ipc.open_stream(content).read_all() for content in contents]
    frame = pa.concat_tables(tables).to_pandas(integer_object_nulls=True)
    return frame.sort_values([ORDER, TIE], kind="stable", na_position="first", ignore_index=True)


class _Learner(StatefulProcessor):
    """Learns the rows of a block in a batch; the state is the block's cell."""

    def __init__(self, job: Job):
        self.job = job

    def init(self, handle: Any) -> None:
        """Name the state."""
        self.cell = handle.getValueState(STATE, "cell binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """Return the first cell of a block."""
        content = bytes(initialState["cell"].iloc[0])
        self.job.fleet(content, key[0])  # refuses what is not sound
        self.cell.update((content,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Yield all rows of a block in a batch, in their order."""
        (block,) = key
        contents = [content for frame in rows if len(frame) for content in frame["rows"]]
        if not contents:  # in the first batch, of a block that has only its first cell
            return
        frame = _unpacked(contents)
        content = self.cell.get()
        if content is None:
            raise ValueError(OTHER_BLOCKS.format(there="another number of", here=self.job.blocks))
        fleet = self.job.fleet(bytes(content[0]), block)
        said = learn_frame(self.job, fleet, frame)
        learned = self.job.cell(fleet)
        self.cell.update((learned,))
        yield self.answer(block, fleet, frame, said, learned)

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def schema(self, order_type: st.DataType) -> st.StructType:
        """Return the columns of what is told of a batch."""
        raise NotImplementedError

    def answer(self, block: int, fleet: Any, frame: Any, said: Any, learned: bytes) -> Any:
        """Return the report on the rows of a block."""
        raise NotImplementedError


class _Predicting(_Learner):
    def schema(self, order_type: st.DataType) -> st.StructType:
        columns = self.job.columns
        kinds = {"bigint": st.LongType(), "string": st.StringType()}
        keys = [
            st.StructField(name, kinds[kind])
            for name, kind in zip(columns.keys, columns.key_types, strict=True)
        ]
        return st.StructType(
            [*keys, st.StructField(str(columns.order), order_type), *answer_fields(self.job)]
        )

    def answer(self, block: int, fleet: Any, frame: Any, said: Any, learned: bytes) -> Any:
        columns = self.job.columns
        prediction, score = answers(self.job, *said)
        none = frame[NO_KEY].to_numpy(dtype=bool)
        found = {
            name: frame[inner].astype(object).where(~none, None).to_numpy()
            for name, inner in zip(columns.keys, columns.key_names(), strict=True)
        }
        found[str(columns.order)] = frame[_AT]
        found["prediction"] = _objects(prediction)
        found["score"] = _objects(score)
        return pd.DataFrame(found)


class _Counting(_Learner):
    def schema(self, order_type: st.DataType) -> st.StructType:
        whole = ["n_rows", "n_skipped", "n_models", "n_bytes"]
        return st.StructType([
            st.StructField("block", st.IntegerType()),
            *(st.StructField(name, st.LongType()) for name in whole),
        ])  # fmt: skip

    def answer(self, block: int, fleet: Any, frame: Any, said: Any, learned: bytes) -> Any:
        numbers = [fleet.n_rows_, fleet.n_skipped_, len(fleet), len(learned)]
        names = ["block", "n_rows", "n_skipped", "n_models", "n_bytes"]
        return pd.DataFrame([[block, *numbers]], columns=names)


def _objects(column: Any) -> Any:
    """Return a column for pandas in which null stays null."""
    found = pd.Series(column.to_pylist(), dtype=object)
    return found.to_numpy()
