"""``kernelstream run``: learn a table as a stream, show how it goes, resume where it stopped."""

import json
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.console import Console

import kernelstream as ks
from kernelstream import persistence
from kernelstream.tables import Block, Encoder, SourceError, as_float, open_source

__all__ = ["SERIES", "TASKS", "Options", "run"]

TASKS = {"classify": "classifier", "regress": "regressor", "novelty": "novelty"}
SERIES = ("rows", "error", "recent_error", "step_size", "n_support")  # what the plot needs
_RECENT = 1000
_MOST_PLACES = 20  # of bad rows that the summary lists


@dataclass
class Options:
    """What the command line asked for."""

    source: str
    target: str | None
    task: str
    algorithm: str = "svmd"
    params: dict[str, Any] = field(default_factory=dict)
    form: str | None = None
    n_features: int | None = None
    hashed: bool = False
    scale: bool = True
    fill_missing: bool = False
    block_rows: int = 1000
    checkpoint: Path | None = None
    checkpoint_rows: int = 10_000
    model: Path | None = None
    plot: Path | None = None
    metrics: Path | None = None
    bad_rows: Path | None = None


@dataclass
class Progress:
    """What is known of a run so far: plain data, saved with every checkpoint."""

    n_rows: int = 0  # records of the source, bad ones included
    n_learned: int = 0
    n_bad: int = 0
    error: float = 0.0  # sum over the rows learned
    recent: list[float] = field(default_factory=list)
    bad: list[list[str]] = field(default_factory=list)  # where the first bad rows are, and why
    series: list[list[float]] = field(default_factory=list)  # a line a block, for the plot
    events: list[int] = field(default_factory=list)  # rows at which the stream changed

    @property
    def mean_error(self) -> float:
        """Over all rows."""
        return self.error / self.n_learned if self.n_learned else float("nan")

    @property
    def recent_error(self) -> float:
        """Over the last thousand rows."""
        return float(np.mean(self.recent)) if self.recent else float("nan")


class _Lines:
    """A file of lines of JSON; those from after the checkpoint are written again."""

    def __init__(self, path: Path | None, resumed: int):
        self.path, self.resumed = path, resumed
        self.file: TextIO | None = None

    def __enter__(self) -> "_Lines":
        if self.path is not None:
            kept = []
            if self.resumed and self.path.exists():
                lines = self.path.read_text(encoding="utf-8").splitlines()
                kept = [line for line in lines if _rows_of(line) <= self.resumed]
            self.file = self.path.open("w", encoding="utf-8")
            self.file.writelines(f"{line}\n" for line in kept)
        return self

    def write(self, line: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()

    def __exit__(self, *error: object) -> None:
        if self.file is not None:
            self.file.close()


def _rows_of(line: str) -> float:
    try:
        return float(json.loads(line)["rows"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # cut short by a crash


def run(options: Options, console: Console) -> tuple[Progress, bool]:
    """Learn the source; answers how it went, and whether it came to its end.

    Ctrl-C ends a run after the block at hand. Files are then where they were asked for.
    """
    checkpoints, model, encoder, progress = _begin(options)
    resumed = progress.n_rows
    if resumed:
        console.print(f"resuming at row {resumed:,}", highlight=False)
    begin = time.perf_counter()
    with (
        _Lines(options.metrics, resumed) as metrics,
        _Lines(options.bad_rows, resumed) as bad_rows,
        _display(options, console) as show,
        _stop_on_interrupt() as stopped,
    ):
        for block in _from_row(_blocks(options), resumed):
            if encoder is None:
                encoder = Encoder.from_block(
                    block, options.scale, options.hashed, fill_missing=options.fill_missing
                )
            _learn(model, encoder, block, options, progress, bad_rows)
            if model.__sklearn_is_fitted__():
                metrics.write(_note(model, progress))
                if checkpoints is not None:
                    checkpoints.step(model, progress.n_rows, _extra(options, encoder, progress))
            show(progress, model, (progress.n_rows - resumed) / (time.perf_counter() - begin))
            if stopped():
                break
    if not progress.n_learned or encoder is None:
        raise SourceError(f"{options.source}: none of its {progress.n_rows:,} rows can be learned.")
    extra = _extra(options, encoder, progress)
    if checkpoints is not None:
        checkpoints.save(model, progress.n_rows, extra)
    if options.model is not None:
        persistence.write(options.model, model._to_bytes({"extra": extra}))
    if options.plot is not None:
        from kernelstream.cli.drawing import draw_run

        draw_run(progress, options.task, options.plot)
    _summary(options, model, progress, time.perf_counter() - begin, resumed)
    return progress, not stopped()


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks to stop between blocks, where nothing is half done; a second stops."""
    asked = []

    def ask(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(options: Options) -> tuple[Any, Any, Encoder | None, Progress]:
    """A new model, or what the last checkpoint holds."""
    make = lambda: ks.make(options.algorithm, TASKS[options.task], **options.params)  # noqa: E731
    if options.checkpoint is None:
        return None, make(), None, Progress()
    checkpoints = ks.Checkpointer(options.checkpoint, every_rows=options.checkpoint_rows, keep=2)
    model, position, extra = checkpoints.resume_with_extra(make)
    if not position:
        return checkpoints, model, None, Progress()
    begun = (extra or {}).get("run", "one of another program")
    if begun != _fingerprint(options):
        raise SourceError(
            f"{options.checkpoint} holds a checkpoint of another run ({begun}): give another "
            "--checkpoint folder, or delete this one."
        )
    encoder = Encoder.from_json(extra["encoder"])
    return checkpoints, model, encoder, Progress(**extra["progress"])


def _fingerprint(options: Options) -> dict[str, Any]:
    """What must be the same for a run to be resumed."""
    return {
        "source": options.source, "target": options.target, "task": options.task,
        "algorithm": options.algorithm, "block_rows": options.block_rows,
        "hashed": options.hashed, "scale": options.scale, "fill_missing": options.fill_missing,
        "params": {k: repr(v) for k, v in options.params.items()},
    }  # fmt: skip


def _extra(options: Options, encoder: Encoder, progress: Progress) -> dict[str, Any]:
    return {
        "run": _fingerprint(options), "task": options.task, "target": options.target,
        "encoder": encoder.to_json(), "progress": progress.__dict__,
    }  # fmt: skip


def _blocks(options: Options) -> Iterator[Block]:
    return open_source(
        options.source, options.target, options.block_rows, options.form, options.n_features
    )


def _from_row(blocks: Iterator[Block], first: int) -> Iterator[Block]:
    """The blocks from a row on; checkpoints stand between blocks."""
    n_rows = 0
    for block in blocks:
        if n_rows >= first:
            yield block
        n_rows += len(block.places)


def _learn(
    model: Any, encoder: Encoder, block: Block, options: Options, progress: Progress,
    bad_rows: _Lines,
) -> None:  # fmt: skip
    """Predict every row of a block, learn it, and count."""
    X, problems = encoder.encode(block)
    y = _targets(block, options, problems)
    good = block.without(problems)
    refused: list[ks.BadRow] = []
    model.on_bad_row = refused.append
    errors = np.zeros(0)
    if good.size:
        try:
            targets = None if y is None else y[good]
            result = ks.prequential(model, X[good], targets, declare_classes=False)
            errors = result.errors
            progress.events += [progress.n_rows + int(good[row]) for row in result.events]
        except ValueError:
            if not refused:
                raise
    model.on_bad_row = "skip"
    for bad in refused:
        problems[int(good[bad.row])] = bad.reason
    for i in sorted(problems):
        row = progress.n_rows + i + 1
        bad_rows.write({"rows": row, "place": block.places[i], "reason": problems[i]})
        if len(progress.bad) < _MOST_PLACES:
            progress.bad.append([block.places[i], problems[i]])
    progress.n_rows += len(block.places)
    progress.n_bad += len(problems)
    progress.n_learned += len(errors)
    progress.error += float(errors.sum())
    progress.recent = list(deque([*progress.recent, *errors.tolist()], maxlen=_RECENT))


def _targets(block: Block, options: Options, problems: dict[int, str]) -> np.ndarray | None:
    if options.task == "novelty":
        return None
    if block.target is None:
        raise SourceError("--target is missing: name the column to predict.")
    if options.task == "classify":
        for i, label in enumerate(block.target):
            if label is None or label == "":
                problems.setdefault(i, "it has no label")
        return np.array([_label(label) for label in block.target], dtype=object).astype(str)
    y = np.array([as_float(value) for value in block.target])
    for i in np.flatnonzero(~np.isfinite(y)).tolist():
        problems.setdefault(i, f"its target is {block.target[i]!r}, which is not a number")
    return y


def _label(label: Any) -> str:
    """A label as text, the same whatever the source: 3 and 3.0 are "3"."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def _note(model: Any, progress: Progress) -> dict[str, Any]:
    """One line of the record."""
    line = {
        "rows": progress.n_rows, "learned": progress.n_learned, "bad": progress.n_bad,
        "error": progress.mean_error, "recent_error": progress.recent_error,
        "step_size": model.step_size_, "n_support": model.n_support_,
    }  # fmt: skip
    progress.series.append([line[name] for name in SERIES])
    return line


@contextmanager
def _display(
    options: Options, console: Console
) -> Iterator[Callable[[Progress, Any, float], None]]:
    """A line that is kept current on a terminal, and silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda progress, model, rate: None
        return
    with console.status("reading") as status:

        def show(progress: Progress, model: Any, rate: float) -> None:
            text = f"{progress.n_rows:,} rows, {rate:,.0f} a second"
            if progress.n_learned:
                text += (
                    f"; {_word(options.task)} {_figure(options.task, progress.mean_error)}, of the "
                    f"last 1,000 {_figure(options.task, progress.recent_error)}; step size "
                    f"{model.step_size_:.3g}; {model.n_support_:,} support vectors"
                )
            if progress.n_bad:
                text += f"; {progress.n_bad:,} bad rows"
            status.update(text)

        yield show


def _word(task: str) -> str:
    return {"classify": "error", "regress": "mean squared error", "novelty": "alarms"}[task]


def _figure(task: str, value: float) -> str:
    return f"{value:.4g}" if task == "regress" else f"{value:.2%}"


def _summary(
    options: Options, model: Any, progress: Progress, seconds: float, resumed: int
) -> None:
    rate = (progress.n_rows - resumed) / max(seconds, 1e-9)
    lines = [
        f"{progress.n_rows:,} rows, {progress.n_learned:,} learned, {progress.n_bad:,} bad; "
        f"{seconds:.1f} s, {rate:,.0f} rows a second",
        f"{_word(options.task)}: {_figure(options.task, progress.mean_error)}, of the last 1,000 "
        f"{_figure(options.task, progress.recent_error)} (each row predicted, then learned)",
        f"step size {model.step_size_:.3g}, {model.n_support_:,} support vectors",
    ]
    if progress.events:
        rows = ", ".join(f"{row:,}" for row in progress.events[-10:])
        lines.append(f"changes of the stream: {len(progress.events):,}, the last at row {rows}")
    if hasattr(model, "classes_"):
        names = ", ".join(str(name) for name in model.classes_[:8])
        more = f", ... ({len(model.classes_)} in all)" if len(model.classes_) > 8 else ""
        lines.append(f"classes: {names}{more}")
    lines += [f"bad: {place}: {reason}" for place, reason in progress.bad]
    if progress.n_bad > len(progress.bad):
        lines.append(f"bad: ... and {progress.n_bad - len(progress.bad):,} more (see --bad-rows)")
    for name, path in (
        ("model", options.model), ("plot", options.plot), ("metrics", options.metrics),
        ("bad rows", options.bad_rows), ("checkpoints", options.checkpoint),
    ):  # fmt: skip
        if path is not None:
            lines.append(f"{name}: {path}")
    print("\n".join(lines))
