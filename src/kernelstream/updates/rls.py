"""Recursive least squares on explicit features."""

from typing import Any, NamedTuple

from kernelstream.parts import Choice, Field, Unused, number, parameters, part, rule
from kernelstream.updates.base import Update, UpdateRule

__all__ = ["RLS"]

_MOST_FEATURES = 1024  # then a row takes about a millisecond


class RLSState(NamedTuple):
    """What least squares remember beside the weights. The constant of the intercept comes first."""

    covariance: Any  # (features + 1, features + 1): P
    n_begun: Any  # how many of its lines have been given their prior


@rule(defaults=UpdateRule)
class RLSRule(NamedTuple):
    """How fast the past is forgotten."""

    forgetting: float


@part("update", "rls")
@parameters
class RLS(Update):
    """Recursive least squares: linear regression on all rows so far, exactly, in one pass.

    For models on explicit features, a few hundred of them: a row costs their square. Weights w
    minimise ``C/2 sum (y - w.x)^2 + c/2 |w|^2``, the intercept among them. All outputs share one
    covariance ``P = (C sum x x^T + c I)^-1``. For classification, targets are the labels: -1 and +1
    with one output, else one for a row's own class and zero for the others.

    It fits squared errors, whatever the `loss` is called; margin, nu and step size have nothing to
    say. Parameters that would change nothing are refused.

    Parameters
    ----------
    forgetting : float in (0, 1], default=1.0
        After every row ``P <- forgetting P + (1 - forgetting) I / c`` and
        ``w <- sqrt(forgetting) w``: what was learned fades, and the model goes back to what it was
        before the first row. 1: never. With forgetting the regularization says how uncertain it
        becomes, so that it should be about one, with features and targets of size one.

    Examples
    --------
    >>> from kernelstream.updates import RLS
    >>> RLS(0.999)
    RLS(forgetting=0.999)
    """

    forgetting: float = 1.0

    loop = "rls"
    keeps_sum = False

    def check(self) -> None:
        number("forgetting", self.forgetting, above=0, at_most=1)

    def check_with(self, choice: Choice) -> None:
        if choice.task == "novelty" or choice.structured:
            raise ValueError(f"update={self!r} is for regression, and for plain labels.")
        if not choice.budget.is_folded:
            raise ValueError(
                f"update={self!r} works on explicit features: use kernel='linear', or another "
                f"kernel that has them, with budget='auto', not {choice.budget!r}."
            )
        if choice.sparse:
            raise ValueError(
                f"update={self!r} is for dense rows of a few hundred features: use "
                "step_size='vector-smd' for sparse rows, or make them dense."
            )
        if choice.given.get("regularization") == 0:
            raise ValueError(
                f"regularization=0 does not go with update={self!r}: before the first rows nothing "
                "else would hold the weights. Give a small number, such as 1e-6."
            )

    def check_size(self, n_explicit: int) -> None:
        if n_explicit > _MOST_FEATURES:
            raise ValueError(
                f"update={self!r} takes time and memory with the square of the features, of which "
                f"there are {n_explicit:,}: it is for at most {_MOST_FEATURES:,}. Use "
                "step_size='vector-smd' with update='explicit'."
            )

    def touches_all(self) -> bool:
        return True

    def unused(self, all_rows: bool) -> dict[str, Unused]:
        return {
            "loss": Unused("it fits squared errors, so leave it out", ("squared_error",)),
            "margin": Unused("squared errors have none, so leave it out"),
            "nu": Unused("there is no margin to adapt, so leave it out"),
            "step_size": Unused("it goes to the minimum at every row, so leave it out"),
        }

    def state(self, first_margin: float, compiles: bool) -> RLSState:
        return RLSState(
            covariance=Field(("points_and_one", "points_and_one"), 0.0),
            n_begun=Field((), 0, int),
        )

    def to_rule(self) -> RLSRule:
        self.check()
        return RLSRule(float(self.forgetting))
