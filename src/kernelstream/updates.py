"""How does a gradient become coefficients?

An update turns the gradient at the current row into a move of f and of its trace v,

    f <- keep f + alpha . k(x, .)
    v <- keep_v v + cross f + beta . k(x, .)

and answers ``(keep, keep_v, cross)``; it writes `alpha` and `beta`, one number an output. The loop
does the rest, the same way for every update.
"""

from typing import Any, NamedTuple

from kernelstream.parts import Part, one_of, rule

__all__ = ["Explicit", "as_update"]


@rule
class ExplicitRule(NamedTuple):
    """The gradient step of NORMA and SVMD."""

    unused: bool = False

    def move(self, eta, c, decay, xi, chi, alpha, beta):
        for k in range(xi.shape[0]):
            alpha[k] = 0.0 - eta * xi[k]  # (32); zero minus, so that no -0.0 comes about
            beta[k] = 0.0 - eta * (xi[k] + decay * chi[k])  # (42)
        keep = 1.0 - eta * c  # (28)
        return keep, keep * decay, -eta * c  # (35)


class Explicit(Part):
    """Explicit gradient steps, ``f <- (1 - eta c) f - eta xi k(x, .)`` (28).

    Examples
    --------
    >>> from kernelstream.updates import Explicit
    >>> Explicit()
    Explicit()
    """

    def to_rule(self) -> ExplicitRule:
        return ExplicitRule()


_BY_NAME = {"explicit": Explicit}


def as_update(update: Any) -> Any:
    """An update part from its name or itself."""
    if isinstance(update, Explicit):
        return update
    return _BY_NAME[one_of("update", update, list(_BY_NAME))]()
