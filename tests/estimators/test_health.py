"""Nothing fails silently, and nothing warns without a reason."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kernelstream as ks

random = np.random.default_rng(0)
X = random.normal(size=(3000, 3))
LABELS = (X[:, 0] * X[:, 1] > 0).astype(int)
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]


def warned(model, X, y, n_rows=50):
    """Of what partial_fit warns on a stream, and where."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for start in range(0, len(X), n_rows):
            model.partial_fit(X[start : start + n_rows], y[start : start + n_rows])
    assert all(warning.filename == __file__ for warning in found)
    return [str(warning.message) for warning in found]


@pytest.mark.parametrize(
    ("gamma", "what"), [(1e6, "nearly zero.*a smaller gamma"), (1e-7, "nearly one.*a larger gamma")]
)
def test_kernel_values_that_say_nothing(gamma, what):
    messages = warned(ks.KernelClassifier(gamma=gamma), X, LABELS)
    with pytest.raises(UserWarning, match=what):
        raise UserWarning(messages[0])
    assert "scaling='running'" in messages[0]
    assert sum("kernel values" in message for message in messages) == 1


def test_a_step_size_that_has_collapsed():
    model = ks.KernelClassifier(step_size=ks.step_sizes.SMD(meta=0.0, lowest=1.0), gamma=0.5)
    (message,) = warned(model, X, LABELS)
    assert "the step size has been at its lowest, 0.1" in message


def test_predictions_that_are_worse_than_a_constant():
    y = 1e4 + NUMBERS  # which begins at zero, and learns too slowly
    model = ks.KernelRegressor(gamma=0.5, step_size=0.001)
    (message,) = warned(model, X, y)
    assert "worse than the mean of the rows before" in message
    assert "target_scaling='running'" in message
    rare = (random.random(3000) < 0.2).astype(int)  # and say nothing about rows
    (message,) = warned(ks.make("perceptron", "classifier", gamma=0.5), X, rare)
    assert "worse than the most frequent label of the rows before" in message


def test_a_model_that_diverges_after_it_learned():
    """With hardly any regularization a budget that drops its oldest points does, on a sine."""
    wave = np.sin(np.arange(12_001) / 20)
    rows, y = wave[:-1, None], wave[1:]
    model = ks.KernelRegressor(regularization=1e-6, scaling="running")
    messages = warned(model, rows, y)
    assert abs(model.predict(rows)).max() > 100
    assert sum("far larger than any target" in message for message in messages) == 1
    assert "more regularization" in messages[0]
    assert not warned(ks.KernelRegressor(scaling="running"), rows, y)
    jump = np.concatenate([NUMBERS[:1500], 1e4 + NUMBERS[1500:]])
    messages = warned(ks.KernelRegressor(gamma=0.5, target_scaling="running"), X, jump)
    assert not any("far larger" in message for message in messages)


@pytest.mark.parametrize("n_rows", [1, 50, 3000])
def test_models_that_learn_do_not_warn(n_rows):
    rows = slice(0, 600 if n_rows == 1 else 3000)
    scaled = {"scaling": "running"}
    assert not warned(ks.KernelClassifier(**scaled), X[rows], LABELS[rows], n_rows)
    noise = np.random.default_rng(1).random(3000) < 0.1
    assert not warned(ks.KernelClassifier(**scaled), X[rows], noise[rows], n_rows)
    model = ks.KernelRegressor(**scaled, target_scaling="running")
    assert not warned(model, 1e3 * X[rows], 1e5 + NUMBERS[rows], n_rows)
    assert not warned(ks.NoveltyDetector(**scaled), X[rows], NUMBERS[rows], n_rows)


def test_digits_as_they_come_do_not_warn():
    images, digits = load_digits(return_X_y=True)
    for gamma in (0.001, "auto"):
        assert not warned(ks.KernelClassifier(gamma=gamma), images, digits)


@pytest.mark.parametrize("preset", ["pegasos", "ilk"])
def test_presets_that_drop_their_oldest_points_stay_bounded(preset):
    """They have a regularization of their own, with which they reached 1e12 and 1e32."""
    wave = np.sin(np.arange(6_001) / 20)
    budget = ks.budgets.OldestOut(64)
    model = ks.make(preset, "regressor", budget=budget, scaling="running")
    result = ks.prequential(model, wave[:-1, None], wave[1:])
    assert abs(result.predictions).max() < 10.0
