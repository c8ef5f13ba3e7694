"""SVMD, figure 4: ten USPS digits."""

from kernelstream import KernelClassifier
from kernelstream.kernels import RBF
from kernelstream.step_sizes import SMD, SqrtDecay
from kernelstream_lab.experiments.curves import (
    Learner,
    about_half,
    compare,
    draw_error_and_step,
    error_rows,
    in_between,
)
from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.papers import SVMD
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting


@experiment(
    title="USPS, ten digits",
    paper=SVMD,
    figure="figure 4",
    question="Does the step size rise if its first value was chosen too small?",
    parameters={
        "data": "USPS training digits, in their order, one pass",
        "kernel": "RBF, sigma 8", "margin": 1, "c": "1 / (500 n)", "eta_0": 0.1, "mu": 0.1,
        "buffer": 512, "lambda": "0.99, and 0 for the single-step version", "tau of NORMA": 100,
    },
    caption="Average error so far and step size; solid SVMD, dotted its single-step version, "
    "dashed NORMA.",
    draw=draw_error_and_step,
)  # fmt: skip
def run(setting: Setting) -> Outcome:
    """Run three learners that differ only in their step size."""
    digits = setting.usps().first(setting.choose(7291, 600))
    kernel = RBF(digits.gamma(sigma=8, n_pixels=256))

    def learner(label: str, line: str, step_size: object) -> Learner:
        model = KernelClassifier(
            kernel, step_size=step_size, regularization=1 / (500 * len(digits.X)), budget=512
        )
        return Learner(label, line, model)

    learners = [
        learner("SVMD, λ = 0.99", "svmd", SMD(0.1, 0.1, 0.99)),
        learner("single-step, λ = 0", "single-step", SMD(0.1, 0.1, 0.0)),
        learner("NORMA, τ = 100", "norma", SqrtDecay(0.1, 100)),
    ]
    runs = compare(setting, learners, digits.X, digits.y)
    largest = next(iter(runs.values()))["largest_step"]
    ratio_row, ratio_check = about_half(runs)
    step_row = Row("largest step size of SVMD", "well above 0.1", f"{largest:.2f}")
    step_check = Check(
        "SVMD raises its step size well above 0.1 (fivefold or more).",
        largest > 0.5,
        f"up to {largest:.2f}",
    )
    return Outcome(
        {"runs": runs},
        [*error_rows(runs), ratio_row, step_row],
        [ratio_check, in_between(runs), step_check],
    )
