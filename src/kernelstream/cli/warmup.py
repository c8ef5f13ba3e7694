"""Compilation of the Auto estimators on all cores, so that their first call starts at once."""

from collections.abc import Callable

from kernelstream.committee.warming import (
    Piece,
    compile_side_by_side,
    learn_some,
    mark_as_compiled,
    n_cores,
    pieces_of,
)
from kernelstream.compile import no_message_while_compiling, seconds_compiling

__all__ = ["warm_up"]

_WHOLES = [
    Piece("AutoClassifier", 2), Piece("AutoClassifier", 3), Piece("AutoRegressor", 0),
    Piece("AutoDetector", 0),
]  # fmt: skip


def warm_up(n_jobs: int | None, tell: Callable[[str, int, int], None]) -> float:
    """Compile members in several processes; return how long this process compiled the rest.

    The last pass, over whole estimators, finds what was lost where two processes kept the same
    function at the same time.
    """
    pieces = [piece for whole in _WHOLES for piece in pieces_of(whole)]
    done: list[Piece] = []

    def count(piece: Piece) -> None:
        done.append(piece)
        tell(piece.name, len(done), len(pieces) + 1)

    with no_message_while_compiling():  # that it compiles is no news here
        compile_side_by_side(pieces, n_jobs or n_cores(), count)
        begin = seconds_compiling()
        for whole in _WHOLES:
            mark_as_compiled(whole)  # first, or else its first call would share the work out again
            learn_some(whole)
    tell("all", len(pieces) + 1, len(pieces) + 1)
    return seconds_compiling() - begin
