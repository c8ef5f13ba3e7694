"""The papers' streams."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.budgets import Unbounded
from kernelstream.step_sizes import Constant


def test_a_switch_shows_one_pair_and_then_another():
    y = np.arange(400) % 4
    X, label = ks.streams.switch(np.arange(400)[:, None], y, n_rows=150)
    assert X[[0, 1, 149, 150, 151, 299], 0].tolist() == [0, 1, 297, 2, 3, 299]
    assert set(y[X[:150, 0]]) == {0, 1}
    assert set(y[X[150:, 0]]) == {2, 3}
    np.testing.assert_array_equal(label, np.where(y[X[:, 0]] % 2, 1, -1))


def test_a_switch_may_turn_the_labels_around():
    y = np.array(["yes", "no", "other"] * 20)
    X, label = ks.streams.switch(np.arange(60), y, ("no", "yes"), ("yes", "no"), n_rows=30)
    np.testing.assert_array_equal(X[:30], X[30:])
    np.testing.assert_array_equal(label[:30], -label[30:])


def test_a_switch_without_enough_rows():
    y = np.arange(400) % 4
    with pytest.raises(ValueError, match=r"n_rows=201, and y has 200 rows of first=\(0, 1\): use"):
        ks.streams.switch(y, y, n_rows=201)
    with pytest.raises(ValueError, match=r"n_rows=200, and y has 100 rows of then=\(3, 7\): use"):
        ks.streams.switch(y, y, then=(3, 7), n_rows=200)
    with pytest.raises(ValueError, match=r"then=\(2,\): give two labels"):
        ks.streams.switch(y, y, then=(2,), n_rows=20)
    with pytest.raises(ValueError, match="n_rows=0 is out of range"):
        ks.streams.switch(y, y, n_rows=0)


def test_drifting_gaussians_are_four_that_move():
    X, y = ks.streams.drifting_gaussians(4000, spread=1.0, random_state=3)
    assert (X.shape, y.shape, set(y)) == ((4000, 2), (4000,), {-1, 1})
    start = X[:20] - 1.5 * np.outer(np.arange(20), [0, 1])
    # opposite corners are of one class
    assert set(zip(start[:, 0] > 200, start[:, 1] > 200, y[:20], strict=True)) == {
        (False, False, 1), (True, True, 1), (True, False, -1), (False, True, -1)
    }  # fmt: skip
    assert X[:, 1].max() == pytest.approx(330 + 1.5 * 4000, abs=15)
    assert X[:, 0].min() == pytest.approx(-230, abs=5)
    assert X[:, 0].max() == pytest.approx(630, abs=5)
    again = ks.streams.drifting_gaussians(4000, spread=1.0, random_state=3)
    np.testing.assert_array_equal(again[0], X)
    assert (ks.streams.drifting_gaussians(4000, random_state=4)[1] != y).any()


def test_without_speed_the_gaussians_stay():
    X, y = ks.streams.drifting_gaussians(4000, speed=0, random_state=0)
    early, late = X[:2000][y[:2000] > 0], X[2000:][y[2000:] > 0]
    np.testing.assert_allclose(early.mean(axis=0), late.mean(axis=0), atol=30)
    np.testing.assert_allclose(np.cov((early - 200).T)[0, 1], 130**2, rtol=0.1)


@pytest.mark.parametrize(
    ("params", "words"),
    [({"n_rows": 0}, "n_rows=0"), ({"speed": np.nan}, "speed=nan"), ({"spread": -1}, "spread=-1")],
)
def test_drifting_gaussians_check_their_parameters(params, words):
    with pytest.raises(ValueError, match=words):
        ks.streams.drifting_gaussians(**params)


def test_on_drifting_gaussians_those_who_forget_are_better():
    """Figure 1 of the SILK paper: ILK before NORMA, and both before those that do not decay."""
    trials = [ks.streams.drifting_gaussians(random_state=seed) for seed in range(8)]
    shared = {"kernel": ks.kernels.RBF(gamma=1 / 31250), "budget": Unbounded()}

    def mistakes(preset, **params):
        models = [ks.make(preset, "classifier", **shared, **params) for _ in trials]
        runs = [ks.prequential(model, *trial) for model, trial in zip(models, trials, strict=True)]
        return np.mean([run.errors.sum() for run in runs])

    implicit, explicit = {"step_size": Constant(1.0)}, {"step_size": Constant(0.5)}
    ilk = mistakes("ilk", C=0.7, regularization=0.015, **implicit)
    norma = mistakes("norma", regularization=0.04, **explicit)
    # over 100 trials 144 and 147, with a standard deviation of 11 from trial to trial
    assert 144 - 16 < ilk < norma < 147 + 16
    assert mistakes("ilk", C=1.0, regularization=0.0, **implicit) > norma + 5
    assert mistakes("norma", regularization=0.0, **explicit) > norma + 20


def test_flipping_weights_change_one_sign_at_a_time():
    X, y = ks.streams.flipping_weights(400, 8, 3, every=20, random_state=1)
    assert X.shape == (400, 8)
    weights = [
        np.linalg.lstsq(X[start : start + 20], y[start : start + 20])[0]
        for start in range(0, 400, 20)
    ]
    np.testing.assert_allclose(np.abs(weights)[:, :3], 1.0, atol=1e-9)
    np.testing.assert_allclose(np.array(weights)[:, 3:], 0.0, atol=1e-9)
    changed = np.abs(np.diff(weights, axis=0)) > 1.0
    assert (changed.sum(axis=1) == 1).all()
    assert changed.any(axis=0)[:3].all()
    with pytest.raises(ValueError, match="n_relevant=9 is more than n_features=8"):
        ks.streams.flipping_weights(10, 8, 9)
    noisy = ks.streams.flipping_weights(4000, 8, 3, noise=0.5, random_state=1)[1]
    exact = ks.streams.flipping_weights(4000, 8, 3, random_state=1)[1]
    assert (noisy - exact).std() == pytest.approx(0.5, rel=0.05)
