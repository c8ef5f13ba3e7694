"""Compare all classifiers on the same digits, in two orders: error, support vectors, time."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.svm import SVC

from kernelstream import datasets, presets
from kernelstream.drawing import BLUE, GREY, ORANGE, in_percent, tidy
from kernelstream.estimators.choices import solver_of
from kernelstream.evaluate import prequential
from kernelstream.streams import counting

__all__ = ["compare"]

_BATCH = "SVC (batch)"
_C = 10.0  # the C of the learners that solve the batch problem, and of SVC


class Digits(NamedTuple):
    """Training and test digits, in shuffled order and as the counting sequence."""

    name: str
    gamma: float
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    X_counting: np.ndarray
    y_counting: np.ndarray


class Figures(NamedTuple):
    """The measurements of a learner; None if it does not learn from a stream."""

    online: float | None  # error on each row before it is learned, in shuffled order
    counting: float | None  # the same on the counting sequence
    test: float  # error on new rows after one pass
    n_support: int
    seconds: float  # the time of that pass


def compare(
    data: str, out: Path, names: list[str] | None, budget: int | None, seed: int, console: Console
) -> dict[str, Figures]:
    """Measure the learners, print the table, and write the table and the plot.

    `budget` is the budget of all online learners; None means that of each preset.
    """
    chosen = _classifiers() if names is None else names
    for name in chosen:
        if "classifier" not in presets.tasks(name):
            raise ValueError(f"--learners names {name!r}, which is no classifier.")
    digits = _digits(data, seed, console)
    found = {}
    for name in track([*chosen, _BATCH], "learning", console=console, transient=True):
        found[name] = _batch(digits) if name == _BATCH else _measure(name, digits, budget)
    console.print(_table(found, digits))
    out.mkdir(parents=True, exist_ok=True)
    (out / "compare.md").write_text(_markdown(found, digits), encoding="utf-8")
    _draw(found, digits, out / "compare.png")
    console.print(f"\nThe table and the plot are in {out}", highlight=False)
    return found


def _classifiers() -> list[str]:
    return [name for name in presets.names() if "classifier" in presets.tasks(name)]


def _digits(data: str, seed: int, console: Console) -> Digits:
    """Return USPS, or scikit-learn's digits if USPS is not found."""
    if data == "usps":
        try:
            found = datasets.load("usps")
        except datasets.DatasetError as problem:
            console.print(f"{problem}\n\nscikit-learn's digits instead:", highlight=False)
            return _digits("digits", seed, console)
        n_train, n_digits, n_passes, gamma = len(found.X_train), 3, 2, 1 / 128
    elif data == "digits":
        found = datasets.load("digits")
        n_train, n_digits, n_passes, gamma = 1300, 2, 8, 0.25
    else:
        raise ValueError(f"--data {data!r} is unknown here: usps or digits.")
    X, y = found.X, found.y
    order = np.random.default_rng(seed).permutation(n_train)
    return Digits(
        data, gamma, X[order], y[order], X[n_train:], y[n_train:],
        *counting(X, y, n_digits=n_digits, n_passes=n_passes),
    )  # fmt: skip


def _model(name: str, digits: Digits, budget: int | None) -> Any:
    params: dict[str, Any] = {"gamma": digits.gamma}
    if _needs_fit(name):
        params["C"] = _C
    elif budget is not None or name == "sog-svc":
        params["budget"] = budget or 512  # images are linearly independent: sog-svc would keep all
    return presets.make(name, "classifier", **params)


def _needs_fit(name: str) -> bool:
    return solver_of(presets.make(name, "classifier")) is not None


def _measure(name: str, digits: Digits, budget: int | None) -> Figures:
    if _needs_fit(name):
        _model(name, digits, None).fit(digits.X[:200], digits.y[:200])  # compiles
        model, begin = _model(name, digits, None), time.perf_counter()
        model.fit(digits.X, digits.y)
        online = on_counting = None
    else:
        prequential(_model(name, digits, budget), digits.X[:200], digits.y[:200])
        model, begin = _model(name, digits, budget), time.perf_counter()
        online = prequential(model, digits.X, digits.y).error_rate
    seconds = time.perf_counter() - begin
    if online is not None:
        sequence = digits.X_counting, digits.y_counting
        on_counting = prequential(_model(name, digits, budget), *sequence).error_rate
    test = float((model.predict(digits.X_test) != digits.y_test).mean())
    return Figures(online, on_counting, test, model.n_support_, seconds)


def _batch(digits: Digits) -> Figures:
    begin = time.perf_counter()
    model = SVC(C=_C, gamma=digits.gamma).fit(digits.X, digits.y)
    seconds = time.perf_counter() - begin
    test = float((model.predict(digits.X_test) != digits.y_test).mean())
    return Figures(None, None, test, len(model.support_), seconds)


_COLUMNS = ["learner", "error, shuffled", "error, counting", "test error", "support vectors", "s"]


def _lines(found: dict[str, Figures]) -> list[list[str]]:
    def percent(value: float | None) -> str:
        return "-" if value is None else f"{value:.1%}"

    return [
        [name, percent(f.online), percent(f.counting), percent(f.test), f"{f.n_support:,}",
         f"{f.seconds:.2f}"]
        for name, f in found.items()
    ]  # fmt: skip


def _table(found: dict[str, Figures], digits: Digits) -> Table:
    table = Table(title=f"{digits.name}: {len(digits.y):,} digits, one pass")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "learner" else "right")
    for line in _lines(found):
        table.add_row(*line)
    return table


def _markdown(found: dict[str, Figures], digits: Digits) -> str:
    lines = [_COLUMNS, ["---", *["---:"] * (len(_COLUMNS) - 1)], *_lines(found)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{digits.name}: {len(digits.y):,} digits, RBF kernel, one pass.\n\n{table}\n"


def _draw(found: dict[str, Figures], digits: Digits, path: Path) -> None:
    names = list(found)[::-1]
    places = np.arange(len(names))
    figure, (errors, sizes, times) = plt.subplots(
        1, 3, figsize=(11, 0.32 * len(names) + 1.6), sharey=True, layout="constrained",
        width_ratios=[2, 1, 1],
    )  # fmt: skip
    for attribute, label, mark, colour in (
        ("online", "each row, shuffled", "o", BLUE),
        ("counting", "each row, counting", "s", ORANGE),
        ("test", "new rows, after the pass", "D", GREY),
    ):
        values = [getattr(found[name], attribute) for name in names]
        shown = [value is not None for value in values]
        errors.plot(
            [value for value in values if value is not None], places[shown], mark, color=colour,
            ms=6, label=label,
        )  # fmt: skip
    errors.set(xscale="log", xlabel="error", yticks=places, yticklabels=names)
    in_percent(errors.xaxis)
    errors.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5])
    sizes.barh(places, [found[name].n_support for name in names], color=BLUE, height=0.6)
    sizes.set(xlabel="support vectors")
    times.barh(places, [found[name].seconds for name in names], color=BLUE, height=0.6)
    times.set(xscale="log", xlabel="seconds")
    tidy(errors, sizes, times)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"{digits.name}: {len(digits.y):,} digits, one pass")
    figure.savefig(path, dpi=120)
    plt.close(figure)
