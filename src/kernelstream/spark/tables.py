"""Tables at rest: models of keys, their predictions, and one model of all rows."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as st

import kernelstream as ks
from kernelstream.estimators.files import from_bytes
from kernelstream.fleet import KeyedFleet
from kernelstream.parts import integer_at_least
from kernelstream.spark.job import BLOCK, CELL, ORDER, TIE, Columns, Job, new_job, y_type
from kernelstream.spark.models import SCHEMA, by_block, cells, job_of, reshard, shuffled, with_job
from kernelstream.spark.placement import index_of, numbered
from kernelstream.spark.rows import (
    answer_fields,
    answers,
    learn_frame,
    plain_rows,
    predict_frame,
    wanted_rows,
)

__all__ = ["fit_average", "fit_keys", "predict"]


def fit_keys(
    df: DataFrame, *, key: Any, features: Any, target: str | None = None, order: str,
    preset: Any = "svmd", task: str | None = None, blocks: int = 64,
    models: DataFrame | None = None, **params: Any,
) -> DataFrame:  # fmt: skip
    """Return a model for every key of a table, each bit for bit that of a `KeyedFleet`.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    key : str or list of str
        A column of strings or integers; or several, whose values together are the key.
    features : str or list of str
        Columns of numbers; or one column of arrays, with ``n_features``.
    target : str, default=None
        None for novelty.
    order : str
        The rows of a key are learned in the order of this column: a shuffle keeps none. Nulls come
        first, and equal values in the order of a hash of their rows.
    preset : str or estimator, default="svmd"
        One of ``kernelstream.presets.names()``; or an estimator, such as ``AutoRegressor()``, which
        takes more memory and time and agrees with one process to 1e-9.
    task : {"classifier", "regressor", "novelty"}, default=None
        None: "novelty" without a target, "classifier" with ``classes``, otherwise "regressor".
    blocks : int, default=64
        In how many blocks keys are learned. A block's models must fit into a worker's memory.
    models : pyspark.sql.DataFrame, default=None
        Models to start from, of earlier rows.
    **params
        As of `KeyedFleet`: ``classes`` (which classifiers need), ``n_features``, ``gamma``,
        ``budget``, ``on_bad_row``, ...

    Returns
    -------
    pyspark.sql.DataFrame
        A table of models, with the columns ``block`` and ``cell``, which is computed when it is
        needed: write it as Parquet, or `cache` it.

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> models = kspark.fit_keys(
    ...     df, key="sensor", features=["a", "b"], target="y", order="time", budget=32
    ... )  # doctest: +SKIP
    >>> models.write.parquet("models")  # doctest: +SKIP
    """
    columns = Columns.of(df, key, features, target, order)
    job = new_job(columns, blocks, preset, task, **params)

    def fit(batches: Iterator[Any]) -> Iterator[Any]:
        def learned(pieces: Iterator[tuple[KeyedFleet, Any]]) -> bytes:
            for fleet, piece in pieces:
                if piece.num_rows:
                    learn_frame(job, fleet, piece.select(wanted_rows(job)).to_pandas())
            return job.cell(fleet)

        return cells((block, learned(pieces)) for block, pieces in _with_fleets(job, batches))

    names = [*wanted_rows(job), BLOCK]
    return with_job(
        _walked(job.prepared(df).select(*names), models, job).mapInArrow(fit, SCHEMA), job
    )


def predict(df: DataFrame, models: DataFrame) -> DataFrame:
    """Return the rows of a table with what the models of their keys predict.

    A key without a model, a null key or a row of another width is an error; if the models were made
    with ``on_bad_row="skip"``, such a row has the prediction null.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        With the columns of the keys and the features.
    models : pyspark.sql.DataFrame
        From `fit_keys`, `reshard` or `checkpoint_models`.

    Returns
    -------
    pyspark.sql.DataFrame
        The same columns, and ``prediction`` and ``score`` (an array, of more than two classes).

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> said = kspark.predict(df, models)  # doctest: +SKIP
    >>> said.select("sensor", "prediction").show()  # doctest: +SKIP
    """
    job = job_of(models)
    taken = {"prediction", "score"} & set(df.columns)
    if taken:
        raise ValueError(f"the table has the columns {sorted(taken)} already: rename them.")
    said = job.columns
    Columns.of(df, said.keys, said.features[0] if said.is_array else said.features, None, None)
    rows = job._replace(columns=said._replace(target=None, order=None))

    columns = df.columns

    def say(batches: Iterator[Any]) -> Iterator[Any]:
        for _, pieces in _with_fleets(job, batches):
            for fleet, piece in pieces:
                if piece.num_rows:
                    frame = piece.select(wanted_rows(job)).to_pandas()
                    found = answers(job, *predict_frame(job, fleet, frame))
                    kept = [piece.column(name) for name in columns]
                    yield pa.RecordBatch.from_arrays([*kept, *found], names)

    names = [*columns, "prediction", "score"]
    nullable = [st.StructField(field.name, field.dataType) for field in df.schema.fields]
    prepared = rows.columns.prepared(df, job.blocks, None)
    walked = _walked(prepared, models, job)
    return walked.mapInArrow(say, st.StructType([*nullable, *answer_fields(job)]))


def _walked(prepared: DataFrame, models: DataFrame | None, job: Job) -> DataFrame:
    """Return all rows by blocks, in their order, each block's cell before its rows."""
    rows = prepared.withColumn(CELL, fn.lit(None).cast("binary"))
    if models is not None:
        if job_of(models).blocks != job.blocks:
            models = reshard(models, job.blocks)
        before = models.select(fn.col("block").alias(BLOCK), fn.col("cell").alias(CELL))
        rows = rows.unionByName(before, allowMissingColumns=True)
    return shuffled(rows, job.blocks, fn.col(CELL).isNull(), ORDER, TIE)


def _with_fleets(
    job: Job, batches: Iterator[Any]
) -> Iterator[tuple[int, Iterator[tuple[KeyedFleet, Any]]]]:
    """Yield the rows of every block, with the fleet that its cell has."""

    def opened(block: int, pieces: Iterator[Any]) -> Iterator[tuple[KeyedFleet, Any]]:
        fleet: KeyedFleet | None = None
        for piece in pieces:
            cell = piece.column(CELL)
            n_cells = len(cell) - cell.null_count
            if n_cells:
                fleet = job.fleet(cell[0].as_py(), block)
            elif fleet is None:
                fleet = job.new_fleet()
            yield fleet, piece.slice(n_cells)

    for block, pieces in by_block(batches):
        yield block, opened(block, pieces)


def fit_average(
    df: DataFrame, *, features: Any, target: str | None = None, order: str | None = None,
    preset: str = "sog-svr", task: str | None = None, parts: int = 8, fan_in: int = 8,
    **params: Any,
) -> Any:  # fmt: skip
    """Learn one model from a table: partitions learn in parallel, a tree averages them.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    features : str or list of str
        Columns of numbers; or one column of arrays, with ``n_features``.
    target : str, default=None
        None for novelty.
    order : str, default=None
        The rows of a part are learned in the order of this column. None: in that of a hash of the
        rows, which is as good as at random.
    preset : str, default="sog-svr"
        Whose models can be averaged (`kernelstream.average`).
    task : {"classifier", "regressor", "novelty"}, default=None
        None: "novelty" without a target, "classifier" with ``classes``, otherwise "regressor".
    parts : int, default=8
        How many models learn. A row belongs to one of them by a hash of its content, so that the
        result does not depend on how the table is stored.
    fan_in : int, default=8
        How many models are averaged at a time.
    **params
        Of the estimator; and ``classes`` of a classifier.

    Returns
    -------
    KernelClassifier, KernelRegressor or NoveltyDetector

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> model = kspark.fit_average(df, features=["a", "b"], target="y")  # doctest: +SKIP
    >>> model.predict([[0.5, 1.5]])  # doctest: +SKIP
    """
    columns = Columns.of(df, (), features, target, order)
    parts, fan_in = integer_at_least("parts", parts, 1), integer_at_least("fan_in", fan_in, 2)
    classes = params.pop("classes", None)
    n_features = params.pop("n_features", None)
    if task is None:
        task = "novelty" if target is None else "regressor" if classes is None else "classifier"
    ks.make(preset, task, **params)  # refuses here, not in a worker, what cannot be
    if task == "classifier" and classes is None:
        raise ValueError("classes=None: parts do not know of each other's labels, so name them.")
    rows = columns.prepared(df, parts, y_type(task, classes))
    rows = rows.withColumn(BLOCK, numbered(fn.pmod(fn.col(TIE), fn.lit(parts)), parts))
    learn = _part_learner(preset, task, params, classes, n_features)
    found = shuffled(rows, parts, ORDER, TIE).mapInArrow(learn, SCHEMA)
    while parts > 1:
        index = (index_of(fn.col("block"), parts) / fan_in).cast("int")
        parts = -(-parts // fan_in)
        found = found.withColumn(BLOCK, numbered(index, parts))
        found = shuffled(found, parts).mapInArrow(_averaged, SCHEMA)
    models = [bytes(row["cell"]) for row in found.collect()]
    if not models:
        raise ValueError("the table has no rows: nothing was learned.")
    return from_bytes(models[0])


def _part_learner(
    preset: str, task: str, params: dict[str, Any], classes: Any, n_features: int | None
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that makes a model of every partition."""

    kind = y_type(task, classes)

    def learned(pieces: Iterator[Any]) -> bytes:
        model = ks.make(preset, task, **params)
        declared = {} if classes is None else {"classes": classes}
        for piece in pieces:
            X, y = plain_rows(piece.to_pandas(), n_features, kind, model.skips_bad_rows())
            model.partial_fit(X, **({} if task == "novelty" else {"y": y, **declared}))
        return model.to_bytes()

    def learn(batches: Iterator[Any]) -> Iterator[Any]:
        return cells((block, learned(pieces)) for block, pieces in by_block(batches))

    return learn


def _averaged(batches: Iterator[Any]) -> Iterator[Any]:
    def average(pieces: Iterator[Any]) -> bytes:
        contents = [content for piece in pieces for content in piece.column("cell").to_pylist()]
        return ks.average([from_bytes(content) for content in contents]).to_bytes()

    return cells((block, average(pieces)) for block, pieces in by_block(batches))
