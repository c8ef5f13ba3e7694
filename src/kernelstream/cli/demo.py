"""The demo: digits in the order of a decimal counter, for a committee, SVMD and NORMA."""

import time
from pathlib import Path
from typing import Any

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

_LEARNERS = {
    "auto": ("AutoClassifier", PURPLE, "-"),
    "svmd": ("SVMD", BLUE, "-"),
    "svmd-single-step": ("SVMD single-step", ORANGE, "--"),
    "norma": ("NORMA", GREY, "-."),
}
_N_DIGITS, _N_PASSES = 2, 8


def _model(name: str) -> Any:
    """The committee has nothing to tune; the others start with the same step size.

    NORMA's then follows its schedule.
    """
    if name == "auto":
        return ks.AutoClassifier()
    step_size = {"step_size": ks.step_sizes.SqrtDecay(0.1, tau=100)} if name == "norma" else {}
    return ks.make(name, "classifier", gamma=0.001, budget=256, **step_size)


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
    results, seconds = {}, {}
    _warm_up(X, y)
    for name in _LEARNERS:
        model = _model(name)
        begin = time.perf_counter()
        results[name] = ks.prequential(model, X, y, progress=True)
        seconds[name] = time.perf_counter() - begin
    console.print(_table(results, seconds))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.png"
    draw(results, path)
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
    """Compile before the time is measured; the compiled code is kept on disk."""
    for name in _LEARNERS:
        ks.prequential(_model(name), X[:300], y[:300])


def _table(results: dict[str, Any], seconds: dict[str, float]) -> Table:
    table = Table(title="One pass over the stream")
    table.add_column("learner")
    for column in ("error", "last 500", "final step", "support vectors", "seconds"):
        table.add_column(column, justify="right")
    for name, result in results.items():
        own = [f"{result.step_sizes[-1]:.3f}", str(result.n_support[-1])]
        table.add_row(
            _LEARNERS[name][0], f"{result.error_rate:.1%}", f"{result.errors[-500:].mean():.1%}",
            *(["of members"] * 2 if name == "auto" else own), f"{seconds[name]:.3f}",
        )  # fmt: skip
    return table


def draw(results: dict[str, Any], path: Path) -> None:
    """Plot the running error and the step size, like figure 6 of the paper."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, result in results.items():
        label, colour, style = _LEARNERS[name]
        rows = np.arange(1, len(result.errors) + 1)
        label = f"{label}: {result.error_rate:.1%}"
        left.plot(rows, result.average_error, color=colour, ls=style, lw=1.8, label=label)
        if name != "auto":  # its members have step sizes of their own
            right.plot(rows, result.step_sizes, color=colour, ls=style, lw=1.4, label=label)
    left.set(xlabel="rows seen", ylabel="average error so far", yscale="log", xlim=(1, len(rows)))
    in_percent(left.yaxis)
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    right.set(xlabel="rows seen", ylabel="step size", yscale="log", xlim=(1, len(rows)))
    left.legend(frameon=False)
    tidy(left, right)
    figure.suptitle("Digits that count from 00 to 99: the labels drift, the step size follows")
    figure.savefig(path, dpi=130)
    plt.close(figure)
