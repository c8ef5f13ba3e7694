"""A progress bar where there is a terminal to show it, and silence elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(total: int, label: str, shown: bool) -> Iterator[Callable[[int], None]]:
    """Return a function to be called with the number of rows done. It uses rich where installed."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda done: None
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield lambda done: print(f"\r{label} {done}/{total}", end="", file=sys.stderr)
        print(file=sys.stderr)
        return
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
