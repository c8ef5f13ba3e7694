"""The limits of a service."""

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """The limits of a service. What exceeds one is refused with the limit's name.

    Attributes
    ----------
    body_bytes, rows : int
        Of a request.
    features : int
        Of a row.
    classes : int
        Of a model.
    models : int
        Of the service.
    keys : int
        Of a fleet.
    label_characters : int
    id_characters : int
        Of an id or a key.
    queued_rows : int
        Of a model, before callers are told to wait.
    recent_ids : int
        Ids of learned rows that are remembered, so that none is learned twice.
    waiting_rows : int
        Predicted rows that wait for a delayed label.
    viewers : int
        Open live pages.
    connections : int
        Open connections. Beyond that, those are closed that wait longest for a request.
    bytes_in_flight : int
        Of the bodies of all requests that have not been answered.
    idle_seconds : int
        For which a connection may wait for a request, or for the next part of a body.
    body_seconds : int
        In which a body must arrive, and in which a part of the answer must be read.

    Examples
    --------
    >>> from kernelstream.serve import Limits
    >>> Limits(rows=100).rows
    100
    """

    body_bytes: int = 16 * 2**20
    rows: int = 10_000
    features: int = 10_000
    classes: int = 1_000
    models: int = 100
    keys: int = 1_000_000
    label_characters: int = 1_000
    id_characters: int = 200
    queued_rows: int = 50_000
    recent_ids: int = 100_000
    waiting_rows: int = 100_000
    viewers: int = 64
    connections: int = 500
    bytes_in_flight: int = 64 * 2**20
    idle_seconds: int = 10
    body_seconds: int = 120
