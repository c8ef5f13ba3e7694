"""The base of the public parts."""

from typing import TYPE_CHECKING, ClassVar

from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from kernelstream.parts.choice import Choice

__all__ = ["Part"]


class Part(BaseEstimator):
    """Base of the public parts. A subclass declares its `parameters`, and checks them.

    Files have the `version` of each part. A part raises it when the arrays that it declares, or
    their meaning, change: files of another version are then refused.
    """

    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise if a parameter is out of range (called again when a model is built)."""

    def check_with(self, choice: "Choice") -> None:
        """Raise if this part does not go with the others that were chosen."""

    def default_regularization(self, task: str) -> float | None:
        """Return the default regularization of this part; None: it has no preference."""
        return None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(self.get_params(deep=False) == other.get_params(deep=False))

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.get_params(deep=False).items()))))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.get_params(deep=False).items())
        return f"{type(self).__name__}({arguments})"
