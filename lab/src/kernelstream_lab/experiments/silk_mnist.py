"""SILK, figure 4: MNIST in two classes and in ten, with small buffers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelstream import KernelClassifier, prequential
from kernelstream.drawing import tidy
from kernelstream.kernels import RBF, Polynomial
from kernelstream.presets import make
from kernelstream.step_sizes import SMD, SqrtDecay
from kernelstream_lab.experiments.curves import draw_average_error, percent, result_of, unit_rows
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.papers import SILK
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting


class Task(NamedTuple):
    """A stream and its kernel."""

    name: str
    X: np.ndarray
    y: np.ndarray
    kernel: Any


def _draw(figure: Any, series: dict[str, Any]) -> None:
    panels = figure.subplots(2, 2)
    for line, (name, found) in zip(panels, series["tasks"].items(), strict=True):
        for axes, runs, title in zip(
            line,
            (found["learners"], found["buffers"]),
            (f"{name}, buffer {series['buffer']}", f"{name}, SILK"),
            strict=True,
        ):
            draw_average_error(axes, runs)
            axes.legend(frameon=False)
            axes.set_title(title, fontsize=11)
            axes.set_xlim(left=10)
            tidy(axes)


def _learners(task: Task) -> dict[str, tuple[str, Callable[[int], Any]]]:
    """Return the line style and the factory of each learner, by label."""
    decay = 1 / (500 * len(task.X))

    def explicit(step_size: Any) -> Callable[[int], Any]:
        return lambda size: KernelClassifier(
            task.kernel, step_size=step_size, regularization=decay, budget=size
        )

    return {
        "SILK": ("silk", lambda size: make("silk", "classifier", kernel=task.kernel, budget=size)),
        "SVMD": ("svmd beside", explicit(SMD(0.1, 0.01, 1.0))),
        "NORMA": ("norma", explicit(SqrtDecay(0.1, 100))),
    }


def _measure(task: Task, sizes: list[int]) -> dict[str, Any]:
    """Run all learners with every size of the buffer."""
    errors: dict[str, list[float]] = {}
    learners, buffers = {}, {}
    lines = dict(zip(sizes, ["small", "middle", "large"], strict=True))
    for label, (line, model) in _learners(task).items():
        for size in sizes:
            result = prequential(model(size), task.X, task.y)
            errors.setdefault(label, []).append(result.error_rate)
            if size == sizes[0]:
                learners[label] = result_of(result, line)
            if label == "SILK":
                buffers[f"buffer {size:,}"] = result_of(result, lines[size])
    return {"learners": learners, "buffers": buffers, "errors": errors}


@experiment(
    title="MNIST with small buffers",
    paper=SILK,
    figure="figure 4",
    question="Are implicit steps that drop the least important point better than adaptive steps "
    "that drop the oldest?",
    parameters={
        "data": "MNIST's 60,000 training digits, in their order, one pass; 0–4 against 5–9 (rows "
        "of unit length), and ten classes",
        "kernel": "polynomial of degree 9 (two classes), RBF with sigma 2 (ten)",
        "buffer": "128, and 512 and 2,048", "margin": 1, "SILK": "tau 5e-5, C 100",
        "SVMD": "c 1 / (500 n), eta_0 0.1, mu 0.01, lambda 1", "NORMA": "eta_0 0.1, tau 100",
    },
    caption="Average error so far: three learners with the smallest buffer (left), SILK with "
    "larger ones (right); two classes above, ten below.",
    draw=_draw,
    size=(10.0, 7.4),
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Run three learners with three buffer sizes on two tasks."""
    digits = setting.mnist().first(setting.choose(60_000, 600))
    sizes = setting.choose([128, 512, 2048], [16, 32, 64])
    tasks = [
        Task("two classes", unit_rows(digits.X), digits.y >= 5, Polynomial(9, 1.0)),
        Task("ten classes", digits.X, digits.y, RBF(digits.gamma(sigma=2, n_pixels=784))),
    ]
    found = {
        task.name: _measure(task, sizes) for task in setting.each(tasks, lambda task: task.name)
    }
    rows, checks = [], []
    for name, measured in found.items():
        errors = measured["errors"]
        for label in errors:
            shown = ", ".join(percent(error) for error in errors[label])
            listed = ", ".join(f"{size:,}" for size in sizes)
            rows.append(Row(f"average error, {name}, {label}, buffer {listed}", "-", shown))
        checks += [
            _below(measured["learners"], other, f"{name}, buffer {sizes[0]}")
            for other in ("SVMD", "NORMA")
        ]
        checks.append(
            Check(
                f"A larger buffer lowers SILK's error: {name}.",
                errors["SILK"] == sorted(errors["SILK"], reverse=True),
                ", ".join(percent(error) for error in errors["SILK"]),
            )
        )
    series = {"buffer": sizes[0], "tasks": found}
    return Outcome(series, rows, checks, _NOTES)


def _below(runs: dict[str, dict], other: str, where: str) -> Check:
    """Check that the average error of SILK is lower after the pass; shows until when it was."""
    silk, rival = runs["SILK"], runs[other]
    ahead = np.flatnonzero(np.less(silk["average_error"], rival["average_error"]))
    until = f"; it was the lower one up to row {silk['row'][ahead[-1]]:,}" if ahead.size else ""
    return Check(
        f"SILK is below {other}: {where}.",
        silk["error"] < rival["error"],
        f"{percent(silk['error'])} and {percent(rival['error'])}{until}",
    )


_NOTES = [
    "The paper prints no numbers, so only the order of the learners can be compared.",
    "Where the order differs from the paper's, SVMD is better here than in the papers: with "
    "256 points and the polynomial the SVMD paper reports about 20 % on ten classes, ours makes "
    "13 % (`svmd-mnist-buffer`). It raises its step size from 0.1 to 28 on two classes and to 103 "
    "on ten, so that a third and two thirds of the rows violate the margin, while with NORMA all "
    "rows do. So its points stay longer in the buffer.",
    "We chose the width of the kernel among nine widths on this stream: all three learners are "
    "about best at this one. Sigma 8 on USPS's scale is too wide for 128 points: with it SILK "
    "has 38 %, SVMD 24 % and NORMA 28 % on ten classes. At none of the widths SILK was below SVMD.",
    "SILK uses the closed form of the paper, which looks at one runner-up label. The exact "
    "implicit step (`Implicit(exact=True)`) is better by up to twelve points on ten classes, and "
    "more so with a wider kernel.",
]
