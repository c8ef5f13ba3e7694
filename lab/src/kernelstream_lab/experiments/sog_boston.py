"""SOG-SVR, table 3: Boston housing, five passes."""

from typing import Any

import numpy as np

from kernelstream.drawing import BLUE, tidy
from kernelstream_lab.experiments.curves import percent, plot
from kernelstream_lab.experiments.dictionary import (
    Problem,
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

_PROBLEM = Problem(sigma=1.4, tolerance=0.01, epsilon=2, C=500)
_N_TRAIN, _N_PASSES = 481, 5
_PAPER = [40.9, 14.1, 13.6, 13.3, 13.1]


def _draw(figure: Any, series: dict[str, Any]) -> None:
    axes = figure.subplots()
    passes = np.arange(1, _N_PASSES + 1)
    plot(axes, passes, series["printed"], "norma", "the paper's SOG-SVR, its splits", marker="o")
    plot(axes, passes, series["paper_rule"], "svmd", "its rule here, best step", marker="o")
    axes.plot([1], [series["ours"]], "*", ms=14, color=BLUE, label="ours, a single pass")
    axes.axhline(series["svr"], color="black", ls="-.", lw=1.2, label="batch SVR here")
    axes.set(xlabel="passes", ylabel="mean squared error", ylim=(0, 45), xticks=passes)
    axes.legend(frameon=False)
    tidy(axes)


@experiment(
    title="Boston housing",
    paper=SOG,
    figure="table 3",
    question="Does a sparse dictionary reach batch SVR's error with less than half its points?",
    parameters={
        "data": "Boston housing, inputs scaled to the unit cube; random splits of 481 and 25 rows",
        "trials": 50, "passes": 5, "kernel": "RBF, sigma 1.4, plus lambda^2, lambda 0.1",
        "nu of the dictionary": 0.01, "SVR": "C 500, epsilon 2", "regularization": 0.01,
    },
    caption="Mean squared error on the test rows after each pass, mean over the splits.",
    draw=_draw,
    size=(7.0, 4.2),
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Compare the rule of the paper, ours and scikit-learn's SVR on the same splits."""
    data = setting.load("boston")
    X, y = unit_cube(data.X), data.y
    by_pass, ours, peers, support = [], [], [], []
    for trial in setting.each(range(setting.choose(50, 2)), lambda trial: f"split {trial + 1}"):
        train, test = split(X, y, _N_TRAIN, setting.random(trial))
        model = online("sog-svr-paper", _PROBLEM)
        by_pass.append([mean_error(model.partial_fit(*train), *test) for _ in range(_N_PASSES)])
        support.append(model.n_support_ / _N_TRAIN)
        ours.append(mean_error(online("sog-svr", _PROBLEM).partial_fit(*train), *test))
        peers.append(batch(_PROBLEM, train, test))
    errors = np.mean(by_pass, axis=0)
    svr, svr_support = np.mean(peers, axis=0)
    own, share = float(np.mean(ours)), float(np.mean(support))
    rows = [
        Row(
            f"mean squared error after pass {i + 1}, the paper's rule", f"{printed}", f"{found:.1f}"
        )
        for i, (printed, found) in enumerate(zip(_PAPER, errors, strict=True))
    ]
    rows += [
        Row("mean squared error after one pass, `sog-svr`", "-", f"{own:.1f}"),
        Row("mean squared error of batch SVR", "13.3", f"{svr:.1f}"),
        Row("support vectors of SOG-SVR", "17 %", percent(share, 0)),
        Row("support vectors of batch SVR", "37 %", percent(svr_support, 0)),
        Row(
            "standard deviation over splits: pass 5, `sog-svr`, SVR", "8.4, -, 11.8",
            f"{np.std(by_pass, axis=0)[-1]:.1f}, {np.std(ours):.1f}, "
            f"{np.std([peer.error for peer in peers]):.1f}",
        ),
    ]  # fmt: skip
    checks = [
        Check(
            "After five passes the error of the paper's rule is at most batch SVR's on the same "
            "splits (13.1 and 13.3 in the paper).",
            errors[-1] <= svr,
            f"{errors[-1]:.1f} and {svr:.1f}",
        ),
        Check(
            "The dictionary has less than half of the support vectors of batch SVR on the same "
            "splits.",
            share < svr_support / 2,
            f"{percent(share)} and {percent(svr_support)} of the rows",
        ),
        Check(
            "Ours beyond the paper: one pass of `sog-svr` is within 10 % of batch SVR's error.",
            own < 1.1 * svr,
            f"{own:.2f} and {svr:.2f}",
        ),
    ]
    notes = [
        "The paper does not give its learning rate; here every step is the best one along the "
        "gradient (docs/dictionary.md). Therefore the first pass is better than in the paper.",
        "With 25 test rows the error varies by as much as its size: batch SVR has 13.3 in the "
        "paper and 10.2 here with the same parameters. So an error is compared only with errors "
        "on the same splits, and that of the paper's rule here only with batch SVR's here.",
        "One column of this data encodes race. The data is used only to reproduce a table of 2002.",
    ]
    series = {
        "printed": _PAPER, "paper_rule": errors.tolist(), "ours": own, "svr": float(svr),
        "each_split": {"paper_rule": by_pass, "ours": ours, "svr": [p.error for p in peers]},
    }  # fmt: skip
    return Outcome(series, rows, checks, notes)
