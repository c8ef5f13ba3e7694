"""The demo: digits in the order of a decimal counter, for a committee, SVMD and NORMA."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import kernelstream as ks
from kernelstream.drawing import BLUE, GREY, ORANGE, PURPLE, in_percent, tidy

__all__ = ["run"]

_SHARED = {"gamma": 0.001, "budget": 256}  # all but the committee start with the step size 0.1
_N_DIGITS, _N_PASSES = 2, 8


class _Learner(NamedTuple):
    """A learner of the demo, and how it is drawn."""

    title: str
    colour: str
    style: str
    make: Callable[[], Any]


_COMMITTEE = _Learner("AutoClassifier", PURPLE, "-", ks.AutoClassifier)
_LEARNERS = [
    _COMMITTEE,
    _Learner("SVMD", BLUE, "-", lambda: ks.make("svmd", "classifier", **_SHARED)),
    _Learner(
        "SVMD single-step", ORANGE, "--",
        lambda: ks.make("svmd-single-step", "classifier", **_SHARED),
    ),
    _Learner(
        "NORMA", GREY, "-.",
        lambda: ks.make(
            "norma", "classifier", step_size=ks.step_sizes.SqrtDecay(0.1, tau=100), **_SHARED
        ),
    ),
]  # fmt: skip


class _Run(NamedTuple):
    """The results of a learner."""

    learner: _Learner
    result: Any
    seconds: float


def run(out: Path) -> None:
    """Run the learners, print the table and write the plot."""
    console = Console()
    digits = load_digits()
    X, y = ks.streams.counting(digits.data, digits.target, n_digits=_N_DIGITS, n_passes=_N_PASSES)
    console.print(
        f"{len(y):,} images of digits, in the order of a counter that runs {_N_PASSES} times from "
        "00 to 99:\nthe share of each label changes all the time. Every image is predicted, then "
        "learned, once.\nAutoClassifier has nothing to tune. SVMD and NORMA are given a width, and "
        "start with the step size 0.1.\n",
        soft_wrap=True,
        highlight=False,
    )
    runs = []
    _warm_up(X, y)
    for learner in _LEARNERS:
        model, begin = learner.make(), time.perf_counter()
        result = ks.prequential(model, X, y, progress=True)
        runs.append(_Run(learner, result, time.perf_counter() - begin))
    console.print(_table(runs))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.png"
    _draw(runs, path)
    console.print(f"\nThe plot is in {path}\n", highlight=False)
    console.print(
        "Next, try a stream of your own:\n\n"
        "    import kernelstream as ks\n\n"
        "    model = ks.AutoClassifier()\n"
        "    result = ks.prequential(model, X, y, progress=True)   # predict each row, learn it\n"
        "    print(result.error_rate, model.weights_)   # how much each member counts\n"
        "    model.save('model.ks')\n",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


def _warm_up(X: np.ndarray, y: np.ndarray) -> None:
    """Compile before the time is measured. Compiled code is kept on the disk."""
    for learner in _LEARNERS:
        ks.prequential(learner.make(), X[:300], y[:300])


def _table(runs: list[_Run]) -> Table:
    table = Table(title="One pass over the stream")
    table.add_column("learner")
    for column in ("error", "last 500", "final step", "support vectors", "seconds"):
        table.add_column(column, justify="right")
    for learner, result, seconds in runs:
        own = [f"{result.step_sizes[-1]:.3f}", str(result.n_support[-1])]
        table.add_row(
            learner.title, f"{result.error_rate:.1%}", f"{result.errors[-500:].mean():.1%}",
            *(["of members"] * 2 if learner is _COMMITTEE else own), f"{seconds:.3f}",
        )  # fmt: skip
    return table


def _draw(runs: list[_Run], path: Path) -> None:
    """Plot the running error and the step size, like figure 6 of the paper."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for learner, result, _ in runs:
        rows = np.arange(1, len(result.errors) + 1)
        look = {"color": learner.colour, "ls": learner.style}
        label = f"{learner.title}: {result.error_rate:.1%}"
        left.plot(rows, result.average_error, lw=1.8, label=label, **look)
        if learner is not _COMMITTEE:  # its members have step sizes of their own
            right.plot(rows, result.step_sizes, lw=1.4, **look)
    left.set(xlabel="rows seen", ylabel="average error so far", yscale="log", xlim=(1, len(rows)))
    in_percent(left.yaxis)
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    right.set(xlabel="rows seen", ylabel="step size", yscale="log", xlim=(1, len(rows)))
    left.legend(frameon=False)
    tidy(left, right)
    figure.suptitle("Digits that count from 00 to 99: the labels drift, the step size follows")
    figure.savefig(path, dpi=130)
    plt.close(figure)
