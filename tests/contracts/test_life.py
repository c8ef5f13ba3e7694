"""A model's life, in any order: whatever is done to it, it is what the reference says."""

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.base import clone

import kernelstream as ks
from kernelstream import budgets, losses, margins, step_sizes, updates
from kernelstream.learner.machine import Parts
from tests.reference.expansion import Reference

N_FEATURES = 3
blocks = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed))


class Life(RuleBasedStateMachine):
    """A classifier without declared classes, and the reference beside it."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.labels = []
        self.n_bad = 0

    @initialize(implicit=st.booleans(), intercept=st.booleans(), smallest=st.booleans())
    def begin(self, implicit, intercept, smallest):
        budget = budgets.SmallestOut(7) if smallest else budgets.OldestOut(7)
        self.model = ks.KernelClassifier(
            gamma=0.5, update="implicit" if implicit else "explicit", fit_intercept=intercept,
            budget=budget, regularization=0.01, on_bad_row="skip",
        )  # fmt: skip
        update = updates.Implicit() if implicit else updates.Explicit()
        self.parts = Parts(
            ks.kernels.RBF(0.5), losses.find("classification", "hinge", False).rule,
            margins.Fixed(1.0), step_sizes.SMD(), update, budget, intercept, 0.01, 1.0,
        )  # fmt: skip
        self.reference = Reference(self.parts, N_FEATURES, 0)

    def teardown(self):
        self.folder.cleanup()

    def learn_reference(self, row, label):
        if label not in self.labels:  # a class exists from its own row on
            self.labels.append(label)
            old, new = self.reference, Reference(self.parts, N_FEATURES, len(self.labels))
            for name, value in vars(old).items():
                if isinstance(value, np.ndarray) and name not in (
                    "points",
                    "born",
                    "since",
                    "touched",
                ):
                    grown = getattr(new, name)
                    if value.ndim == 2:
                        value = np.pad(value, ((0, 0), (0, 1)))
                    elif value.shape == (len(self.labels) - 1,):
                        value = np.append(value, grown[-1])
                setattr(new, name, value)
            self.reference = new
        self.reference.learn(row, float(self.labels.index(label)))

    @rule(random=blocks, n_rows=st.integers(1, 12), n_labels=st.integers(1, 5))
    def partial_fit(self, random, n_rows, n_labels):
        X = random.normal(size=(n_rows, N_FEATURES))
        y = random.integers(0, n_labels, n_rows)
        self.model.partial_fit(X, y)
        for row, label in zip(X, y.tolist(), strict=True):
            self.learn_reference(row, label)

    @rule(random=blocks, label=st.integers(0, 5))
    def learn_one(self, random, label):
        x = random.normal(size=N_FEATURES)
        self.model.learn_one(x, label)
        self.learn_reference(x, label)

    @rule(random=blocks, bad=st.sampled_from([np.nan, np.inf, -np.inf]))
    def bad_rows(self, random, bad):
        X = random.normal(size=(4, N_FEATURES))
        X[1, 2] = bad
        self.model.partial_fit(X, [0, 9, 1, 0])  # 9 is no class: its row is not learned
        self.n_bad += 1
        for i, label in ((0, 0), (2, 1), (3, 0)):
            self.learn_reference(X[i], label)

    @precondition(lambda self: self.labels)
    @rule(random=blocks)
    def refused_block(self, random):
        before = self.model.to_bytes()
        self.model.on_bad_row = "raise"
        with pytest.raises(ValueError, match="NaN"):
            self.model.partial_fit([[0.0, 1.0, 2.0], [np.nan, 0.0, 1.0]], [0, 1])
        self.model.on_bad_row = "skip"
        assert self.model.to_bytes() == before

    @precondition(lambda self: self.labels)
    @rule(how=st.sampled_from(["file", "pickle", "deepcopy"]))
    def leave_and_come_back(self, how):
        before = self.model.to_bytes()
        if how == "file":
            path = Path(self.folder.name) / "model.ks"
            self.model.save(path)
            self.model = ks.load(path)
        elif how == "pickle":
            self.model = pickle.loads(pickle.dumps(self.model))
        else:
            self.model = copy.deepcopy(self.model)
        assert self.model.to_bytes() == before

    @rule()
    def clone(self):
        fresh = clone(self.model)
        assert not hasattr(fresh, "n_seen_")
        assert fresh.get_params() == self.model.get_params()

    @invariant()
    def the_model_is_the_reference(self):
        if not self.labels:
            return
        X = np.random.default_rng(0).normal(size=(5, N_FEATURES))
        kernel = self.reference.kernel
        expected = np.tile(self.reference.b, (5, 1))
        if len(self.reference.points):
            expected = expected + kernel(X, self.reference.points) @ self.reference.alpha
        np.testing.assert_allclose(self.model.label_scores(X), expected, rtol=1e-8, atol=1e-9)
        assert self.model.classes_.tolist() == self.labels
        assert self.model.n_skipped_ == self.n_bad
        assert self.model.step_size_ == pytest.approx(self.reference.eta, rel=1e-9)
        np.testing.assert_array_equal(
            self.model.predict(X), np.array(self.labels)[self.model.label_scores(X).argmax(axis=1)]
        )


Life.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
test_any_life = Life.TestCase
