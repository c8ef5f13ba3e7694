"""Kernel-Adatron."""

from typing import Any, NamedTuple

from kernelstream.parts import Choice, Unused, part, rule
from kernelstream.updates.base import OWN_STEP, Update, UpdateRule, check_classic
from kernelstream.updates.dual import with_constant

__all__ = ["Adatron"]


@rule(defaults=UpdateRule)
class AdatronRule(NamedTuple):
    """Nothing for the loop: `kernelstream.learner.sequential` revisits rows in `fit`."""


@part("update")
class Adatron(Update):
    """Kernel-Adatron: several passes, in each a step on every row's own coefficient. `fit` only.

    ``alpha_i <- max(0, alpha_i + (1 - y_i f(x_i)) / k(x_i, x_i))``, at most C over the
    regularization. It converges to the largest margin, with C to the support
    vector machine without intercept; ``fit_intercept=True`` adds one to the kernel. With more than
    two classes each is learned against the rest.

    References
    ----------
    Friess, Cristianini, Campbell: The Kernel-Adatron Algorithm. ICML 1998.

    Examples
    --------
    >>> from kernelstream.updates import Adatron
    >>> Adatron()
    Adatron()
    """

    folds = False
    intercept_in_kernel = True
    keeps_sum = False

    def check_with(self, choice: Choice) -> None:
        check_classic(self, choice, "hinge")
        if not choice.budget.keeps_all:
            raise ValueError("Adatron gives every row a coefficient: use budget=None.")
        if not choice.margin.is_fixed:
            nu = choice.given["nu"]
            raise ValueError(f"Adatron needs a fixed margin: leave nu={nu!r} out.")

    def solver(self, budget: Any) -> str:
        return "adatron"

    def in_streams(self, budget: Any) -> bool:
        return False

    def own_kernel(self, kernel: Any, fit_intercept: bool) -> Any:
        return with_constant(kernel) if fit_intercept else kernel

    def touches_all(self) -> bool:
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {"step_size": OWN_STEP}

    def to_rule(self) -> AdatronRule:
        return AdatronRule()
