"""The members of a committee are compiled side by side, the first time that they are needed.

Numba compiles under one lock per process, so that threads would wait for each other. The work is
therefore shared with processes of their own, which keep what they compile on disk; this process
then finds it there.

    python -m kernelstream.committee.warming

is such a process. It reads pieces of work from its standard input, one per line.
"""

import json
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelstream.compile import no_message_while_compiling, note
from kernelstream.threads import n_cores

__all__ = [
    "Piece", "another_python", "compile_once", "compile_side_by_side", "learn_some",
    "mark_as_compiled", "may_start_processes", "n_cores", "pieces_of",
]  # fmt: skip

_logger = logging.getLogger("kernelstream.compile")

_N_ROWS, _N_FEATURES = 130, 4  # enough for tiles, single rows, a metric and a full histogram
_BLOCKS = slice(110), slice(110, 120), slice(120, _N_ROWS)  # copies to undo begin with the third


class Piece(NamedTuple):
    """What is compiled together: a committee for rows of a kind, or one of its members."""

    estimator: str  # its name in this package
    n_classes: int  # 2, or 3 for any larger number; 0: no labels
    is_sparse: bool = False
    dtype: str = "float64"
    member: str | None = None  # None: all of it; "mixing": what mixes the members

    @property
    def name(self) -> str:
        """Return its name for people and files."""
        kind = "sparse" if self.is_sparse else "dense"
        return f"{self.estimator}-{self.member or 'all'}-{self.n_classes}-{kind}-{self.dtype}"


def pieces_of(whole: Piece) -> list[Piece]:
    """Return the members of a committee, or the whole where it is one piece of code.

    Of members that differ in numbers alone, which share their code, there is one. Those that take
    longest come first.
    """
    chosen = getattr(_new(whole), "chosen", None)
    if chosen is None:
        return [whole]
    names: dict[Any, str] = {}
    members = chosen(_N_FEATURES, whole.is_sparse)
    for member in sorted(members, key=lambda member: member.model.kernel == "linear"):
        names.setdefault(_without_numbers(member.model), member.name)
    return [whole._replace(member=name) for name in [*names.values(), "mixing"]]


def _without_numbers(thing: Any) -> Any:
    """Return which parts an estimator or a part is made of, whatever their numbers are."""
    if hasattr(thing, "get_params"):
        parameters = sorted(thing.get_params(deep=False).items())
        return type(thing), *((name, _without_numbers(value)) for name, value in parameters)
    if isinstance(thing, list | tuple):
        return tuple(map(_without_numbers, thing))
    return type(thing) if type(thing) in (int, float) else thing


def learn_some(piece: Piece, single_rows: bool = True) -> None:
    """Let a committee, or one of its members, learn and predict some rows."""
    model = _new(piece)
    if piece.member == "mixing":
        return _mix_some(model.chosen_mixing(), piece.n_classes)
    if piece.member is not None:
        members = {m.name: m.model for m in model.chosen(_N_FEATURES, piece.is_sparse)}
        model = members[piece.member]
    random = np.random.default_rng(0)
    X: Any = random.normal(size=(_N_ROWS, _N_FEATURES)).astype(piece.dtype)
    y = X[:, 0] if piece.n_classes == 0 else np.arange(_N_ROWS) % piece.n_classes
    targets = () if model.task == "novelty" else (y,)
    known = {"classes": np.arange(piece.n_classes)} if piece.n_classes else {}
    rows = sparse.csr_matrix(X) if piece.is_sparse else X
    for block in _BLOCKS:
        model.partial_fit(rows[block], *(target[block] for target in targets), **known)
    model.predict(rows)
    if single_rows and not piece.is_sparse:
        model.learn_one(X[-1], *(target[-1] for target in targets))
        model.predict_one(X[0])


def _mix_some(mixing: Any, n_classes: int) -> None:
    """Let a mixing learn and mix the scores of a few rows."""
    scores = np.random.default_rng(0).normal(size=(2, 4, n_classes if n_classes > 2 else 1))
    y = np.zeros(4) if n_classes > 2 else np.ones(4)
    state = mixing.new_state(len(scores), scores.shape[2])
    mixing.learn(state, scores, y, np.ones(4))
    mixing.mix(state, scores)


def _new(piece: Piece) -> Any:
    # by its name: the module of committees itself imports this one
    return getattr(import_module("kernelstream.committee"), piece.estimator)()


# --- sharing the work with other processes --------------------------------------------------------


def compile_side_by_side(
    pieces: Iterable[Piece], n_jobs: int, tell: Callable[[Piece], None], single_rows: bool = True
) -> None:
    """Compile pieces in this process and `n_jobs` - 1 others, and `tell` when one is finished.

    What two processes compile at the same time is kept once. A process that fails leaves its piece
    to whoever needs it.
    """
    waiting = deque(pieces)
    helpers = [
        threading.Thread(target=_hand_out, args=(waiting, tell, single_rows), daemon=True)
        for _ in range(min(n_jobs, len(waiting)) - 1)
    ]
    for helper in helpers:
        helper.start()
    try:
        while waiting:
            piece = waiting.popleft()
            learn_some(piece, single_rows)
            tell(piece)
    finally:
        waiting.clear()
    for helper in helpers:
        helper.join()


def _hand_out(waiting: "deque[Piece]", tell: Callable[[Piece], None], single_rows: bool) -> None:
    """Keep another process busy as long as something waits."""
    try:
        with another_python("kernelstream.committee.warming") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            while waiting:
                piece = waiting.popleft()
                print(json.dumps([piece, single_rows]), file=process.stdin, flush=True)
                if not process.stdout.readline():
                    return  # it has failed
                tell(piece)
    except (OSError, IndexError):  # there is no such process; another one took the last piece
        return


def _serve() -> None:
    """Compile what stands on each line of the standard input, and say when it is done."""
    for line in sys.stdin:
        piece, single_rows = json.loads(line)
        learn_some(Piece(*piece), single_rows)
        print("done", flush=True)


# --- the first call -------------------------------------------------------------------------------


def compile_once(whole: Piece) -> None:
    """Compile the members of a committee side by side, unless that was done before."""
    done = _mark_of(whole)
    if done is None or done.exists() or not may_start_processes():
        return
    pieces, n_jobs = pieces_of(whole), n_cores()
    if n_jobs == 1 or len(pieces) == 1:
        return
    _logger.warning(
        "kernelstream compiles the members of %s on %d cores, which takes some 10 seconds. "
        "The result is kept; `kernelstream warmup` does it beforehand.",
        whole.estimator, min(n_jobs, len(pieces)),
    )  # fmt: skip
    with no_message_while_compiling():
        compile_side_by_side(pieces, n_jobs, lambda piece: None, single_rows=False)
    mark_as_compiled(whole)


def mark_as_compiled(whole: Piece) -> None:
    """Note on disk that all members of a committee are compiled."""
    done = _mark_of(whole)
    if done is not None:
        done.parent.mkdir(exist_ok=True)
        done.touch()


def _mark_of(whole: Piece) -> Path | None:
    return note(f"committees/{whole.name}")


def may_start_processes() -> bool:
    """Return whether ``sys.executable`` is a Python, which it is not within another program."""
    return not hasattr(sys, "frozen") and Path(sys.executable or "").name.startswith("python")


def another_python(module: str) -> "subprocess.Popen[str]":
    """Start a Python process that runs a module, with the same module path."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


# The package imports its modules in less time than ``python -m`` does.
_RUN = """
import runpy, sys, kernelstream
kernelstream.committee
runpy.run_module(sys.argv[1], run_name="__main__")
"""

if __name__ == "__main__":
    _serve()
