"""The losses.

A loss is a rule (see `kernelstream.parts`). It depends on the scores, the target and the margin,
never on x.

======================  ==========================================================================
``value``               l(scores, y)
``gradient``            writes xi = dl/dscores, returns whether the row violates the margin
``value_and_gradient``  both at once, for what they have in common
``is_curved``           whether the second derivative is anything but zero
``curvature``           writes (d2l/dscores2) direction, returns a bound on its largest eigenvalue
``margin_direction``    direction of an adaptive margin after a violation: -1, +1, or 0 (no margin)
``proximal``            writes the xi of an implicit step: dl/dscores at ``scores - step xi``;
                        `now` are the scores before old coefficients were decayed
``follow``              changes the derivative of the old score into that of the new one, in place
``n_touched``           the largest number of nonzero entries of xi; -1, the default, means all
======================  ==========================================================================

`proximal` and `follow` are for implicit updates; `proximal` may store in `dual` what `follow`
needs. A loss without them has ``accepts_implicit=False``, and a loss that does not depend on the
margin has ``has_margin=False``. A structured loss is made with the rule of a label structure
(`kernelstream.label_kernels`), and its scores are outputs.
At a kink a loss uses the one-sided derivative that its docstring names.

`LossRule` has defaults for a loss that is linear almost everywhere. A new loss is one new file in
this folder, with the decorator `loss`. It is found automatically, here and in the contract tests.
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
