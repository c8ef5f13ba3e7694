"""SVMD, figure 7 right: MNIST with three sizes of the circular buffer."""

from typing import Any

from kernelstream import KernelClassifier, prequential
from kernelstream.drawing import tidy
from kernelstream.kernels import Polynomial
from kernelstream.step_sizes import SMD
from kernelstream_lab.experiments.curves import draw_average_error, percent, result_of, unit_rows
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.papers import SVMD
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting

_LAST = 4500


def _draw(figure: Any, series: dict[str, Any]) -> None:
    axes = figure.subplots()
    draw_average_error(axes, series["runs"])
    axes.legend(frameon=False)
    tidy(axes)


@experiment(
    title="MNIST: the effect of the buffer size",
    paper=SVMD,
    figure="figure 7, right",
    question="How much error does a small buffer cost, on ten times as many digits?",
    parameters={
        "data": "MNIST's 60,000 training digits, in their order, rows of unit length, one pass",
        "kernel": "polynomial of degree 9", "margin": 1, "c": "1 / (500 n)", "eta_0": 0.1,
        "mu": 0.01, "lambda": 1, "buffer": "256, 1,024 and 4,096",
    },
    caption="Average error so far with three sizes of the buffer.",
    draw=_draw,
    size=(7.0, 4.2),
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Run SVMD with three buffer sizes."""
    digits = setting.mnist().first(setting.choose(60_000, 1000))
    X, n_rows = unit_rows(digits.X), len(digits.X)
    sizes = setting.choose([256, 1024, 4096], [32, 64, 128])
    runs, last = {}, {}
    for size, line in setting.each(
        list(zip(sizes, ["small", "middle", "large"], strict=True)),
        lambda item: f"buffer {item[0]:,}",
    ):
        model = KernelClassifier(
            Polynomial(9, 1.0), step_size=SMD(0.1, 0.01, 1.0), regularization=1 / (500 * n_rows),
            budget=size,
        )  # fmt: skip
        result = prequential(model, X, digits.y)
        runs[f"buffer {size:,}"] = result_of(result, line)
        last[size] = float(result.errors[-_LAST:].mean())
    small, middle, large = (run["error"] for run in runs.values())
    rows = [
        Row(f"average error, buffer {sizes[0]:,}", "about 20 %", percent(small)),
        Row(f"average error, buffer {sizes[1]:,}", "-", percent(middle)),
        Row(f"average error, buffer {sizes[2]:,}", "3.9 %", percent(large)),
        Row(f"the last {_LAST:,} rows, buffer {sizes[2]:,}", "2.9 %", percent(last[sizes[2]])),
    ]
    checks = [
        Check(
            "A larger buffer makes fewer errors.",
            large < middle < small,
            f"{percent(small)}, {percent(middle)}, {percent(large)}",
        ),
        Check(
            "With 4,096 points the average error is at most the paper's 3.9 %.",
            large < 0.0395,
            percent(large, 2),
        ),
        Check(
            "With 4,096 points the error over the last 4,500 rows is at most the paper's 2.9 %.",
            last[sizes[2]] < 0.0295,
            percent(last[sizes[2]], 2),
        ),
    ]
    notes = [
        "The paper does not give c, the first step size or the scale of the rows. c and eta_0 are "
        "those of its ten USPS digits. Rows of unit length bound a polynomial of degree 9. "
        "With a dozen other pairs of c and eta_0 the average error with 4,096 points was 3.1 to "
        "8.2 %: c matters most.",
        "With 256 points we get fewer errors than the paper with every such pair (13 %), and also "
        "if the norms are not corrected for the points that are dropped. We do not know why.",
        "With 4,096 points the error rises at 45,000 rows, when the points of rows 2,000 to 9,000 "
        "leave the buffer. They were learned with step sizes up to 15, and the step size has by "
        "then fallen to 0.3. It rises to 15 again and compensates for the loss.",
    ]
    return Outcome({"runs": runs}, rows, checks, notes)
