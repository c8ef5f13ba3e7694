"""Warnings point at the user's own line, whatever code of the library they come from."""

import inspect
import warnings

import numpy as np
import pytest

import kernelstream as ks

X = np.random.default_rng(0).normal(size=(300, 3))
IDS = np.arange(300)
CASES = {
    "fit": lambda: ks.KernelClassifier().fit(X, IDS),
    "regressor": lambda: [
        ks.KernelRegressor(gamma=1e9).partial_fit(X[:100], X[:100, 0]).partial_fit(X, IDS * 1e3)
    ],
    "labels": lambda: ks.KernelClassifier().partial_fit(X, IDS),
    "weights": lambda: ks.KernelClassifier(class_weight={7: 2.0}).fit(X, IDS % 2),
    "health": lambda: [
        ks.KernelClassifier(gamma=1e9).partial_fit(X[:100], IDS[:100] % 2).partial_fit(X, IDS % 2)
    ],
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_warning_points_at_the_line_of_the_user(case):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CASES[case]()
    lines, first = inspect.getsourcelines(CASES[case])
    assert caught
    for warning in caught:
        assert warning.filename == __file__
        assert first <= warning.lineno < first + len(lines) + 2
