"""Runs contestants on streams and stores the results, so that a run can be resumed."""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import kernelstream as ks
from kernelstream_lab.benchmark.contestants import CONTESTANTS, START_ROWS, Contestant
from kernelstream_lab.benchmark.passes import by_baseline
from kernelstream_lab.benchmark.streams import Stream

__all__ = ["QUICK_ROWS", "Result", "measure", "run_all"]

QUICK_ROWS = 500  # in a quick run
_WARM_UP_ROWS = 1100  # more than a block of `prequential`
_WORST = {"classify": 1.0, "regress": 10.0, "novelty": 1.0}  # also what larger errors count as


@dataclass(frozen=True)
class Result:
    """The result of one contestant on one stream.

    Attributes
    ----------
    stream, contestant, task : str
    version : str
        That of the contestant's library; of kernelstream, with a hash of its source.
    rows : str
        A checksum of the stream's rows, and how many of them were used.
    error : float
        On all rows that were used (`streams.TASKS` says which error).
    start_error : float
        On the first `START_ROWS` of them.
    microseconds : float
        Processor time per row.
    problem : str
        Why the contestant could not finish; its error is then the worst that there is.
    """

    stream: str
    contestant: str
    task: str
    version: str
    rows: str
    error: float
    start_error: float
    microseconds: float
    problem: str = ""


def measure(stream: Stream, name: str, most_rows: int | None = None) -> Result:
    """Let a contestant pass over a stream: every row is predicted, then learned."""
    contestant = CONTESTANTS[stream.task][name]
    key = _key(stream, name, contestant, most_rows)
    X, y = stream.rows()
    n_rows = _n_rows(stream, contestant, most_rows)
    n_classes = len(np.unique(y)) if stream.task == "classify" else 0
    model, warm_up = contestant.make(n_classes), contestant.make(n_classes)
    follow = contestant.follow
    with warnings.catch_warnings(), threadpool_limits(1), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if contestant.library == "kernelstream":  # compiles, and is not timed
                some = np.linspace(0, len(y) - 1, min(_WARM_UP_ROWS, n_rows)).astype(int)
                follow(warm_up, stream.task, X[some], y[some], stream.wait)
            said, seconds = follow(model, stream.task, X[:n_rows], y[:n_rows], stream.wait)
        except (ArithmeticError, RuntimeError, ValueError, IndexError, KeyError) as error:
            worst, why = _WORST[stream.task], f"{type(error).__name__}: {error}"
            return Result(**key, error=worst, start_error=worst, microseconds=0.0, problem=why)
    return Result(
        **key, error=_error(stream, said, y[:n_rows]),
        start_error=_error(stream, said[:START_ROWS], y[: min(n_rows, START_ROWS)]),
        microseconds=1e6 * seconds / n_rows,
    )  # fmt: skip


def _error(stream: Stream, said: np.ndarray, y: np.ndarray) -> float:
    """Return the error of the predictions. Rows before the first labels do not count."""
    begin = 0 if stream.wait == 1 else stream.wait
    if stream.task == "classify":
        return float(np.mean(said[begin:] != y[begin:]))
    if not np.isfinite(said).all():
        return _WORST[stream.task]
    if stream.task == "novelty":
        return 1.0 - float(roc_auc_score(y, said))
    mean, _ = by_baseline("mean", "regress", y, y, stream.wait)
    begin = max(begin, 1)  # nothing is known of the first row

    def squares(found: np.ndarray) -> float:
        return float(np.mean(np.square(found[begin:] - y[begin:])))

    return min(_WORST[stream.task], (squares(said) / squares(mean)) ** 0.5)


def run_all(
    streams: list[Stream], names: list[str] | None, folder: Path, most_rows: int | None = None,
    tell: Callable[[str, int, int], None] = lambda text, done, total: None,
) -> list[Result]:  # fmt: skip
    """Measure contestants on streams, unless the folder has their results already.

    Parameters
    ----------
    streams : list of Stream
    names : list of str or None
        The contestants; None: all that there are for the task of each stream.
    folder : Path
        Where results are kept, one JSON file for each contestant and stream.
    most_rows : int or None, default=None
        Use only so many first rows of each stream.
    tell : callable
        Is told what is measured now, how many were measured, and how many there are.
    """
    pairs = list(_pairs(streams, names))
    found = []
    for done, (stream, name) in enumerate(pairs):
        tell(f"{stream.name}: {name}", done, len(pairs))
        path = folder / stream.task / stream.name / f"{name.replace(' ', '-')}.json"
        kept = _read(path)
        key = _key(stream, name, CONTESTANTS[stream.task][name], most_rows)
        if kept is None or any(getattr(kept, field) != value for field, value in key.items()):
            kept = measure(stream, name, most_rows)
            _write(path, kept)
        found.append(kept)
    return found


def _pairs(streams: list[Stream], names: list[str] | None) -> Iterator[tuple[Stream, str]]:
    """Yield every stream with every contestant; slow contestants come last."""
    for slow in (False, True):
        for stream in streams:
            for name, contestant in CONTESTANTS[stream.task].items():
                if (contestant.most_rows is not None) is slow and (names is None or name in names):
                    yield stream, name


def _n_rows(stream: Stream, contestant: Contestant, most_rows: int | None) -> int:
    limits = [stream.n_rows, contestant.most_rows, most_rows]
    return min(limit for limit in limits if limit is not None)


def _key(
    stream: Stream, name: str, contestant: Contestant, most_rows: int | None
) -> dict[str, Any]:
    """Return the circumstances of a result: if one of them changes, it is measured again."""
    n_rows = _n_rows(stream, contestant, most_rows)
    return {
        "stream": stream.name, "contestant": name, "task": stream.task,
        "version": _version(contestant.library), "rows": f"{stream.rows().checksum()}, {n_rows}",
    }  # fmt: skip


@cache
def _version(library: str) -> str:
    if library != "kernelstream":
        return "1" if library == "baseline" else f"{library} {version(library)}"
    package = Path(ks.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] != "cli":  # which does not learn
            digest.update(path.read_bytes())
    return f"kernelstream {ks.__version__}+{digest.hexdigest()[:8]}"


def _read(path: Path) -> Result | None:
    try:
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # there is none, or it was cut short: measure again


def _write(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(result), indent=1) + "\n", encoding="utf-8")
    new.replace(path)
