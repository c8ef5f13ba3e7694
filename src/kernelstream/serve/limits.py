"""How much a service takes on."""

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """How much a service takes on; what is beyond is refused with the limit's name.

    Examples
    --------
    >>> from kernelstream.serve import Limits
    >>> Limits(rows=100).rows
    100
    """

    body_bytes: int = 16 * 2**20  # of a request
    rows: int = 10_000  # of a request
    features: int = 10_000
    classes: int = 1_000  # of a model
    models: int = 100
    keys: int = 1_000_000  # of a fleet
    label_characters: int = 1_000
    id_characters: int = 200  # and those of a key
    queued_rows: int = 50_000  # of a model, before callers are told to wait
    recent_ids: int = 100_000  # of rows, of which a second one is not learned
    waiting_rows: int = 100_000  # of predicted rows that wait for a label
    viewers: int = 64  # of the live page
