"""SOG-SVR, figure 1: sinc, over sample sizes and noise."""

from typing import Any

import numpy as np

from kernelstream.drawing import tidy
from kernelstream_lab.experiments.curves import plot
from kernelstream_lab.experiments.dictionary import Problem, Score, batch, mean_error, online
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.papers import SOG
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting

_LINES = {"SOG-SVR, ours": "svmd", "SOG-SVR, the paper's rule": "single-step", "batch SVR": "batch"}
_PRESETS = {"SOG-SVR, ours": "sog-svr", "SOG-SVR, the paper's rule": "sog-svr-paper"}


def _draw(figure: Any, series: dict[str, Any]) -> None:
    panels = figure.subplots(2, 2, sharex="row")
    for (left, right), x, label in (
        (panels[0], "rows", "training rows (noise 0.1)"),
        (panels[1], "noise", "standard deviation of the noise (1,000 rows)"),
    ):
        found = series[f"by_{x}"]
        for name, line in _LINES.items():
            plot(left, found[x], found[name]["error"], line, name, marker=".")
            plot(right, found[x], found[name]["support"], line, name, marker=".")
        left.set(xscale="log", yscale="log", xlabel=label, ylabel="mean squared error")
        right.set(xlabel=label, ylabel="support vectors, % of the rows", ylim=(-3, 103))
        tidy(left, right)
    panels[0][0].legend(frameon=False)


def _sinc(X: np.ndarray) -> np.ndarray:
    return np.sinc(X[:, 0] / np.pi)


def _trial(n_rows: int, noise: float, random: np.random.Generator) -> dict[str, Score]:
    """Run three learners on one training set, with 1,000 test points without noise."""
    problem = Problem(sigma=3.0, tolerance=0.01, epsilon=0.01, C=1e4 / n_rows)
    X, X_test = random.uniform(-10, 10, (n_rows, 1)), random.uniform(-10, 10, (1000, 1))
    train = X, _sinc(X) + noise * random.normal(size=n_rows)
    test = X_test, _sinc(X_test)
    scores = {}
    for label, preset in _PRESETS.items():
        model = online(preset, problem).partial_fit(*train)
        scores[label] = Score(mean_error(model, *test), model.n_support_ / n_rows)
    return {**scores, "batch SVR": batch(problem, train, test)}


def _averages(trials: list[list[dict[str, Score]]]) -> dict[str, dict[str, list[float]]]:
    """Return means over trials, one for each position on the horizontal axis."""
    return {
        label: {
            "error": [float(np.mean([t[label].error for t in place])) for place in trials],
            "support": [
                float(100 * np.mean([t[label].support for t in place])) for place in trials
            ],
        }
        for label in _LINES
    }


@experiment(
    title="The sinc function",
    paper=SOG,
    figure="figure 1",
    question="How many support vectors does a smooth function need, for any number of rows and any "
    "noise?",
    parameters={
        "data": "sin(x) / x on [-10, 10]; 5 to 5,000 rows with noise 0.1, and 1,000 rows with "
        "noise from 1e-6 to 10; 1,000 test points without noise",
        "trials": 10, "passes": 1, "kernel": "RBF, sigma 3, plus lambda^2, lambda 0.1",
        "nu of the dictionary": 0.01, "SVR": "C 10^4 / rows, epsilon 0.01", "regularization": 0.01,
    },
    caption="Error and share of support vectors, over the number of rows (above) and the noise "
    "(below).",
    draw=_draw,
    size=(10.0, 6.6),
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Vary the number of rows and the noise, with both rules and batch SVR on the same rows."""
    sizes = setting.choose([5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], [5, 20, 100])
    noises = setting.choose([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0], [1e-3, 1e-1])
    n_rows, n_trials = setting.choose((1000, 10), (100, 1))
    places = [(size, 0.1) for size in sizes] + [(n_rows, noise) for noise in noises]
    trials = [
        [_trial(*place, setting.random(100 * where + trial)) for trial in range(n_trials)]
        for where, place in enumerate(
            setting.each(places, lambda place: f"{place[0]:,} rows, noise {place[1]:g}")
        )
    ]
    by_rows = {"rows": sizes, **_averages(trials[: len(sizes)])}
    by_noise = {"noise": noises, **_averages(trials[len(sizes) :])}
    most = max(
        round(trial[label].support * place[0])
        for place, found in zip(places, trials, strict=True)
        for trial in found
        for label in _PRESETS
    )
    ours, rule, svr = (by_rows[label]["error"] for label in _LINES)  # type: ignore[index]
    large = [i for i, size in enumerate(sizes) if size >= 50]
    worst = max(ours[i] / svr[i] for i in large)
    rows = [
        Row("support vectors of SOG-SVR, the most in any trial", "12", f"{most}"),
        *(
            Row(
                f"mean squared error, {sizes[i]:,} rows: ours, the paper's rule, SVR", "-",
                f"{ours[i]:.2g}, {rule[i]:.2g}, {svr[i]:.2g}",
            )
            for i in range(len(sizes))
        ),
    ]  # fmt: skip
    checks = [
        Check("There are at most 12 support vectors.", most <= 12, f"at most {most}"),
        Check(
            "The error is near batch SVR's (at most 1.5 times, from 50 rows on): ours.",
            worst <= 1.5,
            f"at most {worst:.2f} times",
        ),
        Check(
            "The error is near batch SVR's (at most 1.5 times, from 50 rows on): the paper's rule.",
            max(rule[i] / svr[i] for i in large) <= 1.5,
            f"at most {max(rule[i] / svr[i] for i in large):.2f} times, "
            f"{rule[-1] / svr[-1]:.2f} times with {sizes[-1]:,} rows",
        ),
        Check(
            "The number of support vectors does not depend on the noise.",
            _spread(by_noise) <= 1.0,
            f"between {_range(by_noise)} of {n_rows:,} rows",
        ),
    ]
    notes = ["We use 10 trials instead of the paper's 50."]
    return Outcome({"by_rows": by_rows, "by_noise": by_noise}, rows, checks, notes)


def _shares(by_noise: dict[str, Any]) -> list[float]:
    return by_noise["SOG-SVR, ours"]["support"]


def _spread(by_noise: dict[str, Any]) -> float:
    return max(_shares(by_noise)) - min(_shares(by_noise))


def _range(by_noise: dict[str, Any]) -> str:
    return f"{min(_shares(by_noise)):.2f} % and {max(_shares(by_noise)):.2f} %"
