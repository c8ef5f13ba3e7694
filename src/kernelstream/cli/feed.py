"""``kernelstream run --to``: send the rows of a table to a service, which learns them."""

import math
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kernelstream.cli.by_key import separated
from kernelstream.tables import SourceError, as_float, is_missing, open_source

__all__ = ["feed"]

_ROWS = 500  # of a request


def feed(
    source: str, target: str | None, to: str, token: str | None = None, form: str | None = None,
    key: str | None = None,
) -> str:  # fmt: skip
    """Send every row of a source to a model of a service; return a summary.

    A row's id is made of the source's path, the row's number and what is in it, so that a command
    that was stopped can be given again: rows that the service has learned are not learned twice, as
    long as it remembers their ids. A file that has changed has new rows.

    Parameters
    ----------
    source, target, form
        As for `open_source`.
    to : str
        The model's address, such as "http://127.0.0.1:8765/v1/models/NAME".
    token : str, default=None
    key : str, default=None
        The column of keys, where the model is a fleet.
    """
    from kernelstream.client import Client

    base, name = _address(to)
    path = "-" if source == "-" else str(Path(source).resolve())
    begin, n_rows, n_accepted, n_repeated = time.perf_counter(), 0, 0, 0
    skipped: list[str] = []
    with Client(base, name, token=token) as client:
        state = client.state()
        for block in open_source(source, target, _ROWS, form, features=state["columns"]):
            keys, block = separated(block, key)
            rows = [[_entry(v, state["encoded"]) for v in row] for row in _lists(block)]
            targets = None
            if state["task"] != "novelty":
                if block.target is None:
                    raise SourceError("--target is missing: name the column to predict.")
                targets = [_target(v, state) for v in block.target]
            ids = None
            if path != "-":
                ids = [
                    f"{path[-150:]}:{n_rows + i}:{_digest(row)}"
                    for i, row in enumerate(zip(rows, targets or rows, keys or rows, strict=True))
                ]
            told = client.learn(rows, targets, ids, on_bad_row="skip", keys=keys)
            n_rows += len(rows)
            n_accepted, n_repeated = n_accepted + told.accepted, n_repeated + told.repeated
            skipped += [f"{block.places[bad['row']]}: {bad['reason']}" for bad in told.skipped]
    seconds = time.perf_counter() - begin
    lines = [
        f"{n_rows:,} rows, {n_accepted:,} accepted, {n_repeated:,} known before, "
        f"{len(skipped):,} bad; {seconds:.1f} s, {n_rows / seconds:,.0f} rows per second",
        *(f"bad: {line}" for line in skipped[:20]),
    ]
    return "\n".join(lines)


def _digest(row: Any) -> str:
    return blake2b(repr(row).encode(), digest_size=8).hexdigest()


def _address(to: str) -> tuple[str, str]:
    """Return the service's address and the model's name."""
    parts = urlsplit(to)
    folders = parts.path.strip("/").split("/")
    if parts.scheme not in ("http", "https") or folders[:2] != ["v1", "models"] or (
        len(folders) != 3
    ):  # fmt: skip
        raise ValueError(
            f"--to {to}: give the address of a model, such as http://127.0.0.1:8765/v1/models/NAME."
        )
    return f"{parts.scheme}://{parts.netloc}", folders[2]


def _lists(block: Any) -> list[list[Any]]:
    rows = block.rows.toarray() if hasattr(block.rows, "toarray") else block.rows
    return rows.tolist() if hasattr(rows, "tolist") else [list(row) for row in rows]


def _entry(value: Any, encoded: bool) -> Any:
    """Return a field as the service takes it: as it is if the model encodes columns, or a number.

    Text that is no number is sent as it is, so that the service refuses it and says what it was.
    """
    if is_missing(value):
        return None
    number = math.nan if encoded else as_float(value)
    return value if number != number else number


def _target(value: Any, state: dict[str, Any]) -> Any:
    """Return a target of the kind that the model has."""
    if state["task"] == "regression":
        number = as_float(value)
        return None if number != number else number
    if value is None or value != value:
        return None
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if state["classes"] and not isinstance(state["classes"][0], str):
        number = as_float(text)
        return int(number) if number == number and number.is_integer() else text
    return text
