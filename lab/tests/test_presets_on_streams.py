"""Presets on streams of the benchmark."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream_lab.benchmark import STREAMS


@pytest.mark.parametrize("name", ["svmd", "norma", "smd-linear"])
def test_presets_stay_bounded_on_a_chaotic_series(name):
    X, y = STREAMS["mackey-glass"].rows()
    model = ks.make(name, "regressor", scaling="running", target_scaling="running")
    found = ks.prequential(model, X, y).predictions
    assert np.abs(found[2_500:] - y[2_500:]).mean() < 0.5 * y.std()
