"""SOG-SVR, table 4: Comp-activ, one pass."""

from typing import Any

import numpy as np

from kernelstream.drawing import BLUE, GREY, ORANGE, tidy
from kernelstream_lab.experiments.curves import percent
from kernelstream_lab.experiments.dictionary import (
    Problem,
    Score,
    batch,
    mean_error,
    online,
    split,
    unit_cube,
)
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.papers import SOG
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting

_PAPER = {"SOG-SVR, the paper's rule": (10.9, 0.09), "batch SVR": (8.8, 0.63)}


def _draw(figure: Any, series: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    labels = list(series["errors"])
    for axes, what, unit in (
        (left, "errors", "mean squared error"),
        (right, "support", "support vectors, % of the rows"),
    ):
        for position, label in enumerate(labels):
            printed = _PAPER.get(label)
            value = series[what][label]
            shown = value if what == "errors" else 100 * value
            axes.bar(position, shown, 0.55, color=[BLUE, ORANGE, GREY][position])
            axes.annotate(
                f"{shown:.1f}", (position, 0), xytext=(0, 4), textcoords="offset points",
                ha="center", va="bottom", color="white", weight="bold",
            )  # fmt: skip
            if printed is not None:
                mark = printed[0] if what == "errors" else 100 * printed[1]
                axes.plot([position - 0.38, position + 0.38], [mark, mark], "k--", lw=1.4)
        axes.set_xticks(range(len(labels)), [label.replace(", ", "\n") for label in labels])
        axes.set(ylabel=unit)
        axes.margins(y=0.12)
    left.plot([], [], "k--", lw=1.4, label="printed in the paper")
    left.legend(frameon=False)
    tidy(left, right)
    for axes in (left, right):
        axes.grid(visible=False, axis="x")


@experiment(
    title="Comp-activ",
    paper=SOG,
    figure="table 4",
    question="Is one pass over a larger data set enough for a dictionary to reach batch SVR?",
    parameters={
        "data": "Comp-activ (cpuSmall), inputs scaled to the unit cube; random splits of 6,000 and "
        "2,192 rows",
        "trials": 10, "passes": 1, "kernel": "RBF, sigma 0.5, plus lambda^2, lambda 0.1",
        "nu of the dictionary": 0.001, "SVR": "C 10^6 / 6,000, epsilon 1", "regularization": 0.01,
    },
    caption="Mean squared error on the test rows and share of support vectors; means over splits.",
    draw=_draw,
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Compare the rule of the paper, ours and scikit-learn's SVR on the same splits."""
    data = setting.load("comp-activ")
    X, y = unit_cube(data.X), data.y
    n_train = setting.choose(6000, 500)
    problem = Problem(sigma=0.5, tolerance=0.001, epsilon=1, C=1e6 / n_train)

    def one_pass(preset: str, train: Any, test: Any) -> Score:
        model = online(preset, problem).partial_fit(*train)
        return Score(mean_error(model, *test), model.n_support_ / n_train)

    found: dict[str, list[Score]] = {
        "SOG-SVR, ours": [], "SOG-SVR, the paper's rule": [], "batch SVR": []
    }  # fmt: skip
    for trial in setting.each(range(setting.choose(10, 1)), lambda trial: f"split {trial + 1}"):
        train, test = split(X, y, n_train, setting.random(trial))
        found["SOG-SVR, ours"].append(one_pass("sog-svr", train, test))
        found["SOG-SVR, the paper's rule"].append(one_pass("sog-svr-paper", train, test))
        found["batch SVR"].append(batch(problem, train, test))
    errors, support = (
        {label: float(np.mean([score[i] for score in scores])) for label, scores in found.items()}
        for i in (0, 1)
    )
    spread = {label: float(np.std([score.error for score in found[label]])) for label in found}
    rows = []
    for label in found:
        error, share = _PAPER.get(label, (None, None))
        rows += [
            Row(
                f"mean squared error, {label}",
                "-" if error is None else f"{error}",
                f"{errors[label]:.2f} ± {spread[label]:.2f}",
            ),
            Row(
                f"support vectors, {label}",
                "-" if share is None else percent(share, 0),
                percent(support[label]),
            ),
        ]
    ours, rule, svr = errors.values()
    by_rule = [score.error for score in found["SOG-SVR, the paper's rule"]]
    median = float(np.median(by_rule))
    rows.append(Row("median of the paper's rule over the splits", "-", f"{median:.2f}"))
    checks = [
        Check(
            "The dictionary has at most a sixth of the support vectors of batch SVR on the same "
            "splits (9 and 63 % of the rows in the paper).",
            support["SOG-SVR, ours"] <= support["batch SVR"] / 6,
            f"{percent(support['SOG-SVR, ours'])} and {percent(support['batch SVR'])}",
        ),
        Check(
            "One pass of the paper's rule has at most 1.24 times the error of batch SVR on the "
            "same splits (10.9 and 8.8 in the paper).",
            rule <= 10.9 / 8.8 * svr,
            f"{rule:.2f} and {svr:.2f}; median {median:.2f}, {min(by_rule):.2f} to "
            f"{max(by_rule):.2f} by split",
        ),
        Check(
            "Ours beyond the paper: one pass of `sog-svr` is within 5 % of batch SVR's error.",
            ours < 1.05 * svr,
            f"{ours:.2f} and {svr:.2f}",
        ),
    ]
    notes = [
        "The paper does not give its learning rate; here its rule takes the best step along the "
        "gradient at every row. On some splits that reaches the error of the paper, on others it "
        "is far from converged after one pass. `sog-svr` computes the minimum over all rows so far "
        "instead (docs/dictionary.md).",
        "We use 10 splits instead of the paper's 50.",
    ]
    each_split = {label: [score.error for score in scores] for label, scores in found.items()}
    series = {"errors": errors, "support": support, "each_split": each_split}
    return Outcome(series, rows, checks, notes)
