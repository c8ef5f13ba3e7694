"""Sources: records of a file or a pipe, in blocks."""

import csv
import gzip
import io
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy import sparse

__all__ = ["Block", "SourceError", "open_source"]

_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".libsvm": "libsvm", ".svm": "libsvm",
    ".svmlight": "libsvm", ".npy": "numpy", ".npz": "numpy",
}  # fmt: skip
_DELIMITERS = ",;\t|"


class SourceError(ValueError):
    """A source that cannot be read at all."""


@dataclass
class Block:
    """Some records, in order. Rows of records, or numbers where the source has nothing else."""

    columns: list[str]  # of the features
    rows: Any  # list of lists, or an array, or a sparse matrix
    target: list[Any] | None
    places: list[str]  # where each record is, for people
    broken: dict[int, str]  # records that are none, by their index in the block: what is wrong

    def without(self, problems: dict[int, str]) -> np.ndarray:
        """The indices of the records that have no problem."""
        return np.array([i for i in range(len(self.places)) if i not in problems], dtype=int)


def open_source(
    source: str, target: str | None, block_rows: int, form: str | None = None,
    n_features: int | None = None, target_may_miss: bool = False,
) -> Iterator[Block]:  # fmt: skip
    """Blocks of a source: a path, or "-" for CSV from standard input.

    `target` names the column of y, or gives its position; None where there is none. `form` is
    "csv", "libsvm", "parquet", "arrow" or "numpy"; None: as the name ends. `n_features` is for
    LIBSVM files, which do not say how many there are; None: as many as the first block shows.
    `target_may_miss`: a source without that column is read as one without a target.
    """
    path = Path(source)
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if form is None:
        form = "csv" if source == "-" else _FORMATS.get(suffixes[-1] if suffixes else "")
    if form not in set(_FORMATS.values()):
        known = ", ".join(sorted(_FORMATS))
        raise SourceError(
            f"{source}: what is this? Known endings are {known} (with .gz or without)."
        )
    if source != "-" and not path.exists():
        raise SourceError(f"{source}: there is no such file.")
    if form in ("csv", "libsvm"):
        read = _csv if form == "csv" else _libsvm
        return read(source, target, block_rows, n_features, target_may_miss)
    read_columns = _arrow if form in ("parquet", "arrow") else _numpy
    return read_columns(path, form, target, block_rows, target_may_miss)


def _text(source: str) -> TextIO:
    if source == "-":
        return io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="")
    if source.endswith(".gz"):
        return gzip.open(source, "rt", encoding="utf-8", errors="replace", newline="")
    return open(source, encoding="utf-8", errors="replace", newline="")


def _position(columns: list[str], target: str | None, source: str, may_miss: bool) -> int | None:
    """Where the target's column is."""
    if target is None:
        return None
    if target in columns:
        return columns.index(target)
    try:
        position = int(target)
    except ValueError:
        position = len(columns)
    if not -len(columns) <= position < len(columns):
        if may_miss:
            return None
        raise SourceError(
            f"{source}: there is no column {target!r}. The columns are {', '.join(columns)}; "
            "a position, counted from 0, or from the end by -1, will do as well."
        )
    return position % len(columns)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _csv(
    source: str, target: str | None, block_rows: int, _: int | None, target_may_miss: bool
) -> Iterator[Block]:
    with _text(source) as file:
        first_line = file.readline()
        if not first_line.strip():
            raise SourceError(f"{source} is empty.")
        delimiter = max(_DELIMITERS, key=first_line.count)
        if not first_line.count(delimiter):
            delimiter = " " if " " in first_line.strip() else ","
        lines = _Lines(first_line, file)
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        first = next(reader)
        if any(_is_number(field) for field in first):  # no header
            columns = [str(k) for k in range(len(first))]
            lines = _Lines(first_line, file)
            reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        else:
            columns = [field.strip() for field in first]
        at = _position(columns, target, source, target_may_miss)
        features = [name for k, name in enumerate(columns) if k != at]
        while True:
            block = Block(features, [], None if at is None else [], [], {})
            try:
                for record in islice(_records(reader), block_rows):
                    _add(block, record, at, len(columns), f"line {lines.number}")
            except csv.Error as error:
                raise SourceError(f"{source}, line {lines.number}: {error}.") from None
            if not block.rows:
                return
            yield block


class _Lines:
    """The lines of a file, counted; the first has been read already."""

    def __init__(self, first: str, file: TextIO):
        self.first: str | None = first
        self.file = file
        self.number = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line, self.first = self.first, None
        if line is None:
            line = self.file.readline()
        if not line:
            raise StopIteration
        self.number += 1
        return line.replace("\0", "")


def _records(reader: Any) -> Iterator[list[str]]:
    for record in reader:
        if record:  # a blank line is none
            yield record


def _add(block: Block, record: list[str], at: int | None, n_columns: int, place: str) -> None:
    if len(record) != n_columns:
        block.broken[len(block.rows)] = f"it has {len(record)} fields, the header has {n_columns}"
        record = [""] * n_columns
    else:
        record = [field.strip() for field in record]
    if block.target is not None and at is not None:
        block.target.append(record.pop(at))
    block.rows.append(record)
    block.places.append(place)


def _libsvm(
    source: str, target: str | None, block_rows: int, n_features: int | None, _: bool
) -> Iterator[Block]:
    """``label index:value ...``, indices from 1."""
    number = 0
    with _text(source) as file:
        while True:
            labels: list[Any] = []
            entries: list[dict[int, float]] = []
            places, broken = [], {}
            for line in islice(file, block_rows):
                number += 1
                text = line.split("#")[0].split()
                if not text:
                    continue
                values: dict[int, float] = {}
                try:
                    for pair in text[1:]:
                        index, value = pair.split(":")
                        if int(index) < 1:
                            raise ValueError
                        values[int(index) - 1] = float(value)
                except ValueError:
                    broken[len(entries)] = f"{pair!r} is not index:value"
                    values = {}
                labels.append(text[0])
                entries.append(values)
                places.append(f"line {number}")
            if not entries:
                return
            if n_features is None:
                n_features = 1 + max((max(row, default=0) for row in entries), default=0)
            for i, row in enumerate(entries):
                if row and max(row) >= n_features:
                    broken[i] = f"it has a feature {max(row) + 1}, of {n_features} (see --features)"
                    row.clear()
            indptr = np.cumsum([0, *map(len, entries)])
            rows = sparse.csr_array(
                (
                    np.array([value for row in entries for value in row.values()], dtype=float),
                    np.array([index for row in entries for index in row], dtype=np.int32),
                    indptr,
                ),
                shape=(len(entries), n_features),
            )
            yield Block([], rows, labels if target is not None else None, places, broken)


def _arrow(
    path: Path, form: str, target: str | None, block_rows: int, target_may_miss: bool
) -> Iterator[Block]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise SourceError(f"{path}: reading it needs pyarrow: pip install pyarrow") from None
    number = 0
    try:
        if form == "parquet":
            batches: Any = pq.ParquetFile(path).iter_batches(block_rows)
        else:
            batches = _arrow_batches(pa, path, block_rows)
        for batch in batches:
            columns = list(batch.schema.names)
            at = _position(columns, target, str(path), target_may_miss)
            values = [column.to_pylist() for column in batch.columns]
            y = None if at is None else values.pop(at)
            rows = [list(record) for record in zip(*values, strict=True)]
            places = [f"row {number + i}" for i in range(len(rows))]
            number += len(rows)
            features = [name for k, name in enumerate(columns) if k != at]
            yield Block(features, rows, y, places, {})
    except pa.ArrowException as error:
        raise SourceError(f"{path}: {error}") from None


def _arrow_batches(pa: Any, path: Path, block_rows: int) -> Iterator[Any]:
    with pa.memory_map(str(path)) as file:
        try:
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pa.ArrowInvalid:  # the streaming form
            file.seek(0)
            batches = iter(pa.ipc.open_stream(file))
        for batch in batches:
            for start in range(0, batch.num_rows, block_rows):
                yield batch.slice(start, block_rows)


def _numpy(
    path: Path, form: str, target: str | None, block_rows: int, target_may_miss: bool
) -> Iterator[Block]:
    """An .npy table with the target in one of its columns, or an .npz file with X and y."""
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise SourceError(f"{path}: {error}") from None
    if isinstance(data, np.ndarray):
        table, y = data, None
        if table.ndim != 2:
            raise SourceError(f"{path}: the array has the shape {table.shape}; give rows.")
        columns = [str(k) for k in range(table.shape[1])]
        at = _position(columns, target, str(path), target_may_miss)
    else:
        name = next((n for n in ("X", "X_train", "data") if n in data.files), None)
        if name is None:
            raise SourceError(f"{path}: there is no X among {', '.join(data.files)}.")
        if target_may_miss and target not in data.files:
            target = None
        if target is not None and target not in data.files:
            raise SourceError(f"{path}: there is no {target!r} among {', '.join(data.files)}.")
        table, y, at = data[name], None if target is None else data[target], None
        table = table.reshape(len(table), -1)
        columns = [str(k) for k in range(table.shape[1])]
    keep = [k for k in range(table.shape[1]) if k != at]
    for start in range(0, len(table), block_rows):
        rows = np.asarray(table[start : start + block_rows], dtype=float)
        found = None if y is None else y[start : start + block_rows].tolist()
        if at is not None:
            found = rows[:, at].tolist()
        places = [f"row {start + i}" for i in range(len(rows))]
        yield Block([columns[k] for k in keep], rows[:, keep], found, places, {})
