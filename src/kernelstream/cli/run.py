"""``kernelstream run``: learn a table as a stream, show the progress, resume after a stop."""

import json
import logging
import math
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from rich.console import Console
from rich.markup import escape

import kernelstream as ks
from kernelstream import persistence
from kernelstream.cli.baselines import Baselines
from kernelstream.cli.by_key import ByKey, separated
from kernelstream.cli.outputs import check_folder, check_outputs, replaced
from kernelstream.cli.widths import matched
from kernelstream.compiled import seconds_compiling
from kernelstream.estimators.labels import as_written
from kernelstream.estimators.many_classes import look_like_numbers
from kernelstream.stores import as_device
from kernelstream.tables import (
    Block,
    SourceError,
    TableEncoder,
    as_float,
    declared,
    open_source,
    shortened,
    sound_rows,
)

__all__ = ["SERIES", "TASKS", "Options", "run"]

TASKS = {"classify": "classifier", "regress": "regressor", "novelty": "novelty"}
_COMMITTEES = {
    "classify": ks.AutoClassifier, "regress": ks.AutoRegressor, "novelty": ks.AutoDetector,
}  # fmt: skip
SERIES = ("rows", "error", "recent_error", "step_size", "n_support")  # what the plot needs
_VERSION = 1  # of what a checkpoint holds beside the model
_RECENT = 1000
_MOST_LINES = 2000  # of the plot
_MOST_EVENTS = 100  # that are drawn
_MOST_PLACES = 20  # number of bad rows that the summary lists
_LONGEST_LABEL = 1000  # characters: in an array of labels each takes the memory of the longest
_FEW_ROWS = 30  # from which it cannot be told whether a target is a label
_SHARE_OF_NUMBERS = 0.9  # of rows with a number of their own: from then on it is none
_MOST_GRADES = 20  # distinct numbers with a fraction that may be labels
_SAMPLE_ROWS = 1000  # of a file, which declare what its columns hold


@dataclass
class Options:
    """The options of the command line."""

    source: str
    target: str | None
    task: str
    asks: bool = False  # whether nobody has said what the task is
    algorithm: str | None = None  # a preset; None or "auto": the committee
    params: dict[str, Any] = field(default_factory=dict)
    form: str | None = None
    n_features: int | None = None
    hashed: bool = False
    scale: bool = True
    missing: str | None = None  # "mean", "indicator" or "skip"; None: "mean"
    block_rows: int = 1000
    checkpoint: Path | None = None
    checkpoint_rows: int = 10_000
    model: Path | None = None
    plot: Path | None = None
    metrics: Path | None = None
    bad_rows: Path | None = None
    key: str | None = None


@dataclass
class Progress:
    """The state of a run so far: plain data, saved with every checkpoint."""

    n_rows: int = 0  # records of the source, bad ones included
    n_learned: int = 0
    n_bad: int = 0
    error: float = 0.0  # sum over the rows learned
    recent: list[float] = field(default_factory=list)
    bad: list[list[str]] = field(default_factory=list)  # place and reason of the first bad rows
    series: list[list[float | None]] = field(
        default_factory=list
    )  # for the plot: a line for every block, or for every second one, every fourth, ...
    series_step: int = 1  # blocks from one line to the next
    n_blocks: int = 0
    events: list[int] = field(default_factory=list)  # the last rows at which the stream changed
    n_events: int = 0
    baselines: dict[str, Any] = field(default_factory=dict)  # of `Baselines`
    columns: list[str] = field(default_factory=list)  # with that of the keys, if there is one

    @property
    def mean_error(self) -> float:
        """The mean error over all rows."""
        return self.error / self.n_learned if self.n_learned else float("nan")

    @property
    def recent_error(self) -> float:
        """The mean error over the last thousand rows."""
        return float(np.mean(self.recent)) if self.recent else float("nan")


class _Lines:
    """A file of JSON lines; a resumed run rewrites those from after the checkpoint."""

    def __init__(self, path: Path | None, resumed: int):
        self.path, self.resumed = path, resumed
        self.file: TextIO | None = None

    def __enter__(self) -> "_Lines":
        if self.path is not None:
            kept = []
            if self.resumed and self.path.exists():
                lines = self.path.read_text(encoding="utf-8").splitlines()
                kept = [line for line in lines if _rows_of(line) <= self.resumed]
            with replaced(self.path) as new, new.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in kept)
            self.file = self.path.open("a", encoding="utf-8")
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
    """Learn the source. Returns the progress, and whether the run is complete.

    Ctrl-C ends a run after the current block, and the output files are written. They are also
    written if the source turns out to be damaged; the error is raised afterwards.
    """
    _check_outputs(options)
    checkpoints, model, encoder, progress = _begin(options)
    with checkpoints or nullcontext():
        return _run(options, console, checkpoints, model, encoder, progress)


def _run(
    options: Options, console: Console, checkpoints: ks.Checkpointer | None, model: Any,
    encoder: Any, progress: Progress,
) -> tuple[Progress, bool]:  # fmt: skip
    """Go on with a run."""
    kinds: dict[str, Any] | None = None
    resumed = progress.n_rows
    if resumed:
        console.print(f"resuming at row {resumed:,}", highlight=False)
    pace = _Pace(resumed)
    blocks = _from_row(_blocks(options), resumed, options.source)
    with (
        _Lines(options.metrics, resumed) as metrics,
        _Lines(options.bad_rows, resumed) as bad_rows,
        _Display(options, console) as display,
        _Interrupts() as interrupts,
    ):
        for block in interrupts.until_asked(blocks):
            pace.begin()
            if options.key is not None:
                progress.columns = block.columns
            keys, block = separated(block, options.key)
            if kinds is None and not model.__sklearn_is_fitted__():
                sample = _sample(options, block)
                _ask_for_task(sample, options)
                kinds = declared(sample, options.hashed)
                if options.key is not None:
                    encoder = TableEncoder.from_block(
                        sample, options.hashed, options.missing == "skip"
                    )
                display.say("learning the first block; compiling, if this combination is new")
            rows = _Rows(block, keys, encoder, kinds)
            _learn(model, rows, options, progress, bad_rows)
            if model.__sklearn_is_fitted__():
                metrics.write(_note(model, progress))
                if checkpoints is not None:
                    checkpoints.step(model, progress.n_rows, _extra(options, encoder, progress))
            display.show(progress, model, pace)
    if interrupts.trouble is not None and progress.n_rows == resumed:
        raise interrupts.trouble
    if not progress.n_learned:
        if interrupts.asked:
            return progress, False
        raise interrupts.trouble or _nothing_learned(options.source, progress)
    extra = _extra(options, encoder, progress)
    if checkpoints is not None:
        checkpoints.save(model, progress.n_rows, extra)
    if options.model is not None:
        model.write_to(options.model, {"extra": extra})
    if options.plot is not None:
        from kernelstream.cli.drawing import draw_run

        with replaced(options.plot) as picture:
            draw_run(progress, options.task, picture, options.plot.suffix[1:])
    _summary(options, model, encoder, progress, pace)
    if interrupts.trouble is not None:
        raise SourceError(f"{interrupts.trouble} Learning stopped at row {progress.n_rows:,}.")
    return progress, not interrupts.asked


def _check_outputs(options: Options) -> None:
    """Check, before any work, that all output files can be written."""
    outputs = {
        "--model": options.model, "--metrics": options.metrics, "--bad-rows": options.bad_rows,
        "--plot": options.plot,
    }  # fmt: skip
    check_outputs(outputs, {"the table": options.source})
    if options.model is not None and options.model.exists() and not options.model.is_file():
        raise ValueError(f"--model {options.model} is not an ordinary file: give another name.")
    check_folder("--checkpoint", options.checkpoint)
    if options.plot is not None:
        from kernelstream.cli.drawing import check_picture

        check_picture("--plot", options.plot)


def _nothing_learned(source: str, progress: Progress) -> SourceError:
    if not progress.n_rows:
        return SourceError(
            f"{source} has a header, at most, and no rows: there is nothing to learn."
        )
    place, reason = progress.bad[0]
    return SourceError(
        f"{source}: none of its {progress.n_rows:,} rows can be learned; {place}: {reason}."
    )


class _Pace:
    """Measures how fast rows are learned, without the time to compile."""

    def __init__(self, resumed: int):
        self.resumed = resumed
        self.begun = False
        self._start()

    def _start(self) -> None:
        self._at, self._compiling = time.perf_counter(), seconds_compiling()

    def begin(self) -> None:
        """Note that the first row to learn has been read; the time before it does not count."""
        if self.resumed and not self.begun:
            self._start()
        self.begun = True

    @property
    def seconds(self) -> float:
        """The whole time."""
        return time.perf_counter() - self._at

    @property
    def compiling(self) -> float:
        """The part of that time that was spent compiling."""
        return seconds_compiling() - self._compiling

    def rate(self, n_rows: int) -> float:
        """Rows per second."""
        return (n_rows - self.resumed) / max(self.seconds - self.compiling, 1e-9)


class _Interrupts:
    """The first Ctrl-C stops the run after the current block; a second one stops it at once.

    While the run waits for the next block, the first Ctrl-C stops it at once too. A source that
    cannot be read further also ends the run; its error is `trouble`.
    """

    def __init__(self) -> None:
        self.asked = False
        self.trouble: SourceError | None = None
        self._waits = False
        self._before: Any = None

    def __enter__(self) -> "_Interrupts":
        self._before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread
            self._before = None
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
        if self._waits:
            raise KeyboardInterrupt

    def until_asked(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """The blocks, until there are no more or the user asks to stop."""
        while not self.asked:
            try:
                self._waits = True
                block = next(blocks, None)
            except KeyboardInterrupt:
                return
            except SourceError as trouble:
                self.trouble = trouble
                return
            finally:
                self._waits = False
            if block is None:
                return
            yield block


def _new_model(options: Options) -> Any:
    """The model that a new run learns: the committee, or a preset that scales rows as it goes."""
    if "prompt_targets" in options.params and (
        options.key is not None
        or options.algorithm not in (None, "auto")
        or options.task == "novelty"
    ):
        raise ValueError(
            "--prompt-targets adds a member to the committee, to classify or to regress: leave it "
            "out, or leave --key and --algorithm out."
        )
    missing = {"skip": "error", None: "mean"}.get(options.missing, options.missing)
    if options.key is not None:
        chosen = {"scaling": "running" if options.scale else None, "missing": missing}
        algorithm = options.algorithm or "svmd"
        if options.algorithm is None and options.task == "classify":
            chosen["loss"] = "log_loss"  # as accurate as the hinge here, and it knows probabilities
        return ByKey.make(algorithm, TASKS[options.task], **{**chosen, **options.params})
    if options.algorithm in (None, "auto"):
        own = ["nu"] if options.task == "novelty" else ["device", "prompt_targets"]
        unknown = [name for name in options.params if name not in ["budget", *own]]
        if unknown:
            raise ValueError(
                f"--{unknown[0]} is for a single algorithm: add --algorithm svmd, say, or leave it "
                "out."
            )
        return _COMMITTEES[options.task](missing=missing, **options.params)
    model = ks.make(options.algorithm, TASKS[options.task], missing=missing, **options.params)
    if options.scale and model.scaling is None:
        model.set_params(scaling="running")
    return model


def _begin(options: Options) -> tuple[Any, Any, Any, Progress]:
    """Make a new model, or load the last checkpoint."""
    face: Any = (lambda model: model) if options.key is None else ByKey
    device = as_device(options.params.get("device"))
    if device is not None:
        device.open()  # which says what is missing before any row is read
    if options.checkpoint is None:
        return None, face(_new_model(options)), None, Progress()
    checkpoints = ks.Checkpointer(options.checkpoint, every_rows=options.checkpoint_rows, keep=2)
    model, position, extra = checkpoints.resume_with_extra(
        lambda: _new_model(options), device=device
    )
    if not position:
        return checkpoints, face(model), None, Progress()
    if extra is not None and "run" in extra:
        persistence.check_version("the progress of the run", extra.get("version"), _VERSION)
    begun = (extra or {}).get("run", "one of another program")
    if begun != _fingerprint(options):
        raise SourceError(
            f"{options.checkpoint} holds a checkpoint of another run ({begun}): give another "
            "--checkpoint folder, or delete this one."
        )
    encoder = None if options.key is None else TableEncoder.from_json(extra["encoder"])
    return checkpoints, face(model), encoder, Progress(**extra["progress"])


def _fingerprint(options: Options) -> dict[str, Any]:
    """Return the options that must be the same to resume a run."""
    given = {k: repr(v) for k, v in options.params.items() if k != "device"}  # any may go on
    return {
        "algorithm": options.algorithm or "auto", "params": given,
        "missing": options.missing or "mean",
        **({} if options.key is None else {"key": options.key}),
        "source": options.source, "target": options.target, "task": options.task,
        "block_rows": options.block_rows, "hashed": options.hashed, "scale": options.scale,
    }  # fmt: skip


def _extra(options: Options, encoder: Any, progress: Progress) -> dict[str, Any]:
    return {
        "version": _VERSION, "run": _fingerprint(options), "task": options.task,
        "target": options.target,
        **({} if encoder is None else {"encoder": encoder.to_json()}),
        "progress": progress.__dict__,
    }  # fmt: skip


def _blocks(options: Options) -> Iterator[Block]:
    return open_source(
        options.source, options.target, options.block_rows, options.form, options.n_features
    )


def _sample(options: Options, block: Block) -> Block:
    """Return the rows that declare what columns hold: the first 1,000 of a file.

    So what a column becomes does not depend on --block. Of a pipe it is the first block, for which
    nobody has to wait.
    """
    if options.source == "-":
        return block
    rows = next(open_source(options.source, options.target, _SAMPLE_ROWS, options.form,
                            options.n_features))  # fmt: skip
    return separated(rows, options.key)[1]


def _from_row(blocks: Iterator[Block], first: int, source: str) -> Iterator[Block]:
    """The blocks from a row on. A complete run may have ended within a block."""
    n_rows = 0
    for block in blocks:
        begin, n_rows = n_rows, n_rows + len(block.places)
        if n_rows > first:
            yield block if begin >= first else block.since(first - begin)
    if n_rows < first:
        raise SourceError(
            f"{source} has {n_rows:,} rows, and the checkpoint stands at row {first:,}: it is of "
            "another table. Give another --checkpoint folder, or delete this one."
        )


class _Rows(NamedTuple):
    """A block as a model takes it."""

    block: Block
    keys: list[Any] | None
    encoder: TableEncoder | None  # of a fleet, whose models take nothing but numbers
    kinds: dict[str, Any] | None  # what the columns of the first rows hold

    def learn(self, model: Any, good: np.ndarray, X: Any, y: np.ndarray | None) -> Any:
        """Predict and learn the rows `good`; X has all rows as numbers, for a fleet."""
        if self.keys is not None:
            return model.learn([self.keys[i] for i in good], X[good], y)
        kinds = None if model.__sklearn_is_fitted__() else self.kinds
        rows = matched(model, sound_rows(self.block, good, kinds))
        return ks.prequential(model, rows, y, declare_classes=False)


def _learn(model: Any, rows: _Rows, options: Options, progress: Progress, bad_rows: _Lines) -> None:
    """Predict every row of a block, learn it, and update the counts."""
    block, X, problems = rows.block, None, dict(rows.block.broken)
    if rows.encoder is not None:
        X, problems = rows.encoder.encode(block)
    y = _targets(block, options, problems)
    good = block.without(problems)
    refused: list[ks.BadRow] = []
    model.on_bad_row = refused.append
    errors = np.zeros(0)
    if good.size:
        try:
            targets = None if y is None else y[good]
            result = rows.learn(model, good, X, targets)
            errors = result.errors
            if targets is not None:
                baselines = Baselines(**progress.baselines)
                baselines.look(targets[result.rows], options.task == "classify")
                progress.baselines = baselines.__dict__
            progress.n_events += len(result.events)
            events = [progress.n_rows + int(good[row]) for row in result.events]
            progress.events = [*progress.events, *events][-_MOST_EVENTS:]
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
        columns = f" (of {', '.join(block.columns[:20])})" if block.columns else ""
        raise SourceError(
            f"--target is missing: name the column to predict{columns}, or give its position."
        )
    if options.task == "classify":
        labels = [_label(label) for label in block.target]
        for i, label in enumerate(labels):
            if not label:
                problems.setdefault(i, "it has no label")
            elif len(label) > _LONGEST_LABEL:
                problems.setdefault(
                    i, f"its label has {len(label):,} characters, of {_LONGEST_LABEL:,} at most"
                )
        _refuse_numbers(labels, options)
        return np.asarray(as_written([label[:_LONGEST_LABEL] for label in labels]))
    y = np.array([as_float(value) for value in block.target])
    for i in np.flatnonzero(~np.isfinite(y)).tolist():
        target = shortened(block.target[i])
        problems.setdefault(i, f"its target is {target}, which is not a number")
    return y


def _ask_for_task(sample: Block, options: Options) -> None:
    """Stop before a number is learned as labels, if nobody has said that these are labels."""
    if not options.asks or sample.target is None:
        return
    found = [label for label in map(_label, sample.target) if label]
    distinct = {label: as_float(label) for label in found}
    if len(found) < _FEW_ROWS or not all(map(math.isfinite, distinct.values())):
        return
    has_fractions = not all(number.is_integer() for number in distinct.values())
    if look_like_numbers(len(distinct), len(found)) or (
        has_fractions and len(distinct) > _MOST_GRADES
    ):
        raise SourceError(
            f"target {options.target!r} has {len(distinct):,} distinct numbers in {len(found):,} "
            "rows; pass --task regress to predict a number, or --task classify if they are labels."
        )


def _refuse_numbers(labels: list[str], options: Options) -> None:
    """Refuse labels that are measured numbers, nearly a different one in every row."""
    values = set(labels)
    if len(labels) < _FEW_ROWS or len(values) < _SHARE_OF_NUMBERS * len(labels):
        return
    numbers = [as_float(value) for value in values if value]
    if all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers):
        raise SourceError(
            f"--target {options.target}: {labels[0]} and the like are numbers rather than labels, "
            "nearly a different one in every row: give --task regress."
        )


def _label(label: Any) -> str:
    """A label as text, the same for all sources: 3 and 3.0 are "3". Empty without a label."""
    if label is None or label != label:  # NaN
        return ""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def _note(model: Any, progress: Progress) -> dict[str, Any]:
    """Record the state after a block; returns a line of the metrics."""
    line = {
        "rows": progress.n_rows, "learned": progress.n_learned, "bad": progress.n_bad,
        "error": progress.mean_error, "recent_error": progress.recent_error,
        "step_size": getattr(model, "step_size_", None),
        "n_support": getattr(model, "n_support_", None),
    }  # fmt: skip
    if progress.series and (progress.n_blocks - 1) % progress.series_step:  # the last is between
        progress.series.pop()
    progress.series.append([line[name] for name in SERIES])
    progress.n_blocks += 1
    if len(progress.series) > _MOST_LINES:
        progress.series = progress.series[::2]
        progress.series_step *= 2
    return line


class _Display(logging.Handler):
    """Shows a progress line on a terminal, and nothing elsewhere.

    Messages that the package logs while it compiles are shown in that line.
    """

    def __init__(self, options: Options, console: Console):
        super().__init__()
        self.options = options
        self.status = console.status("reading") if console.is_terminal else None
        self.logger = logging.getLogger("kernelstream")

    def __enter__(self) -> "_Display":
        self.logger.addHandler(self)
        self._propagated, self.logger.propagate = self.logger.propagate, False
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.logger.removeHandler(self)
        self.logger.propagate = self._propagated
        if self.status is not None:
            self.status.stop()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a log message of the package."""
        self.say(record.getMessage())

    def say(self, text: str) -> None:
        """Show a text as the progress line."""
        if self.status is not None:
            self.status.update(escape(text))

    def show(self, progress: Progress, model: Any, pace: _Pace) -> None:
        """Show the progress."""
        task = self.options.task
        text = f"{progress.n_rows:,} rows, {pace.rate(progress.n_rows):,.0f} per second"
        if progress.n_learned:
            text += (
                f"; {_word(task)} {_figure(task, progress.mean_error)}, of the last 1,000 "
                f"{_figure(task, progress.recent_error)}; {_state(model)}"
            )
        if progress.n_bad:
            text += f"; {progress.n_bad:,} bad rows"
        self.say(text)


def _state(model: Any) -> str:
    """How a model stands, in words."""
    if hasattr(model, "weights_"):
        weights = sorted(model.weights_.items(), key=lambda pair: -pair[1])
        return "weights: " + ", ".join(f"{name} {weight:.2f}" for name, weight in weights)
    if hasattr(model, "step_size_"):
        return f"step size {model.step_size_:.3g}, {model.n_support_:,} support vectors"
    return f"threshold {model.offset_:.3g}"


def _comparison(options: Options, model: Any, progress: Progress) -> list[str]:
    task, baselines = options.task, Baselines(**progress.baselines)
    if not baselines.n_rows:
        return []
    constant, last = (_figure(task, error) for error in baselines.means())
    name = "the most frequent label so far" if task == "classify" else "the mean so far"
    lines = [f"to compare: {name} {constant}, the last one {last}"]
    is_prompt = getattr(model, "prompt_targets", None)  # None: it is no committee
    if is_prompt is False and baselines.means()[1] < progress.mean_error:
        lines.append(
            "the last one is better: if targets are always known before the next row is predicted, "
            "add --prompt-targets."
        )
    return lines


def _kinds_of_columns(model: Any) -> list[str]:
    """Return what was decided of columns that are no numbers."""
    columns = model.columns_ if hasattr(model, "columns_") else {}
    found = {
        kind: [name for name, of in columns.items() if of == kind] for kind in ("date", "category")
    }
    listed = [f"{kind}: {', '.join(names)}" for kind, names in found.items() if names]
    return [f"columns by kind; {'; '.join(listed)}; all others are numbers"] if listed else []


def _word(task: str) -> str:
    return {"classify": "error", "regress": "mean squared error", "novelty": "alarms"}[task]


def _figure(task: str, value: float) -> str:
    return f"{value:.4g}" if task == "regress" else f"{value:.2%}"


def _summary(options: Options, model: Any, encoder: Any, progress: Progress, pace: _Pace) -> None:
    compiling = f" ({pace.compiling:.1f} s to compile)" if pace.compiling >= 0.1 else ""
    lines = [
        f"{progress.n_rows:,} rows, {progress.n_learned:,} learned, {progress.n_bad:,} bad; "
        f"{pace.seconds:.1f} s{compiling}, {pace.rate(progress.n_rows):,.0f} rows per second",
        f"{_word(options.task)}: {_figure(options.task, progress.mean_error)}, of the last 1,000 "
        f"{_figure(options.task, progress.recent_error)} (each row predicted, then learned)",
        *_comparison(options, model, progress),
        _state(model),
    ]
    lines += _kinds_of_columns(model)
    unlisted = getattr(model if encoder is None else encoder, "unlisted_", {})
    unlisted = {name: count for name, count in unlisted.items() if count}
    if unlisted:
        counts = ", ".join(f"{name} {count:,}" for name, count in unlisted.items())
        lines.append(f"rows with a category that has no feature of its own: {counts}")
    if options.key is not None:
        lines.append(f"models: {model.n_models:,}, one for every {options.key}")
    if progress.events:
        rows = ", ".join(f"{row:,}" for row in progress.events[-10:])
        lines.append(f"changes of the stream: {progress.n_events:,}, the last at row {rows}")
    if hasattr(model, "classes_"):
        names = ", ".join(str(name) for name in sorted(model.classes_)[:8])
        more = f", ... ({len(model.classes_)} in all)" if len(model.classes_) > 8 else ""
        lines.append(f"classes: {names}{more}")
        if len(model.classes_) == 1:
            lines.append("all labels are the same: there was nothing to tell apart.")
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
