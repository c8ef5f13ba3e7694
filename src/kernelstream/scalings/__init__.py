"""What do kernels see of a row?

The row itself, or what a scaling makes of it from the rows that came before. A scaling is a scan:
a row that is learned is scaled by what the rows before it have left, then it counts itself; a row
that is predicted is scaled by what there is. Points are kept as they were scaled when they came,
unless the scaling is renewed at certain rows (`Renewed`).

A new scaling is one new file in this folder, with the decorator ``part("scaling", name)``.
"""

from typing import Any

from kernelstream.parts import as_part, discover
from kernelstream.scalings.base import (
    LARGEST_FEATURE,
    UNSCALED,
    Scaling,
    ScalingRule,
    count_and_scale,
    count_and_scale_entries,
    count_and_scale_targets,
    scale,
    scale_entries,
)
from kernelstream.scalings.renewed import Renewed
from kernelstream.scalings.running import Running

__all__ = [
    "LARGEST_FEATURE",
    "UNSCALED",
    "Renewed",
    "Running",
    "Scaling",
    "ScalingRule",
    "as_scaling",
    "count_and_scale",
    "count_and_scale_entries",
    "count_and_scale_targets",
    "scale",
    "scale_entries",
]

discover(__name__, __path__)


def as_scaling(scaling: Any, parameter: str = "scaling") -> Scaling:
    """Return a scaling part from what a user may give: None, a name or a part.

    Parameters
    ----------
    scaling : None, str or scaling part
    parameter : str, default="scaling"
        What the user calls it, for the message.

    Examples
    --------
    >>> from kernelstream.scalings import as_scaling
    >>> type(as_scaling("running")).__name__, type(as_scaling(None)).__name__
    ('Running', 'Unscaled')
    """
    if scaling is None:
        return UNSCALED
    return as_part("scaling", parameter, scaling, Scaling)
