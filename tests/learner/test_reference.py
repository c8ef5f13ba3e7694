"""The reference against the naive definitions: sums over all points, O(t^2)."""

import numpy as np
import pytest

from kernelstream.learner.reference import Reference
from tests.contracts.combinations import LOSSES, Combination, is_allowed, problem


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("step_size", ["smd", "smd-long", "smd-single", "smd-normalized"])
@pytest.mark.parametrize("margin", ["fixed", "relative", "paper"])
@pytest.mark.parametrize("loss", list(LOSSES), ids=str)
def test_incremental_quantities_equal_their_definitions(loss, margin, step_size, intercept):
    combination = Combination(
        loss=loss, margin=margin, step_size=step_size, intercept=intercept, budget="unbounded",
        regularization=0.1,
    )  # fmt: skip
    if not is_allowed(combination):
        pytest.skip("this loss has no margin to adapt")
    X, y, weight = problem(combination, 80, seed=5)
    reference = Reference(combination.parts(), 3, combination.n_outputs)
    kernel = reference.kernel
    for row in zip(X, y, weight, strict=True):
        # <g_t, v_t> = c <f, v> + xi . v(x) against the inner product of the two expansions
        reference.learn(*row)
        gram = kernel(reference.points)
        f_norm2 = np.sum(reference.alpha * (gram @ reference.alpha))
        pi = np.sum(reference.alpha * (gram @ reference.beta))
        assert reference.norm2 == pytest.approx(f_norm2, rel=1e-9, abs=1e-12)
        assert reference.pi == pytest.approx(pi, rel=1e-9, abs=1e-12 + 1e-9 * f_norm2)


@pytest.mark.parametrize("loss", [k for k in LOSSES if LOSSES[k].rule.is_curved()], ids=str)
def test_trace_is_the_derivative_of_the_model_by_its_step_size(loss):
    """With decay 1 and a fixed step, v is df / dlog eta of the whole run."""
    from kernelstream import step_sizes

    combination = Combination(loss=loss, budget="unbounded", regularization=0.1)
    X, y, _ = problem(combination, 25, seed=6)

    def run(eta):
        parts = combination.parts()
        object.__setattr__(parts, "step_size", step_sizes.SMD(eta, meta=0.0, decay=1.0))
        reference = Reference(parts, 3, combination.n_outputs)
        for row in zip(X, y, strict=True):
            reference.learn(*row)
        return reference

    eta, h = 0.05, 1e-5
    slope = (run(eta * np.exp(h)).alpha - run(eta * np.exp(-h)).alpha) / (2 * h)
    np.testing.assert_allclose(run(eta).beta, slope, rtol=1e-5, atol=1e-7)
