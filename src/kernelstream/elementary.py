"""Functions of numbers that compiled loops take of several numbers at once."""

import math
from typing import Any

import numpy as np

from kernelstream.arrays import namespace_of
from kernelstream.compile import stands_in_for

__all__ = ["exp_of_negative", "log_of_share", "not_negative", "power_of_two", "square_root"]

_LOG2_E = 1.4426950408889634
_LN_2, _LN_2_REST = 0.6931471803691238, 1.9082149292705877e-10  # their sum has more digits
_SHIFT = 1.5 * 2.0**52  # added to a number, rounds it; its last bits are then the whole number
_SHIFT_BITS = int(np.float64(_SHIFT).view(np.int64))
_T = tuple(1.0 / math.factorial(k) for k in range(14))  # the series' terms

_ROOT_OF_HALF_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))
_FRACTION_BITS = (1 << 52) - 1
_SMALLEST_SHARE = 1e-300
# Of the series of log((1 + z) / (1 - z)), beside z itself: the factors of z^3, z^5, ...
_L = tuple(2.0 / (2 * k + 1) for k in range(1, 11))

# The same in single precision.
_LOG2_E_32 = np.float32(_LOG2_E)
_LN_2_32, _LN_2_REST_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_SHIFT_32 = np.float32(1.5 * 2.0**23)
_T_32 = tuple(np.float32(term) for term in _T[:8])
_LOWEST_32 = np.float32(-87.0)


def exp_of_negative(x: Any) -> Any:
    """Return ``exp(x)`` for x up to zero: a number, or in plain Python any array.

    With ``x = n ln 2 + r`` it is 2^n times thirteen terms of the series of exp(r), |r| < 0.35 (in
    single precision, seven); below -700 (-87) it is that of -700, nearly zero. Compiled code takes
    several at once, which a call to the library is not.
    """
    if isinstance(x, int | float):
        return math.exp(max(x, -700.0))
    return namespace_of(x).exp(x)


def log_of_share(x: float) -> float:
    """Return ``log(x)`` for x from zero to one; below 1e-300 that of 1e-300.

    With ``x = 2^n m`` and m next to one it is n ln 2 and eleven terms of the series of
    ``log m = log((1 + z) / (1 - z))``, where |z| < 0.18.
    """
    return math.log(max(x, _SMALLEST_SHARE))


def not_negative(x: Any) -> Any:
    """Return x where it is positive, otherwise zero: a number, or in plain Python any array."""
    return 0.5 * (x + abs(x))


def power_of_two(n: int) -> float:
    """Return ``2 ** n`` for whole n from -1022 to 1023."""
    return math.ldexp(1.0, n)


def square_root(x: Any) -> Any:
    """Return ``sqrt(x)``: a number, or in plain Python any array."""
    return namespace_of(x).sqrt(x)


def _exp(x):
    x = max(x, -700.0)
    shifted = x * _LOG2_E + _SHIFT
    n = shifted - _SHIFT
    r = (x - n * _LN_2) - n * _LN_2_REST
    # In groups, which do not wait for each other; a loop would keep `r` from being several.
    r2 = r * r
    r4 = r2 * r2
    low = (_T[0] + _T[1] * r) + r2 * (_T[2] + _T[3] * r)
    middle = (_T[4] + _T[5] * r) + r2 * (_T[6] + _T[7] * r)
    high = (_T[8] + _T[9] * r) + r2 * (_T[10] + _T[11] * r) + r4 * (_T[12] + _T[13] * r)
    series = low + r4 * (middle + r4 * high)
    return series * np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)


def _exp_32(x):
    x = max(x, _LOWEST_32)
    shifted = x * _LOG2_E_32 + _SHIFT_32
    n = shifted - _SHIFT_32
    r = (x - n * _LN_2_32) - n * _LN_2_REST_32
    r2 = r * r
    low = (_T_32[0] + _T_32[1] * r) + r2 * (_T_32[2] + _T_32[3] * r)
    high = (_T_32[4] + _T_32[5] * r) + r2 * (_T_32[6] + _T_32[7] * r)
    series = low + r2 * r2 * high
    return series * np.int32((np.float32(shifted).view(np.int32) + 127) << 23).view(np.float32)


def _log(x):
    bits = np.float64(max(x, _SMALLEST_SHARE)).view(np.int64)
    above = bits - _ROOT_OF_HALF_BITS
    m = np.int64((above & _FRACTION_BITS) + _ROOT_OF_HALF_BITS).view(np.float64)
    # a whole number that the last bits of a large one hold, as in _exp: n is never positive
    n = np.int64(_SHIFT_BITS + (above >> 52)).view(np.float64) - _SHIFT
    z = (m - 1.0) / (m + 1.0)
    z2 = z * z
    z4 = z2 * z2
    low = (_L[0] + _L[1] * z2) + z4 * (_L[2] + _L[3] * z2)
    high = (_L[4] + _L[5] * z2) + z4 * (_L[6] + _L[7] * z2) + z4 * z4 * (_L[8] + _L[9] * z2)
    series = z2 * (low + z4 * z4 * high)
    return n * _LN_2 + (n * _LN_2_REST + (2.0 * z + z * series))


def _larger_than_zero(x):
    return x if x > 0 else x - x


def _power_of_two(n):
    return np.int64((n + 1023) << 52).view(np.float64)


def _sqrt(x):
    return np.sqrt(x)


@stands_in_for(exp_of_negative)
def _choose_exp(x):
    return _exp_32 if x == "float32" else _exp


@stands_in_for(log_of_share)
def _choose_log(x):
    return _log


@stands_in_for(not_negative)
def _choose_not_negative(x):
    return _larger_than_zero


@stands_in_for(power_of_two)
def _choose_power_of_two(n):
    return _power_of_two


@stands_in_for(square_root)
def _choose_square_root(x):
    return _sqrt
