"""Every combination of parts that is allowed, and problems that fit them."""

from dataclasses import dataclass

import numpy as np

from kernelstream import budgets, kernels, margins, step_sizes, updates
from kernelstream.learner.machine import Parts
from kernelstream.parts import all_parts

from ..structures import STRUCTURES, every_loss

KERNELS = {
    "rbf": kernels.RBF(0.5),
    "poly": kernels.Polynomial(3, 0.5, 1.0),
    "linear": kernels.Linear(),
    "laplacian": kernels.Laplacian(0.3),
    "matern": kernels.Matern(0.8),
    "sum": kernels.Sum(kernels.Bias(0.3), kernels.Scaled(kernels.Linear(), 0.2), kernels.RBF(0.5)),
    "sum-apart": kernels.Sum(kernels.Laplacian(0.3), kernels.Homogenized(kernels.Linear(), 0.5)),
    "normalized": kernels.Normalized(kernels.Polynomial(2, 0.5, 1.0)),
    "custom": kernels.Custom(lambda X, Z: np.exp(-0.2 * ((X[:, None] - Z[None]) ** 2).sum(-1))),
}
MARGINS = {
    "fixed": margins.Fixed(0.7),
    "relative": margins.Nu(0.3),
    "paper": margins.Nu(0.3, rule="paper"),
    "linear": margins.Nu(0.3, rule="linear"),
}
STEP_SIZES = {
    "constant": step_sizes.Constant(0.3),
    "sqrt": step_sizes.SqrtDecay(0.7, tau=20),
    "inverse": step_sizes.InverseDecay(0.7, tau=20),
    "smd": step_sizes.SMD(0.2, 0.1, 0.95),
    "smd-long": step_sizes.SMD(0.2, 0.05, 1.0),
    "smd-single": step_sizes.SMD(0.2, 0.3, 0.0),
    "smd-normalized": step_sizes.SMD(0.2, 0.1, 0.9, normalized=True),
}
BUDGETS = {
    "unbounded": budgets.Unbounded(),
    "oldest": budgets.OldestOut(9, exact=False),
    "oldest-exact": budgets.OldestOut(9, exact=True),
    "oldest-by-age": budgets.OldestOut(9, exact=True, max_age=12),
    "oldest-by-error": budgets.OldestOut(9, exact=False, max_error=0.3),
    "smallest-fading": budgets.SmallestOut(9, exact=True, half_life=5),
    "smallest": budgets.SmallestOut(9, exact=False),
    "smallest-exact": budgets.SmallestOut(9, exact=True),
    "least-loss": budgets.LeastLoss(9),
    "merge": budgets.Merge(9),
    "independent": budgets.Independent(0.05),
    "independent-9": budgets.Independent(0.05, size=9),
}
UPDATES = {
    "explicit": updates.Explicit(),
    "implicit": updates.Implicit(),
    "implicit-paper": updates.Implicit(exact=False),
}


def _complete(choices, kind, is_wanted=lambda made: True):
    """Every registered part of a kind that is not among the choices yet, as it is by default."""
    known = {type(choice) for choice in choices.values()}
    for entry in all_parts(kind):
        if entry.cls in known or not entry.cls.__module__.startswith("kernelstream."):
            continue
        try:
            made = entry.cls()
        except TypeError:  # which must be told something: it is among the choices, or inside them
            continue
        if is_wanted(made):
            choices[entry.cls.__name__] = made


_complete(
    KERNELS, "kernel",
    lambda made: not isinstance(made.gamma, str) and made.feature_store == "fixed",
)  # fmt: skip
EXPLICIT = {  # kernels with explicit features
    "linear": kernels.Linear(),
    "homogenized": kernels.Homogenized(kernels.Linear(), 0.5),
    "normalized": kernels.Normalized(kernels.Homogenized(kernels.Linear(), 1.0)),
    "fourier": kernels.RandomFourier(6, gamma=0.5),
    "landmarks": kernels.Nystroem(kernels.RBF(0.5), np.random.default_rng(5).normal(size=(7, 3))),
}
_complete(MARGINS, "margin", lambda made: made.adapts)
_complete(STEP_SIZES, "step_size", lambda made: made.initial is not None and not made.per_weight)
_complete(BUDGETS, "budget", lambda made: not made.is_folded)  # which test_folded.py compares
_complete(
    UPDATES, "update",
    lambda made: made.loop == "expansion" and made.own_margin(True) is None
    and made.in_streams(budgets.OldestOut(9)),
)  # fmt: skip
LOSSES = {(entry.task, entry.name, kind): entry for kind, entry in every_loss()}


@dataclass(frozen=True)
class Combination:
    loss: tuple
    margin: str = "fixed"
    step_size: str = "smd"
    kernel: str = "rbf"
    budget: str = "oldest"
    update: str = "explicit"
    intercept: bool = False
    regularization: float = 0.05
    loss_weight: float = 1.0

    @property
    def n_outputs(self):
        kind = self.loss[2]
        return STRUCTURES[kind].n_outputs() if kind in STRUCTURES else {"one": 1, "many": 3}[kind]

    def parts(self):
        return Parts(
            kernel={**KERNELS, **EXPLICIT}[self.kernel], loss=LOSSES[self.loss].rule,
            margin=MARGINS[self.margin], step_size=STEP_SIZES[self.step_size],
            update=UPDATES[self.update],
            budget=BUDGETS[self.budget], fit_intercept=self.intercept,
            regularization=self.regularization, loss_weight=self.loss_weight,
        )  # fmt: skip


def is_allowed(combination):
    entry = LOSSES[combination.loss]
    return (
        (combination.margin == "fixed" or entry.accepts_nu)
        and (combination.update == "explicit" or entry.accepts_implicit)
        and (combination.budget != "merge" or combination.kernel == "rbf")
    )


def problem(combination, n_rows, seed, n_features=3):
    """Rows, targets and weights: a noisy, drifting function."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features))
    drift = np.linspace(0, 1, n_rows)
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * drift + 0.1 * random.normal(size=n_rows)
    task, _, kind = combination.loss
    if task == "regression":
        y = 2 * signal
    elif task == "novelty":
        y = np.ones(n_rows)
    elif kind == "one":
        y = np.where(signal > 0, 1.0, -1.0)
    else:
        y = np.digitize(signal, [-0.5, 0.5]).astype(float)
    weight = random.choice([0.0, 1.0, 1.0, 1.0, 2.5], size=n_rows)
    return X, y, weight
