"""How much a service takes on."""

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """How much a service takes on; what is beyond is refused with the limit's name.

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
        Of rows, of which a second one is not learned.
    waiting_rows : int
        Of predicted rows that wait for a label.
    viewers : int
        Of the live page.

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
