"""Functions that compiled loops take of several numbers at once, beside those of the library."""

import math

import numpy as np

from kernelstream.compile import compiled
from kernelstream.elementary import exp_of_negative, log_of_share, power_of_two


def test_the_compiled_exponential_is_the_librarys():
    @compiled
    def many(x, out):
        for i in range(len(x)):
            out[i] = exp_of_negative(x[i])

    x = -np.concatenate([[0.0, 1e-300, 1e-20], np.logspace(-12, np.log10(690), 20_000)])
    found = np.empty_like(x)
    many(x, found)
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)
    beyond = np.array([-700.0, -745.0, -1e10, -np.inf])
    found = np.empty_like(beyond)
    many(beyond, found)
    assert (found < 1e-300).all()
    assert exp_of_negative(-1.0) == math.exp(-1.0)


def test_the_compiled_logarithm_is_the_librarys():
    @compiled
    def many(x, out):
        for i in range(len(x)):
            out[i] = log_of_share(x[i])

    near_one = 1.0 - np.logspace(-16, -1, 5_000)
    borders = np.array([1.0, np.nextafter(1.0, 0.0), 0.5, np.sqrt(0.5), np.nextafter(0.5, 1.0)])
    x = np.concatenate([borders, near_one, np.logspace(-299, 0, 20_000)])
    found = np.empty_like(x)
    many(x, found)
    np.testing.assert_allclose(found, np.log(x), rtol=1e-15)
    beyond = np.array([0.0, 1e-310, 1e-301])
    found = np.empty_like(beyond)
    many(beyond, found)
    np.testing.assert_allclose(found, math.log(1e-300), rtol=1e-15)
    assert log_of_share(0.25) == math.log(0.25)
    assert log_of_share(0.0) == math.log(1e-300)


def test_the_compiled_power_of_two_is_exact():
    @compiled
    def many(n, out):
        for i in range(len(n)):
            out[i] = power_of_two(n[i])

    n = np.arange(-1022, 1024)
    found = np.empty(len(n))
    many(n, found)
    np.testing.assert_array_equal(found, np.ldexp(1.0, n))
    assert power_of_two(-3) == 0.125
