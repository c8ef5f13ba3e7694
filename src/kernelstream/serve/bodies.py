"""The bodies of requests: JSON, lines of JSON, or Arrow."""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec

from kernelstream.fleet.keys import with_tuples
from kernelstream.serve.arrow import read_arrow
from kernelstream.serve.limits import Limits
from kernelstream.serve.problems import malformed, too_many_rows, unreadable_row

__all__ = ["FORMATS", "Body", "Labels", "Rows", "read_labels", "read_rows"]

Entry = float | str | bool | None
Target = int | float | str | bool | None
Id = str | int
Key = str | int | list[Any]  # a list is a tuple


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """Rows of numbers only, which are decoded faster than other rows."""

    all_numbers: ClassVar[bool] = True
    rows: list[list[float]]
    targets: list[Target] | None = None
    ids: list[Id] | None = None
    keys: list[Key | None] | None = None


class Rows(msgspec.Struct, forbid_unknown_fields=True):
    """Rows, as lists in the order of the features or as objects by column name."""

    all_numbers: ClassVar[bool] = False
    rows: Annotated[
        list[list[Entry] | dict[str, Entry]],
        msgspec.Meta(
            description="Each row is a list of its features, or an object by column. "
            "What is missing is null."
        ),
    ]
    targets: Annotated[
        list[Target] | None,
        msgspec.Meta(description="Labels or numbers, one for each row; to learn the rows."),
    ] = None
    ids: Annotated[
        list[Id] | None,
        msgspec.Meta(description="Names of the rows. No row is learned twice under one id."),
    ] = None
    keys: Annotated[
        list[Key | None] | None,
        msgspec.Meta(description="Which model of a fleet each row is for; a list is a tuple."),
    ] = None


class Labels(msgspec.Struct, forbid_unknown_fields=True):
    """Delayed labels, with the ids of their rows."""

    ids: Annotated[
        list[Id], msgspec.Meta(description="The ids that predict was given or returned.")
    ]
    targets: Annotated[
        list[Target], msgspec.Meta(description="A label or a number for each of them.")
    ]


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    row: list[Entry] | dict[str, Entry]
    target: Target = None
    id: Id | None = None
    key: Key | None = None


_FAST, _GENERAL = msgspec.json.Decoder(Body), msgspec.json.Decoder(Rows)
_LABELS, _LINE = msgspec.json.Decoder(Labels), msgspec.json.Decoder(_Line)
_ROW = re.compile(r"\$\.(?:rows|targets|ids|keys)\[(\d+)\]")


def read_rows(
    body: bytes, content_type: str, limits: Limits, has_keys: bool = False, has_names: bool = True
) -> Any:  # fmt: skip
    """Return the rows, targets, ids and keys of a body; ids are strings, all different.

    Parameters
    ----------
    body : bytes
    content_type : str
        Without parameters.
    limits : Limits
    has_keys : bool, default=False
        Whether the column `key` of an Arrow table has the keys of the rows, or is a feature.
    has_names : bool, default=True
        Whether the model has column names. Otherwise the columns of an Arrow table are the features
        in their order.
    """
    found = FORMATS[content_type](body, limits, has_keys, has_names)
    n = len(found.rows)
    if not n:
        raise malformed("rows is empty: give at least one row.")
    if n > limits.rows:
        raise too_many_rows(n, limits)
    for name in ("targets", "ids", "keys"):
        values = getattr(found, name)
        if values is not None and len(values) != n:
            raise malformed(f"{name} has {len(values):,} entries, and rows has {n:,}.")
    if found.ids is not None:
        found.ids = _sound_ids(found.ids, limits)
    if found.keys is not None:
        found.keys = _sound_keys(found.keys)
    return found


def read_labels(body: bytes, limits: Limits) -> Labels:
    """Return the ids and targets of a body of JSON."""
    found: Labels = _decoded(_LABELS, body)
    if len(found.ids) != len(found.targets):
        raise malformed(
            f"targets has {len(found.targets):,} entries, and ids has {len(found.ids):,}."
        )
    if not found.ids:
        raise malformed("ids is empty: give at least one id.")
    if len(found.ids) > limits.rows:
        raise too_many_rows(len(found.ids), limits)
    found.ids = _sound_ids(found.ids, limits)
    return found


def _sound_ids(ids: list[Any], limits: Limits) -> list[Any]:
    texts = [str(row_id) for row_id in ids]
    seen: dict[str, int] = {}
    for i, text in enumerate(texts):
        if text in seen:
            raise unreadable_row(i, f"its id {text[:60]!r} is that of row {seen[text]}, too")
        if not 0 < len(text) <= limits.id_characters:
            raise unreadable_row(
                i, f"its id has {len(text):,} characters, of 1 to {limits.id_characters}"
            )
        seen[text] = i
    return texts


def _sound_keys(keys: list[Any]) -> list[Any]:
    """Return keys as a fleet has them, None for a row without a key."""
    found = []
    for i, key in enumerate(keys):
        try:
            found.append(None if key is None else with_tuples(key))
        except (ValueError, RecursionError):
            raise unreadable_row(
                i, "its key is not a string, an integer, or a list of these"
            ) from None
    return found


def _decoded(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        row = _ROW.search(str(error))
        if row:
            raise unreadable_row(int(row[1]), _mended(str(error))) from None
        raise malformed(f"{_mended(str(error))}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(f"The body is not JSON in UTF-8: {error}.") from None


def _mended(message: str) -> str:
    """Return a message of the decoder as the middle of a sentence."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _read_json(body: bytes, limits: Limits, has_keys: bool, has_names: bool) -> Any:
    try:
        return _FAST.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return _decoded(_GENERAL, body)


def _read_lines(body: bytes, limits: Limits, has_keys: bool, has_names: bool) -> Rows:
    lines = []
    texts = [line for line in body.split(b"\n") if line.strip()]
    if len(texts) > limits.rows:
        raise too_many_rows(len(texts), limits)
    for i, line in enumerate(texts):
        try:
            lines.append(_LINE.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable_row(i, _mended(str(error))) from None
    targets: Any = [line.target for line in lines]
    if all(target is None for target in targets):
        targets = None
    ids: Any = [line.id for line in lines]
    keys: Any = [line.key for line in lines]
    without = [i for i, row_id in enumerate(ids) if row_id is None]
    if 0 < len(without) < len(ids):
        raise unreadable_row(without[0], "it has no id, and others have one")
    ids = None if without else ids
    keys = None if all(key is None for key in keys) else keys
    return Rows([line.row for line in lines], targets, ids, keys)


def _read_arrow(body: bytes, limits: Limits, has_keys: bool, has_names: bool) -> Rows:
    columns = read_arrow(body, limits)
    targets, ids = columns.pop("targets", None), columns.pop("ids", None)
    keys = columns.pop("key", None) if has_keys else None
    rows: list[Any] = list(map(list, zip(*columns.values(), strict=True)))
    if has_names:
        rows = [dict(zip(columns, row, strict=True)) for row in rows]
    # the same checks as for JSON: an Arrow table may hold anything
    try:
        return msgspec.convert({"rows": rows, "targets": targets, "ids": ids, "keys": keys}, Rows)
    except msgspec.ValidationError as error:
        row = _ROW.search(str(error))
        raise unreadable_row(int(row[1]) if row else 0, _mended(str(error))) from None


FORMATS: dict[str, Callable[[bytes, Limits, bool, bool], Any]] = {
    "application/json": _read_json,
    "application/x-ndjson": _read_lines,
    "application/vnd.apache.arrow.stream": _read_arrow,
}
