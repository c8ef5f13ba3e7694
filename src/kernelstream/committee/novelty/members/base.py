"""What a detector member declares, and what its rule answers."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelstream.parts import Field, Part, all_parts, as_part

__all__ = [
    "FEW_ROWS", "DetectorMember", "DetectorMemberRule", "NoArrays", "as_detector_member",
    "chosen_detectors", "no_arrays",
]  # fmt: skip

FEW_ROWS = 150.0  # the number of rows at which a member that needs many has half of its weight


class NoArrays(NamedTuple):
    """The record of a member that remembers nothing."""

    nothing: Any


def no_arrays() -> NoArrays:
    """Return the declaration of a record without numbers."""
    return NoArrays(Field(("none",), 0.0))


class DetectorMemberRule(Protocol):
    """What the rule of a detector member answers; every method but `newness` has a default.

    `own` and `scratch` are the member's records of arrays (`DetectorMember.state`, `.scratch`);
    `history` is the `History` of the rows, and `row` holds the `RowViews` of one row.
    """

    def newness(self, own, scratch, history, row):
        """Return the newness score of a row: the larger, the less it is like the rows so far.

        It may write into `scratch`, but nowhere else: rows are scored without being learned, too.
        """
        raise NotImplementedError

    def trusted_after(self, n_rows):
        """Return the weight of the score after so many rows, between zero and one."""
        return n_rows / (n_rows + FEW_ROWS)

    def note_row(self, own, scratch, history, row, weight):
        """Learn a row. The history does not count it yet. The first row has no view but ``x``."""
        return

    def take_in(self, own, scratch, history, row, slot, is_taken):
        """Learn that a row enters the reservoir at `slot`.

        `is_taken`: another row leaves, which is still in ``history.raw[:, slot]``.
        """
        return

    def follow_scales(self, own, scratch, history, row):
        """Follow the new scales of the history and of the reservoir. ``row`` is free for use."""
        return


class DetectorMember(Part):
    """Base of the detector members of `AutoDetector`.

    Attributes
    ----------
    most_features : int or None
        The length of rows up to which the member works.
    reads_covariance : bool
        Whether the covariance of features is to be kept, where there are up to 64, and rows are to
        be whitened by it.
    searches : {"scaled", "white"} or None
        The space in which the member needs the neighbours of a row.

    Examples
    --------
    A member that looks at the first feature only:

    >>> from typing import NamedTuple
    >>> import kernelstream as ks
    >>> from kernelstream.committee import DetectorMember, DetectorMemberRule
    >>> from kernelstream.parts import rule
    >>> @rule(defaults=DetectorMemberRule)
    ... class FirstRule(NamedTuple):
    ...     def newness(self, own, scratch, history, row):
    ...         return abs(row.z[0])
    >>> class First(DetectorMember):  # under part("detector_member", "first"), to have a name
    ...     def to_rule(self):
    ...         return FirstRule()
    >>> ks.AutoDetector(members=[First(), "local"])
    AutoDetector(members=[First(), 'local'])
    """

    most_features: int | None = None
    reads_covariance = False
    searches: str | None = None

    def name(self) -> str:
        """Return the first name under which the member is registered."""
        of_class = (e.names for e in all_parts("detector_member") if e.cls is type(self))
        return next((names[0] for names in of_class if names), type(self).__name__)

    def axes(self, n_features: int) -> dict[str, int]:
        """Return the lengths of the axes that only this member's arrays have."""
        return {}

    def state(self) -> Any:
        """Return the declaration of what the member remembers: a named tuple of `Field`."""
        return no_arrays()

    def scratch(self) -> Any:
        """Return the declaration of memory for one row."""
        return no_arrays()

    def start(self, own: Any, n_features: int, random: np.random.Generator) -> None:
        """Write into the arrays of an untrained model whatever is chosen at random."""

    def to_rule(self) -> Any:
        """Return the compiled rule: see `DetectorMemberRule`."""
        raise TypeError(f"{type(self).__name__} must say its rule.")


def as_detector_member(member: Any) -> DetectorMember:
    """Return a member from its name or itself, checked."""
    return as_part("detector_member", "members", member, DetectorMember)


def chosen_detectors(given: list[Any] | None, default: list[str], n_features: int) -> list[Any]:
    """Return the members for rows of a length; a given one that does not work there is an error."""
    chosen = [as_detector_member(member) for member in (default if given is None else given)]
    suits = [m.most_features is None or n_features <= m.most_features for m in chosen]
    for member, is_suited in zip(chosen, suits, strict=True):
        if given is not None and not is_suited:
            raise ValueError(
                f"members has {member!r}, which works with up to {member.most_features} features, "
                f"and the rows have {n_features}: leave it out, or members as they are by default."
            )
    return [member for member, is_suited in zip(chosen, suits, strict=True) if is_suited]
