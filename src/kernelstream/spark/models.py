"""Tables of models: a block and its cell in a row, in a table at rest or in a checkpoint."""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from kernelstream.files.bytes import write
from kernelstream.fleet import KeyedFleet
from kernelstream.parts import integer_at_least
from kernelstream.spark.job import BLOCK, Job, described, read_cell
from kernelstream.spark.placement import numbered, partitions_for

__all__ = ["checkpoint_models", "reshard", "save_models", "to_fleet"]

SCHEMA = "block int, cell binary"
STATE = "fleet"  # the name of the state of a block
_METADATA = "kernelstream"
_MODELS_AT_ONCE = 1000


def with_job(models: DataFrame, job: Job) -> DataFrame:
    """Return a table of models that says what they learn, which Parquet keeps."""
    text = base64.b64encode(job.template).decode()
    return models.withMetadata("cell", {_METADATA: text})


def job_of(models: DataFrame) -> Job:
    """Return the task of a table's models."""
    fields = {field.name: field for field in models.schema.fields}
    text = fields["cell"].metadata.get(_METADATA) if "cell" in fields else None
    if text is None:
        raise ValueError(
            f"models={models!r} is no table of models, or one that has lost the metadata of its "
            "column 'cell': give what fit_keys, reshard or checkpoint_models returned, or read it "
            "from Parquet."
        )
    return _job_like(base64.b64decode(text))


def _job_like(content: bytes, blocks: int | None = None) -> Job:
    """Return the job of a cell; with other blocks, if they are given."""
    fleet, columns, n_blocks = read_cell(content)
    empty = KeyedFleet(
        fleet.preset, fleet.task, n_features=fleet.n_features, classes=fleet.classes,
        dtype=fleet.dtype, n_jobs=1, **fleet.params,
    )  # fmt: skip
    n_blocks = n_blocks if blocks is None else blocks
    return Job(columns, n_blocks, empty.to_bytes(described(columns, n_blocks)))


def checkpoint_models(spark: SparkSession, checkpoint: Any) -> DataFrame:
    """Return the models that a query of `learn_stream` has in its checkpoint, after its last batch.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    checkpoint : str
        The query's ``checkpointLocation``.

    Returns
    -------
    pyspark.sql.DataFrame
        With the columns ``block`` and ``cell``. It can be given to `predict`, `fit_keys`,
        `learn_stream`, `save_models` and `to_fleet`.

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> models = kspark.checkpoint_models(spark, "checkpoint")  # doctest: +SKIP
    >>> models.count()  # doctest: +SKIP
    """
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    found = reader.load(str(checkpoint)).select("key.block", "value.cell")
    first = found.first()
    if first is None:
        raise ValueError(f"checkpoint={str(checkpoint)!r} has no models: no batch was finished.")
    return with_job(found, _job_like(bytes(first["cell"])))


def save_models(models: DataFrame, folder: Any) -> list[Path]:
    """Write a table of models to a folder, a file for every block, which `ks.load` reads.

    Parameters
    ----------
    models : pyspark.sql.DataFrame
        From `fit_keys`, `reshard` or `checkpoint_models`.
    folder : str or path-like
        On the driver's machine.

    Returns
    -------
    list of Path
        The files, of a `KeyedFleet` each.

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> kspark.save_models(models, "folder")  # doctest: +SKIP
    """
    job, paths = job_of(models), []
    Path(folder).mkdir(parents=True, exist_ok=True)
    for row in models.toLocalIterator():
        content = bytes(row["cell"])
        job.fleet(content, row["block"])  # refuses what is not sound
        paths.append(Path(folder, f"block-{row['block']:06d}.ks"))
        write(paths[-1], content)
    return sorted(paths)


def to_fleet(models: DataFrame) -> KeyedFleet:
    """Return all models of a table in one `KeyedFleet`, in the driver's memory.

    Parameters
    ----------
    models : pyspark.sql.DataFrame
        From `fit_keys`, `reshard` or `checkpoint_models`.

    Returns
    -------
    KeyedFleet

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> fleet = kspark.to_fleet(models)  # doctest: +SKIP
    >>> fleet.predict(["sensor-1"], [[0.5, 1.5]])  # doctest: +SKIP
    """
    job = job_of(models)
    whole = job.new_fleet()
    for row in models.toLocalIterator():
        whole.join(job.fleet(bytes(row["cell"]), row["block"]))
    whole.n_jobs = None
    return whole


def by_block(batches: Iterator[Any]) -> Iterator[tuple[int, Iterator[Any]]]:
    """Yield the rows of every block, as tables of some rows; rows of a block stand together."""

    def pieces() -> Iterator[tuple[int, Any]]:
        for batch in batches:
            numbers = batch.column(BLOCK).to_numpy(zero_copy_only=False)
            start = 0
            for block, same in groupby(numbers.tolist()):
                n_rows = sum(1 for _ in same)
                yield block, batch.slice(start, n_rows)
                start += n_rows

    for block, found in groupby(pieces(), key=itemgetter(0)):
        yield block, map(itemgetter(1), found)


def shuffled(df: DataFrame, blocks: int, *order: Any) -> DataFrame:
    """Return a table whose partitions have whole blocks, one after the other."""
    n_partitions = partitions_for(df.sparkSession, blocks)
    return df.repartition(n_partitions, BLOCK).sortWithinPartitions(BLOCK, *order)


def cells(pairs: Iterator[tuple[int, bytes]]) -> Iterator[Any]:
    """Yield rows of a table of models."""
    for block, cell in pairs:
        columns = [pa.array([block], pa.int32()), pa.array([cell], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, ["block", "cell"])


def reshard(models: DataFrame, blocks: int) -> DataFrame:
    """Return the same models in another number of blocks.

    Parameters
    ----------
    models : pyspark.sql.DataFrame
        From `fit_keys`, `reshard` or `checkpoint_models`.
    blocks : int

    Returns
    -------
    pyspark.sql.DataFrame

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> models = kspark.reshard(models, blocks=256)  # doctest: +SKIP
    """
    old = job_of(models)
    new = _job_like(old.template, integer_at_least("blocks", blocks, 1))
    names, kinds = new.columns.key_names(), new.columns.key_types
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    single = models.mapInArrow(
        _taken_apart(old), f"{schema}, block int, model binary, counts string"
    )
    block = fn.pmod(fn.hash(*[fn.col(name) for name in names]), fn.lit(blocks))
    by_key = fn.when(fn.col("model").isNull(), fn.col("block") % blocks).otherwise(block)
    placed = single.withColumn(BLOCK, numbered(by_key, blocks))
    whole = shuffled(placed, blocks).mapInArrow(_put_together(new), SCHEMA)
    return with_job(whole, new)


def _taken_apart(job: Job) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Yield a row for every model of a cell, and one for its counts."""
    columns = job.columns
    names = [*columns.key_names(), "block", "model", "counts"]

    def rows(keys: list[Any], block: int, contents: list[Any], counts: list[Any]) -> Any:
        parts = [keys] if len(columns.keys) == 1 else list(zip(*keys, strict=True))
        kinds = [{"bigint": pa.int64(), "string": pa.string()}[k] for k in columns.key_types]
        arrays = [pa.array(p, kind) for p, kind in zip(parts, kinds, strict=True)]
        arrays += [pa.array([block] * len(keys), pa.int32()), pa.array(contents, pa.binary())]
        return pa.RecordBatch.from_arrays([*arrays, pa.array(counts, pa.string())], names)

    def take_apart(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                fleet, block = job.fleet(row["cell"], row["block"]), row["block"]
                for keys, contents in fleet.chunks():
                    for i in range(0, len(keys), _MODELS_AT_ONCE):
                        some = slice(i, i + _MODELS_AT_ONCE)
                        yield rows(keys[some], block, contents[some], [None] * len(keys[some]))
                counts = json.dumps([fleet.n_rows_, fleet.skipped_])
                nobody = [None] if len(columns.keys) == 1 else [(None,) * len(columns.keys)]
                yield rows(nobody, block, [None], [counts])

    return take_apart


def _put_together(job: Job) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return rows of single models to cells."""

    def put_together(batches: Iterator[Any]) -> Iterator[Any]:
        return cells(
            (block, job.cell(_joined(job, job.new_fleet(), pieces)))
            for block, pieces in by_block(batches)
        )

    return put_together


def _joined(job: Job, fleet: KeyedFleet, pieces: Iterator[Any]) -> KeyedFleet:
    names = job.columns.key_names()
    for piece in pieces:
        columns = {name: piece.column(name).to_pylist() for name in (*names, "model", "counts")}
        keys = columns[names[0]]
        if len(names) > 1:
            keys = list(zip(*[columns[name] for name in names], strict=True))
        there = [i for i, content in enumerate(columns["model"]) if content is not None]
        fleet.adopt([keys[i] for i in there], [columns["model"][i] for i in there])
        for text in filter(None, columns["counts"]):
            n_rows, skipped = json.loads(text)
            fleet.n_rows_ += n_rows
            for reason, n in skipped.items():
                fleet.skipped_[reason] = fleet.skipped_.get(reason, 0) + n
    return fleet
