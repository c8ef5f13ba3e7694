"""How wrong is this score, and which way is better?

A loss is a rule (see `kernelstream.parts`): it knows scores, the target and the margin, never x.

=====================  ==========================================================================
``value``              l(scores, y)
``gradient``           writes xi = dl/dscores, returns whether the row violates the margin
``is_curved``          whether the second derivative is anything but zero
``curvature``          writes (d2l/dscores2) direction, returns a bound on its largest eigenvalue
``margin_direction``   which way a violation moves an adaptive margin: -1, +1, or 0 (no margin)
``proximal``           writes the xi of an implicit step: dl/dscores at ``scores - step xi``;
                       `now` are the scores before old coefficients were decayed
``follow``             how that new score follows a slope of the old one, in place
``n_touched``          the most scores in which xi differs from zero; -1, the default: all
=====================  ==========================================================================

`proximal` and `follow` are for implicit updates, and `dual` is where the first may leave what the
second needs to know; a loss without them says ``accepts_implicit=False``, and one that does not
look at the margin ``has_margin=False``. A structured loss is made with the numbers of a label
structure (`kernelstream.label_kernels`), and its scores are outputs.
At a kink a loss takes the one-sided derivative that its docstring names.

`LossRule` has defaults for a loss that is a straight line almost everywhere. A new loss is one new
file in this folder, with the decorator `loss`: it is found by itself, here and in the contract
tests.
"""

from kernelstream.losses.registry import (
    LossEntry,
    LossRule,
    all_losses,
    find,
    has_margin,
    loss,
    names,
)
from kernelstream.parts import discover

__all__ = ["LossEntry", "LossRule", "all_losses", "find", "has_margin", "loss", "names"]

discover(__name__, __path__)
