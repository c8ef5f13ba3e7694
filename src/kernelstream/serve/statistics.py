"""Statistics of a stream: errors, baselines, events, bad rows and a history to draw."""

import re
import time
from collections import Counter, deque
from typing import Any

from kernelstream.files.bytes import check_version
from kernelstream.serve.estimator import Outcome

__all__ = ["BASELINES", "History", "Statistics", "kind_of"]

_VERSION = 1  # of what a checkpoint keeps of them
_RECENT = 1000  # rows of the recent error
_POINTS = 240  # most points of the history
_FIRST_CHUNK = 16  # rows of a point, at the beginning
_EVENTS, _BAD_ROWS, _REASONS = 50, 20, 50
_SECONDS = 10.0  # over which rows per second are taken
_LONGEST_REASON = 300  # characters
# what is particular to one row in a reason: a quoted text, and a number
_PARTICULAR = re.compile(r"""'[^']*'|"[^"]*"|[-+]?\b\d[\d.,]*(?:e[-+]?\d+)?\b""")


def kind_of(reason: str) -> str:
    """Return a reason without texts and numbers of its row, so that there are few reasons.

    Examples
    --------
    >>> from kernelstream.serve.statistics import kind_of
    >>> kind_of("it contains 'twelve', which is not a number")
    'it contains …, which is not a number'
    >>> kind_of("it has 2 features, and this model learns from 1,000")
    'it has … features, and this model learns from …'
    """
    return _PARTICULAR.sub("…", reason[:_LONGEST_REASON])


class MostFrequent:
    """A baseline that predicts the most frequent label so far."""

    def __init__(self, counts: Any = ()):
        self.counts = Counter(dict(counts))
        self.best = self.counts.most_common(1)[0][0] if self.counts else None

    def errors(self, targets: list[Any]) -> list[float]:
        """Return the error at each target, before the target counts."""
        found = []
        for label in targets:
            found.append(float(label != self.best))
            self.counts[label] += 1
            if self.counts[label] > self.counts[self.best]:
                self.best = label
        return found

    def to_json(self) -> Any:
        """Return the state as plain data."""
        return list(self.counts.items())


class RowBefore:
    """A baseline that predicts the label of the row before."""

    def __init__(self, last: Any = None):
        self.last = last

    def errors(self, targets: list[Any]) -> list[float]:
        """Return the error at each target."""
        before = [self.last, *targets[:-1]]
        self.last = targets[-1]
        return [float(a != b) for a, b in zip(before, targets, strict=True)]

    def to_json(self) -> Any:
        """Return the state as plain data."""
        return self.last


class Mean:
    """A baseline that predicts the mean of the targets so far."""

    def __init__(self, state: Any = (0, 0.0)):
        self.n, self.mean = state

    def errors(self, targets: list[Any]) -> list[float]:
        """Return the squared error at each target, before the target counts."""
        found = []
        for target in targets:
            found.append((target - self.mean) ** 2)
            self.n += 1
            self.mean += (target - self.mean) / self.n
        return found

    def to_json(self) -> Any:
        """Return the state as plain data."""
        return [self.n, self.mean]


class NumberBefore(RowBefore):
    """A baseline that predicts the target of the row before."""

    def errors(self, targets: list[Any]) -> list[float]:
        """Return the squared error at each target."""
        before = [0.0 if self.last is None else self.last, *targets[:-1]]
        self.last = targets[-1]
        return [(a - b) ** 2 for a, b in zip(before, targets, strict=True)]


# What a model must be better than, by task. No baseline looks at the row.
BASELINES: dict[str, dict[str, Any]] = {
    "classification": {"most frequent label": MostFrequent, "label of the row before": RowBefore},
    "regression": {"mean so far": Mean, "target of the row before": NumberBefore},
    "novelty": {},
}


class History:
    """Numbers along a stream, in at most 240 points: beyond that, neighbours are averaged.

    Examples
    --------
    >>> from kernelstream.serve.statistics import History
    >>> history = History()
    >>> history.add({"error": [0.0, 1.0] * 5000}, {"step_size": 0.1})
    >>> points = history.points
    >>> len(points) <= 240, points[-1]["row"], points[0]["error"]
    (True, 10000, 0.5)
    """

    def __init__(self, points: Any = (), chunk: int = _FIRST_CHUNK):
        self.points: list[dict[str, Any]] = list(points)
        self.chunk = chunk

    def add(self, means: dict[str, list[float]], last: dict[str, Any]) -> None:
        """Add rows.

        Parameters
        ----------
        means : dict of lists
            Numbers of each row, of which the history keeps means.
        last : dict
            Numbers after these rows, of which it keeps the last.
        """
        n_rows, step = max(map(len, means.values())), self.chunk
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            row = (self.points[-1]["row"] if self.points else 0) + stop - start
            found = {
                name: sum(values[start:stop]) / (stop - start) for name, values in means.items()
            }
            self._put({"row": row, "n": stop - start, **found, **last}, set(means))

    def _put(self, point: dict[str, Any], means: set[str]) -> None:
        points = self.points
        if points and points[-1]["n"] + point["n"] <= self.chunk:
            points[-1] = _joined(points[-1], point, means)
            return
        points.append(point)
        if len(points) > _POINTS:
            self.chunk *= 2
            self.points = []
            for each in points:
                self._put(each, means)


def _joined(a: dict[str, Any], b: dict[str, Any], means: set[str]) -> dict[str, Any]:
    n = a["n"] + b["n"]
    both = [name for name in means if name in a and name in b]
    mean = {name: (a[name] * a["n"] + b[name] * b["n"]) / n for name in both}
    return {**b, "n": n, **mean}


class Statistics:
    """The counts of one model. Only its writer changes them.

    Parameters
    ----------
    task : {"classification", "regression", "novelty"}
    saved : dict, default=None
        What `to_json` gave.
    """

    def __init__(self, task: str, saved: dict[str, Any] | None = None):
        if saved:
            check_version("the statistics of the service", saved.get("version"), _VERSION)
        saved = saved or {}
        self.n_learned: int = saved.get("n_learned", 0)
        self.n_repeated: int = saved.get("n_repeated", 0)
        self.skipped = Counter(saved.get("skipped", {}))
        self.error_sum: float = saved.get("error_sum", 0.0)
        self.recent = deque(saved.get("recent", []), maxlen=_RECENT)
        self.events = deque(saved.get("events", []), maxlen=_EVENTS)
        self.n_events: int = saved.get("n_events", 0)
        self.bad_rows = deque(saved.get("bad_rows", []), maxlen=_BAD_ROWS)
        self.history = History(*saved.get("history", ()))
        of_baselines = saved.get("baselines", {})
        self.baselines = {
            name: made(*of_baselines[name][:1]) if name in of_baselines else made()
            for name, made in BASELINES[task].items()
        }
        self.baseline_sums = {
            name: of_baselines[name][1] if name in of_baselines else 0.0 for name in self.baselines
        }
        self._pace: deque[tuple[float, int]] = deque([(time.monotonic(), self.n_learned)])

    def to_json(self) -> dict[str, Any]:
        """Return all counts as plain data."""
        return {
            "version": _VERSION, "n_learned": self.n_learned, "n_repeated": self.n_repeated,
            "skipped": dict(self.skipped), "error_sum": self.error_sum,
            "recent": list(self.recent), "events": list(self.events), "n_events": self.n_events,
            "bad_rows": list(self.bad_rows), "history": [self.history.points, self.history.chunk],
            "baselines": {
                name: [baseline.to_json(), self.baseline_sums[name]]
                for name, baseline in self.baselines.items()
            },
        }  # fmt: skip

    def note(
        self, outcome: Outcome, targets: list[Any] | None, position: int, numbers: dict[str, Any]
    ) -> None:
        """Count a block that was learned.

        Parameters
        ----------
        outcome : Outcome
        targets : list or None
            Of all rows of the block.
        position : int
            How many rows came before the block.
        numbers : dict
            What the model shows of itself after the block.
        """
        for bad in outcome.skipped:
            self.note_refused(bad.reason, position + bad.row)
        if not len(outcome.rows):
            return
        errors = outcome.errors.tolist()
        self.n_learned += len(errors)
        self.error_sum += sum(errors)
        self.recent.extend(errors)
        self.n_events += len(outcome.events)
        self.events.extend(position + int(row) + 1 for row in outcome.events)
        means = {"error": errors, **{k: v.tolist() for k, v in outcome.series.items()}}
        if targets is not None and self.baselines:
            known = [targets[row] for row in outcome.rows.tolist()]
            for name, baseline in self.baselines.items():
                means[name] = baseline.errors(known)
                self.baseline_sums[name] += sum(means[name])
        shown = ("weights", "n_keys", "step_size", "drift_score", "n_support")
        last: dict[str, Any] = {
            name: numbers[name] for name in shown if name in numbers and name not in means
        }
        self.history.add(means, last)
        self._keep_pace(time.monotonic())

    def _keep_pace(self, now: float) -> None:
        """Record how many rows were learned, twice a second for the last ten seconds."""
        pace = self._pace
        if len(pace) > 1 and now - pace[-2][0] < 0.5:
            pace.pop()
        pace.append((now, self.n_learned))
        while pace[1][0] < now - _SECONDS:
            pace.popleft()

    def note_refused(self, reason: str, row: int | None) -> None:
        """Count a bad row; `row` is its number in the stream, if it has one."""
        kind, reason = kind_of(reason), reason[:_LONGEST_REASON]
        if kind in self.skipped or len(self.skipped) < _REASONS:
            self.skipped[kind] += 1
        else:
            self.skipped["other reasons"] += 1
        at = None if row is None else row + 1
        self.bad_rows.append({"row": at, "reason": reason, "time": time.time()})

    @property
    def rows_per_second(self) -> float:
        """Return the rows learned per second, over the last ten seconds."""
        now, pace = time.monotonic(), list(self._pace)
        # the last moment before the ten seconds, since which all rows came within them
        begin, before = next(
            (moment for moment in reversed(pace) if moment[0] < now - _SECONDS), pace[0]
        )
        return (self.n_learned - before) / min(max(now - begin, 0.1), _SECONDS)

    def summary(self) -> dict[str, Any]:
        """Return what the page shows, without the history."""
        n = self.n_learned
        return {
            "n_learned": n, "n_repeated": self.n_repeated, "n_skipped": self.skipped.total(),
            "skipped": dict(self.skipped),
            "error": self.error_sum / n if n else None, "error_sum": self.error_sum,
            "recent_error": sum(self.recent) / len(self.recent) if self.recent else None,
            "baselines": {k: s / n for k, s in self.baseline_sums.items()} if n else {},
            "n_events": self.n_events, "events": list(self.events),
            "bad_rows": list(self.bad_rows), "rows_per_second": self.rows_per_second,
        }  # fmt: skip
