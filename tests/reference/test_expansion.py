"""The reference against the naive definitions: sums over all points, O(t^2)."""

import itertools

import numpy as np
import pytest

from kernelstream import step_sizes
from tests.reference.expansion import Reference

from ..contracts.combinations import LOSSES, Combination, is_allowed, problem


def unbounded():
    """Every loss, margin and update that go together, without a limit on the points."""
    margins, steps = ["fixed", "relative", "paper"], ["smd", "smd-long", "smd-single"]
    axes = [LOSSES, margins, steps, [False, True], ["explicit", "implicit", "implicit-paper"]]
    for loss, margin, step_size, intercept, update in itertools.product(*axes):
        combination = Combination(
            loss=loss, margin=margin, step_size=step_size, intercept=intercept, update=update,
            budget="unbounded", regularization=0.1,
        )  # fmt: skip
        if is_allowed(combination):
            yield combination


@pytest.mark.parametrize("combination", list(unbounded()), ids=str)
def test_incremental_quantities_equal_their_definitions(combination):
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


def smooth():
    """Explicit steps have a derivative where the loss is curved; implicit ones also at kinks."""
    for update in ("explicit", "implicit", "implicit-paper"):
        for loss, entry in LOSSES.items():
            combination = Combination(
                loss=loss, update=update, budget="unbounded", regularization=0.1
            )
            if is_allowed(combination) and (entry.rule.is_curved() or update != "explicit"):
                yield combination


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("combination", list(smooth()), ids=str)
def test_trace_is_the_derivative_of_the_model_by_its_step_size(combination, intercept):
    """With decay 1 and a fixed step, v is df / dlog eta of the whole run."""
    X, y, _ = problem(combination, 25, seed=6)

    def run(eta):
        parts = combination.parts()
        object.__setattr__(parts, "step_size", step_sizes.SMD(eta, meta=0.0, decay=1.0))
        object.__setattr__(parts, "fit_intercept", intercept)
        reference = Reference(parts, 3, combination.n_outputs)
        for row in zip(X, y, strict=True):
            reference.learn(*row)
        return reference

    eta, h = 0.4 if combination.update != "explicit" else 0.05, 1e-6
    up, down, here = run(eta * np.exp(h)), run(eta * np.exp(-h)), run(eta)
    scale = 1 + np.abs(here.beta).max()
    slope = (up.alpha - down.alpha) / (2 * h)
    np.testing.assert_allclose(here.beta, slope, rtol=1e-5, atol=1e-7 * scale)
    np.testing.assert_allclose(here.v_b, (up.b - down.b) / (2 * h), rtol=1e-5, atol=1e-7 * scale)
