"""The figures that a correct implementation reaches on the papers' data, one pass in order."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.margins import Nu
from kernelstream.step_sizes import SMD, SqrtDecay

RBF = ks.kernels.RBF(gamma=1 / 128)


@pytest.mark.parametrize(
    ("step_size", "percent", "within"),
    [(SMD(0.1, 0.1, 0.99), 10.0, 0.3), (SMD(0.1, 0.1, 0.0), 14.6, 0.5),
     (SqrtDecay(0.1, 100), 22.4, 0.5)],
    ids=["svmd", "single-step", "norma"],
)  # fmt: skip
def test_ten_digits(usps, step_size, percent, within):
    X, y = usps
    model = ks.KernelClassifier(
        RBF, step_size=step_size, regularization=1 / (500 * len(X)), budget=512
    )
    result = ks.prequential(model, X, y)
    assert 100 * result.error_rate == pytest.approx(percent, abs=within)
    if isinstance(step_size, SMD) and step_size.decay:
        assert result.step_sizes.max() > 0.5  # it raises the step well above 0.1


@pytest.mark.parametrize(
    ("step_size", "percent"),
    [(SMD(1, 1, 0.95), 16.9), (SMD(1, 1, 0.0), 22.6), (SqrtDecay(1, 10), 30.7)],
    ids=["svmd", "single-step", "norma"],
)
def test_two_classes_with_nu(usps, step_size, percent):
    X, y = usps
    model = ks.KernelClassifier(
        RBF, step_size=step_size, margin=Nu(0.05, rule="paper"), regularization=1, budget=512
    )
    result = ks.prequential(model, X, y >= 5)
    assert 100 * result.error_rate == pytest.approx(percent, abs=1)


@pytest.mark.parametrize("nu", [0.01, 0.05])
@pytest.mark.parametrize("step_size", [SMD(1, 1, 0.95), SMD(), SqrtDecay(1, 10)], ids=str)
def test_novelty_raises_the_share_of_alarms_that_nu_says(usps, nu, step_size):
    X = usps[0][np.random.default_rng(0).permutation(len(usps[0]))]
    result = ks.prequential(ks.NoveltyDetector(RBF, nu=nu, step_size=step_size), X)
    second_half = result.errors[len(X) // 2 :].mean()
    assert nu / 1.5 < second_half < 1.5 * nu


def test_counting_sequence(usps):
    data = usps[0], usps[1]
    X, y = ks.streams.counting(*data, n_passes=1)
    errors = {
        name: ks.prequential(
            ks.KernelClassifier(
                RBF, step_size=step_size, margin=Nu(0.05, rule="paper"), regularization=1
            ), X, y,
        ).error_rate
        for name, step_size in {
            "svmd": SMD(1, 1, 0.95), "single": SMD(1, 1, 0.0), "norma": SqrtDecay(1, 100)
        }.items()
    }  # fmt: skip
    assert errors["svmd"] < errors["single"] < errors["norma"]
    assert errors["norma"] > 0.6


@pytest.mark.parametrize(
    ("decay", "exact", "percent", "lively"),
    [(1.0, False, 10.5, False), (1.0, None, 8.1, True), (0.99, None, 4.8, True)],
)
def test_mnist_truncation(mnist, decay, exact, percent, lively):
    """A trace that never fades needs the norms of the truncated f, or the step size dies."""
    X, y = mnist
    model = ks.KernelClassifier(
        ks.kernels.Polynomial(9, 1.0), step_size=SMD(1, 0.01, decay), regularization=1e-5,
        budget=ks.budgets.OldestOut(2048, exact=exact),
    )  # fmt: skip
    result = ks.prequential(model, X, y)
    assert 100 * result.error_rate == pytest.approx(percent, abs=0.3)
    assert (result.step_sizes[-1] > 0.1) == lively
