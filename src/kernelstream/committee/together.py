"""A row for all members of a committee and for their mixing, in one call of compiled code.

To call members one after the other takes Python longer than most of them take to learn: while one
learns, it empties the processor's cache of what Python needs for the next.
"""

from bisect import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.compile import Call, compiled, in_one_call
from kernelstream.learner.row_path import RowPath

if TYPE_CHECKING:
    from kernelstream.committee.machine import CommitteeMachine

__all__ = ["Together", "joined_paths"]


def joined_paths(machine: "CommitteeMachine") -> list[RowPath] | None:
    """Return the members' paths, if all of them are compiled calls alone; otherwise None."""
    paths = []
    for member in machine.members:
        path = member.row_path()
        if path is None or path.calls() is None:
            return None
        paths.append(path)
    return paths


class Together:
    """The calls of all members, of use as long as these have the same paths.

    Parameters
    ----------
    machine : CommitteeMachine
    paths : list of RowPath
        Of its members.
    """

    def __init__(self, machine: "CommitteeMachine", paths: Sequence[RowPath]) -> None:
        self.paths, self._calls = list(paths), [path.calls() for path in paths]
        self._mixing_state = machine.mixing_state
        members: Sequence[Any] = machine.members  # who has a path is a Machine
        self._members = list(zip(paths, members, strict=True))
        self.X, self.y = np.zeros((1, machine.n_features), machine.dtype), np.zeros(1)
        self.said = machine.room_for_scores()
        calls: list[Call] = []
        self._ends = []  # how many calls there are up to those of each member, and of the mixing
        factors = machine.factors.tolist()
        for path, own, factor, scores in zip(paths, self._calls, factors, self.said, strict=True):
            calls.append(Call(_hand_over, self.X, self.y, path.given_X, path.given_y))
            calls += own or []
            statistics = path.statistics
            scaled = statistics.units, statistics.scales_targets
            calls.append(Call(_say, path.trail.scores, *scaled, factor, scores))
            self._ends.append(len(calls))
        of_mixing = machine.mixing.calls(machine.mixing_state, self.said, self.y)
        if of_mixing:  # else it learns in Python, after the members
            self._ends.append(len(calls) + len(of_mixing))
        self._run = in_one_call(calls + of_mixing)

    def serves(self, machine: "CommitteeMachine", paths: Sequence[RowPath]) -> bool:
        """Return whether these are still the calls of the paths, and the mixing's arrays."""
        pairs = zip(self._calls, paths, strict=True)
        is_same = all(calls is path.calls() for calls, path in pairs)
        return is_same and self._mixing_state is machine.mixing_state

    def learn(self, X: np.ndarray, y: float) -> int:
        """Let members learn a row, and then the mixing; how many of them all have.

        A member that has not is as it was before, or a `BadRow` says that it cannot be.
        """
        self.X[0], self.y[0] = X[0], y
        n_done = bisect(self._ends, self._run())
        if n_done < len(self.paths):
            self.paths[n_done].put_back()
        return n_done

    def rows_ahead(self) -> int:
        """Return how many rows may be learned before `follow` has to be called."""
        ahead = [path.rows_ahead(member) for path, member in self._members]
        return min(*ahead, *(path.rows_until_due() for path in self.paths))

    def follow(self, n_done: int) -> None:
        """Do what is due after a row that so many members have learned."""
        for path, member in self._members[:n_done]:
            path.follow(member)


@compiled
def _hand_over(X, y, given_X, given_y):
    for j in range(X.shape[1]):
        given_X[0, j] = X[0, j]
    given_y[0] = y[0]


@compiled
def _say(scores, units, scales_targets, factor, out):
    """Copy a member's score before the row was learned to the mixing."""
    zero, unit, least, most = units[0, 0], units[1, 0], units[2, 0], units[3, 0]
    for k in range(scores.shape[1]):
        score = scores[0, k]
        if scales_targets:
            score = min(max(zero + unit * score, least), most)
        out[0, k] = factor * score
