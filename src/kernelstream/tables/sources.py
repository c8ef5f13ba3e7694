"""Sources: read the records of a file or a pipe in blocks."""

import csv
import math
import re
import zipfile
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.tables.blocks import BLOCK_CHARACTERS, Block, same_names
from kernelstream.tables.libsvm import read_libsvm
from kernelstream.tables.records import Lines, Record, records
from kernelstream.tables.text import SourceError, numbered_lines, open_text

__all__ = ["Block", "SourceError", "open_source"]

_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".libsvm": "libsvm", ".svm": "libsvm",
    ".svmlight": "libsvm", ".arff": "arff", ".npy": "numpy", ".npz": "numpy",
}  # fmt: skip
_DELIMITERS = ",;\t|"


def open_source(
    source: str, target: str | None, block_rows: int, form: str | None = None,
    n_features: int | None = None, features: list[str] | None = None,
) -> Iterator[Block]:  # fmt: skip
    """Yield the blocks of a source: a path, or "-" for text from standard input.

    `target` is the name or the position of the column y, or None if there is none. `form` is
    "csv", "arff", "libsvm", "parquet", "arrow" or "numpy"; None means that the suffix of the name
    decides. `n_features` is the number of features of LIBSVM text; None means as many as a block
    has. `features` are the feature names of a model: a source with exactly these columns, in any
    order, or a source without a header with as many columns, is read as one without a target.

    Parameters
    ----------
    source : str
    target : str or None
    block_rows : int
        How many records a block has at most.
    form : str, default=None
    n_features : int, default=None
    features : list of str, default=None

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from kernelstream.tables import open_source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("a,b,y\\n1,red,0\\n2,blue,1\\n")
    >>> [len(block.rows) for block in open_source(str(path), "y", 1)]
    [1, 1]
    """
    path = Path(source)
    suffixes = [s.lower() for s in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    if packed:
        suffixes.pop()
    if source != "-" and not path.exists():
        raise SourceError(f"{source}: there is no such file.")
    if path.is_dir():
        raise SourceError(f"{source} is a folder: give a file in it.")
    if form is None:
        form = "csv" if source == "-" else _FORMATS.get(suffixes[-1] if suffixes else "")
    if form not in set(_FORMATS.values()):
        known = ", ".join(sorted(_FORMATS))
        raise SourceError(
            f"{source}: what is this? Known suffixes are {known} (with or without .gz); or give "
            f"--format, one of {', '.join(sorted(set(_FORMATS.values())))}."
        )
    if form == "csv":
        return _csv(source, target, block_rows, features)
    if form == "arff":
        return _arff(source, target, block_rows, features)
    if form == "libsvm":
        return read_libsvm(source, block_rows, n_features)
    if source == "-" or packed:
        where = "from standard input" if packed is False else "while it is packed by gzip"
        raise SourceError(f"{source}: {form} cannot be read {where}: give an unpacked file.")
    read_columns = _arrow if form in ("parquet", "arrow") else _numpy
    return read_columns(path, form, target, block_rows, features)


def _position(
    columns: list[str], target: str | None, source: str, features: list[str] | None,
    named: bool = True,
) -> int | None:  # fmt: skip
    """Return the position of the target column, or None. `named`: whether columns have names."""
    if target is None:
        return None
    if features is not None and _stand_for(columns, features):
        return None  # there are only the features of the model
    if target in columns:
        return columns.index(target)
    try:
        position = int(target)
    except ValueError:
        position = len(columns)
    if not -len(columns) <= position < len(columns):
        if features is not None:
            return None
        shown = f"The columns are {_listed(columns)}" if named else "The file has no header"
        raise SourceError(
            f"{source}: there is no column {target!r}. {shown}; a position, counted from 0, or "
            "from the end by -1, will do as well."
        )
    return position % len(columns)


def _by_position(columns: list[str], features: list[str]) -> bool:
    """Return whether both have positional columns, and as many of them."""
    has_names = not all(name.isdigit() for name in [*columns, *features])
    return not has_names and len(columns) == len(features)


def _stand_for(columns: list[str], features: list[str]) -> bool:
    """Return whether columns are the features of a model, by name, or by position in both."""
    return same_names(columns, features) or _by_position(columns, features)


def _listed(names: list[str]) -> str:
    """Return names separated by commas, at most twenty."""
    return ", ".join(names if len(names) <= 20 else [*names[:20], f"... ({len(names)} in all)"])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _csv(
    source: str, target: str | None, block_rows: int, features: list[str] | None
) -> Iterator[Block]:
    with open_text(source) as file:
        lines = Lines(file, source)
        first_line = lines.first()
        if not first_line:
            raise SourceError(f"{source} is empty: there is nothing to read.")
        delimiter = _delimiter(first_line)
        first = next(records(lines, delimiter), Record([], 1, "it has no columns"))
        if first.problem is not None:
            raise SourceError(f"{source}, line {first.line}: {first.problem}.")
        columns = [field.strip() for field in first.fields]
        rows = records(lines, delimiter, len(columns))
        named = _is_header(columns, target, features)
        if not named:
            rows = chain([first], rows)
            columns = [str(k) for k in range(len(columns))]
        if named:
            _check_names(columns, source)
        at = _position(columns, target, source, features, named)
        names = [name for k, name in enumerate(columns) if k != at]
        if features is not None and _by_position(names, features):
            names = features
        yield from _in_blocks(rows, block_rows, names, at, len(columns))


def _check_names(columns: list[str], source: str) -> None:
    """Refuse columns without a name, and columns with the name of another one."""
    for k, name in enumerate(columns):
        if not name.strip():
            raise SourceError(
                f"{source}: column {k} of {len(columns)} (counted from 0) has no name: give it "
                "one, or leave the column out (pandas: to_csv(..., index=False))."
            )
        if name in columns[:k]:
            raise SourceError(
                f"{source}: columns {columns.index(name)} and {k} (counted from 0) are both called "
                f"{name!r}: give each column a name of its own."
            )


def _is_header(fields: list[str], target: str | None, features: list[str] | None) -> bool:
    """Return whether the first record is a header with the names of the columns."""
    holds_target = target in fields and not _is_number(str(target))
    are_features = features is not None and same_names(fields, features)
    return holds_target or are_features or not any(map(_is_number, fields))


def _delimiter(line: str) -> str:
    """Return the delimiter between the fields of a line."""
    outside = re.sub(r'"[^"]*"', "", line)
    delimiter = max(_DELIMITERS, key=outside.count)
    if outside.count(delimiter):
        return delimiter
    return " " if " " in outside.strip() else ","


def _in_blocks(
    rows: Iterator[Record], block_rows: int, names: list[str], at: int | None, n_columns: int
) -> Iterator[Block]:
    """Return records as blocks; `at` is the position of the target."""
    while True:
        block, length = Block(names, [], None if at is None else [], [], {}), 0
        for record in islice(rows, block_rows):
            _add(block, record, at, n_columns)
            length += sum(map(len, record.fields))
            if length > BLOCK_CHARACTERS:
                break
        if not block.rows:
            return
        yield block


def _add(block: Block, record: Record, at: int | None, n_columns: int) -> None:
    fields, problem = record.fields, record.problem
    if problem is None and len(fields) != n_columns:
        problem = f"it has {len(fields)} fields, the header has {n_columns}"
    if problem is not None:
        block.broken[len(block.rows)] = problem
        fields = [""] * n_columns
    else:
        fields = [field.strip() for field in fields]
    if block.target is not None and at is not None:
        block.target.append(fields.pop(at))
    block.rows.append(fields)
    block.places.append(f"line {record.line}")


_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+\S", re.IGNORECASE)


def _arff(
    source: str, target: str | None, block_rows: int, features: list[str] | None
) -> Iterator[Block]:
    """Read ARFF: names in lines of their own, then a record in every line, with ? for gaps."""
    with open_text(source) as file:
        columns, lines = [], numbered_lines(file, source)
        for number, line in lines:
            words = line.strip().lower()
            if words.startswith("@data"):
                break
            if words.startswith("@attribute"):
                found = _ATTRIBUTE.match(line.strip())
                if found is None:
                    raise SourceError(f"{source}, line {number}: {line.strip()!r} has no type.")
                columns.append(found[1].strip("'\""))
        else:
            raise SourceError(f"{source}: there is no @data in it: is it ARFF?")
        _check_names(columns, source)
        at = _position(columns, target, source, features)
        names = [name for k, name in enumerate(columns) if k != at]
        rows = (_arff_record(number, line) for number, line in lines if _is_arff_data(line))
        yield from _in_blocks(rows, block_rows, names, at, len(columns))


def _is_arff_data(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("%")


def _arff_record(number: int, line: str) -> Record:
    if line.lstrip().startswith("{"):
        return Record([], number, "it is a sparse record of ARFF: give the table as LIBSVM text")
    quote = '"' if '"' in line and "'" not in line else "'"
    reader = csv.reader(
        [line], quotechar=quote, escapechar="\\", skipinitialspace=True, strict=True
    )
    try:
        return Record(next(reader), number)
    except csv.Error as error:
        return Record([], number, f"it cannot be read: {error}")


def _arrow(
    path: Path, form: str, target: str | None, block_rows: int, features: list[str] | None
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
            _check_names(columns, str(path))
            at = _position(columns, target, str(path), features)
            values = [column.to_pylist() for column in batch.columns]
            y = None if at is None else values.pop(at)
            rows = [list(record) for record in zip(*values, strict=True)]
            places = [f"row {number + i}" for i in range(len(rows))]
            number += len(rows)
            names = [name for k, name in enumerate(columns) if k != at]
            yield Block(names, rows, y, places, {})
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
    path: Path, form: str, target: str | None, block_rows: int, features: list[str] | None
) -> Iterator[Block]:
    """Read an .npy table with the target in one column, or an .npz file with X and y."""
    try:
        with path.open("rb") as file:
            head = file.read(6)
            is_archive = head.startswith(b"PK")
            if not is_archive and head != b"\x93NUMPY":
                raise SourceError(f"{path} is not a file of NumPy's, .npy or .npz.")
            file.seek(0)
            if is_archive:
                data = np.load(file, allow_pickle=False)
                table, y = _arrays(data, path, target, features is not None)
            else:
                table, y = np.load(path, mmap_mode="r", allow_pickle=False), None
    except SourceError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise SourceError(f"{path} cannot be read as arrays of numbers: {error}") from None
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise SourceError(
            f"{path}: the array has the shape {table.shape} and the type {table.dtype}; give rows "
            "of numbers."
        )
    columns, at = [str(k) for k in range(table.shape[1])], None
    if not is_archive:
        at = _position(columns, target, str(path), features, named=False)
    keep = [k for k in range(table.shape[1]) if k != at]
    names = [columns[k] for k in keep]
    if features is not None and _by_position(names, features):
        names = features
    for start in range(0, len(table), block_rows):
        rows = np.asarray(table[start : start + block_rows], dtype=float)
        found = None if y is None else y[start : start + block_rows].tolist()
        if at is not None:
            found = rows[:, at].tolist()
        places = [f"row {start + i}" for i in range(len(rows))]
        yield Block(names, rows[:, keep], found, places, {})


def _arrays(
    data: Any, path: Path, target: str | None, target_may_miss: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the arrays X and y of a file; y is None without a target."""
    among = ", ".join(data.files)
    name = next((n for n in ("X", "X_train", "data") if n in data.files), None)
    if name is None:
        raise SourceError(f"{path}: there is no X among {among}.")
    if target is not None and target not in data.files and not target_may_miss:
        raise SourceError(f"{path}: there is no {target!r} among {among}.")
    table, y = data[name], data[target] if target in data.files else None
    if table.ndim > 2:
        table = table.reshape(len(table), math.prod(table.shape[1:]))
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y is not None and y.shape != table.shape[:1]:
        raise SourceError(
            f"{path}: {name} has the shape {table.shape} and {target} has {y.shape}: give one "
            "target per row."
        )
    return table, y
