"""Linear algebra of the second order where its matrices are: on the host, or on a device.

What is written with operators and slices runs on arrays of either kind. What differs is here: how
numbers go there and come back, and what BLAS, LAPACK and compiled code do better than operators.
Matrices over pairs of points are symmetric, and stay so to the last bit.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import lapack

from kernelstream.compile import compiled
from kernelstream.stores import DeviceMatrix, Values

__all__ = ["algebra_of", "inverse_root"]


class _OnHost:
    """Arrays of NumPy."""

    is_elsewhere = False
    xp: Any = np

    def there(self, array: Any) -> Any:
        """Return numbers of the host, or a matrix of the state, as arrays of this algebra."""
        return np.asarray(array, np.float64)

    def here(self, array: Any) -> np.ndarray:
        """Return the way back."""
        return array

    def of_points(self, values: Values) -> Any:
        """Return k(points, rows) of a tile, on the device."""
        return self.there(values.k[: values.n_points])

    def lines(self, matrix: Any, places: np.ndarray) -> Any:
        """Return some lines of a matrix, as a copy."""
        return matrix[places]

    def put(self, matrix: Any, places: np.ndarray, lines: Any) -> None:
        """Write some lines of a matrix."""
        matrix[places] = lines

    def identity(self, n: int) -> Any:
        """Return the identity matrix."""
        return np.eye(n)

    def diagonal(self, square: Any) -> Any:
        """Return the diagonal of a matrix."""
        return square.diagonal()

    def line_products(self, one: Any, other: Any) -> Any:
        """Return the inner products of lines with the lines of another matrix."""
        return np.einsum("ij,ij->i", one, other)

    def subtract_square(self, square: Any, n: int, lines: Any, times: float = 1.0) -> None:
        """Subtract lines^T lines from the first n lines and columns.

        NumPy makes this product in half the time of others. SciPy's BLAS has threads of its own,
        and where there are many cores the two would be in each other's way. NumPy itself takes
        twice as long to subtract, where the lines of the matrix do not follow each other in memory.
        """
        _subtract(square, lines.T @ lines, times)

    def move(self, square: Any, n: int, free: np.ndarray, last: np.ndarray) -> None:
        """Move the `last` of n rows and columns into the slots that are `free`."""
        square[free, :n] = square[last, :n]
        square[:n, free] = square[:n, last]

    def invert(self, matrix: Any, out: Any) -> bool:
        """Write the inverse of a positive matrix into the first lines; whether it is positive."""
        inverse, failed = lapack.dpotrf(matrix, lower=1)
        if not failed:
            inverse, failed = lapack.dpotri(inverse, lower=1, overwrite_c=1)
        if not failed:
            _mirror(inverse.T, out[: len(matrix), : len(matrix)])
        return not failed


class _Elsewhere:
    """Arrays of a library on a device, as far as the array API standard goes."""

    is_elsewhere = True

    def __init__(self, library: Any):
        self._library = library
        self.xp = library.xp

    def there(self, array: Any) -> Any:
        if isinstance(array, DeviceMatrix):
            if array.dtype == np.float64:
                return array.array
            array = array.array
        return self._library.to_device(array, np.dtype(np.float64))

    def here(self, array: Any) -> np.ndarray:
        return self._library.to_host(array)

    def of_points(self, values: Values) -> Any:
        return self.there(values.basis)

    def lines(self, matrix: Any, places: np.ndarray) -> Any:
        return self._library.lines_of(matrix, self._library.places(places))

    def put(self, matrix: Any, places: np.ndarray, lines: Any) -> None:
        self._library.put(matrix, self._library.places(places), lines)

    def identity(self, n: int) -> Any:
        return self.xp.eye(n, dtype=self.xp.float64, device=self._library.device)

    def diagonal(self, square: Any) -> Any:
        return self.xp.linalg.diagonal(square)

    def line_products(self, one: Any, other: Any) -> Any:
        return self.xp.sum(one * other, axis=1)

    def subtract_square(self, square: Any, n: int, lines: Any, times: float = 1.0) -> None:
        product = lines.T @ lines
        square[:n, :n] = square[:n, :n] - (0.5 * times) * (product + product.T)

    def move(self, square: Any, n: int, free: np.ndarray, last: np.ndarray) -> None:
        order = np.arange(n)
        order[free] = last
        places = self._library.places(order)
        moved = self.xp.take(self.xp.take(square[:n, :n], places, axis=0), places, axis=1)
        square[:n, :n] = moved

    def invert(self, matrix: Any, out: Any) -> bool:
        factor = self._library.cholesky(matrix)
        if factor is None:
            return False
        root = self.xp.linalg.solve(factor, self.identity(matrix.shape[0]))
        inverse = root.T @ root
        n = matrix.shape[0]
        out[:n, :n] = 0.5 * (inverse + inverse.T)
        return True


_HOST = _OnHost()


def algebra_of(matrix: Any) -> Any:
    """Return the algebra of where a matrix is."""
    return _elsewhere(matrix.library) if isinstance(matrix, DeviceMatrix) else _HOST


@lru_cache(maxsize=16)
def _elsewhere(library: Any) -> _Elsewhere:
    return _Elsewhere(library)


def inverse_root(matrix: np.ndarray) -> np.ndarray | None:
    """Return R with R^T R = matrix^-1, for a matrix that is positive except for rounding."""
    factor, failed = lapack.dpotrf(0.5 * (matrix + matrix.T), lower=1, clean=1)
    if failed:
        return None
    return np.ascontiguousarray(lapack.dtrtri(factor, lower=1)[0])


@compiled
def _subtract(square, product, times):
    """Subtract a multiple of a matrix from the first lines and columns of a larger one."""
    for i in range(product.shape[0]):
        for j in range(product.shape[0]):
            square[i, j] -= times * product[i, j]


@compiled
def _mirror(upper, out):
    """Fill in the lower half of a symmetric matrix, given the upper one."""
    for i in range(upper.shape[0]):
        for j in range(i, upper.shape[0]):
            out[i, j] = upper[i, j]
            out[j, i] = upper[i, j]
