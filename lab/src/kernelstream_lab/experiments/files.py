"""The files that an experiment writes: a plot, a readable table and the numbers."""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kernelstream import __version__
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.registry import Experiment, all_experiments

__all__ = ["Report", "read_all", "write"]

_DPI = 130


@dataclass(frozen=True)
class Report:
    """The content of the files of one experiment."""

    experiment: Experiment
    outcome: Outcome
    circumstances: dict[str, Any]
    picture: bytes

    @property
    def n_holding(self) -> int:
        """Return the number of checks that hold."""
        return sum(check.holds for check in self.outcome.checks)


def write(
    experiment: Experiment, outcome: Outcome, circumstances: dict[str, Any], out: Path
) -> None:
    """Write NAME.png, NAME.md and NAME.json to a folder, which is created if necessary.

    `circumstances` are the properties of this run: seed, quick, seconds.
    """
    out.mkdir(parents=True, exist_ok=True)
    circumstances = {**circumstances, **_surroundings()}
    content = {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "figure": experiment.figure,
        "question": experiment.question,
        "parameters": experiment.parameters,
        "table": [row._asdict() for row in outcome.rows],
        "checks": [check._asdict() for check in outcome.checks],
        "notes": outcome.notes,
        **circumstances,
        "series": outcome.series,
    }
    (out / f"{experiment.name}.json").write_text(_json(content), encoding="utf-8")
    (out / f"{experiment.name}.md").write_text(
        _markdown(experiment, outcome, circumstances), encoding="utf-8"
    )
    _draw(experiment, outcome, out / f"{experiment.name}.png")


def read_all(out: Path) -> list[Report]:
    """Read the files of all runs in a folder, in the order of the papers."""
    found = []
    for experiment in all_experiments():
        paths = [out / f"{experiment.name}{suffix}" for suffix in (".json", ".png")]
        if all(path.exists() for path in paths):
            content = json.loads(paths[0].read_text(encoding="utf-8"))
            outcome = Outcome(
                content["series"],
                [Row(**row) for row in content["table"]],
                [Check(**check) for check in content["checks"]],
                content["notes"],
            )
            told = {name: content[name] for name in ("seed", "quick", "seconds", *_SURROUNDINGS)}
            found.append(Report(experiment, outcome, told, paths[1].read_bytes()))
    return found


_SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "date": lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    "versions": lambda: {
        "kernelstream": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "scikit-learn")},
    },
    "platform": platform.platform,
}


def _surroundings() -> dict[str, Any]:
    return {name: found() for name, found in _SURROUNDINGS.items()}


def _json(content: dict[str, Any]) -> str:
    """Format as JSON with one line per entry, which people can read."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, default=_plain)}"
        for name, value in content.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(value: Any) -> Any:
    """Convert NumPy scalars and arrays to values that JSON can hold."""
    return value.tolist()


def _draw(experiment: Experiment, outcome: Outcome, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=experiment.size, layout="constrained")
    experiment.draw(figure, outcome.series)
    figure.savefig(path, dpi=_DPI, facecolor="white")


def _markdown(experiment: Experiment, outcome: Outcome, circumstances: dict[str, Any]) -> str:
    table = [f"| {row.quantity} | {row.paper} | {row.ours} |" for row in outcome.rows]
    checks = [
        f"- {'holds' if check.holds else '**does not hold**'}: {check.statement} ({check.evidence})"
        for check in outcome.checks
    ]
    parameters = [f"- {name}: {value}" for name, value in experiment.parameters.items()]
    versions = ", ".join(f"{name} {number}" for name, number in circumstances["versions"].items())
    parts = [
        f"# {experiment.title}",
        f"`{experiment.name}`: {experiment.paper}, {experiment.figure}.",
        experiment.question,
        f"![{experiment.caption}]({experiment.name}.png)",
        experiment.caption,
        "\n".join(["| | paper | ours |", "|---|---|---|", *table]),
        "## Checks",
        "\n".join(checks),
        "## Notes",
        "\n".join(f"- {note}" for note in outcome.notes) or "None.",
        "## Parameters",
        "\n".join(parameters),
        f"Seed {circumstances['seed']}; {circumstances['seconds']} s; {circumstances['date']}; "
        f"{versions}; {circumstances['platform']}.",
    ]
    return "\n\n".join(parts) + "\n"
