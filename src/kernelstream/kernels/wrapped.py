"""What kernels have in common that change the values of another kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelstream.kernels.base import Kernel

__all__ = ["WrappedKernel"]


class WrappedKernel(Kernel):
    """A kernel made of another one, which answers for whatever the change does not touch.

    A subclass says what becomes of a block of the other kernel's values, in `change_block`.
    """

    kernel: Any

    def check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r} is not a kernel object: give RBF(...), say.")

    @property
    def is_bounded_by_cache(self) -> bool:  # type: ignore[override]
        return self.kernel.is_bounded_by_cache

    @property
    def knows_diagonal(self) -> bool:  # type: ignore[override]
        return self.kernel.knows_diagonal

    @property
    def may_widen(self) -> bool:  # type: ignore[override]
        return self.kernel.may_widen

    @property
    def adds_up(self) -> bool:  # type: ignore[override]
        return self.kernel.adds_up

    def row_cache(self, X):
        return self.kernel.row_cache(X)

    def change_block(self, out: np.ndarray, p: np.ndarray, x: np.ndarray) -> None:
        """Make this kernel's values of those of the other one, in place."""
        raise TypeError(f"{type(self).__name__} must say what it makes of a block.")

    def block(self, P, X, p, x, out):
        self.prepared(out.dtype)(P, X, p, x, out)

    def prepared(self, dtype: Any) -> Callable[..., None]:
        write = self.kernel.prepared(dtype)

        def block(P, X, p, x, out):
            write(P, X, p, x, out)
            self.change_block(out, p, x)

        return block

    def values(self, P, X, p, x, summed):
        values = self.kernel.values(P, X, p, x, summed)
        self.change_block(values, p, x)
        return values

    def loses_digits(self, x: np.ndarray, dtype: np.dtype) -> bool:
        return self.kernel.loses_digits(x, dtype)

    def compiles(self) -> bool:
        return self.kernel.compiles()
