"""No preset with a bounded budget stops learning, whatever came before."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.budgets import SmallestOut

from .streams import IN_STREAMS, with_points

# Those that keep every row, or fit all rows so far, remember both halves of a stream that
# contradicts itself; a bounded one of the first kind is in the list by its own policy.
FIT_ALL_ROWS = {"sog-svr", "sog-svr-paper", "sog-svc", "rls"}
PRESETS = [
    (preset, task)
    for preset, task in IN_STREAMS
    if task != "novelty" and preset not in FIT_ALL_ROWS
]


def turning(n_before, n_after, seed=0, n_features=2):
    """Rows whose labels turn round; targets of -1 and 1 are labels, too."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_before + n_after, n_features))
    y = np.where(X @ random.normal(size=n_features) > 0, 1.0, -1.0)
    y[n_before:] *= -1
    return X, y


def errors(model, X, y):
    predictions = ks.prequential(model, X, y).predictions
    return np.sign(predictions.astype(float)) != y


def check(preset, task, size, n_before, n_after):
    X, y = turning(n_before, n_after)
    wrong = errors(ks.make(preset, task, **with_points(preset, size)), X, y)
    before = wrong[n_before // 2 : n_before].mean()
    after = wrong[-n_before // 2 :].mean()
    assert before < 0.3
    assert after < before + 0.15  # a frozen model has it all wrong


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(("preset", "task"), PRESETS, ids=str)
def test_the_error_comes_down_after_labels_turn_round(preset, task):
    check(preset, task, 16, 600, 1_500)


@pytest.mark.nightly
@pytest.mark.parametrize(("preset", "task"), PRESETS, ids=str)
def test_the_error_comes_down_after_a_long_past(preset, task):
    check(preset, task, 128, 30_000, 100_000)


@pytest.mark.usefixtures("without_compiler")
def test_silk_md_does_not_freeze():
    X, y = turning(600, 1_500)
    assert ks.make("silk-md", "classifier", budget=16).budget == SmallestOut(16, half_life=64)
    later = {tuple(x) for x in X[600:]}
    replaced, last_errors = {}, {}
    for half_life in (None, 64):
        model = ks.make("silk-md", "classifier", budget=SmallestOut(16, half_life=half_life))
        last_errors[half_life] = errors(model, X, y)[-500:].mean()
        replaced[half_life] = sum(tuple(x) in later for x in model.support_vectors_)
    assert last_errors[None] > 0.8  # SILK's own rule: every new row is dropped at once
    assert last_errors[64] < 0.15
    assert replaced == {None: 0, 64: 16}
