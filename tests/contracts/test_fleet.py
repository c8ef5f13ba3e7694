"""Every model of a fleet is what the same learner alone would be."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelstream.fleet import record_loop
from kernelstream.fleet.records import Models
from kernelstream.learner.state import arrays

from .combinations import BUDGETS, problem
from .test_tiles import combinations, learned

N_MODELS = 3


@settings(max_examples=100)
@given(combinations, st.integers(0, 10**6))
def test_any_fleet_is_many_learners(combination, seed):
    """The very lines of the loop, interpreted, over every combination of parts."""
    assume(combination.kernel != "custom" and BUDGETS[combination.budget].limit() is not None)
    X, y, weight = problem(combination, 90, seed)
    members = np.random.default_rng(seed).integers(0, N_MODELS, len(X))
    models = Models(combination.parts(), X.shape[1], combination.n_outputs, np.float64, N_MODELS)
    models.scratch["learn"] = record_loop._learn_models.py_func
    half = len(X) // 2
    scores = [
        record_loop.learn(models, X[rows], y[rows], weight[rows], members[rows], 1)[0].scores
        for rows in (slice(0, half), slice(half, None))
    ]
    for m in range(N_MODELS):
        own = members == m
        learner, trail = learned(combination, X[own], y[own], weight[own], 1, interpreted=True)
        np.testing.assert_allclose(np.concatenate(scores)[own], trail.scores, rtol=1e-9, atol=1e-9)
        for name, array in arrays(learner.state):
            if not name.startswith("gram."):  # all but kernel values between points
                np.testing.assert_allclose(
                    models.view(name)[m], array, rtol=1e-9, atol=1e-9, err_msg=name
                )
        n = learner.n_points
        np.testing.assert_allclose(models.points[m].T[:n], learner.store.stored(n), atol=1e-12)
