"""What is learned from which columns: the same on the driver and in every Python worker."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as st

from kernelstream.files.bytes import FileError, check_version, strange_headers
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.fleet import KeyedFleet
from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least
from kernelstream.spark.placement import numbered

__all__ = ["Columns", "Job", "new_job", "read_cell"]

_VERSION = 1  # of what a cell says of blocks and columns
_INTEGERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_SMALLEST = -(2**63)
# Columns beside the user's own. (In its first batch PySpark renames such as begin with _.)
BLOCK, CELL, NO_KEY, X, Y, ORDER, TIE = (
    "ks_block", "ks_cell", "ks_no_key", "ks_x", "ks_y", "ks_order", "ks_tie"
)  # fmt: skip


class Columns(NamedTuple):
    """Which columns of a table are what."""

    keys: tuple[str, ...]
    key_types: tuple[str, ...]  # "bigint" or "string"
    features: tuple[str, ...]
    is_array: bool  # one column holds all features
    target: str | None
    order: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the columns as a cell's header has them; their order does not matter."""
        return {
            "keys": list(self.keys), "key_types": list(self.key_types),
            "features": list(self.features), "is_array": self.is_array, "target": self.target,
            "order": self.order,
        }  # fmt: skip

    @staticmethod
    def from_json(saved: dict[str, Any]) -> "Columns":
        """Return the columns of a cell's header."""
        return Columns(
            tuple(saved["keys"]), tuple(saved["key_types"]), tuple(saved["features"]),
            bool(saved["is_array"]), saved["target"], saved["order"],
        )  # fmt: skip

    @staticmethod
    def of(df: DataFrame, key: Any, features: Any, target: Any, order: Any) -> "Columns":
        """Return the columns that a user has named, checked against a table's schema."""
        keys = (key,) if isinstance(key, str) else tuple(key)
        chosen = (features,) if isinstance(features, str) else tuple(features)
        if not chosen:
            raise ValueError(f"features={features!r} is empty: name the columns to learn from.")
        types = {field.name: field.dataType for field in df.schema.fields}
        for name in (*keys, *chosen, target, order):
            if name is not None and name not in types:
                raise ValueError(f"there is no column {name!r}: the table has {sorted(types)}.")
        is_array = isinstance(features, str) and isinstance(types[features], st.ArrayType)
        for name in chosen:
            kind = types[name]
            inner = kind.elementType if is_array and isinstance(kind, st.ArrayType) else kind
            if not isinstance(inner, st.NumericType | st.BooleanType):
                raise TypeError(
                    f"features: the column {name!r} is of type {types[name].simpleString()}; give "
                    "columns of numbers, or one column of arrays of numbers."
                )
        key_types = tuple(_key_type(name, types[name]) for name in keys)
        return Columns(keys, key_types, chosen, is_array, target, order)

    def key_names(self) -> list[str]:
        """Return the names of the key columns in Python."""
        return [f"ks_key_{i}" for i in range(len(self.keys))]

    def prepared(self, df: DataFrame, blocks: int, y_type: str | None) -> DataFrame:
        """Return a table with all that Python needs to know of a row, beside the columns it has.

        Nulls never reach a column of integers, which pandas would make floats. Rows of one key and
        one value of the order column are learned in the order of their content's hash, so that
        what is learned does not depend on how rows were shuffled.
        """
        pairs = list(zip(self.keys, self.key_types, strict=True))
        keys = [fn.col(quoted(name)).cast(kind) for name, kind in pairs]
        no_key = fn.lit(False)
        for one in keys:
            no_key = no_key | one.isNull()
        x = [fn.col(quoted(name)) for name in self.features]
        numbers = x[0].cast("array<double>") if self.is_array else fn.array(
            *[one.cast("double") for one in x]
        )  # fmt: skip
        y = fn.lit(None).cast("double")
        if y_type is not None:
            y = _target(df, str(self.target), y_type)
        order = fn.lit(0) if self.order is None else fn.col(quoted(self.order))
        if self.order is not None and isinstance(df.schema[self.order].dataType, _INTEGERS):
            order = fn.coalesce(order.cast("bigint"), fn.lit(_SMALLEST))
        block = fn.pmod(fn.hash(*keys), fn.lit(blocks)) if keys else fn.lit(0)
        found = {BLOCK: numbered(block, blocks)}
        for name, one, kind in zip(self.key_names(), keys, self.key_types, strict=True):
            found[name] = fn.coalesce(one, fn.lit(0 if kind == "bigint" else "").cast(kind))
        found |= {NO_KEY: no_key, X: numbers, Y: y, ORDER: order, TIE: fn.xxhash64(numbers, y)}
        return df.withColumns(found)

    def keys_of(self, frame: pd.DataFrame) -> list[Any]:
        """Return the keys of rows; None where there is none."""
        columns = [frame[name].tolist() for name in self.key_names()]
        keys: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        for row in np.flatnonzero(frame[NO_KEY].to_numpy(dtype=bool)):
            keys[row] = None
        return keys


def quoted(name: str | None) -> str:
    return "`" + str(name).replace("`", "``") + "`"  # a dot would mean a field of a struct


def _key_type(name: str, kind: Any) -> str:
    if isinstance(kind, _INTEGERS):
        return "bigint"
    if isinstance(kind, st.StringType):
        return "string"
    raise TypeError(
        f"key: the column {name!r} is of type {kind.simpleString()}; keys are strings or integers."
    )


def matrix(values: Any, n_features: int, skips: bool) -> Any:
    """Return rows from a column of arrays: a matrix, or a list of rows of other widths."""
    rows = [np.zeros(0) if value is None else value for value in values]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    wrong = np.flatnonzero(lengths != n_features)
    if not wrong.size:
        return np.concatenate(rows).reshape(len(rows), n_features).astype(np.float64, copy=False)
    if not skips:
        row = int(wrong[0])
        raise BadRow(
            row, f"it has {lengths[row]} features, and this model learns from {n_features}"
        )
    return rows


def _target(df: DataFrame, name: str, y_type: str) -> Column:
    """Return the target as Python gets it: no value is changed into another one.

    A number for classes that are integers or booleans stays as it is, so that 1.7 is an unknown
    label, as in one process, and not the label 1.
    """
    kind = df.schema[name].dataType
    is_number = isinstance(kind, st.NumericType | st.BooleanType)
    if isinstance(kind, st.StringType) != (y_type == "string") or not (
        is_number or y_type == "string"
    ):
        wanted = {"string": "strings", "double": "numbers"}.get(y_type, f"of type {y_type}")
        raise TypeError(
            f"target: the column {name!r} is of type {kind.simpleString()}, and the targets here "
            f"are {wanted}: cast the column, or give classes of its type."
        )
    column = fn.col(quoted(name))
    if y_type in ("string", "double"):
        return column.cast(y_type)
    if isinstance(kind, st.BooleanType):
        return column
    return column.cast("bigint" if isinstance(kind, _INTEGERS) else "double")


def targets_of(frame: pd.DataFrame, kind: str, skips: bool) -> np.ndarray:
    """Return the targets of rows; a null target is an error, or None if bad rows are skipped."""
    empty = frame[Y].isna().to_numpy()
    if empty.any() and not skips:
        raise BadRow(int(np.flatnonzero(empty)[0]), "its target is null")
    if kind == "double":
        return frame[Y].to_numpy(dtype=float)
    values = frame[Y].to_numpy(dtype=object).tolist()
    labels = [None if gone else _label(v) for v, gone in zip(values, empty.tolist(), strict=True)]
    fractions = [row for row, label in enumerate(labels) if isinstance(label, float)]
    if fractions and not skips:
        row = fractions[0]
        raise BadRow(row, f"its target is {labels[row]!r}, which is not one of the classes")
    return np.array(labels, dtype=object if kind == "string" or empty.any() or fractions else None)


def _label(value: Any) -> Any:
    """Return a whole number as an integer, and anything else as it is."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


class Job(NamedTuple):
    """What is learned: the columns, the number of blocks, and a fleet without models, as bytes."""

    columns: Columns
    blocks: int
    template: bytes

    def new_fleet(self) -> KeyedFleet:
        """Return a fleet that has learned nothing."""
        fleet = KeyedFleet.from_bytes(self.template)
        fleet.n_jobs = 1  # Spark has a task for every core
        return fleet

    def facts(self) -> "Facts":
        """Return the parameters of all fleets of this job."""
        return _facts(self.template)

    def prepared(self, df: DataFrame) -> DataFrame:
        """Return a table with all that Python needs to know of a row."""
        return self.columns.prepared(df, self.blocks, self.facts().y_type)

    def cell(self, fleet: KeyedFleet) -> bytes:
        """Return a fleet as Spark keeps it: its file's bytes, and its job."""
        return fleet.to_bytes(described(self.columns, self.blocks))

    def fleet(self, content: bytes, block: int) -> KeyedFleet:
        """Return the fleet of a cell, which must have learned what this job learns."""
        try:
            fleet, columns, blocks = read_cell(content)
        except FileError as error:
            raise FileError(f"the cell of block {block}: {error}") from error
        if blocks != self.blocks:
            raise ValueError(OTHER_BLOCKS.format(there=blocks, here=self.blocks))
        pairs = [
            ("columns", columns._replace(order=None), self.columns._replace(order=None)),
            ("model", _kind(fleet), self.facts().kind),
        ]
        for name, theirs, wanted in pairs:
            if theirs != wanted:
                raise ValueError(
                    f"the cell of block {block} was learned with the {name} {theirs!r}, and now "
                    f"there is {wanted!r}: go on with what it was, or with a new checkpoint."
                )
        return fleet

    def rows(self, fleet: KeyedFleet, frame: pd.DataFrame) -> tuple[list[Any], Any, Any]:
        """Return the keys, features and targets of rows from Spark."""
        skips = fleet.prototype.skips_bad_rows()
        x = matrix(frame[X], fleet.n_features or 0, skips)
        kind = self.facts().y_type
        y = None if kind is None else targets_of(frame, kind, skips)
        return self.columns.keys_of(frame), x, y


OTHER_BLOCKS = (
    "the models are in {there} blocks, and this query has {here}: start it with blocks={there}, or "
    "with a new checkpoint and models=checkpoint_models(spark, the old one), which are then put "
    "into {here} blocks."
)


def described(columns: Columns, blocks: int) -> dict[str, Any]:
    """Return the extra header entries of a fleet that Spark keeps."""
    return {"spark": {"version": _VERSION, "blocks": blocks, "columns": columns.to_json()}}


class Facts(NamedTuple):
    """What can be said of a fleet before it has learned anything."""

    kind: tuple[Any, ...]  # what makes two fleets alike
    y_type: str | None  # the Spark type of targets; None: there are none
    has_score_per_class: bool


@lru_cache(maxsize=16)
def _facts(template: bytes) -> Facts:
    fleet = KeyedFleet.from_bytes(template)
    classes = [] if fleet.classes is None else np.asarray(fleet.classes).tolist()
    many = len(classes) > 2 or fleet.prototype.structure() is not None
    return Facts(_kind(fleet), y_type(fleet.task, fleet.classes), many)


def y_type(task: str, classes: Any) -> str | None:
    """Return the Spark type of targets and of predictions; None: there is no target."""
    if task == "novelty":
        return None
    if task == "regressor":
        return "double"
    kind = np.asarray(classes).dtype.kind
    return {"U": "string", "i": "bigint", "u": "bigint", "b": "boolean"}.get(kind, "double")


def _kind(fleet: KeyedFleet) -> tuple[Any, ...]:
    classes = None if fleet.classes is None else np.asarray(fleet.classes).tolist()
    return (
        fleet.task, repr(fleet.prototype), fleet.n_features, classes, fleet.dtype.name
    )  # fmt: skip


def read_cell(content: bytes) -> tuple[KeyedFleet, Columns, int]:
    """Return the fleet of a cell, its columns, and of how many blocks it is one."""
    header, arrays = read_bytes(content)
    with strange_headers("the cell"):
        said = header["spark"]
        check_version("the cell", said["version"], _VERSION)
        fleet = KeyedFleet.rebuild(header, arrays, None)
        fleet.n_jobs = 1
        if fleet.fleet_ is not None:
            fleet.fleet_.n_jobs = 1
        return fleet, Columns.from_json(said["columns"]), int(said["blocks"])


def new_job(columns: Columns, blocks: Any, preset: Any, task: str | None, **params: Any) -> Job:
    """Return a job from what a user asks for; `params` are those of `KeyedFleet`."""
    blocks = integer_at_least("blocks", blocks, 1)
    if task is None:
        task = "novelty" if columns.target is None else "regressor"
        task = "classifier" if params.get("classes") is not None else task
    if (task == "novelty") != (columns.target is None):
        raise ValueError(
            f"target={columns.target!r} with task={task!r}: novelty detectors learn without a "
            "target, all others need one."
        )
    if task == "classifier" and params.get("classes") is None:
        raise ValueError(
            "classes=None: blocks do not know of each other's labels, so name all classes."
        )
    if callable(params.get("on_bad_row")):
        raise ValueError(
            "on_bad_row is a function, which no worker can call: use on_bad_row='skip', which "
            "counts, or 'raise'."
        )
    n_features = params.pop("n_features", None)
    if columns.is_array and n_features is None:
        raise ValueError(
            f"features={columns.features[0]!r} is a column of arrays: say how long they are by "
            "n_features=..."
        )
    if not columns.is_array:
        n_features = len(columns.features)
    fleet = KeyedFleet(preset, task, n_features=n_features, n_jobs=1, **params)
    return Job(columns, blocks, fleet.to_bytes(described(columns, blocks)))
