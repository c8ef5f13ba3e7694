"""What updates that bring a margin of their own have in common."""

from kernelstream.parts import Choice
from kernelstream.updates.base import Update, check_classic

__all__ = ["OwnMargin"]


class OwnMargin(Update):
    """An update with a margin and steps of its own, and without regularization."""

    uses_norm = True
    only_loss: str

    def own_regularization(self) -> float | None:
        return 0.0

    def check_with(self, choice: Choice) -> None:
        check_classic(self, choice, self.only_loss)
        if not choice.step_size.is_constant:
            raise ValueError(
                f"update={self!r} does not go with step_size={choice.given['step_size']!r}: use "
                "step_size=1.0."
            )
        if choice.fit_intercept:
            raise ValueError(
                f"update={self!r} has no intercept: wrap the kernel in kernels.Homogenized, which "
                "adds one."
            )
