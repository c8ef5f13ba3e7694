"""SVMD, figures 5 and 6: digits that count, so that the labels' shares change all the time."""

from typing import Any

import numpy as np

from kernelstream import KernelClassifier, prequential
from kernelstream.kernels import RBF
from kernelstream.margins import Nu
from kernelstream.step_sizes import SMD, SqrtDecay
from kernelstream_lab.experiments.counter import counter
from kernelstream_lab.experiments.curves import (
    Learner,
    compare,
    draw_error_and_step,
    error_rows,
    in_between,
    numbers,
    percent,
)
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.papers import SVMD
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting

_N_SHOWN = 36


def _draw(figure: Any, series: dict[str, Any]) -> None:
    above, below = figure.subfigures(2, 1, height_ratios=[1, 6])
    strip = above.subplots()
    strip.imshow(np.reshape(series["images"], series["images_shape"]), cmap="gray_r")
    strip.set_axis_off()
    draw_error_and_step(below, series)


@experiment(
    title="USPS digits that count",
    paper=SVMD,
    figure="figures 5 and 6",
    question="Can a learner follow a stream in which the labels' shares change all the time?",
    parameters={
        "data": "600 of each USPS digit (training, then test), in the order of a counter that runs "
        "twice from 000 to 999, one pass",
        "kernel": "RBF, sigma 8",
        "margin": "nu 0.05, the paper's rule (53)–(58)",
        "c": 1, "eta_0": 1, "mu": 1, "buffer": 512,
        "lambda": "0.95, and 0 for the single-step version", "tau of NORMA": 100,
    },
    caption="Above, the stream's beginning. Below, average error so far and step size; solid SVMD, "
    "dotted its single-step version, dashed NORMA.",
    draw=_draw,
    size=(10.0, 4.6),
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Run three learners that differ only in their step size, and a fourth for the table."""
    stream = counter(setting)

    def model(step_size: object) -> KernelClassifier:
        return KernelClassifier(
            RBF(stream.gamma), margin=Nu(0.05, rule="paper"), step_size=step_size,
            regularization=1, budget=512,
        )  # fmt: skip

    learners = [
        Learner("ν-SVMD, λ = 0.95", "svmd", model(SMD(1, 1, 0.95))),
        Learner("single-step, λ = 0", "single-step", model(SMD(1, 1, 0.0))),
        Learner("NORMA, τ = 100", "norma", model(SqrtDecay(1, 100))),
    ]
    runs = compare(setting, learners, stream.X, stream.y)
    slower = prequential(model(SMD(1, 1, 0.99)), stream.X, stream.y).error_rate
    svmd, single, norma = error_rows(runs)
    rows = [
        svmd._replace(paper="less than 19 %"),
        Row("average error, ν-SVMD, λ = 0.99", "-", percent(slower)),
        single,
        norma._replace(paper="near 90 %"),
    ]
    first, last = (runs[learner.label]["error"] for learner in (learners[0], learners[-1]))
    checks = [
        Check(
            "The average error of ν-SVMD, with λ = 0.95, is less than 19 %.",
            first < 0.19,
            f"{percent(first)}; {percent(slower)} with λ = 0.99",
        ),
        Check(
            "NORMA is barely better than chance, 90 % (above 80 %).",
            last > 0.8,
            f"{percent(last)}",
        ),
        in_between(runs),
    ]
    notes = [
        "The paper does not give the order of the digits within a label, or whether it used the "
        "training digits only: there are not 600 of each among them.",
        "NORMA has a smaller error here than in the paper. Its step size for the margin follows "
        "the same schedule as that for f; the paper does not say which one it uses.",
    ]
    image = np.concatenate(
        [row.reshape(stream.shape) for row in stream.X[:_N_SHOWN]], axis=1
    )  # one strip
    series = {
        "runs": runs, "images": numbers(image.ravel()), "images_shape": list(image.shape),
    }  # fmt: skip
    return Outcome(series, rows, checks, notes)
