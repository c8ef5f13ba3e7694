"""What a run shows: a progress line on a terminal, and a summary at its end."""

import logging
from typing import Any

from rich.console import Console
from rich.markup import escape

from kernelstream.cli.baselines import Baselines
from kernelstream.cli.run_options import Options, Progress
from kernelstream.cli.run_pace import Pace

__all__ = ["Display", "print_summary"]


class Display(logging.Handler):
    """A progress line on a terminal, and nothing elsewhere.

    Messages about compiling appear in that line.
    """

    def __init__(self, options: Options, console: Console):
        super().__init__()
        self.options = options
        self.status = console.status("reading") if console.is_terminal else None
        self.logger = logging.getLogger("kernelstream.compile")

    def __enter__(self) -> "Display":
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
        """Show a message about compiling."""
        self.say(record.getMessage())

    def say(self, text: str) -> None:
        """Show a text as the progress line."""
        if self.status is not None:
            self.status.update(escape(text))

    def show(self, progress: Progress, model: Any, pace: Pace) -> None:
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
    """Return the state of a model, in words."""
    if hasattr(model, "weights_"):
        weights = sorted(model.weights_.items(), key=lambda pair: -pair[1])
        return "weights: " + ", ".join(f"{name} {weight:.2f}" for name, weight in weights)
    if hasattr(model, "step_size_"):
        return f"step size {model.step_size_:.3g}, {model.n_support_:,} support vectors"
    return f"threshold {model.offset_:.3g}"


def _comparison(options: Options, model: Any, progress: Progress) -> list[str]:
    """Return lines that compare the error with the baselines."""
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
    """Return which columns are dates or categories."""
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


def print_summary(
    options: Options, model: Any, encoder: Any, progress: Progress, pace: Pace
) -> None:
    """Print the summary of a run."""
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
