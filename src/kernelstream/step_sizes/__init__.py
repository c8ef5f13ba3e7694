"""How far to go?

One step size rule serves every parameter of a model: f itself, each intercept, the margin. Each of
them keeps its own step ``eta`` and its own trace ``v``, the derivative of that parameter with
respect to the logarithm of its past step sizes; the rule only says how they move (`StepSizeRule`).
Where a model is a weight per feature, every weight may have a step size of its own (`VectorSMD`,
`AdaGrad`).

A new step size is one new file in this folder, with the decorator ``part("step_size", name)``.
"""

from typing import Any

from kernelstream.parts import as_part, discover, number
from kernelstream.step_sizes.adagrad import AdaGrad
from kernelstream.step_sizes.base import Proposal, StepSize, StepSizeRule
from kernelstream.step_sizes.constant import Constant
from kernelstream.step_sizes.inverse_decay import InverseDecay
from kernelstream.step_sizes.smd import SMD, smd_for
from kernelstream.step_sizes.sqrt_decay import SqrtDecay
from kernelstream.step_sizes.vector_smd import VectorSMD

__all__ = [
    "SMD",
    "AdaGrad",
    "Constant",
    "InverseDecay",
    "Proposal",
    "SqrtDecay",
    "StepSize",
    "StepSizeRule",
    "VectorSMD",
    "as_step_size",
    "smd_for",
]

discover(__name__, __path__)


def as_step_size(step_size: Any, task: str) -> Any:
    """Return a step size part from what a user may give: a name, a number (constant), a part.

    Parameters
    ----------
    step_size : str, float or step size part
    task : {"classification", "regression", "novelty"}

    Examples
    --------
    >>> from kernelstream.step_sizes import as_step_size
    >>> as_step_size(0.1, "classification")
    Constant(initial=0.1)
    """
    if isinstance(step_size, str):
        return as_part("step_size", "step_size", step_size, StepSize).for_task(task)
    if isinstance(step_size, StepSize):
        step_size.check()
        return step_size
    return Constant(number("step_size", step_size, above=0))
