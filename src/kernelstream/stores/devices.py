"""Devices: where arrays of another library live, and how they come from there and go there.

What the array API standard says is used as it is. What it does not say differs between libraries:
memory that a device can read by itself, copies that nobody waits for, and writing some of an
array's lines. That is all that a `Library` adds.
"""

import importlib
import importlib.util
import math
from functools import lru_cache
from typing import Any

import numpy as np

from kernelstream.parts import Part, one_of, parameters, part
from kernelstream.stores.base import Memory

__all__ = ["Device", "HostMemory", "Library", "as_device"]

_INSTALL = "install kernelstream[gpu] and PyTorch or CuPy"
_PIECE = 2**23  # bytes that go to a device at once, of arrays that are larger


class Library:
    """Arrays of a library that follows the standard, on one of its devices."""

    has_float64 = True  # whether the device computes in that precision, too

    def __init__(self, namespace: Any, device: Any):
        self.xp = namespace
        self.device = device
        self.opened_as: tuple[str, str] | None = None
        self._dtypes: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        assert self.opened_as is not None
        return _opened, self.opened_as

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return a new array on the device."""
        return self.xp.zeros(shape, dtype=self.dtype_of(dtype), device=self.device)

    def dtype_of(self, dtype: np.dtype) -> Any:
        """Return the library's name of a precision."""
        if dtype not in self._dtypes:
            self._dtypes[dtype] = getattr(self.xp, np.dtype(dtype).name)
        return self._dtypes[dtype]

    def to_device(self, array: Any, dtype: np.dtype) -> Any:
        """Return an array of NumPy, or of any library, on the device."""
        array = self.xp.asarray(array, device=self.device)
        return self.xp.astype(array, self.dtype_of(dtype), copy=False)

    def to_host(self, array: Any) -> np.ndarray:
        """Return an array of NumPy, with memory of its own."""
        return np.array(array)

    def read(self, array: Any, out: np.ndarray) -> None:
        """Copy an array to the host; it may not be there before `wait` has returned."""
        out[...] = self.to_host(array)

    def wait(self) -> None:
        """Wait for what was asked for."""

    def host_memory(self, size: int, dtype: Any) -> np.ndarray:
        """Return memory of the host that the device reads and writes fast."""
        return np.empty(size, dtype)

    def copy(self, array: Any) -> Any:
        """Return the same numbers in memory of their own."""
        return self.xp.asarray(array, device=self.device, copy=True)

    def cholesky(self, matrix: Any) -> Any:
        """Return L with L L^T = matrix; None if the matrix is not positive definite."""
        try:
            return self.xp.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None

    def places(self, places: np.ndarray) -> Any:
        """Return row indices in the form that `lines_of` and `put` take."""
        return self.xp.asarray(places, device=self.device)

    def lines_of(self, array: Any, places: Any) -> Any:
        """Return some lines of an array, as a copy."""
        return self.xp.take(array, places, axis=0)

    def put(self, array: Any, places: Any, lines: Any) -> None:
        """Write some lines of an array, each of which is named once."""
        for i, place in enumerate(self.to_host(places).tolist()):
            array[place, ...] = lines[i, ...]


class _Strict(Library):
    """The standard's own library for tests, which refuses whatever the standard does not say."""

    def __init__(self, namespace: Any, device: str):
        self._host = namespace.Device("CPU_DEVICE")
        super().__init__(namespace, self._host if device == "cpu" else namespace.Device(device))

    def to_device(self, array: Any, dtype: np.dtype) -> Any:
        if not isinstance(array, np.ndarray):
            array = array.to_device(self.device)
        return super().to_device(array, dtype)

    def to_host(self, array: Any) -> np.ndarray:
        return np.array(array.to_device(self._host))


class _Torch(Library):
    """PyTorch."""

    def __init__(self, namespace: Any, device: str):
        import torch

        self._torch = torch
        try:
            super().__init__(namespace, torch.empty(0, device=device).device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device={device!r} is none that PyTorch can use: {error}") from None
        self._is_cuda = self.device.type == "cuda"
        self.has_float64 = self.device.type != "mps"

    def to_device(self, array: Any, dtype: np.dtype) -> Any:
        if isinstance(array, np.ndarray):
            # what cannot be written to would be warned of, and is not written to
            array = self._torch.from_numpy(array if array.flags.writeable else array.copy())
            if self._is_cuda and array.nbytes > _PIECE:
                array = self._sent(array)
        elif not isinstance(array, self._torch.Tensor):
            array = self._torch.from_dlpack(array)
        return array.detach().to(self.device, non_blocking=True).to(self.dtype_of(dtype))

    def _sent(self, array: Any) -> Any:
        """Make an array on the device, through pinned memory that all cores fill.

        Measured with 188 MB: 5 ms, where a plain copy takes 29.
        """
        there = self._torch.empty(array.shape, dtype=array.dtype, device=self.device)
        n_lines = max(1, _PIECE * array.shape[0] // array.nbytes)
        pieces = [self._torch.empty_like(array[:n_lines], pin_memory=True) for _ in range(2)]
        read = [self._torch.cuda.Event() for _ in pieces]
        stream = self._torch.cuda.current_stream(self.device)
        for i, start in enumerate(range(0, array.shape[0], n_lines)):
            lines = array[start : start + n_lines]
            piece = pieces[i % 2][: lines.shape[0]]
            read[i % 2].synchronize()
            piece.copy_(lines)
            there[start : start + n_lines].copy_(piece, non_blocking=True)
            read[i % 2].record(stream)
        return there

    def to_host(self, array: Any) -> np.ndarray:
        return array.to("cpu", copy=True).numpy()

    def read(self, array: Any, out: np.ndarray) -> None:
        self._torch.from_numpy(out).copy_(array, non_blocking=True)

    def wait(self) -> None:
        if self._is_cuda:
            self._torch.cuda.current_stream(self.device).synchronize()

    def host_memory(self, size: int, dtype: Any) -> np.ndarray:
        empty = self._torch.empty(size, dtype=self.dtype_of(dtype), pin_memory=self._is_cuda)
        return empty.numpy()

    def copy(self, array: Any) -> Any:
        return array.clone()

    def cholesky(self, matrix: Any) -> Any:
        factor, failed = self._torch.linalg.cholesky_ex(matrix)
        return None if int(failed) else factor

    def places(self, places: np.ndarray) -> Any:
        return self._torch.from_numpy(places).to(self.device, non_blocking=True)

    def lines_of(self, array: Any, places: Any) -> Any:
        return array.index_select(0, places)

    def put(self, array: Any, places: Any, lines: Any) -> None:
        array.index_copy_(0, places, lines)


class _CuPy(Library):
    """CuPy."""

    def __init__(self, namespace: Any, device: str):
        import cupy
        import cupyx

        self._cupy, self._cupyx = cupy, cupyx
        kind, _, number = device.partition(":")
        if kind != "cuda" or not (number or "0").isdigit():
            raise ValueError(f"device={device!r} is none that CuPy can use: give 'cuda', say.")
        try:
            super().__init__(namespace, cupy.cuda.Device(int(number or 0)))
            self.device.use()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise ValueError(f"device={device!r} is none that CuPy can use: {error}") from None

    def to_device(self, array: Any, dtype: np.dtype) -> Any:
        if not isinstance(array, np.ndarray | self._cupy.ndarray):
            array = self._cupy.from_dlpack(array)
        return self._cupy.ascontiguousarray(self._cupy.asarray(array).astype(dtype, copy=False))

    def to_host(self, array: Any) -> np.ndarray:
        return self._cupy.asnumpy(array)

    def read(self, array: Any, out: np.ndarray) -> None:
        self._cupy.ascontiguousarray(array).get(out=out, blocking=False)

    def wait(self) -> None:
        self._cupy.cuda.get_current_stream().synchronize()

    def host_memory(self, size: int, dtype: Any) -> np.ndarray:
        return self._cupyx.empty_pinned(size, dtype)

    def cholesky(self, matrix: Any) -> Any:
        with self._cupyx.errstate(linalg="raise"):  # which are ignored otherwise
            return super().cholesky(matrix)

    def put(self, array: Any, places: Any, lines: Any) -> None:
        array[places] = lines


# By name: the module with the standard's functions, and the class for it.
_LIBRARIES: dict[str, tuple[str, Any]] = {
    "torch": ("array_api_compat.torch", _Torch),
    "cupy": ("array_api_compat.cupy", _CuPy),
    "array_api_strict": ("array_api_strict", _Strict),
}


@lru_cache(maxsize=16)
def _opened(device: str, name: str) -> Library:
    module, kind = _LIBRARIES[name]
    opened = kind(importlib.import_module(module), device)
    opened.opened_as = device, name
    return opened


@part("device")
@parameters
class Device(Part):
    """Where a model's points live and its kernel values are made.

    Parameters
    ----------
    name : str, default="cuda"
        As PyTorch names devices: "cuda", "cuda:1", "cpu".
    dtype : {"float32", "float64"}, default="float32"
        The precision of points and kernel values. Coefficients are float64 in any case.
    library : {"torch", "cupy", "array_api_strict"} or None, default=None
        What computes there. None: PyTorch where it is installed, otherwise CuPy.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.Device("cuda", dtype="float64")
    Device(dtype='float64', library=None, name='cuda')
    """

    name: str = "cuda"
    dtype: str = "float32"
    library: str | None = None

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        if not isinstance(self.name, str):
            raise TypeError(f"device={self.name!r} is not a name: give 'cuda', say.")
        one_of("dtype", self.dtype, ["float32", "float64"])
        if self.library is not None:
            one_of("library", self.library, list(_LIBRARIES))

    def check_with(self, choice: Any) -> None:
        """Raise if points of the chosen parts can't live on a device."""
        remedy = "leave device out"
        if choice.budget.is_folded:
            raise ValueError(
                f"device={self.name!r} is where points live, and with kernel={choice.kernel!r} and "
                f"budget={choice.budget!r} there are none: {remedy}, or give budget=512, say."
            )
        if choice.sparse:
            raise ValueError(f"device={self.name!r} holds dense rows, and X is sparse: {remedy}.")
        if choice.update.solver(choice.budget) is not None:
            raise ValueError(
                f"update={choice.update!r} with budget={choice.budget!r} revisits rows, which have "
                f"to stay on the host: with device={self.name!r} choose another update."
            )

    def open(self) -> Library:
        """Return the library that computes there."""
        if self.library is not None:
            return self._opened(self.library)
        for name in ("torch", "cupy"):
            if importlib.util.find_spec(name) is not None:
                return self._opened(name)
        raise ImportError(f"device={self.name!r} needs a library of arrays: {_INSTALL}.")

    def _opened(self, library: str) -> Library:
        try:
            return _opened(self.name, library)
        except ImportError as error:
            raise ImportError(
                f"device={self.name!r} with {library} needs what is not installed ({error}): "
                f"{_INSTALL}."
            ) from None


def as_device(device: Any) -> Device | None:
    """Return a device from its name or itself; None where there is none."""
    if device is None or isinstance(device, Device):
        if device is not None:
            device.check()
        return device
    return Device(device)


class HostMemory(Memory):
    """Arrays that nobody keeps, in memory of the host that a device reads and writes fast."""

    def __init__(self, library: Library):
        super().__init__()
        self._library = library

    def new(self, size: int, dtype: Any) -> np.ndarray:
        """Allocate more memory than is asked for, because such memory is slow to allocate."""
        return self._library.host_memory(2 ** math.ceil(math.log2(max(size, 1))), dtype)
