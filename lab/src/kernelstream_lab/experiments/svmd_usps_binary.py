"""SVMD, figure 3: two classes of USPS digits with the nu-trick."""

from kernelstream import KernelClassifier
from kernelstream.kernels import RBF
from kernelstream.margins import Nu
from kernelstream.step_sizes import SMD, SqrtDecay
from kernelstream_lab.experiments.curves import (
    Learner,
    about_half,
    compare,
    draw_error_and_step,
    error_rows,
    in_between,
)
from kernelstream_lab.experiments.outcome import Outcome
from kernelstream_lab.experiments.papers import SVMD
from kernelstream_lab.experiments.registry import experiment
from kernelstream_lab.experiments.setting import Setting


@experiment(
    title="USPS, 0–4 against 5–9",
    paper=SVMD,
    figure="figure 3",
    question="Is an adaptive step size better than one that decays by a schedule, on two classes?",
    parameters={
        "data": "USPS training digits, in their order, one pass; classes 0–4 and 5–9",
        "kernel": "RBF, sigma 8",
        "margin": "nu 0.05, the paper's rule (53)–(58)",
        "c": 1, "eta_0": 1, "mu": 1, "buffer": 512,
        "lambda": "0.95, and 0 for the single-step version", "tau of NORMA": 10,
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
        margin = Nu(0.05, rule="paper")
        model = KernelClassifier(
            kernel, margin=margin, step_size=step_size, regularization=1, budget=512
        )
        return Learner(label, line, model)

    learners = [
        learner("SVMD, λ = 0.95", "svmd", SMD(1, 1, 0.95)),
        learner("single-step, λ = 0", "single-step", SMD(1, 1, 0.0)),
        learner("NORMA, τ = 10", "norma", SqrtDecay(1, 10)),
    ]
    runs = compare(setting, learners, digits.X, digits.y >= 5)
    ratio_row, ratio_check = about_half(runs)
    rows, checks = [*error_rows(runs), ratio_row], [ratio_check, in_between(runs)]
    return Outcome({"runs": runs}, rows, checks)
