"""Undoing a block: exactly, and at the cost of what the block changed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.learner.state import arrays, copied, fields, memory_of, snapshot

from ..contracts.combinations import is_allowed, problem
from ..contracts.test_tiles import combinations


@settings(max_examples=100)
@given(combinations.filter(is_allowed), st.integers(0, 10**6), st.integers(1, 30))
def test_the_loop_marks_every_slot_that_it_writes(combination, seed, n_rows):
    X, y, weight = problem(combination, 60 + n_rows, seed)
    machine = Machine(combination.parts(), 3, combination.n_outputs, np.dtype(float))
    machine.scratch["learn"] = learn_tile.py_func
    machine.learn(X[:60], y[:60], weight[:60])
    machine.make_room(n_rows)
    machine.begin()
    before, rows = snapshot(machine.state), machine.to_arrays()
    machine.learn(X[60:], y[60:], weight[60:])
    changes = machine.changes()
    if not changes.everything[0]:
        untouched = ~changes.slots
        walk = zip(arrays(before), arrays(machine.state), fields(machine.declared), strict=True)
        for (name, old), (_, new), (_, field) in walk:
            axes = [i for i, axis in enumerate(field.axes) if axis == "points"]
            if axes:
                place = np.ix_(*(untouched if i in axes else np.ones(n, bool)
                                 for i, n in enumerate(old.shape)))  # fmt: skip
                np.testing.assert_array_equal(old[place], new[place], err_msg=name)
    assert machine.roll_back()
    for name, array in machine.to_arrays().items():
        np.testing.assert_array_equal(array, rows[name], err_msg=name)
    # and it goes on as if nothing had happened
    twin = Machine(combination.parts(), 3, combination.n_outputs, np.dtype(float))
    twin.scratch["learn"] = learn_tile.py_func
    twin.learn(X[:60], y[:60], weight[:60])
    for one in (machine, twin):
        one.scratch["learn"] = learn_tile.py_func
        one.begin()
        one.learn(X[60:], y[60:], weight[60:])
        one.commit()
    for name, array in machine.to_arrays().items():
        np.testing.assert_array_equal(array, twin.to_arrays()[name], err_msg=name)


@pytest.mark.usefixtures("without_compiler")
def test_a_small_block_marks_few_slots():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = ks.KernelRegressor(budget=ks.budgets.OldestOut(200, exact=True), regularization=0.1)
    model.partial_fit(X, X[:, 0])
    for n in (1, 5):
        model.machine_.begin()
        model.machine_.commit()
        model.partial_fit(X[:n], X[:n, 0])
        changes = model.machine_.changes()
        assert changes.slots.sum() == n
        assert not changes.everything[0]


@pytest.mark.usefixtures("without_compiler")
def test_a_block_that_changes_no_point_copies_none():
    """A projecting budget rewrites everything with a new point, and nothing without one."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = ks.make("pa", "regressor", loss="epsilon_insensitive", margin=100.0,
                    budget=ks.budgets.LeastLoss(8))  # fmt: skip
    model.partial_fit(X, 1000 * X[:, 0])
    model.machine_.begin()
    model.machine_.commit()
    model.partial_fit(X[:5], model.predict(X[:5]))  # within the zone
    assert not model.machine_.changes().everything[0]
    assert not model.machine_.changes().slots.any()


@pytest.mark.usefixtures("without_compiler")
def test_a_model_grows_again_after_a_block_that_made_much_room_was_undone():
    X = np.random.default_rng(0).normal(size=(1500, 2))
    y, weight = np.sin(3 * X[:, 0]), np.ones(1500)
    model = ks.KernelRegressor(budget=None).partial_fit(X[:200], y[:200])
    machine = model.machine_
    machine.begin()
    machine.learn(X[200:], y[200:], weight[200:])
    assert machine.n_slots >= 1024
    assert machine.roll_back()
    assert machine.n_slots == 256
    model.partial_fit(X[200:400], y[200:400])
    twin = ks.KernelRegressor(budget=None).partial_fit(X[:400], y[:400])
    np.testing.assert_allclose(model.predict(X), twin.predict(X), rtol=1e-9)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_copy_lies_in_memory_as_the_state_does(n_classes):
    """Also where classes came late, for which there is more room than the state takes."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = ks.KernelClassifier(budget=8).partial_fit(X[:20], np.arange(20) % 2)
    model.partial_fit(X[20:], np.arange(20) % n_classes)
    state, copy = model.machine_.state, copied(model.machine_.state)
    assert type(copy) is type(state)
    groups = {}
    for (name, old), (_, new) in zip(arrays(state), arrays(copy), strict=True):
        np.testing.assert_array_equal(new, old, err_msg=name)
        assert (new.strides, new.flags.num) == (old.strides, old.flags.num)
        groups.setdefault(id(memory_of(old)), set()).add(id(memory_of(new)))
        old += 1
        assert not np.shares_memory(old, new)
    assert all(len(group) == 1 for group in groups.values())
    assert len(groups) < len(list(arrays(state)))
