"""Rows that Spark has sent, learned and predicted in a Python worker."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import types as st

from kernelstream.fleet import KeyedFleet
from kernelstream.learner.rows import BadRow
from kernelstream.spark.job import NO_KEY, ORDER, TIE, Job, X, Y, matrix, targets_of

__all__ = ["answer_fields", "answers", "learn_frame", "predict_frame"]

_TYPES = {"double": (st.DoubleType(), pa.float64()), "string": (st.StringType(), pa.string()),
          "bigint": (st.LongType(), pa.int64()), "boolean": (st.BooleanType(), pa.bool_()),
          None: (st.IntegerType(), pa.int32())}  # fmt: skip


def wanted_rows(job: Job) -> list[str]:
    """Return the columns that Python needs of a row."""
    return [*job.columns.key_names(), NO_KEY, X, Y, ORDER, TIE]


def plain_rows(
    frame: pd.DataFrame, n_features: int | None, kind: str | None, skips: bool
) -> tuple[Any, Any]:
    """Return features and targets of rows without keys."""
    width = n_features or len(frame[X].iloc[0])
    y = None if kind is None else targets_of(frame, kind, skips)
    return matrix(frame[X], width, skips), y


@contextmanager
def _named(job: Job, frame: pd.DataFrame) -> Iterator[None]:
    """Yield whatever is wrong with a row names its key and its place in the order."""
    try:
        yield
    except BadRow as bad:
        key = job.columns.keys_of(frame)[bad.row]
        order = "" if job.columns.order is None else (
            f" and {job.columns.order} {frame[ORDER].iloc[bad.row]}"
        )  # fmt: skip
        raise ValueError(
            f"the row with key {key!r}{order}: {bad.reason}. With on_bad_row='skip' such rows are "
            "left out and counted."
        ) from bad


def learn_frame(job: Job, fleet: KeyedFleet, frame: pd.DataFrame) -> tuple[Any, Any]:
    """Predict and learn rows in the order in which they are; predictions and scores."""
    with _named(job, frame):
        keys, features, y = job.rows(fleet, frame)
        return fleet.prequential(keys, features, y)


def predict_frame(job: Job, fleet: KeyedFleet, frame: pd.DataFrame) -> tuple[Any, Any]:
    """Return predictions and scores of rows."""
    with _named(job, frame):
        skips = fleet.prototype.skips_bad_rows()
        features = matrix(frame[X], fleet.n_features or 0, skips)
        keys = job.columns.keys_of(frame)
        if isinstance(features, list):  # only rows of the right width can be scored
            width = fleet.n_features or 0
            keys = [k if len(x) == width else None for k, x in zip(keys, features, strict=True)]
            features = np.stack([x if len(x) == width else np.zeros(width) for x in features])
        return fleet.predict(keys, features), fleet.score_samples(keys, features)


def answer_fields(job: Job) -> list[st.StructField]:
    """Return the columns of predictions and scores."""
    number = st.DoubleType()
    score = st.ArrayType(number) if job.facts().has_score_per_class else number
    kind = _TYPES[job.facts().y_type][0]
    return [st.StructField("prediction", kind), st.StructField("score", score)]


def answers(job: Job, predictions: np.ndarray, scores: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """Return the columns of predictions and scores; null where there are none."""
    missing = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
    kind = _TYPES[job.facts().y_type][1]
    said = pa.array(predictions.astype(object), kind, mask=missing)
    if not job.facts().has_score_per_class:
        return said, pa.array(scores.reshape(-1), mask=missing)
    lists = [None if gone else line for line, gone in zip(scores.tolist(), missing, strict=True)]
    return said, pa.array(lists, pa.list_(pa.float64()))
