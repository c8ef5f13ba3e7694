"""Columns of an Arrow stream as JSON would have them, and no larger than JSON could be.

A few bytes of Arrow may stand for any number of rows (a column of nulls has no bytes), for any
number of bytes (a compressed buffer) and for a long text in every row (a dictionary): all of this
is found out before it is unpacked.
"""

import struct
from typing import Any

from kernelstream.serve.limits import Limits
from kernelstream.serve.problems import Problem, malformed, too_many_rows

__all__ = ["read_arrow"]


def read_arrow(body: bytes, limits: Limits) -> dict[str, list[Any]]:
    """Return the columns of a body, by name.

    Parameters
    ----------
    body : bytes
        A stream of Arrow's IPC format, whose buffers are not compressed.
    limits : Limits
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise Problem(
            415, "no-arrow", "Arrow is not available here",
            "This service has no pyarrow: send JSON, or install pyarrow beside the service.",
        ) from None  # fmt: skip
    try:
        if any(map(_is_compressed, pa.ipc.MessageReader.open_stream(body))):
            raise malformed(
                "The buffers of the Arrow stream are compressed: send them as they are."
            )
        batches, n_rows = [], 0
        reader = pa.ipc.open_stream(body)
        for batch in reader:
            n_rows += batch.num_rows
            if n_rows > limits.rows:
                raise too_many_rows(n_rows, limits)
            batches.append(batch)
        table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise malformed(f"The body is not a stream of Arrow: {error}.") from None
    names = table.column_names
    if len(set(names)) < len(names):
        raise malformed("Two columns of the Arrow table have the same name.")
    if n_rows * len(names) > limits.body_bytes // 2:  # each takes two bytes of JSON, or more
        raise _too_large(limits)
    columns = {}
    n_left = limits.body_bytes
    for name, column in zip(names, table.columns, strict=True):
        columns[name] = _entries(name, column)
        n_left -= sum(len(entry) for entry in columns[name] if isinstance(entry, str))
        if n_left < 0:
            raise _too_large(limits)
    return columns


def _entries(name: str, column: Any) -> list[Any]:
    """Return a column as JSON would have it, with dates as ISO 8601 text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):  # entries that are the same are one object
        found: list[Any] = []
        for chunk in column.chunks:
            known = [*_entries(name, pa.chunked_array([chunk.dictionary])), None]
            found += [known[-1 if i is None else i] for i in chunk.indices.to_pylist()]
        return found
    if not any(is_kind(kind) for is_kind in _kinds()):
        raise Problem(
            422, "column-type", "A column cannot be used",
            f"The column {name[:100]!r} is of type {str(kind)[:100]}: send numbers, booleans, text "
            "(string, large_string), dates or timestamps.",
        )  # fmt: skip
    try:
        entries: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:  # a date that Python does not have
        raise malformed(f"The column {name[:100]!r} of the Arrow table: {error}.") from None
    if pa.types.is_temporal(kind):
        return [None if entry is None else entry.isoformat() for entry in entries]
    return entries


def _kinds() -> list[Any]:
    """Return checks for the types of columns that JSON could have."""
    from pyarrow import types

    return [
        types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal,
        types.is_string, types.is_large_string, types.is_date, types.is_timestamp,
    ]  # fmt: skip


def _too_large(limits: Limits) -> Problem:
    return Problem(
        413, "too-many-entries", "The table is too large",
        f"The Arrow table would be longer than {limits.body_bytes:,} bytes of JSON: send its rows "
        "in several requests.", limit=limits.body_bytes,
    )  # fmt: skip


# --- what pyarrow does not tell about a message --------------------------------------------------

# Fields of Arrow's tables (Message.fbs): of a message, a dictionary and a batch of records
_HEADER, _DATA, _COMPRESSION = 2, 1, 3


def _is_compressed(message: Any) -> bool:
    """Return whether the buffers of a message are compressed. pyarrow has checked the message."""
    if message.type not in ("record batch", "dictionary"):
        return False
    data = message.metadata.to_pybytes()
    table = _table(data, _field(data, _table(data, 0), _HEADER))
    if message.type == "dictionary":
        table = _table(data, _field(data, table, _DATA))
    return _field(data, table, _COMPRESSION) != 0


def _table(data: bytes, position: int) -> int:
    """Return where the table is that a position points to."""
    return position + int(struct.unpack_from("<I", data, position)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a table is; 0 if the table lacks it."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, layout)
    entry = 4 + 2 * number
    offset = struct.unpack_from("<H", data, layout + entry)[0] if entry < size else 0
    return table + offset if offset else 0
