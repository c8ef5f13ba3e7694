"""Counts and latencies in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["Latencies", "exposition"]

_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

# name in the state of a model, name of the metric, its type and what it says
_OF_MODELS = [
    ("n_learned", "rows_learned_total", "counter", "Rows that were learned."),
    ("n_repeated", "rows_repeated_total", "counter", "Rows whose id had been learned before."),
    ("error_sum", "errors_total", "counter", "Sum of the errors, each before its row was learned."),
    ("error", "prequential_error", "gauge", "Mean error of all rows before they were learned."),
    ("recent_error", "prequential_error_recent", "gauge", "The same over the last 1,000 rows."),
    ("step_size", "step_size", "gauge", "The step size."),
    ("drift_score", "drift_score", "gauge", "How far the step size is above its recent mean."),
    ("n_events", "drift_events_total", "counter", "Changes of the stream."),
    ("n_support", "support_vectors", "gauge", "Support vectors."),
    ("n_keys", "keys", "gauge", "Keys of a fleet."),
    ("n_queued", "queued_rows", "gauge", "Rows that wait to be learned."),
    ("n_without_target", "rows_without_target", "gauge", "Rows that wait for their target."),
    ("rows_per_second", "rows_per_second", "gauge", "Rows learned per second, lately."),
    ("ready", "ready", "gauge", "1 if the model learns and its disk can be written, else 0."),
    ("checkpoint_position", "checkpoint_rows", "gauge", "Rows in the last checkpoint."),
]
_BY_LABEL = [
    ("skipped", "reason", "rows_skipped_total", "counter", "Rows left out, by reason."),
    ("baselines", "baseline", "baseline_error", "gauge", "Mean error of a baseline."),
    ("failed_writes", "kind", "failed_writes_total", "counter", "Writes that failed, by kind."),
    ("weights", "member", "member_weight", "gauge", "Weight of a member of a committee."),
]


_HELD = {
    "connections": "Open connections.",
    "bytes_in_flight": "Bytes of the bodies of requests that have not been answered.",
    "viewers": "Open live pages.",
}


class Latencies:
    """Durations and statuses of requests, by endpoint. One thread at a time may add."""

    def __init__(self) -> None:
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._statuses: Counter[tuple[str, int]] = Counter()

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request."""
        if endpoint not in self._buckets:
            self._buckets[endpoint] = [0] * (len(_BOUNDS) + 1)
        self._buckets[endpoint][bisect_left(_BOUNDS, seconds)] += 1
        self._sums[endpoint] = self._sums.get(endpoint, 0.0) + seconds
        self._statuses[endpoint, status] += 1

    def lines(self) -> Iterable[str]:
        """Return the lines of the text format."""
        name = "kernelstream_requests_total"
        yield from _header(name, "counter", "Requests, by endpoint and status.")
        for (endpoint, status), n in sorted(self._statuses.items()):
            yield _line(name, {"endpoint": endpoint, "status": str(status)}, n)
        name = "kernelstream_request_seconds"
        yield from _header(name, "histogram", "How long requests took.")
        for endpoint, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, n in zip([*map(str, _BOUNDS), "+Inf"], buckets, strict=True):
                total += n
                yield _line(f"{name}_bucket", {"endpoint": endpoint, "le": bound}, total)
            yield _line(f"{name}_sum", {"endpoint": endpoint}, self._sums[endpoint])
            yield _line(f"{name}_count", {"endpoint": endpoint}, total)


def exposition(
    states: list[dict[str, Any]], latencies: Latencies, held: dict[str, int]
) -> str:  # fmt: skip
    """Return all metrics in Prometheus' text format.

    Parameters
    ----------
    states : list of dict
        The state of every model.
    latencies : Latencies
    held : dict
        What the service holds for callers: a number for each name in `_HELD`.
    """
    lines: list[str] = []
    for key, name, kind, text in _OF_MODELS:
        found = [(state["name"], state.get(key)) for state in states]
        lines += _header(f"kernelstream_{name}", kind, text)
        lines += [
            _line(f"kernelstream_{name}", {"model": model}, value)
            for model, value in found
            if value is not None
        ]
    for key, label, name, kind, text in _BY_LABEL:
        lines += _header(f"kernelstream_{name}", kind, text)
        for state in states:
            for which, value in (state.get(key) or {}).items():
                labels = {"model": state["name"], label: which}
                lines.append(_line(f"kernelstream_{name}", labels, value))
    for name, text in _HELD.items():
        lines += [*_header(f"kernelstream_{name}", "gauge", text)]
        lines.append(_line(f"kernelstream_{name}", {}, held[name]))
    return "\n".join([*lines, *latencies.lines(), ""])


def _header(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: dict[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {float(value):.17g}" if shown else f"{name} {float(value):.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
