"""Parameters that are declared once: as annotations, from which `__init__` is made."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

__all__ = ["parameters"]

AnyClass = TypeVar("AnyClass", bound=type)


@dataclass_transform(eq_default=False)
def parameters(cls: AnyClass) -> AnyClass:
    """Make `__init__` from the annotated attributes (a class decorator).

    The class is a dataclass without comparison and repr, so that scikit-learn's `clone`,
    `get_params` and `set_params` work as with an `__init__` by hand. Parameters of a base class
    come first. Those after ``_: KW_ONLY`` must be given by keyword, and ``ClassVar[...]`` marks
    attributes that are no parameters. `__post_init__` runs at the end; that of a part checks it.

    Parameters
    ----------
    cls : class

    Examples
    --------
    >>> from kernelstream.parts import Part, parameters
    >>> @parameters
    ... class Halving(Part):
    ...     start: float = 1.0
    >>> Halving(start=2.0).get_params()
    {'start': 2.0}
    """
    made: AnyClass = dataclass(eq=False, repr=False)(cls)  # type: ignore[assignment]
    return made
