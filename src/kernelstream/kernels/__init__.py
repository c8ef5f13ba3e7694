"""How alike are two inputs?

A kernel is a quantity of two rows (`quantities`: inner product, squared distance, L1 distance) and
a scalar map of it (`maps`); `base` says what the rest of the package asks of it. Kernels add up
(`Sum`, `Scaled`, `Bias`).

A new kernel is one new file in this folder, with the decorator ``part("kernel", name)``.
"""

from typing import Any

from kernelstream.kernels.base import Kernel, KernelRule, MappedKernel
from kernelstream.kernels.bias import Bias
from kernelstream.kernels.custom import Custom
from kernelstream.kernels.forest import Forest
from kernelstream.kernels.homogenized import Homogenized
from kernelstream.kernels.laplacian import Laplacian
from kernelstream.kernels.linear import Linear
from kernelstream.kernels.matern import Matern
from kernelstream.kernels.normalized import Normalized
from kernelstream.kernels.nystroem import Nystroem, grow_factor
from kernelstream.kernels.polynomial import Polynomial
from kernelstream.kernels.random_fourier import RandomFourier
from kernelstream.kernels.rbf import RBF
from kernelstream.kernels.scaled import Scaled
from kernelstream.kernels.sum import Sum
from kernelstream.kernels.sums import inner_products
from kernelstream.parts import by_name, discover
from kernelstream.parts import names as part_names

__all__ = [
    "RBF",
    "Bias",
    "Custom",
    "Forest",
    "Homogenized",
    "Kernel",
    "KernelRule",
    "Laplacian",
    "Linear",
    "MappedKernel",
    "Matern",
    "Normalized",
    "Nystroem",
    "Polynomial",
    "RandomFourier",
    "Scaled",
    "Sum",
    "as_kernel",
    "grow_factor",
    "inner_products",
    "names",
]

discover(__name__, __path__)


def names() -> list[str]:
    """Return the kernels that have a name.

    Examples
    --------
    >>> from kernelstream import kernels
    >>> "rbf" in kernels.names()
    True
    """
    return part_names("kernel")


def as_kernel(kernel: Any, given: dict[str, Any]) -> Kernel:
    """Make a kernel part from a name with its parameters, a part, or a function.

    Parameters
    ----------
    kernel : str, Kernel or callable
    given : dict
        The parameters `gamma`, `degree` and `coef0` that the user gave with a name.

    Examples
    --------
    >>> from kernelstream.kernels import as_kernel
    >>> as_kernel("rbf", {"gamma": 2.0})
    RBF(gamma=2.0)
    """
    if isinstance(kernel, str):
        if kernel not in names():
            listed = ", ".join(repr(n) for n in names())
            raise ValueError(
                f"kernel={kernel!r} is unknown: choose one of {listed}, a kernel object, "
                "or a function k(X, Z)."
            )
        cls = by_name("kernel", kernel)
        accepted = set(cls().get_params())
        return cls(**{k: v for k, v in given.items() if k in accepted})
    if isinstance(kernel, Kernel) or callable(kernel):
        if given:
            pairs = ", ".join(f"{k}={v!r}" for k, v in given.items())
            raise ValueError(
                f"kernel={kernel!r} is an object and carries its own parameters, but {pairs} was "
                "given as well: set them on the kernel object."
            )
        return kernel if isinstance(kernel, Kernel) else Custom(kernel)
    raise TypeError(
        f"kernel={kernel!r} is not a kernel: give a name, a kernel object or a function k(X, Z)."
    )
