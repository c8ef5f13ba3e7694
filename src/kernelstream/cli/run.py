"""``kernelstream run``: learn a table as a stream, show the progress, resume after a stop."""

from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import kernelstream as ks
from kernelstream.cli.baselines import Baselines
from kernelstream.cli.by_key import separated
from kernelstream.cli.json_lines import JsonLines
from kernelstream.cli.outputs import check_folder, check_outputs, replaced
from kernelstream.cli.run_model import begin, extra
from kernelstream.cli.run_options import Options, Progress
from kernelstream.cli.run_pace import Interrupts, Pace
from kernelstream.cli.run_report import Display, print_summary
from kernelstream.cli.sparse_width import matched
from kernelstream.cli.targets import ask_for_task, targets_of
from kernelstream.tables import (
    Block,
    SourceError,
    TableEncoder,
    declared,
    open_source,
    sound_rows,
)

__all__ = ["run"]

_RECENT = 1000
_MOST_LISTED = 20  # bad rows in the summary
_MOST_EVENTS = 100  # that are drawn
_SAMPLE_ROWS = 1000  # of a file, which decide the kinds of its columns


def run(options: Options, console: Console) -> tuple[Progress, bool]:
    """Learn the source; return the progress and whether the run is complete.

    Ctrl-C ends a run after the current block, and the output files are written. They are also
    written if the source turns out to be damaged; the error is raised afterwards.
    """
    _check_outputs(options)
    checkpoints, model, encoder, progress = begin(options)
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
    pace = Pace(resumed)
    blocks = _from_row(_blocks(options), resumed, options.source)
    with (
        JsonLines(options.metrics, resumed) as metrics,
        JsonLines(options.bad_rows, resumed) as bad_rows,
        Display(options, console) as display,
        Interrupts() as interrupts,
    ):
        for block in interrupts.until_asked(blocks):
            pace.begin()
            if options.key is not None:
                progress.columns = block.columns
            keys, block = separated(block, options.key)
            if kinds is None and not model.__sklearn_is_fitted__():
                sample = _sample(options, block)
                ask_for_task(sample, options)
                kinds = declared(sample, options.hashed)
                if options.key is not None:
                    encoder = TableEncoder.from_block(
                        sample, options.hashed, options.missing == "skip"
                    )
                display.say("learning the first block; compiling, if this combination is new")
            rows = _Rows(block, keys, encoder, kinds)
            _learn(model, rows, options, progress, bad_rows)
            if model.__sklearn_is_fitted__():
                metrics.write(progress.note(model))
                if checkpoints is not None:
                    checkpoints.step(model, progress.n_rows, extra(options, encoder, progress))
            display.show(progress, model, pace)
    if interrupts.trouble is not None and progress.n_rows == resumed:
        raise interrupts.trouble
    if not progress.n_learned:
        if interrupts.asked:
            return progress, False
        raise interrupts.trouble or _nothing_learned(options.source, progress)
    saved = extra(options, encoder, progress)
    if checkpoints is not None:
        checkpoints.save(model, progress.n_rows, saved)
    if options.model is not None:
        model.write_to(options.model, {"extra": saved})
    if options.plot is not None:
        from kernelstream.cli.drawing import draw_run

        with replaced(options.plot) as picture:
            draw_run(progress, options.task, picture, options.plot.suffix[1:])
    print_summary(options, model, encoder, progress, pace)
    if interrupts.trouble is not None:
        raise SourceError(f"{interrupts.trouble} Learning stopped at row {progress.n_rows:,}.")
    return progress, not interrupts.asked


def _check_outputs(options: Options) -> None:
    """Check before any work that all output files can be written."""
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


def _blocks(options: Options) -> Iterator[Block]:
    return open_source(
        options.source, options.target, options.block_rows, options.form, options.n_features
    )


def _sample(options: Options, block: Block) -> Block:
    """Return the rows that decide the kinds of columns: the first 1,000 of a file.

    So the kind of a column does not depend on --block. For a pipe it is the first block, since
    more rows may not come soon.
    """
    if options.source == "-":
        return block
    rows = next(open_source(options.source, options.target, _SAMPLE_ROWS, options.form,
                            options.n_features))  # fmt: skip
    return separated(rows, options.key)[1]


def _from_row(blocks: Iterator[Block], first: int, source: str) -> Iterator[Block]:
    """Yield the blocks from a row on. A complete run may have ended within a block."""
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
    """A block as a model learns it."""

    block: Block
    keys: list[Any] | None
    encoder: TableEncoder | None  # of a fleet, whose models learn numbers only
    kinds: dict[str, Any] | None  # the kinds of the columns, by the first rows

    def learn(self, model: Any, good: np.ndarray, X: Any, y: np.ndarray | None) -> Any:
        """Predict and learn the rows `good`. For a fleet, X has all rows as numbers."""
        if self.keys is not None:
            return model.learn([self.keys[i] for i in good], X[good], y)
        kinds = None if model.__sklearn_is_fitted__() else self.kinds
        rows = matched(model, sound_rows(self.block, good, kinds))
        return ks.prequential(model, rows, y, declare_classes=False)


def _learn(
    model: Any, rows: _Rows, options: Options, progress: Progress, bad_rows: JsonLines
) -> None:
    """Predict every row of a block, learn it, and update the counts."""
    block, X, problems = rows.block, None, dict(rows.block.broken)
    if rows.encoder is not None:
        X, problems = rows.encoder.encode(block)
    y = targets_of(block, options, problems)
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
        if len(progress.bad) < _MOST_LISTED:
            progress.bad.append([block.places[i], problems[i]])
    progress.n_rows += len(block.places)
    progress.n_bad += len(problems)
    progress.n_learned += len(errors)
    progress.error += float(errors.sum())
    progress.recent = list(deque([*progress.recent, *errors.tolist()], maxlen=_RECENT))
