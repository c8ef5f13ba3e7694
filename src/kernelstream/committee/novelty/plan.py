"""What a `NoveltyMachine` is made of: its members, and the arrays of these and of the history."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from kernelstream.committee.mixing.highest import HighestMean, HighestState
from kernelstream.committee.novelty.history import (
    Searches,
    declared_history,
    declared_views,
    sizes_of,
)
from kernelstream.committee.novelty.members import DetectorMember
from kernelstream.committee.novelty.scan import (
    Linked,
    Links,
    NoveltyState,
    OneMember,
    declared_mix,
)
from kernelstream.learner.state import arrays, check_entries, n_bytes, new_arrays
from kernelstream.parts import Field

__all__ = ["Plan", "Scratch"]

HISTORY_VERSION = 1  # of the arrays that members share, and of what they mean
_N_HIGHEST = 2  # members that count


class Plan(NamedTuple):
    """What a `NoveltyMachine` is made of: everything about it that never changes.

    Attributes
    ----------
    members : list of DetectorMember
    names : list of str
        What the members are called in files.
    n_others : int
        How many detectors of other libraries there are.
    n_features : int
    is_sparse : bool
    n_points : int or None
        The size of the reservoir. None: 256, and up to 512 where rows are short.
    """

    members: list[DetectorMember]
    names: list[str]
    n_others: int
    n_features: int
    is_sparse: bool = False
    n_points: int | None = None

    def sizes(self) -> dict[str, int]:
        """Return the lengths of the axes that all arrays share."""
        reads = any(member.reads_covariance for member in self.members)
        n_members = len(self.members) + self.n_others
        sizes = sizes_of(self.n_features, self.is_sparse, self.n_points, reads)
        return {**sizes, "members": n_members, "counted": min(_N_HIGHEST, n_members)}

    def searches(self) -> Searches:
        """Return in which spaces the neighbours of a row are needed."""
        spaces = {member.searches for member in self.members}
        return Searches("scaled" in spaces, "white" in spaces)

    def rule(self) -> Any:
        """Return the rules of the members, linked."""
        return _linked([OneMember(member.to_rule()) for member in self.members], Linked)

    def declared(self) -> NoveltyState:
        """Return the declaration of the state."""
        return NoveltyState(
            history=declared_history(),
            own=_linked([member.state() for member in self.members], Links),
            mixed=HighestState(
                mean=Field(("members",), 0.0),
                square=Field(("members",), 0.0, least=0.0),
                count=Field((), 0.0, least=0.0),
                threshold=Field((), 0.0),
                calm=Field((), 0.0, least=0.0),
            ),
        )

    def versions(self) -> dict[str, int]:
        """Return the version of each record of the state, by the names that files use."""
        of_members = {
            f"member {name} {type(member).__name__}": member.version
            for name, member in zip(self.names, self.members, strict=True)
        }
        return {"history": HISTORY_VERSION, "mixing HighestMean": HighestMean.version, **of_members}

    def new_state(self) -> NoveltyState:
        """Return the arrays of an untrained model."""
        own = [new_arrays(fields, sizes) for _, fields, sizes in self._declared_members()]
        declared, sizes = self.declared(), self.sizes()
        return NoveltyState(
            new_arrays(declared.history, sizes), _linked(own, Links),
            new_arrays(declared.mixed, sizes),
        )  # fmt: skip

    def new_scratch(self) -> "Scratch":
        """Return memory for one row."""
        sizes = self.sizes()
        own = [
            new_arrays(member.scratch(), of_member)
            for member, _, of_member in self._declared_members()
        ]
        views, mix = declared_views(), declared_mix()
        return Scratch(new_arrays(views, sizes), _linked(own, Links), new_arrays(mix, sizes))

    def n_bytes(self) -> int:
        """Return how much memory the state takes."""
        declared, sizes = self.declared(), self.sizes()
        own = sum(n_bytes(fields, of_member) for _, fields, of_member in self._declared_members())
        return own + n_bytes(declared.history, sizes) + n_bytes(declared.mixed, sizes)

    def each_member(self, own: Any) -> Iterator[tuple[DetectorMember, Any, dict[str, int]]]:
        """Yield every member with its own record and the lengths of the axes of its arrays."""
        sizes = self.sizes()
        for i, member in enumerate(self.members, start=1):
            record, own = (own, None) if i == len(self.members) else own
            yield member, record, {**sizes, **member.axes(sizes["features"])}

    def _declared_members(self) -> Iterator[tuple[DetectorMember, Any, dict[str, int]]]:
        return self.each_member(self.declared().own)

    def named(self, record: NoveltyState) -> Iterator[tuple[str, Any]]:
        """Yield every array of a state (or its declaration) with its name in files."""
        own = zip(self.names, self.each_member(record.own), strict=True)
        return chain(
            arrays(record.history),
            chain.from_iterable(arrays(of_member, name) for name, (_, of_member, _) in own),
            arrays(record.mixed, "mixed"),
        )

    def check(self, state: NoveltyState) -> None:
        """Refuse a state with numbers that make no sense."""
        declared, sizes = self.declared(), self.sizes()
        check_entries(state.history, declared.history, sizes)
        check_entries(state.mixed, declared.mixed, sizes)
        for member, record, of_member in self.each_member(state.own):
            check_entries(record, member.state(), of_member)


class Scratch(NamedTuple):
    """Memory for one row."""

    row: Any  # `RowViews`
    own: Any  # the members' own records, as `Links`
    mix: Any  # `MixScratch`


def _linked(records: Sequence[Any], link: Callable[[Any, Any], Any]) -> Any:
    """Return one nested record of several."""
    *before, linked = records
    for record in reversed(before):
        linked = link(record, linked)
    return linked
